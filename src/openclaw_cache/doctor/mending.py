"""What the canonicaliser would keep of two prompts that the client's own bytes do not."""

from __future__ import annotations

from typing import Final, Literal

from openclaw_cache.canonical import canonicalise
from openclaw_cache.prefix.comparison import meet
from openclaw_cache.prefix.outline import Outline, outline
from openclaw_cache.request_logs.logged_request import LoggedRequest, decoded

MendingLevel = Literal["safe", "full"]
LEVELS: Final[tuple[MendingLevel, ...]] = ("safe", "full")


def mended_bytes(earlier: LoggedRequest, later: LoggedRequest, kept_bytes: int, level: MendingLevel) -> int:
    """Bytes that both prompts keep in common under a level, beyond what they keep as they are; never below 0.

    Cost: that of rewriting both bodies and of comparing them.
    """
    first, second = _canonical(earlier, level), _canonical(later, level)
    if first is None and second is None:
        return 0
    kept = meet(first or outline(earlier.body), second or outline(later.body)).kept_bytes
    return max(0, kept - kept_bytes)


def _canonical(request: LoggedRequest, level: MendingLevel) -> Outline | None:
    """The prompt under a level; None where that changes nothing."""
    raw = request.raw
    done = canonicalise(raw, request.body, request.api, level)
    return None if done.raw == raw else outline(decoded(done.raw))
