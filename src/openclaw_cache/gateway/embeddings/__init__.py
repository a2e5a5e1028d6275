"""`POST /v1/embeddings`: the exact cache, input by input."""

from __future__ import annotations

from openclaw_cache.gateway.embeddings.flow import Embeddings
from openclaw_cache.gateway.embeddings.reading import Reading
from openclaw_cache.gateway.embeddings.reply import EmbeddingsReply

__all__ = ["Embeddings", "EmbeddingsReply", "Reading"]
