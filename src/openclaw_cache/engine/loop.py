"""The engine's heart, one thread: schedule → run → postprocess, again and again."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from openclaw_cache.engine.chat import Finished, Prefilled
from openclaw_cache.engine.choice import Choice
from openclaw_cache.engine.failure import where
from openclaw_cache.engine.line import Line
from openclaw_cache.engine.plan import Segment
from openclaw_cache.engine.scheduler import Scheduler
from openclaw_cache.engine.sequence import Request, Sequence
from openclaw_cache.engine.ticket import WorkTicket
from openclaw_cache.errors import RequestError
from openclaw_cache.kv.block import IntegrityError
from openclaw_cache.kv.lease import LeaseError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from openclaw_cache.engine.chat import Work
    from openclaw_cache.engine.model import LanguageModel
    from openclaw_cache.engine.runner import Runner
    from openclaw_cache.engine.scheduler import Batch
    from openclaw_cache.kv.cache import PrefixCache
    from openclaw_cache.kv.hold import Hold

T = TypeVar("T")

_MEASURED_TOKENS = 64  # a step of fewer tokens says little about what a prompt costs
_POLL_S = 0.005  # how often transfers are looked after while nothing can be computed
_LAYER_WAIT_S = 5.0  # a transfer that takes longer is given up
_IDLE_S = 1.0  # how long nothing happens before the books are checked,
_IDLE_SHARE = 20  # and no less than so many times as long as the check takes


class EngineLoop:
    """Runs requests together on one thread that owns the cache, the scheduler and the model.

    Args:
        model: Gives text and end tokens.
        runner: Computes a step.
        cache: The prefix cache, restored already.
        max_running: Sequences that run together.
        max_waiting: Requests that may wait besides.
        clock: Monotonic seconds.
        on_fault: Told that the books are wrong or the loop has failed, which ends it: a new process is needed.
    """

    def __init__(
        self,
        model: LanguageModel,
        runner: Runner,
        cache: PrefixCache,
        *,
        max_running: int,
        max_waiting: int,
        clock: Callable[[], float],
        on_fault: Callable[[str], None],
    ) -> None:
        self.cache = cache
        self.checked_at: float | None = None
        self._model = model
        self._runner = runner
        self._clock = clock
        self._on_fault = on_fault
        self._scheduler = Scheduler(cache, max_running=max_running)
        self._line: Line[WorkTicket] = Line(max_waiting, max_running)
        self._waiting: dict[WorkTicket, Sequence] = {}
        self._requests: dict[WorkTicket, Request] = {}
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._has_news = False
        self._is_closed = False
        self._is_checked = True
        self._idle_s = _IDLE_S
        # A daemon: a step of the model cannot be interrupted, and must not keep a stopped process alive.
        self._thread = threading.Thread(target=self._serve, name="engine-loop", daemon=True)
        self._thread.start()

    # -- from other threads ------------------------------------------------------------------------------------

    def submit(self, work: Work) -> WorkTicket:
        """Join the line, from the event loop's thread.

        Raises:
            LineFullError: The line is full.
        """
        ticket = WorkTicket(work, self._forget)
        with self._changed:
            if self._is_closed:
                ticket.put(None)
            else:
                self._line.join(ticket)
                self._tell()
        return ticket

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run a function on the engine's thread between two steps (half a second at most), for status and orders."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except Exception as exc:  # noqa: BLE001 - whatever failed belongs to the caller
                future.set_exception(exc)

        with self._changed:
            if self._is_closed:
                future.cancel()
            else:
                self._calls.append(run)
                self._tell()
        return future

    def wake(self) -> None:
        """Look again: a transfer has ended."""
        with self._changed:
            self._tell()

    def close(self, timeout_s: float = 12.0) -> None:
        """Start no further step, end open tickets, and wait for the present step and for writes to disk."""
        with self._changed:
            self._is_closed = True
            self._tell()
        self._thread.join(timeout_s)

    @property
    def num_waiting(self) -> int:
        """Requests that wait."""
        return self._line.num_waiting

    @property
    def num_running(self) -> int:
        """Sequences that run."""
        return len(self._scheduler.running)

    def _forget(self, ticket: WorkTicket) -> None:
        """Free the place of a ticket that still waits; a running one is noticed before the next step."""
        with self._changed:
            self._line.leave(ticket)
            self._tell()

    def _tell(self) -> None:
        """Wake the engine's thread, or keep it from going to sleep; called with the lock held."""
        self._has_news = True
        self._changed.notify()

    # -- the engine's thread -----------------------------------------------------------------------------------

    def _serve(self) -> None:
        is_sound = False
        try:
            while not self._is_closed:
                self._turn()
            for request in list(self._requests.values()):
                self._leave(request, None)
            is_sound = True
        except IntegrityError as exc:
            self._on_fault(f"the KV cache's books are wrong: {exc}")
        except Exception as exc:  # noqa: BLE001 - a bug of ours: nobody may wait for ever for an answer
            self._on_fault(f"the engine's loop failed: {where(exc)}")
        self._end(is_sound=is_sound)

    def _turn(self) -> None:
        """Schedule, run, postprocess once; or rest."""
        self._run_calls()
        self.cache.poll(self._clock())
        self._remove_closed()
        for seq in [s for s in self._scheduler.running if s.hold is not None and s.hold.is_loading]:
            self._settle(seq)
        batch = self._schedule()
        if batch:
            self._step(batch)
        elif not self._fail_stuck():
            self._rest()

    def _step(self, batch: Batch) -> None:
        """Run one batch and take what it gives."""
        logits = None
        if batch.shares:
            try:
                logits = self._run(batch)
            except Exception as exc:  # noqa: BLE001 - whatever the model raises ends these requests, not the engine
                for request in {seq.request for seq, _ in batch.shares}:
                    self._leave(request, exc)
                return
        for i, (seq, num) in enumerate(batch.shares):
            self._take(seq, num, None if logits is None else logits[i])
        for seq in batch.whole:
            self._take(seq, 0, None)

    def _run(self, batch: Batch) -> torch.Tensor:
        """Compute the batch's tokens; logits [sequences, vocab]."""
        began_at = self._clock()
        segments = []
        loading = []
        for seq, num in batch.shares:
            assert seq.hold is not None  # noqa: S101 - scheduled sequences hold blocks
            new = seq.tokens[seq.num_computed : seq.num_computed + num]
            segments.append(Segment(new, seq.num_computed, seq.hold.table))
            if seq.hold.is_loading:
                loading.append(seq.hold)

        def wait_layer(layer: int) -> None:
            for hold in loading:
                hold.wait_layer(layer, _LAYER_WAIT_S)

        logits = self._runner.forward(segments, wait_layer if loading else None)
        num_new = sum(num for _, num in batch.shares)
        if num_new >= _MEASURED_TOKENS and not loading:
            self.cache.observe_prefill(num_new, self._clock() - began_at)
        return logits

    def _take(self, seq: Sequence, num: int, logits: torch.Tensor | None) -> None:
        """What one sequence of the batch has come to: more of its prompt, or its next token."""
        request = seq.request
        hold = seq.hold
        if hold is None:  # another choice of its request has failed
            return
        if hold.is_loading and not self._settle(seq):  # computed on blocks that did not come
            return
        seq.num_computed += num
        if seq.num_computed < seq.num_tokens or request.reuse is None:
            self.cache.commit(hold, seq.computed)
        if seq.num_left:
            return
        try:
            if request.reuse is None:
                self._prefilled(seq, hold, logits)
            if logits is not None and not seq.is_warm_up:
                self._choose(seq, logits)
        except Exception as exc:  # noqa: BLE001 - text or sampling failed: this request's own trouble
            self._leave(request, exc)

    def _settle(self, seq: Sequence) -> bool:
        """See to a sequence's transfers; False if what it computes now would be thrown away."""
        hold = seq.hold
        assert hold is not None  # noqa: S101 - running sequences hold blocks
        state = self.cache.settle(hold)
        seq.num_computed = min(seq.num_computed, hold.num_cached)
        if state == "lost":
            self._scheduler.restart(seq)
        return state == "there"

    def _prefilled(self, seq: Sequence, hold: Hold, logits: torch.Tensor | None) -> None:
        """The prompt is computed: tell so, and fork the other choices, which share its blocks."""
        request, work = seq.request, seq.request.work
        request.reuse = seq.reuse(self.cache.tree.block_tokens)
        if work.pin_s is not None:
            self._pin(seq, work.pin_s)
        request.ticket.put(Prefilled(seq.num_tokens, request.reuse))
        if seq.is_warm_up:
            self._finish(seq, Finished(0, "length", 0))
            return
        for index in range(1, work.sampling.n):
            fork = Sequence(request, Choice(index, work.sampling, request.seed, self._model))
            request.sequences.append(fork)
            if self._scheduler.has_room(1):
                fork.hold = self.cache.fork(hold, seq.num_tokens)
            if fork.hold is None or logits is None:
                self._scheduler.returned.append(fork)
            else:
                fork.num_computed = seq.num_computed
                self._scheduler.running.append(fork)
                self._choose(fork, logits)

    def _pin(self, seq: Sequence, pin_s: float) -> None:
        try:
            self.cache.leases.pin(seq.request.work.salt, seq.tokens, self._clock() + pin_s)
        except LeaseError as exc:
            raise RequestError(
                409, f"the prompt is computed but not pinned: {exc}", code="not_pinned"
            ) from None

    def _choose(self, seq: Sequence, logits: torch.Tensor) -> None:
        token, events = seq.choice.take(logits)
        for event in events:
            seq.request.ticket.put(event)
        if token is None:
            seq.foretell(events, self._model.decode)
            self._finish(seq, None)
        else:
            seq.append(token)

    def _finish(self, seq: Sequence, event: Finished | None) -> None:
        """A choice is complete; with the last one the request is."""
        request = seq.request
        if event is not None:
            request.ticket.put(event)
        self._scheduler.remove(seq)
        request.sequences.remove(seq)
        request.num_open -= 1
        if request.num_open == 0:
            self._leave(request, None)

    def _leave(self, request: Request, error: Exception | None) -> None:
        """End a request's ticket and free everything it holds."""
        for seq in request.sequences:
            self._scheduler.remove(seq)
        request.sequences.clear()
        self._requests.pop(request.ticket, None)
        if error is not None:
            request.ticket.put(error)
        request.ticket.put(None)
        with self._changed:
            self._line.served(self._clock() - request.began_at)

    def _schedule(self) -> Batch:
        with self._changed:
            waiting = self._line.waiting()
        self._waiting = {
            ticket: self._waiting.get(ticket) or self._sequence(ticket)
            for ticket in waiting
            if not ticket.is_closed
        }
        batch = self._scheduler.schedule(self._waiting.values())
        for ticket, seq in list(self._waiting.items()):
            if seq.hold is not None:
                del self._waiting[ticket]
                seq.request.began_at = self._clock()
                self._requests[ticket] = seq.request
                with self._changed:
                    self._line.serve(ticket)
        return batch

    def _sequence(self, ticket: WorkTicket) -> Sequence:
        sampling = ticket.work.sampling
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        request = Request(ticket, seed, self._clock(), sampling.n)
        seq = Sequence(request, Choice(0, sampling, seed, self._model))
        request.sequences.append(seq)
        return seq

    def _remove_closed(self) -> None:
        for request in [r for t, r in self._requests.items() if t.is_closed]:
            self._leave(request, None)

    def _fail_stuck(self) -> bool:
        """See to the first in line if nothing that runs or moves could ever make room for it.

        Pins give way to it, one after the other; without them it is refused.
        """
        if self._scheduler.running or self.cache.is_busy or not (self._scheduler.returned or self._waiting):
            return False
        if self.cache.leases.give_way():
            return True
        message = "the KV cache has no room for this prompt: raise kv_cache.device"
        error = RequestError(503, message, kind="server_error", code="kv_cache_full", retry_after_s=1)
        if self._scheduler.returned:
            self._leave(self._scheduler.returned[0].request, error)
            return True
        ticket = next(iter(self._waiting))
        with self._changed:
            self._line.leave(ticket)
        ticket.put(error)
        ticket.put(None)
        return True

    def _rest(self) -> None:
        """Nothing to compute: wait for work or a transfer, and check the books once when all is quiet."""
        is_idle = not self._scheduler.running and not self.cache.is_busy
        with self._changed:
            if not self._has_news:
                self._changed.wait(_POLL_S if not is_idle else None if self._is_checked else self._idle_s)
            has_news, self._has_news = self._has_news, False
        if not is_idle or has_news:
            self._is_checked = False
        elif not self._is_checked:
            self._is_checked = True
            began_at = self._clock()
            self.cache.check_integrity()
            self.checked_at = self._clock()
            self._idle_s = max(_IDLE_S, _IDLE_SHARE * (self.checked_at - began_at))

    def _run_calls(self) -> None:
        while self._calls:
            self._calls.popleft()()

    def _end(self, *, is_sound: bool) -> None:
        """Answer everybody who still waits; what is cached goes to disk unless the books cannot be trusted."""
        with self._changed:
            self._is_closed = True
            for ticket in [*self._line.waiting(), *self._requests]:
                self._line.leave(ticket)
                ticket.put(None)
        self._run_calls()
        if is_sound:
            self.cache.close()
        else:
            self.cache.movement.close(1.0)
