"""What just any text is like to a question: the same under every store, however small."""

from openclaw_cache.memory.retrieval.background.measure import Background, background_texts

__all__ = ["Background", "background_texts"]
