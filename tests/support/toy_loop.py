"""A running engine loop over a model of arithmetic, and what a test may do to its parts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from openclaw_cache.engine.chat import Event, Piece, Sampling, Work
from openclaw_cache.engine.loop import EngineLoop
from openclaw_cache.engine.plan import Segment
from openclaw_cache.engine.ticket import WorkTicket
from support.toy_engine import ToyModel, ToyRunner, toy_cache

WAIT_S = 20


class Site:
    """A running loop, and what a test may do to its parts."""

    def __init__(
        self, num_blocks: int, *, max_running: int, max_waiting: int, ends: frozenset[int], **options: Any
    ) -> None:
        self.cache, arena = toy_cache(num_blocks, wake=self._wake, **options)
        self.model, self.runner = ToyModel(ends), ToyRunner(arena)
        self.faults: list[str] = []
        self.loop: EngineLoop | None = None
        model: Any = self.model
        runner: Any = self.runner
        self.loop = EngineLoop(
            model,
            runner,
            self.cache,
            max_running=max_running,
            max_waiting=max_waiting,
            clock=time.monotonic,
            on_fault=self.faults.append,
        )

    def submit(self, prompt: Sequence[int], num_tokens: int = 8, **more: Any) -> WorkTicket:
        assert self.loop is not None
        rest = {key: more.pop(key) for key in ("salt", "is_volatile", "pin_s") if key in more}
        return self.loop.submit(Work(prompt, Sampling(max_tokens=num_tokens, **more), **rest))

    async def ask(self, prompt: Sequence[int], num_tokens: int = 8, **more: Any) -> list[Event]:
        ticket = self.submit(prompt, num_tokens, **more)
        try:
            async with asyncio.timeout(WAIT_S):
                return [event async for event in ticket]
        finally:
            ticket.close()

    async def call(self, function: Callable[[], Any]) -> Any:
        assert self.loop is not None
        return await asyncio.wait_for(asyncio.wrap_future(self.loop.call(function)), WAIT_S)

    async def settled(self) -> None:
        """Wait until nothing runs and no transfer is under way; the books must be right then, and nothing held."""

        def books() -> bool:
            assert self.loop is not None
            self.cache.check_integrity()
            return not (self.loop.num_running or self.loop.num_waiting or self.cache.is_busy)

        async with asyncio.timeout(WAIT_S):
            while not await self.call(books):
                await asyncio.sleep(0.002)
        assert self.cache._holds == set()
        assert self.loop is not None
        assert (self.loop._line.num_served, self.loop._requests, self.loop._waiting) == (0, {}, {})

    def _wake(self) -> None:
        if self.loop is not None:
            self.loop.wake()


@asynccontextmanager
async def site(
    num_blocks: int = 200,
    *,
    max_running: int = 8,
    max_waiting: int = 1000,
    ends: frozenset[int] = frozenset(),
    **options: Any,
) -> AsyncIterator[Site]:
    running = Site(num_blocks, max_running=max_running, max_waiting=max_waiting, ends=ends, **options)
    assert running.loop is not None
    try:
        yield running
    finally:
        await asyncio.to_thread(running.loop.close)


class Gate:
    """Holds the model before each of its steps until they are allowed."""

    def __init__(self, runner: ToyRunner) -> None:
        self._steps = threading.Semaphore(0)
        self.began = threading.Semaphore(0)
        runner.before = self._wait

    def allow(self, num_steps: int = 1) -> None:
        self._steps.release(num_steps)

    async def reached(self) -> None:
        """Wait until the model stands before its next step."""
        assert await asyncio.to_thread(self.began.acquire, timeout=WAIT_S)

    def _wait(self, _segments: Sequence[Segment]) -> None:
        self.began.release()
        assert self._steps.acquire(timeout=WAIT_S)


def said(events: Sequence[Event], index: int = 0) -> list[int]:
    texts = [e.text for e in events if isinstance(e, Piece) and e.index == index]
    return [int(word) for word in "".join(texts).split()]


def prompt_of(num_tokens: int, first: int = 1) -> list[int]:
    """Tokens that share nothing with those of another `first`."""
    return [first, *(i % 61 for i in range(num_tokens - 1))]
