"""One budget for all bytes that requests in the air hold: bodies that came in, replies that are kept for readers."""

from __future__ import annotations

from openclaw_cache.errors import RequestError


def overloaded(what: str) -> RequestError:
    """The refusal of a request for which there is no room now."""
    return RequestError(
        503,
        f"{what} (server.max_inflight): try again in a moment",
        kind="api_error",
        code="overloaded",
        retry_after_s=1,
    )


class InFlightBytes:
    """Counts bytes against a limit. A taker that is refused does with less, or turns its client away.

    Args:
        limit_bytes: The most that may be held together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def take(self, num_bytes: int) -> bool:
        """Hold more bytes, if they fit."""
        if self.held_bytes + num_bytes > self.limit_bytes:
            return False
        self.held_bytes += num_bytes
        return True

    def add(self, num_bytes: int) -> None:
        """Hold bytes that are here already, whether they fit or not."""
        self.held_bytes += num_bytes

    @property
    def is_full(self) -> bool:
        """Whether more is held than should be: whoever can do with less must."""
        return self.held_bytes > self.limit_bytes

    def give(self, num_bytes: int) -> None:
        """Let go of bytes that were taken."""
        self.held_bytes -= num_bytes
