"""When a question asks about: "last week", "上个月", "between 3 and 5 March", "2025年以来"."""

from openclaw_cache.memory.retrieval.time_words.finding import TimeRange, find_range

__all__ = ["TimeRange", "find_range"]
