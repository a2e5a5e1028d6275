"""A store's failure as its client sees it: what is wrong, never where the file lies or what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import MemoryStoreError, RequestError, VersionConflictError

if TYPE_CHECKING:
    from openclaw_cache.errors import MemoryStoreFault

_SAID: Final[dict[MemoryStoreFault, tuple[int, str, int | None]]] = {
    "damaged": (
        500,
        "this agent's memory file is damaged: the server's log says which one, and what to do",
        None,
    ),
    "wrong_key": (
        500,
        "this agent's memory file cannot be read: it is encrypted under another key, or damaged",
        None,
    ),
    "newer": (500, "this agent's memory file was written by a newer version of this server", None),
    "full": (507, "there is no room left for this agent's memory: nothing of this request was stored", None),
    "read_only": (503, "this agent's memory cannot be written: its folder is read-only", None),
    "busy": (503, "this agent's memory is busy: another process writes to it", 1),
    "removed": (409, "this agent was removed while the request waited", None),
    "failed": (500, "this agent's memory failed: the server's log has the reason", None),
}


def as_request_error(error: MemoryStoreError) -> RequestError:
    """The same for a client: status, one sentence, and the code `memory_FAULT`."""
    if isinstance(error, VersionConflictError):
        return RequestError(
            409,
            "the memory was changed meanwhile: read it again",
            code="version_conflict",
        )
    status, message, retry_after_s = _SAID[error.code]
    kind = "invalid_request_error" if status < 500 else "api_error"
    return RequestError(status, message, kind=kind, code=f"memory_{error.code}", retry_after_s=retry_after_s)
