"""Moves blocks between tiers beside the engine's thread: it submits jobs, polls their ends, and never blocks."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.copier import Copier, DeviceArena
from openclaw_cache.kv.jobs import Forget, Job, Load, Save
from openclaw_cache.kv.tiers import TierError
from openclaw_cache.kv.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Sized

    from numpy.typing import NDArray

    from openclaw_cache.kv.codec import Codec
    from openclaw_cache.kv.tiers import Record, TierStore

__all__ = ["DeviceArena", "Movement"]

_UNTRIED_SECONDS_PER_BYTE: Final = 1 / 200e6
"""A tier that was not tried yet is taken for a slow SSD: a file that is not in the page cache gave 400 MB/s."""


class Movement:
    """One worker thread per lower tier, and the jobs they do.

    All methods belong to the engine's thread and return at once. No failure of a store is raised here: it is
    the `error` of a job, counted in `num_failures`, and told once to `on_event`. Every job comes out of `poll`
    exactly once, also if it was cancelled or refused. Until a job is over, its device blocks and its slots must
    not be used for anything else.

    Args:
        arena: the device tier.
        codec: between its values and the stores' bytes.
        stores: the lower tiers; closed by their workers at the end.
        chunk_blocks: blocks that are read, encoded and written in one go.
        deadline_s: a job should end in this time, and a tier without progress for so long counts as hung.
        clock: monotonic seconds.
        wake: called from a worker's thread when a job has ended.
        on_event: takes a sentence on each failure, from within `poll`.

    Cost: starts the threads; 10 ms to measure the speed of memory.
    """

    def __init__(
        self,
        arena: DeviceArena,
        codec: Codec,
        stores: Mapping[Tier, TierStore],
        *,
        chunk_blocks: int = 32,
        deadline_s: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wake: Callable[[], None] = lambda: None,
        on_event: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._deadline_s = deadline_s
        self._wake = wake
        self._on_event = on_event
        self._ended: deque[Job] = deque()
        self._events: deque[str] = deque()
        self._counting = threading.Lock()
        self._num_pending = 0
        self._workers = {
            tier: Worker(
                tier,
                store,
                lambda on_progress: Copier(
                    arena, codec, stores, chunk_blocks=chunk_blocks, on_progress=on_progress
                ),
                start_speed=None if tier is Tier.HOST else _UNTRIED_SECONDS_PER_BYTE,
                clock=clock,
                hang_s=deadline_s,
                report=self._events.append,
            )
            for tier, store in stores.items()
        }

    def load(self, tier: Tier, slots: NDArray[np.int32], blocks: NDArray[np.int32]) -> Load:
        """Bring blocks from a tier's slots into device blocks (int32 [n] each)."""
        _check_lengths(slots, blocks)
        job = Load(
            tier, slots, blocks,
            submitted_at=self._clock(), deadline_s=self._deadline_s, on_end=self._end,
        )  # fmt: skip
        self._submit(job)
        return job

    def save(
        self,
        tier: Tier,
        blocks: NDArray[np.int32],
        slots: NDArray[np.int32],
        records: Sequence[Record],
        *,
        source: Tier = Tier.DEVICE,
        source_slots: NDArray[np.int32] | None = None,
    ) -> Save:
        """Bring blocks into a tier's slots.

        Args:
            tier: to where.
            blocks: device blocks, int32 [n]; not looked at for another source.
            slots: int32 [n], in the tier.
            records: n; their checksums are computed on the way.
            source: a lower tier whose bytes are copied (and verified) as they are, instead of the device.
            source_slots: int32 [n], in that tier.
        """
        origin = blocks if source is Tier.DEVICE or source_slots is None else source_slots
        _check_lengths(slots, origin, records)
        job = Save(
            tier, slots, records, source=source, source_slots=origin,
            submitted_at=self._clock(), deadline_s=self._deadline_s, on_end=self._end,
        )  # fmt: skip
        self._submit(job)
        return job

    def forget(self, tier: Tier, slots: NDArray[np.int32]) -> Forget:
        """Empty slots, after the saves that were asked for before and before those that come after.

        It is queued even for a tier that is off, so that a later process does not find the blocks again.
        """
        job = Forget(tier, slots, submitted_at=self._clock(), deadline_s=self._deadline_s, on_end=self._end)
        with self._counting:
            self._num_pending += 1
        self._workers[tier].submit(job)
        return job

    def poll(self) -> list[Job]:
        """The jobs that have ended since the last call. Also notices hung tiers and tells the events."""
        now = self._clock()
        for worker in self._workers.values():
            worker.is_alive(now)
        while self._events:
            self._on_event(self._events.popleft())
        return [self._ended.popleft() for _ in range(len(self._ended))]

    @property
    def num_pending(self) -> int:
        """Jobs that wait or are being done."""
        return self._num_pending

    @property
    def num_failures(self) -> dict[Tier, int]:
        """Jobs that failed and hangs, by tier."""
        return {tier: worker.num_failures for tier, worker in self._workers.items()}

    def is_alive(self, tier: Tier) -> bool:
        """Whether loads and saves of this tier are taken: it is there, not hung, not in a pause after failures."""
        return tier in self._workers and self._workers[tier].is_alive(self._clock())

    def seconds_per_byte(self, tier: Tier) -> float:
        """Expected time of a load per byte of payload."""
        return self._workers[tier].speed.seconds_per_byte(self._clock())

    def latency_s(self, tier: Tier) -> float:
        """Expected time before a load begins."""
        return self._workers[tier].speed.latency_s(self._clock())

    def close(self, timeout_s: float) -> bool:
        """End the workers after the piece each is doing; jobs that wait fail. Blocks up to `timeout_s`.

        Returns False if a worker hangs: then the stores stay open, and its thread dies with the process.
        """
        deadline_at = time.monotonic() + timeout_s
        for worker in self._workers.values():
            worker.stop()
        ends = [worker.join(max(0.0, deadline_at - time.monotonic())) for worker in self._workers.values()]
        if not all(ends):
            return False
        for worker in self._workers.values():
            worker.close_store()
        return True

    def _submit(self, job: Load | Save) -> None:
        with self._counting:
            self._num_pending += 1
        if self.is_alive(job.tier):
            self._workers[job.tier].submit(job)
        else:
            job.end(TierError(f"the {job.tier.name.lower()} tier is off"))

    def _end(self, job: Job) -> None:
        with self._counting:
            self._num_pending -= 1
        self._ended.append(job)
        self._wake()


def _check_lengths(slots: Sized, *others: Sized) -> None:
    for other in others:
        if len(other) != len(slots):
            raise ValueError(f"{len(slots)} slots cannot go with {len(other)} blocks")
