"""The real model and engines over it, in the test's own process."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cache.engine.chat import Event, Finished, Piece, Prefilled, Reuse, Sampling, TokenLogprob, Work
from openclaw_cache.engine.source import resolve

# What brings torch is imported by the functions that need it: not at collection.


def load(spec: str, data_dir: Path) -> Any:
    """A `LanguageModel` on the CPU, two threads."""
    model = importlib.import_module("openclaw_cache.engine.model")
    return model.load(resolve(spec), data_dir, 2, print)


@dataclass
class Answer:
    """All that came for one request."""

    events: list[Event]
    pieces: dict[int, list[Piece]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for event in self.events:
            if isinstance(event, Piece):
                self.pieces.setdefault(event.index, []).append(event)

    def text(self, index: int = 0) -> str:
        return "".join(piece.text for piece in self.pieces.get(index, ()))

    def logprobs(self, index: int = 0) -> list[TokenLogprob]:
        return [logprob for piece in self.pieces[index] for logprob in piece.logprobs]

    def end(self, index: int = 0) -> Finished:
        (end,) = (e for e in self.events if isinstance(e, Finished) and e.index == index)
        return end

    @property
    def prefilled(self) -> Prefilled:
        (prefilled,) = (e for e in self.events if isinstance(e, Prefilled))
        return prefilled

    @property
    def reuse(self) -> Reuse:
        return self.prefilled.reuse


@dataclass
class RealEngine:
    """An `Engine` and what it has said."""

    engine: Any
    said: list[str]
    faults: list[str]

    async def ask(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        salt: bytes = b"",
        is_volatile: bool = False,
        **sampling: Any,
    ) -> Answer:
        work = Work(prompt, Sampling(max_tokens, **sampling), salt=salt, is_volatile=is_volatile)
        ticket = self.engine.submit(work)
        try:
            return Answer([event async for event in ticket])
        finally:
            ticket.close()

    async def call(self, function: Callable[[Any], Any]) -> Any:
        """What a function of the cache gives, on the engine's thread."""
        cache = self.engine.loop.cache
        return await asyncio.wrap_future(self.engine.call(lambda: function(cache)))

    async def settled(self) -> None:
        """Wait until no transfer is under way; the books must be right then."""

        def is_busy(cache: Any) -> bool:
            cache.check_integrity()
            return bool(cache.is_busy)

        while await self.call(is_busy):
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(model: Any, data_dir: Path, **settings: Any) -> AsyncIterator[RealEngine]:
    """An engine over a model; several may run over one. Lower tiers are off unless their sizes are given."""
    engines = importlib.import_module("openclaw_cache.engine.engine")
    kv = importlib.import_module("openclaw_cache.engine.kv_settings")
    # Each engine compares the model over its blocks with the model on its own.
    model.network.set_attn_implementation("sdpa")
    said: list[str] = []
    faults: list[str] = []
    given = {"host_bytes": 0, "disk_bytes": 0, "preallocation": 0.0} | settings
    engine = await asyncio.to_thread(
        engines.Engine,
        model,
        kv.KvSettings(**given),
        data_dir,
        max_waiting=1000,
        say=said.append,
        on_fault=faults.append,
    )
    try:
        yield RealEngine(engine, said, faults)
    finally:
        await asyncio.to_thread(engine.close)
        assert faults == []
