"""Watches prompts that go upstream: where each leaves the earlier ones of its session, and what that costs.

Runs beside the request, after its call has been sent. A failure here is counted, and the request never knows.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec
import orjson

from openclaw_cache.gateway.passage import Passage
from openclaw_cache.observe.aside import Aside
from openclaw_cache.observe.record import PrefixBreak, RequestRecord
from openclaw_cache.prefix.lineage import Found, Lineages
from openclaw_cache.prefix.outline import Outline, outline
from openclaw_cache.prefix.tokens import bytes_per_token

MAX_BYTES: Final = 32 * 2**20
"""Of the prompts that are remembered, all sessions together; the sessions used last stay. Once more for those of
upstreams whose prompts are changed (`canonical: safe` or `full`), as their clients wrote them."""

NUM_BREAKS: Final = 1000
"""How many breaks are remembered, about 1 kB each."""

INLINE_BYTES: Final = 16 << 10
"""Larger requests are looked through on a thread, one at a time: where a prefix broke it takes 0.5 ms and 0.03 to
0.2 ms more for each kB; where it did not, 0.1 to 0.2 ms."""

MOST_WAITING: Final = 64
MOST_WAITING_BYTES: Final = 64 * 2**20
"""Prompts that wait to be compared; what comes then is not."""

CPU_SHARE: Final = 0.2
CPU_BURST_S: Final = 5.0
"""How much of one core it may use in the long run, and at once. What comes beyond that is not compared: prompts of
megabytes that have little in common take up to a second each."""

_CHANGING: Final = frozenset({"safe", "full"})

_WATCHED: Final = frozenset({"chat", "completions", "responses", "messages"})


class _Found(NamedTuple):
    """What was found for one prompt."""

    sent: Found[None]
    saved_bytes: int | None
    """That need not be computed because the canonicaliser changed the prompt; None where it did not."""


class SeenBreak(msgspec.Struct, frozen=True):
    """A break, and whose it was."""

    at: float
    request_id: str
    agent: str | None
    session: str | None
    namespace: str
    found: PrefixBreak


class Sums(msgspec.Struct):
    """What was compared since the start. Tokens by what providers counted, where they did."""

    num_compared: int = 0
    num_skipped: int = 0
    """That came while too many were waiting, or too much had been computed."""
    kept_tokens: int = 0
    """That an earlier prompt began with, too."""
    reachable_tokens: int = 0
    """That stand in both prompts in the same order."""


class Watched:
    """One prompt that is being compared."""

    __slots__ = ("_broken", "_owner", "_task")

    def __init__(self, owner: PrefixWatch, task: asyncio.Task[_Found | None]) -> None:
        self._owner = owner
        self._task = task
        self._broken: PrefixBreak | None = None

    def broken(self, prompt_tokens: int | None) -> PrefixBreak | None:
        """Where its prefix broke; None where it did not, or that is not known yet.

        Args:
            prompt_tokens: what the provider counted for the prompt, where that is known.
        """
        found = self._found()
        if self._broken is None and found is not None:
            with self._owner.aside:
                self._broken = found.sent.prefix_break(prompt_tokens)
        return self._broken

    def then(
        self, record: RequestRecord, prompt_tokens: int | None, pass_on: Callable[[RequestRecord], None]
    ) -> None:
        """Pass a request's record on with what was found, once that is known: mostly at once."""

        def known(_task: object = None) -> None:
            found, broken = self._found(), self.broken(prompt_tokens)
            told = record if broken is None else msgspec.structs.replace(record, prefix_break=broken)
            if found is not None and found.saved_bytes is not None:
                saved = round(found.saved_bytes / bytes_per_token(found.sent.prompt, prompt_tokens))
                told = msgspec.structs.replace(told, canonical_saved_tokens=saved)
            if found is not None:
                with self._owner.aside:
                    self._owner.count(told, found.sent, prompt_tokens)
            pass_on(told)

        if self._task.done():
            known()
        else:
            self._task.add_done_callback(known)

    def _found(self) -> _Found | None:
        task = self._task
        if not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()


class PrefixWatch:
    """Compares prompts with the earlier ones of their sessions. What it keeps is bounded, and in memory only.

    Namespaces and models are apart. A request that names no session is compared with those of its agent that name none
    either.

    Args:
        on_degraded: Told of each failure.
        max_bytes: Of the prompts that are remembered.
        wall: Unix seconds.
        clock: Monotonic seconds.
        cpu: Seconds that this thread has computed.
    """

    def __init__(
        self,
        on_degraded: Callable[[str], None],
        *,
        max_bytes: int = MAX_BYTES,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self.since_at = wall()
        self.aside = Aside("prefix_watch", on_degraded)
        self.sums = Sums()
        self.causes: Counter[str] = Counter()
        """How often each broke a prefix."""
        self.lost_tokens: Counter[str] = Counter()
        """What each cost."""
        self._on_degraded = on_degraded
        self._lineages: Lineages[None] = Lineages(max_bytes)
        self._as_asked: Lineages[None] = Lineages(max_bytes)
        """Of upstreams whose prompts are changed: what they would have had without."""
        self._breaks: deque[SeenBreak] = deque(maxlen=NUM_BREAKS)
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[_Found | None]] = set()
        self._waiting_bytes = 0
        self._clock = clock
        self._cpu = cpu
        self._left_s = CPU_BURST_S
        self._filled_at = clock()
        self._took_s = 0.0

    @property
    def num_bytes(self) -> int:
        """Bytes of the prompts that are remembered."""
        return self._lineages.num_bytes + self._as_asked.num_bytes

    def breaks(self) -> Iterator[SeenBreak]:
        """The last breaks, newest first."""
        return reversed(self._breaks)

    def watch(self, passage: Passage) -> Watched | None:
        """Begin to compare a prompt, which is about to be sent; None where it is not compared."""
        if passage.call.dialect.name not in _WATCHED:
            return None
        with self.aside:
            num_bytes = len(passage.call.raw)
            if not self._has_room(num_bytes):
                self.sums.num_skipped += 1
                return None
            task = asyncio.get_running_loop().create_task(self._compare(passage), name="prefix-watch")
            self._tasks.add(task)
            self._waiting_bytes += num_bytes
            task.add_done_callback(functools.partial(self._compared, num_bytes))
            return Watched(self, task)
        return None

    def count(self, record: RequestRecord, found: Found[None], prompt_tokens: int | None) -> None:
        """Add what was found for a request to the sums. About 20 µs."""
        broken = record.prefix_break
        if found.best is None or (found.is_of_another_session and broken is None):
            return
        scale = bytes_per_token(found.prompt, prompt_tokens)
        self.sums.num_compared += 1
        self.sums.kept_tokens += round(found.kept_bytes / scale)
        self.sums.reachable_tokens += round((found.kept_bytes + found.lost_bytes) / scale)
        if broken is not None:
            self.causes[broken.cause] += 1
            self.lost_tokens[broken.cause] += broken.lost_tokens
            self._breaks.append(
                SeenBreak(
                    record.at, record.request_id, record.agent, record.session, record.namespace, broken
                )
            )

    async def aclose(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _compare(self, passage: Passage) -> _Found | None:
        await asyncio.sleep(0)  # the call's bytes go first
        async with (
            self._turn
        ):  # so that requests of a session come in order, and one thread at a time has the books
            if not self._may_compute():  # what was in front of it has taken long
                self.sums.num_skipped += 1
                return None
            try:
                if len(passage.call.raw) > INLINE_BYTES:
                    return await asyncio.to_thread(self._timed, passage)
                return self._timed(passage)
            finally:
                self._left_s -= self._took_s

    def _has_room(self, num_bytes: int) -> bool:
        may_wait = len(self._tasks) < MOST_WAITING and self._waiting_bytes + num_bytes <= MOST_WAITING_BYTES
        return may_wait and self._may_compute()

    def _may_compute(self) -> bool:
        now = self._clock()
        self._left_s = min(CPU_BURST_S, self._left_s + (now - self._filled_at) * CPU_SHARE)
        self._filled_at = now
        return self._left_s > 0

    def _timed(self, passage: Passage) -> _Found:
        began = self._cpu()
        try:
            return self._find(passage)
        finally:
            self._took_s = self._cpu() - began

    def _find(self, passage: Passage) -> _Found:
        outcome = passage.outcome
        # What was sent counts: a canonicaliser may have mended the prompt.
        sent = outline(passage.body() if outcome.sent is None else orjson.loads(outcome.sent))
        found = self._add(self._lineages, passage, sent)
        if passage.upstream.canonical not in _CHANGING:
            return _Found(found, None)
        asked = sent if outcome.sent is None else outline(passage.body())
        without = self._add(self._as_asked, passage, asked)
        if outcome.sent is None:
            return _Found(found, None)
        return _Found(found, _computed_bytes(without) - _computed_bytes(found))

    def _add(self, lineages: Lineages[None], passage: Passage, prompt: Outline) -> Found[None]:
        outcome, identity = passage.outcome, passage.outcome.identity
        scope, session = (outcome.namespace, outcome.model), identity.session or f"\0{identity.agent or ''}"
        return lineages.add(scope, session, prompt, None, is_told=bool(identity.session))

    def _compared(self, num_bytes: int, task: asyncio.Task[_Found | None]) -> None:
        self._tasks.discard(task)
        self._waiting_bytes -= num_bytes
        if not task.cancelled() and task.exception() is not None:
            self._on_degraded("prefix_watch")


def _computed_bytes(found: Found[None]) -> int:
    """What of a prompt a cache of all that came before it does not have."""
    return found.prompt.num_bytes - found.kept_bytes
