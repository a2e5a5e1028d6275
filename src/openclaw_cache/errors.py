"""Errors that cross a module boundary. Each message says what is wrong and what to do."""

from __future__ import annotations

from typing import Literal

MemoryStoreFault = Literal["damaged", "wrong_key", "newer", "full", "read_only", "busy", "removed", "failed"]


class OpenClawCacheError(Exception):
    """Root of every error of this package that a caller may want to catch."""


class ConfigError(OpenClawCacheError):
    """A setting is wrong. Exit code 2; the message names the field and the remedy."""


class RequestError(OpenClawCacheError):
    """A request cannot be served: becomes the dialect's own error object with this status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s


class StoreError(OpenClawCacheError):
    """A byte store failed. Callers on the request path count it and treat it as a miss."""


class StoreUnavailableError(StoreError):
    """The store is down, too slow, or its circuit is open."""


class StoreFullError(StoreError):
    """The store refused a write for want of memory."""


class MergeError(OpenClawCacheError):
    """A stream of events does not add up to one complete reply; it must not be stored."""


class CorruptEntryError(OpenClawCacheError):
    """Stored bytes are not the entry that was stored under this key: a miss, and to be removed."""


class StreamError(OpenClawCacheError):
    """An upstream's event stream breaks its protocol or our bounds; it must be given up."""


class EmbeddingError(OpenClawCacheError):
    """A text could not be turned into a vector: the model failed, is busy, or was too slow. A counted miss."""


class MemoryStoreError(OpenClawCacheError):
    """An agent's store failed. The message may name its file: it is for operators, `code` is for everybody."""

    def __init__(self, message: str, *, code: MemoryStoreFault = "failed") -> None:
        super().__init__(message)
        self.code: MemoryStoreFault = code


class VersionConflictError(MemoryStoreError):
    """A memory was changed meanwhile: read it again."""
