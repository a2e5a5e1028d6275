"""An engine in this process: started, asked, moved between tiers, stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from openclaw_cache.engine import model as models
from openclaw_cache.engine.chat import Finished, Piece, Prefilled, Reuse, Sampling, Work
from openclaw_cache.engine.engine import Engine
from openclaw_cache.engine.kv_settings import KvSettings
from openclaw_cache.engine.source import resolve
from openclaw_cache.kv.block import Tier

T = TypeVar("T")

MODEL = "smollm2-135m"
MAX_WAITING = 64
QUIET_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Place:
    """Where models are kept and engines may write, and how many threads they have."""

    model_dir: Path
    work_dir: Path
    num_threads: int

    def load(self) -> models.LanguageModel:
        """The model anew: an engine changes the attention of the one it gets."""
        return models.load(resolve(MODEL), self.model_dir, self.num_threads, lambda _: None)


@dataclass(slots=True)
class Asked:
    """What one request has come to. `piece_at` are the times of its tokens, in seconds after it was submitted."""

    reuse: Reuse = field(default_factory=Reuse)
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    """The tokens chosen, without the end mark."""
    piece_at: list[float] = field(default_factory=list)

    @property
    def ttft_s(self) -> float:
        """Seconds to the first token."""
        return self.piece_at[0]


@dataclass(frozen=True, slots=True)
class Driven:
    """A running engine. `chosen` are the tokens of each reply, in the order in which they were asked for."""

    engine: Engine
    chosen: list[list[int]]
    _num_asked: Iterator[int] = field(default_factory=count)

    async def ask(
        self, prompt: Sequence[int], max_tokens: int, began: Callable[[], None] | None = None
    ) -> Asked:
        """Submit a prompt and take its reply to the end. `began` is called at the tenth token."""
        asked = Asked()
        number = next(self._num_asked)
        submitted_at = time.perf_counter()
        ticket = self.engine.submit(Work(prompt, Sampling(max_tokens=max_tokens)))
        try:
            async for event in ticket:
                match event:
                    case Prefilled(_, reuse):
                        asked.reuse = reuse
                    case Piece(_, text, _):
                        asked.piece_at.append(time.perf_counter() - submitted_at)
                        asked.text += text
                        if len(asked.piece_at) == 10 and began is not None:
                            began()
                    case Finished(_, _, num_tokens):
                        asked.tokens = self.chosen[number]
                        if len(asked.tokens) != num_tokens:
                            raise RuntimeError(f"{len(asked.tokens)} tokens noted of {num_tokens}")
                        asked.piece_at = asked.piece_at[:num_tokens]  # the last only brings held back text
        finally:
            ticket.close()
        return asked

    async def call(self, function: Callable[[], T]) -> T:
        """Run a function on the engine's thread."""
        return await asyncio.wrap_future(self.engine.call(function))

    async def settled(self) -> None:
        """Wait until every copy to a lower tier is made."""
        cache = self.engine.loop.cache
        while await self.call(lambda: cache.is_busy or bool(cache.lower.saving())):
            await asyncio.sleep(QUIET_POLL_S)

    async def evict(self, tier: Tier) -> None:
        """Drop everything that a tier holds, once the tiers below it have it."""
        await self.settled()
        cache = self.engine.loop.cache
        pool = cache.device if tier is Tier.DEVICE else cache.lower.pools[tier]
        await self.call(lambda: cache.lower.evict(tier, pool.num_blocks))


@asynccontextmanager
async def driven(place: Place, settings: KvSettings, name: str) -> AsyncIterator[Driven]:
    """An engine whose disk tier is `name` under the work folder; it finds there what an earlier one has left."""
    faults: list[str] = []
    model = await asyncio.to_thread(place.load)
    chosen = _note_tokens(model)
    engine = await asyncio.to_thread(
        lambda: Engine(
            model, settings, place.work_dir / name,
            max_waiting=MAX_WAITING, say=lambda _: None, on_fault=faults.append,
        )
    )  # fmt: skip
    try:
        yield Driven(engine, chosen)
    finally:
        await asyncio.to_thread(engine.close)
    if faults:
        raise RuntimeError(f"the engine complained: {faults}")


def _note_tokens(model: models.LanguageModel) -> list[list[int]]:
    """Note what is chosen: a reply's events give text only. Replies are decoded in the order of their requests."""
    chosen: list[list[int]] = []
    begin = model.decode_steps

    def noted() -> Callable[[int], str | None]:
        tokens: list[int] = []
        chosen.append(tokens)
        step = begin()

        def take(token: int) -> str | None:
            tokens.append(token)
            return step(token)

        return take

    model.decode_steps = noted  # type: ignore[method-assign]
    return chosen
