"""Upstream calls for embeddings that several requests wait for: each input is fetched once, whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from openclaw_cache.dialects.embeddings import Vector
from openclaw_cache.types import CacheKey, Headers


@dataclass(frozen=True, slots=True)
class Fetched:
    """What an upstream answered.

    Args:
        prompt_tokens: that it has computed; None where it has not told.
        vectors: its reply taken apart; None where it is an error, or something that cannot be.
        stored: whether the cache has them now.
    """

    status: int
    headers: Headers
    body: bytes
    prompt_tokens: int | None = None
    vectors: Mapping[CacheKey, Vector] | None = None
    stored: bool = False

    @property
    def is_ok(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


class Fetch:
    """One call and those who wait for it. It runs in a task of its own, so none of them can take it along.

    Args:
        keys: of the inputs that are asked for, in order.
        call: makes the call.
    """

    def __init__(self, keys: Sequence[CacheKey], call: Callable[[], Awaitable[Fetched]]) -> None:
        self.keys = tuple(keys)
        self.task = asyncio.get_running_loop().create_task(_run(call), name="embeddings-fetch")
        self.task.add_done_callback(_look_at)
        self._num_waiting = 0

    def join(self) -> None:
        """Wait for it too. `leave` must follow in the end."""
        self._num_waiting += 1

    def leave(self) -> None:
        """Want nothing more of it. The last one to leave ends a call that has not come back."""
        self._num_waiting -= 1
        if not self._num_waiting:
            self.task.cancel()

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits any more."""
        return not self._num_waiting


class Fetches:
    """The inputs that are being fetched, by key."""

    def __init__(self) -> None:
        self._by_key: dict[CacheKey, Fetch] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: CacheKey) -> Fetch | None:
        """The call that fetches an input, to be joined before anything is awaited; None where there is none."""
        fetch = self._by_key.get(key)
        return None if fetch is None or fetch.is_abandoned else fetch

    def add(self, fetch: Fetch) -> None:
        """Let others join until it has ended, for better or worse."""
        for key in fetch.keys:
            self._by_key[key] = fetch
        # Before those who wait for it go on: what is here is in the cache, or in a call that may be joined.
        fetch.task.add_done_callback(lambda _: self._remove(fetch))

    def close(self) -> None:
        """Close every call to joiners; those who wait stay."""
        self._by_key.clear()

    def _remove(self, fetch: Fetch) -> None:
        for key in fetch.keys:
            if self._by_key.get(key) is fetch:
                del self._by_key[key]


async def _run(call: Callable[[], Awaitable[Fetched]]) -> Fetched:
    return await call()


def _look_at(task: asyncio.Task[Fetched]) -> None:
    """Whoever waited may have left: then nobody else asks how it ended."""
    if not task.cancelled():
        task.exception()
