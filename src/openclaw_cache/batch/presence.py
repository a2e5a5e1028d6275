"""Whether a server is still there, after a connection to it broke."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from openclaw_cache.admin_client import AdminClient, RefusedError, UnreachableError

MOST_AWAY_S: Final = 60.0
"""A server that restarts is back by then, or it is gone."""
PAUSE_S: Final = 1.0
"""Before each look: one that is about to die may still answer in its last moment."""


def ask(client: AdminClient) -> None:
    """Ask a server for a sign of life.

    Raises:
        UnreachableError: it gives none, or another says in its stead that it is away.
    """
    try:
        client.call("GET", "/healthz")
    except RefusedError as e:  # one that knows no such path is there all the same
        if e.status >= 500:
            raise UnreachableError(f"{client.url} is away: {e.status}, {e}") from None


class Presence:
    """Looks for a server again and again, until it is there or has been away for too long.

    Args:
        ask: asks it for a sign of life; raises UnreachableError.
        most_away_s: how long it may be away.
        pause_s: before each look.
    """

    def __init__(
        self, ask: Callable[[], None], most_away_s: float = MOST_AWAY_S, pause_s: float = PAUSE_S
    ) -> None:
        self._ask = ask
        self._most_away_s = most_away_s
        self._pause_s = pause_s
        self._missed_at: float | None = None

    def is_there(self) -> bool:
        """Wait for a moment, then look.

        Raises:
            UnreachableError: it has been away for too long.
        """
        time.sleep(self._pause_s)
        asked_at = time.monotonic()
        try:
            self._ask()
        except UnreachableError as e:
            if self._missed_at is None:
                self._missed_at = asked_at
            if time.monotonic() - self._missed_at >= self._most_away_s:
                raise UnreachableError(f"{e}; it has been away for {self._most_away_s:g} s") from None
            return False
        self._missed_at = None
        return True
