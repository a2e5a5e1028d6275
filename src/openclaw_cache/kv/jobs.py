"""Jobs between the engine's thread and the tiers' threads: what each side may know of the other's progress."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.kv.block import Tier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from openclaw_cache.kv.tiers import Record

JobError = OSError | OpenClawCacheError


class GivenUpError(OpenClawCacheError):
    """The job was cancelled before it had ended."""

    def __init__(self) -> None:
        super().__init__("the job was cancelled")


class Job:
    """One piece of work for one tier. The engine's thread makes and may cancel it; a worker does it.

    Attributes:
        tier: whose store it reads or writes.
        slots: int32 [n], which of its slots.
        submitted_at, deadline_at: by the clock of `Movement`.
        error: why it failed; None while it has not.
    """

    def __init__(
        self,
        tier: Tier,
        slots: NDArray[np.int32],
        *,
        submitted_at: float,
        deadline_s: float,
        on_end: Callable[[Job], None],
    ) -> None:
        self.tier = tier
        self.slots = slots
        self.submitted_at = submitted_at
        self.deadline_at = submitted_at + deadline_s
        self.error: JobError | None = None
        self._on_end = on_end
        self._turn = threading.Condition()
        self._is_started = False
        self._is_cancelled = False
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the worker is done with it: its blocks and slots may be used for something else."""
        return self._is_over

    @property
    def is_cancelled(self) -> bool:
        """Whether the engine has given it up. The worker ends it when it next looks."""
        return self._is_cancelled

    def is_overdue(self, now: float) -> bool:
        """Whether it should have ended by now; it may still be cancelled, and must still be waited for."""
        return not self._is_over and now > self.deadline_at

    def cancel(self) -> None:
        """Give it up. It is over at once if it still waits in the queue, else as soon as the worker notices."""
        with self._turn:
            self._is_cancelled = True
            ends = not self._is_started and self._close(GivenUpError())
        if ends:
            self._on_end(self)

    def start(self) -> bool:
        """Worker: begin or go on. Returns False if it is over already."""
        with self._turn:
            self._is_started = True
            return not self._is_over

    def end(self, error: JobError | None = None) -> None:
        """Worker: nothing of the job will be touched any more. A first error stands; a second end is nothing."""
        with self._turn:
            ends = self._close(error)
        if ends:
            self._on_end(self)

    def _close(self, error: JobError | None) -> bool:
        if self._is_over:
            return False
        self.error = self.error or error
        self._is_over = True
        self._turn.notify_all()
        return True


class Load(Job):
    """Blocks on their way from a tier's slots into device blocks, one layer after the other.

    Attributes:
        slots, blocks: int32 [n], from where and to where.
        num_layers: layers that are in place, of all blocks.
        num_good: leading blocks that are in place with all their layers, once it is over: n, or fewer where a
            block was corrupt, or 0 where the store failed or the job was cancelled.
        bad: place of the first corrupt block, if any.
    """

    def __init__(
        self,
        tier: Tier,
        slots: NDArray[np.int32],
        blocks: NDArray[np.int32],
        *,
        submitted_at: float,
        deadline_s: float,
        on_end: Callable[[Job], None],
    ) -> None:
        super().__init__(tier, slots, submitted_at=submitted_at, deadline_s=deadline_s, on_end=on_end)
        self.blocks = blocks
        self.num_layers = 0
        self.num_good = 0
        self.bad: int | None = None

    def wait_layer(self, layer: int, timeout_s: float) -> bool:
        """Wait until this layer of all blocks is in place.

        Returns False at once when the load has failed, even if this layer is there: what was computed on it
        must be thrown away, since the later layers will not come. False too when the time is up.
        """
        with self._turn:
            self._turn.wait_for(
                lambda: self.num_layers > layer or self.error is not None or self._is_over, timeout_s
            )
            return self.num_layers > layer and self.error is None

    def arrive(self, layer: int) -> None:
        """Worker: this layer and all before it are in place."""
        with self._turn:
            self.num_layers = layer + 1
            self._turn.notify_all()

    def spoil(self, bad: int, error: JobError) -> None:
        """Worker: the block at this place is corrupt, so only those before it can still be good."""
        with self._turn:
            self.bad = bad
            self.error = error
            self._turn.notify_all()


class Save(Job):
    """Blocks on their way into a tier's slots, from device blocks or from another tier's slots.

    Attributes:
        slots: int32 [n], to where.
        records: n, without checksums.
        source: where the bytes are now.
        source_slots: int32 [n]: device blocks, or slots of the source tier.
        num_saved: leading blocks that the store has; it may still grow until the job is over.
        bad: place of a block that was corrupt in the source, if any; the job ends there.
    """

    def __init__(
        self,
        tier: Tier,
        slots: NDArray[np.int32],
        records: Sequence[Record],
        *,
        source: Tier,
        source_slots: NDArray[np.int32],
        submitted_at: float,
        deadline_s: float,
        on_end: Callable[[Job], None],
    ) -> None:
        super().__init__(tier, slots, submitted_at=submitted_at, deadline_s=deadline_s, on_end=on_end)
        self.records = records
        self.source = source
        self.source_slots = source_slots
        self.num_saved = 0
        self.bad: int | None = None


class Forget(Job):
    """Slots that are to be emptied."""
