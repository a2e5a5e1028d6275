"""The thread of one tier: it does that tier's jobs, so that a hung disk holds up nothing but the disk."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, assert_never

import torch

from openclaw_cache.kv.health import Health
from openclaw_cache.kv.jobs import Forget, GivenUpError, Load, Save
from openclaw_cache.kv.speed import Speed
from openclaw_cache.kv.tiers import TierError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.kv.block import Tier
    from openclaw_cache.kv.copier import Copier
    from openclaw_cache.kv.jobs import Job
    from openclaw_cache.kv.tiers import TierStore

Work = Load | Save | Forget


class Worker:
    """A queue and a daemon thread. Loads go first, because requests wait for them, between two chunks of a save.

    Args:
        tier, store: whose jobs it does.
        make_copier: makes the copier, given what to call on progress.
        start_speed: seconds per byte to believe before the first load; None to measure what memory gives.
        clock: monotonic seconds.
        hang_s: without progress for so long, the tier counts as hung.
        report: takes a sentence on each failure; called from any thread.
    """

    def __init__(
        self,
        tier: Tier,
        store: TierStore,
        make_copier: Callable[[Callable[[], None]], Copier],
        *,
        start_speed: float | None,
        clock: Callable[[], float],
        hang_s: float,
        report: Callable[[str], None],
    ) -> None:
        self._name = tier.name.lower()
        self._store = store
        self._copier = make_copier(self._progress)
        self._clock = clock
        self._hang_s = hang_s
        self._report = report
        self._health = Health()
        self._changed = threading.Condition()
        self._loads: deque[Load] = deque()
        self._others: deque[Save | Forget] = deque()
        self._current: Work | None = None
        self._progress_at = 0.0
        self._is_hung = False
        self._is_stopping = False
        self.num_failures = 0
        """Jobs that failed, and hangs; corrupt blocks count one per job."""
        self.speed = Speed(start_speed or 0.0)
        """Of the loads."""
        self._must_measure = start_speed is None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kv-{self._name}", daemon=True)
        num_threads = torch.get_num_threads()
        self._thread.start()
        self._is_ready.wait()
        torch.set_num_threads(num_threads)  # what the thread set for itself was in part for all

    def submit(self, job: Work) -> None:
        """Add a job; if the worker has ended, the job ends at once."""
        with self._changed:
            if not self._is_stopping:
                if isinstance(job, Load):
                    self._loads.append(job)
                else:
                    self._others.append(job)
                self._changed.notify()
                return
        job.end(self._closed())

    def is_alive(self, now: float) -> bool:
        """Whether the tier may be asked: it is not hung, and not in the pause after its failures."""
        with self._changed:
            has_hung = self._current is not None and now - self._progress_at > self._hang_s
            if has_hung and not self._is_hung:
                self._is_hung = True
                self.num_failures += 1
                self._health.hang(now)
                self._report(f"the {self._name} tier has not answered for {self._hang_s:g} s; it is off")
            return not (has_hung or self._is_stopping) and self._health.is_alive(now)

    def stop(self) -> None:
        """End after the piece that is being done; what waits ends with an error."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end. Returns False if the thread hangs: it dies with the process."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            _use_one_core()
            if self._must_measure:
                self.speed = Speed(self._copier.seconds_per_byte(self._clock))
            self._is_ready.set()
            with torch.inference_mode():  # an arena that was made in it can be written only in it
                while (job := self._take()) is not None:
                    self._do(job)
        finally:  # at a stop, and at a fault of ours too: nobody may wait for ever
            self._quit()

    def _take(self) -> Work | None:
        with self._changed:
            self._current = None
            self._changed.wait_for(lambda: self._loads or self._others or self._is_stopping)
            if self._is_stopping:
                return None
            self._current = self._loads.popleft() if self._loads else self._others.popleft()
            self._progress_at = self._clock()
            self._is_hung = False
            return self._current

    def _do(self, job: Work) -> None:
        if not job.start():
            return
        try:
            is_done = self._step(job)
        except GivenUpError as error:
            job.end(error)
        except (OSError, TierError) as error:
            self._fail(error)
            job.end(error)
        else:
            self._succeed(job)
            if is_done:
                job.end()
                return
            assert not isinstance(job, Load)  # noqa: S101 - for mypy: a load has one step
            with self._changed:
                self._others.appendleft(job)

    def _step(self, job: Work) -> bool:
        """Do a load or forget whole, a save by one chunk. Returns whether the job is done."""
        match job:
            case Load():
                started_at = self._clock()
                job.num_good = self._copier.load(job)
                if job.error is None:
                    now, num_bytes = self._clock(), len(job.slots) * self._store.block_bytes
                    self.speed.measure(num_bytes, now - started_at, started_at - job.submitted_at, now)
                return True
            case Save():
                return self._copier.save_chunk(job)
            case Forget():
                self._store.forget(job.slots)
                return True
            case _:
                assert_never(job)

    def _progress(self) -> None:
        with self._changed:
            self._progress_at = self._clock()

    def _succeed(self, job: Job) -> None:
        with self._changed:
            if not self._is_hung:  # an answer that came too late does not count
                self._health.succeed()
            if job.error is not None:
                self.num_failures += 1
        if job.error is not None:
            self._report(f"the {self._name} tier: {job.error}")

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self.num_failures += 1
            is_off = self._health.fail(self._clock())
        self._report(f"the {self._name} tier failed: {error}" + ("; it is off for a while" if is_off else ""))

    def _quit(self) -> None:
        self._is_ready.set()
        with self._changed:
            self._is_stopping = True
            left = [*([self._current] if self._current else []), *self._loads, *self._others]
            self._current = None
            self._loads.clear()
            self._others.clear()
        for job in left:
            job.end(self._closed())

    def close_store(self) -> None:
        """Close its store, once no worker is left that may read from it."""
        try:
            self._store.close()
        except (OSError, TierError) as error:
            self._report(f"the {self._name} tier could not be closed: {error}")

    def _closed(self) -> TierError:
        return TierError(f"the {self._name} tier is closed")


def _use_one_core() -> None:
    """Keep this thread's copies out of torch's thread pool.

    Its pieces are small and the engine computes on all cores: the pool's threads then wait for each other, and
    128 blocks took 1.9 s instead of 22 ms.
    """
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread's first question sets its number: ask before another is set for all
