"""Movement between tiers: layer by layer, beside the engine, around stores that fail, hang or lie."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.health import Health
from openclaw_cache.kv.jobs import GivenUpError, Job
from openclaw_cache.kv.movement import Movement
from openclaw_cache.kv.speed import Speed, worth_loading
from openclaw_cache.kv.tiers import CorruptBlockError, HostStore, Record, TierError, TierStore
from support.kv_blocks import BLOCK_BYTES, CODEC, bare, record_of, slots

NUM_BLOCKS = 160
WAIT_S = 20.0


class TensorArena:
    """Blocks in one tensor [3 layers, 2, blocks, 4 tokens, 2 heads, 4 values]."""

    def __init__(self) -> None:
        self.values = torch.zeros((3, 2, NUM_BLOCKS, 4, 2, 4))

    def read_layer(self, blocks: NDArray[np.int32], layer: int) -> torch.Tensor:
        return self.values[layer][:, torch.from_numpy(blocks).long()]

    def write_layer(self, blocks: NDArray[np.int32], layer: int, kv: torch.Tensor) -> None:
        self.values[layer][:, torch.from_numpy(blocks).long()] = kv.float()

    def fill(self, num_blocks: int) -> torch.Tensor:
        """Random halves in the first blocks; returns a copy of them."""
        halves = torch.randn((3, 2, num_blocks, 4, 2, 4), generator=torch.Generator().manual_seed(7)).half()
        self.values[:, :, :num_blocks] = halves.float()
        return halves.float()

    def blocks(self, *numbers: int) -> torch.Tensor:
        return self.values[:, :, list(numbers)]


class Store(HostStore):
    """A real host store whose calls a test can hold up, damage or fail."""

    def __init__(self, num_slots: int = NUM_BLOCKS) -> None:
        super().__init__(num_slots, CODEC)
        self.before_read: Callable[[NDArray[np.int32], int], None] = lambda _slots, _layer: None
        self.before_write: Callable[[NDArray[np.int32]], None] = lambda _slots: None
        self.calls: list[tuple[str, int]] = []
        self.is_closed = False

    def read_layer(self, slots: NDArray[np.int32], layer: int) -> torch.Tensor:
        self.calls.append(("read", len(slots)))
        self.before_read(slots, layer)
        return super().read_layer(slots, layer)

    def write(self, slots: NDArray[np.int32], records: Sequence[Record], payload: torch.Tensor) -> None:
        self.calls.append(("write", len(slots)))
        self.before_write(slots)
        super().write(slots, records, payload)

    def forget(self, slots: NDArray[np.int32]) -> None:
        self.calls.append(("forget", len(slots)))
        super().forget(slots)

    def damage(self, slot: int, layer: int) -> None:
        self._arena[slot, layer * CODEC.layer_bytes] ^= 1

    def close(self) -> None:
        self.is_closed = True
        super().close()


class Clock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Site:
    def __init__(self, deadline_s: float, clock: Callable[[], float], tiers: dict[Tier, TierStore]) -> None:
        self.arena = TensorArena()
        self.events: list[str] = []
        self.ended: list[Job] = []
        self.woken = threading.Event()
        self.movement = Movement(
            self.arena, CODEC, tiers,
            deadline_s=deadline_s, clock=clock, wake=self.woken.set, on_event=self.events.append,
        )  # fmt: skip

    def save(self, num: int, tier: Tier = Tier.HOST) -> torch.Tensor:
        """Put random blocks 0…num into slots 0…num, wipe the arena, return what was in it."""
        original = self.arena.fill(num)
        job = self.movement.save(tier, numbers(num), numbers(num), records(num))
        self.settle()
        assert (job.num_saved, job.error) == (num, None)
        self.arena.values.zero_()
        return original

    def settle(self) -> None:
        until(lambda: self.poll() and self.movement.num_pending == 0)

    def poll(self) -> bool:
        self.ended += self.movement.poll()
        return True


@contextmanager
def site(
    host: TierStore | None = None,
    disk: TierStore | None = None,
    *,
    deadline_s: float = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Site]:
    stores = {tier: store for tier, store in ((Tier.HOST, host), (Tier.DISK, disk)) if store is not None}
    running = Site(deadline_s, clock, stores)
    try:
        yield running
    finally:
        running.movement.close(WAIT_S)


def numbers(num: int, start: int = 0) -> NDArray[np.int32]:
    return np.arange(start, start + num, dtype=np.int32)


def records(num: int) -> list[Record]:
    return [bare(record_of(i)) for i in range(num)]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.001)


# Whole ways


@pytest.mark.parametrize("num", [1, 31, 32, 33, 70])
def test_blocks_that_went_to_a_tier_come_back_bit_for_bit_into_other_blocks(num: int) -> None:
    with site(Store()) as s:
        original = s.save(num)
        where = np.random.default_rng(3).permutation(NUM_BLOCKS)[:num].astype(np.int32)
        job = s.movement.load(Tier.HOST, numbers(num), where)
        assert job.wait_layer(2, WAIT_S)
        s.settle()
        assert (job.num_good, job.bad, job.error, job.is_over) == (num, None, None, True)
        assert torch.equal(s.arena.blocks(*where.tolist()), original)
        others = sorted({*range(NUM_BLOCKS)} - {*where.tolist()})
        assert not s.arena.blocks(*others).any()


def test_bytes_go_from_host_to_disk_as_they_are_and_from_there_to_the_device() -> None:
    with site(Store(), Store()) as s:
        original = s.save(40)
        up = s.movement.save(
            Tier.DISK,
            slots(),
            numbers(40),
            records(40),
            source=Tier.HOST,
            source_slots=numbers(40)[::-1].copy(),
        )
        s.settle()
        assert (up.num_saved, up.error) == (40, None)
        job = s.movement.load(Tier.DISK, numbers(40), numbers(40, start=100))
        s.settle()
        assert job.num_good == 40
        assert torch.equal(s.arena.values[:, :, 100:140], original.flip(2))


def test_a_layer_may_be_used_before_the_next_one_has_come() -> None:
    store, gates = Store(), [threading.Event() for _ in range(3)]
    with site(store) as s:
        original = s.save(40)
        store.before_read = lambda _slots, layer: assert_set(gates[layer])
        job = s.movement.load(Tier.HOST, numbers(40), numbers(40))
        for layer in range(3):
            assert not job.wait_layer(layer, 0.01)
            gates[layer].set()
            assert job.wait_layer(layer, WAIT_S)
            assert torch.equal(s.arena.values[layer, :, :40], original[layer])
            assert not s.arena.values[layer + 1 :].any()


def assert_set(gate: threading.Event) -> None:
    assert gate.wait(WAIT_S)


def test_the_store_is_asked_for_at_most_a_chunk_of_32_blocks_at_a_time() -> None:
    store = Store()
    with site(store) as s:
        s.save(70)
        s.movement.load(Tier.HOST, numbers(70), numbers(70))
        s.settle()
    assert store.calls == [
        ("write", 32),
        ("write", 32),
        ("write", 6),
        *[("read", 32), ("read", 32), ("read", 6)] * 3,
    ]


def test_every_job_comes_out_of_poll_once_and_wakes_the_engine() -> None:
    with site(Store()) as s:
        s.save(3)
        assert s.woken.is_set()
        s.ended.clear()
        jobs: list[Job] = [s.movement.load(Tier.HOST, slots(i), slots(i)) for i in range(3)]
        jobs.append(s.movement.forget(Tier.HOST, slots(1)))
        jobs.append(s.movement.load(Tier.DISK, slots(0), slots(0)))  # there is no such tier
        s.settle()
        s.poll()
        assert sorted(map(id, s.ended)) == sorted(map(id, jobs))
        assert s.movement.num_pending == 0


def test_slots_without_a_partner_are_refused_where_they_are_given() -> None:
    with site(Store()) as s:
        with pytest.raises(ValueError, match="2 slots cannot go with 1 blocks"):
            s.movement.load(Tier.HOST, slots(0, 1), slots(0))
        with pytest.raises(ValueError, match="1 slots cannot go with 2 blocks"):
            s.movement.save(Tier.HOST, slots(0), slots(0), records(2))


def test_the_workers_leave_the_engine_its_threads() -> None:
    before, seen = torch.get_num_threads(), []
    store = Store()
    store.before_write = lambda _slots: seen.append(torch.get_num_threads())
    torch.set_num_threads(2)
    try:
        with site(disk=store) as s:
            s.save(33, Tier.DISK)
            later = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
            later.start()
            later.join()
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1, 1, 2]


def test_an_arena_that_was_made_in_inference_mode_can_be_filled() -> None:
    with site(Store()) as s:
        original = s.save(2)
        with torch.inference_mode():
            s.arena.values = torch.zeros_like(s.arena.values)
        job = s.movement.load(Tier.HOST, slots(0, 1), slots(0, 1))
        s.settle()
        assert job.num_good == 2
        assert torch.equal(s.arena.blocks(0, 1), original)


def test_a_load_of_nothing_is_a_whole_load() -> None:
    with site(Store()) as s:
        job = s.movement.load(Tier.HOST, slots(), slots())
        assert job.wait_layer(2, WAIT_S)
        s.settle()
        assert (job.num_good, job.error) == (0, None)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_cancelled_or_fails_each_job_ends_once_and_what_counts_as_good_is_right(
    seed: int,
) -> None:
    store, dice = Store(), np.random.default_rng(seed)
    with site(store) as s:
        original = s.save(60)
        for slot in dice.integers(0, 60, 3).tolist():
            store.damage(slot, int(dice.integers(0, 3)))
        fates = dice.random(5000).tolist()
        store.before_read = lambda *_: raise_io_error() if fates.pop() < 0.01 else None
        s.ended.clear()
        jobs = []
        for _ in range(150):
            first, num = int(dice.integers(0, 50)), int(dice.integers(1, 10))
            job = s.movement.load(Tier.HOST, numbers(num, first), numbers(num, start=100))
            jobs.append((first, job))
            if dice.random() < 0.3:
                job.cancel()
            if dice.random() < 0.5:
                until(lambda job=job: job.is_over)
                good = s.arena.values[:, :, 100 : 100 + job.num_good]
                assert torch.equal(good, original[:, :, first : first + job.num_good])
        s.settle()
        assert sorted(map(id, s.ended)) == sorted(id(job) for _, job in jobs)
        for _, job in jobs:
            assert (job.num_good == len(job.slots)) is (job.error is None)


# Corrupt blocks


@pytest.mark.parametrize(
    ("damages", "num_good"),
    [
        ([(5, 0)], 5),
        ([(5, 2)], 5),
        ([(50, 0), (7, 1), (40, 2)], 7),  # several parts: the shortest decides
        ([(7, 2), (50, 0)], 7),
        ([(32, 1)], 32),
        ([(0, 1)], 0),
    ],
)
def test_a_load_commits_only_the_blocks_before_the_first_that_is_corrupt_in_any_layer(
    damages: list[tuple[int, int]], num_good: int
) -> None:
    store = Store()
    with site(store) as s:
        original = s.save(60)
        for slot, layer in damages:
            store.damage(slot, layer)
        job = s.movement.load(Tier.HOST, numbers(60), numbers(60))
        s.settle()
        assert (job.num_good, job.bad) == (num_good, num_good)
        assert isinstance(job.error, CorruptBlockError)
        assert not job.wait_layer(0, WAIT_S)
        assert torch.equal(s.arena.values[:, :, :num_good], original[:, :, :num_good])
        assert s.movement.num_failures[Tier.HOST] == 1
        assert len(s.events) == 1
        assert s.movement.is_alive(Tier.HOST)


def test_a_waiting_engine_hears_of_a_corrupt_block_before_the_load_is_over() -> None:
    store, gate = Store(), threading.Event()
    with site(store) as s:
        s.save(10)
        store.damage(4, 1)
        store.before_read = lambda _slots, layer: assert_set(gate) if layer == 2 else None
        job = s.movement.load(Tier.HOST, numbers(10), numbers(10))
        assert not job.wait_layer(2, 2 * WAIT_S)  # longer than the store holds out
        assert (job.is_over, job.bad) == (False, 4)
        gate.set()
        s.settle()
        assert job.num_good == 4


def test_a_save_from_a_tier_ends_before_a_block_that_is_corrupt_there() -> None:
    host, disk = Store(), Store()
    with site(host, disk) as s:
        original = s.save(60)
        host.damage(40, 2)
        job = s.movement.save(
            Tier.DISK, slots(), numbers(60), records(60), source=Tier.HOST, source_slots=numbers(60)
        )
        s.settle()
        assert (job.num_saved, job.bad) == (40, 40)
        load = s.movement.load(Tier.DISK, numbers(40), numbers(40))
        s.settle()
        assert load.num_good == 40
        assert torch.equal(s.arena.values[:, :, :40], original[:, :, :40])
        with pytest.raises(CorruptBlockError):
            disk.read_layer(slots(40), 0)


# Failing and hanging stores


def test_a_block_that_the_index_knows_but_the_disk_cannot_read_is_a_miss_asked_for_once() -> None:
    store = Store()
    with site(store) as s:
        s.save(4)
        store.before_read = raise_io_error
        store.calls.clear()
        job = s.movement.load(Tier.HOST, numbers(4), numbers(4))
        assert not job.wait_layer(0, WAIT_S)
        s.settle()
        assert isinstance(job.error, OSError)
        assert (job.num_good, job.is_over) == (0, True)
        assert store.calls == [("read", 4)]
        assert s.movement.num_failures[Tier.HOST] == 1
        assert s.events == ["the host tier failed: [Errno 5] unreadable"]
        assert s.movement.is_alive(Tier.HOST)


def raise_io_error(*_: object) -> None:
    raise OSError(5, "unreadable")


def test_a_save_that_fails_in_its_second_chunk_keeps_the_first() -> None:
    store = Store()
    store.before_write = lambda slots: raise_io_error() if 32 in slots else None
    with site(store) as s:
        s.arena.fill(70)
        job = s.movement.save(Tier.HOST, numbers(70), numbers(70), records(70))
        s.settle()
        assert isinstance(job.error, OSError)
        assert job.num_saved == 32
        assert store.calls == [("write", 32), ("write", 32)]


def test_a_tier_that_fails_three_times_in_a_row_is_left_alone_for_a_pause_that_doubles() -> None:
    store, clock = Store(), Clock()
    with site(store, clock=clock) as s:
        s.save(1)
        store.before_read = raise_io_error

        def load() -> Job:
            job = s.movement.load(Tier.HOST, slots(0), slots(0))
            s.settle()
            return job

        for expected in (True, True, False):
            load()
            assert s.movement.is_alive(Tier.HOST) is expected
        store.calls.clear()
        assert isinstance(load().error, TierError)  # refused
        assert (store.calls, s.movement.num_failures[Tier.HOST]) == ([], 3)
        for pause_s in (1, 2, 4):
            clock.now += pause_s - 0.01
            assert not s.movement.is_alive(Tier.HOST)
            clock.now += 0.02
            assert s.movement.is_alive(Tier.HOST)
            load()  # one trial
        assert store.calls == [("read", 1)] * 3
        store.before_read = lambda *_: None
        clock.now += 8.01
        assert load().error is None
        store.before_read = raise_io_error
        load()
        assert s.movement.is_alive(Tier.HOST)


def test_a_hung_read_turns_its_tier_off_while_the_other_goes_on_and_touches_nothing_once_given_up() -> None:
    host, disk, gate, clock = Store(), Store(), threading.Event(), Clock()
    with site(host, disk, deadline_s=5.0, clock=clock) as s:
        s.save(2)
        s.save(2, Tier.DISK)
        disk.before_read = lambda _slots, layer: assert_set(gate) if layer == 1 else None
        hung = s.movement.load(Tier.DISK, slots(0, 1), slots(10, 11))
        queued = s.movement.load(Tier.DISK, slots(0), slots(12))
        assert hung.wait_layer(0, WAIT_S)
        assert not hung.is_overdue(clock.now + 5.0)
        clock.now += 5.1
        assert hung.is_overdue(clock.now)
        s.poll()
        s.poll()
        assert len(s.events) == 1
        assert "disk tier has not answered for 5 s" in s.events[0]
        assert [s.movement.is_alive(tier) for tier in (Tier.HOST, Tier.DISK)] == [True, False]

        other = s.movement.load(Tier.HOST, slots(0, 1), slots(20, 21))
        until(lambda: other.is_over)
        assert other.num_good == 2

        hung.cancel()
        queued.cancel()
        assert (hung.is_over, queued.is_over) == (False, True)
        clock.now += 100
        assert not s.movement.is_alive(Tier.DISK)  # the pause is over, but it still hangs
        gate.set()
        s.settle()
        assert isinstance(hung.error, GivenUpError)
        assert (hung.num_good, hung.is_over, hung.is_overdue(clock.now)) == (0, True, False)
        assert not s.arena.values[1:, :, 10:13].any()
        assert s.movement.is_alive(Tier.DISK)
        assert s.movement.num_failures == {Tier.HOST: 0, Tier.DISK: 1}


def test_a_load_goes_before_the_next_chunk_of_a_save() -> None:
    store, gate = Store(), threading.Event()
    with site(store) as s:
        s.save(5)
        store.calls.clear()
        store.before_write = lambda _slots: assert_set(gate)
        s.movement.save(Tier.HOST, numbers(64, start=64), numbers(64, start=64), records(64))
        until(lambda: store.calls == [("write", 32)])
        s.movement.load(Tier.HOST, numbers(5), numbers(5))
        gate.set()
        s.settle()
    assert store.calls == [("write", 32), ("read", 5), ("read", 5), ("read", 5), ("write", 32)]


def test_forgetting_keeps_its_place_between_the_saves_around_it() -> None:
    store = Store()
    with site(store) as s:
        original = s.arena.fill(2)
        s.movement.save(Tier.HOST, slots(0), slots(0), records(1))
        s.movement.forget(Tier.HOST, slots(0))
        s.movement.save(Tier.HOST, slots(1), slots(0), records(1))
        s.movement.save(Tier.HOST, slots(0), slots(1), records(1))
        s.movement.forget(Tier.HOST, slots(1))
        s.settle()
        kept = s.movement.load(Tier.HOST, slots(0), slots(5))
        lost = s.movement.load(Tier.HOST, slots(1), slots(6))
        s.settle()
        assert (kept.num_good, lost.num_good) == (1, 0)
        assert torch.equal(s.arena.blocks(5), original[:, :, 1:])


def test_forgetting_waits_for_all_chunks_of_the_save_before_it() -> None:
    store = Store()
    with site(store) as s:
        s.movement.save(Tier.HOST, numbers(64), numbers(64), records(64))
        s.movement.forget(Tier.HOST, slots(63))
        s.settle()
        with pytest.raises(CorruptBlockError):
            store.read_layer(slots(63), 0)


def test_an_answer_that_comes_too_late_does_not_end_the_pause() -> None:
    store, gate, clock = Store(), threading.Event(), Clock()
    with site(store, deadline_s=5.0, clock=clock) as s:
        s.save(1)
        store.before_read = lambda *_: assert_set(gate)
        job = s.movement.load(Tier.HOST, slots(0), slots(0))
        until(lambda: ("read", 1) in store.calls)
        clock.now += 6
        assert not s.movement.is_alive(Tier.HOST)
        gate.set()
        s.settle()
        assert (job.num_good, job.error) == (1, None)  # nobody gave it up
        clock.now += 0.9
        assert not s.movement.is_alive(Tier.HOST)
        clock.now += 0.2
        assert s.movement.is_alive(Tier.HOST)


def test_a_job_that_is_cancelled_twice_ends_once() -> None:
    store, gate = Store(), threading.Event()
    with site(store) as s:
        s.save(1)
        s.ended.clear()
        store.before_read = lambda *_: assert_set(gate)
        s.movement.load(Tier.HOST, slots(0), slots(0))
        until(lambda: ("read", 1) in store.calls)
        waiting = s.movement.load(Tier.HOST, slots(0), slots(1))
        waiting.cancel()
        waiting.cancel()
        assert s.poll()
        assert s.ended == [waiting]
        assert s.movement.num_pending == 1
        gate.set()
        s.settle()
        assert len(s.ended) == 2


def test_a_cancelled_save_keeps_the_chunks_that_it_wrote() -> None:
    store, gate = Store(), threading.Event()
    store.before_write = lambda _slots: assert_set(gate)
    with site(store) as s:
        job = s.movement.save(Tier.HOST, numbers(64), numbers(64), records(64))
        until(lambda: store.calls == [("write", 32)])
        job.cancel()
        assert not job.is_over
        gate.set()
        s.settle()
        assert isinstance(job.error, GivenUpError)
        assert job.num_saved == 32


def test_closing_ends_what_waits_and_closes_the_stores() -> None:
    store, gate = Store(), threading.Event()
    with site(store) as s:
        s.save(1)
        store.before_read = lambda *_: assert_set(gate)
        running = s.movement.load(Tier.HOST, slots(0), slots(1))
        until(lambda: ("read", 1) in store.calls)
        waiting = s.movement.load(Tier.HOST, slots(0), slots(2))
        assert not s.movement.close(0.05)  # it hangs
        late = s.movement.load(Tier.HOST, slots(0), slots(3))
        gate.set()
        assert s.movement.close(WAIT_S)
        assert store.is_closed
        assert running.num_good == 1
        assert all(isinstance(job.error, TierError) for job in (waiting, late))
        s.settle()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_our_own_in_a_worker_ends_its_jobs_and_its_tier_but_nothing_else() -> None:
    store = Store()
    with site(store, Store()) as s:
        s.save(1)
        store.before_read = lambda *_: pytest.fail("a bug")
        job = s.movement.load(Tier.HOST, slots(0), slots(0))
        s.settle()
        assert isinstance(job.error, TierError)
        until(lambda: not s.movement.is_alive(Tier.HOST))
        assert isinstance(s.movement.load(Tier.HOST, slots(0), slots(0)).error, TierError)
        assert s.movement.is_alive(Tier.DISK)


# What a load costs


def test_loading_is_worth_it_exactly_where_it_takes_less_time_than_computing() -> None:
    # 128 blocks of 368,640 bytes at 1 GB/s and 10 ms: 57.2 ms; 2,048 tokens at 100 µs: 204.8 ms, at 25 µs: 51.2.
    assert worth_loading(128, 368_640, 1e-9, 0.010, 100e-6, 16)
    assert not worth_loading(128, 368_640, 1e-9, 0.010, 25e-6, 16)
    # The latency outweighs one block (1.6 ms to compute), not a hundred.
    assert not worth_loading(1, 368_640, 1e-9, 0.010, 100e-6, 16)
    assert worth_loading(100, 368_640, 1e-9, 0.010, 100e-6, 16)
    assert not worth_loading(0, 368_640, 0.0, 0.0, 1.0, 16)


def test_speed_weighs_loads_by_their_bytes_and_the_last_ones_most() -> None:
    speed = Speed(5e-9)
    assert (speed.seconds_per_byte(0), speed.latency_s(0)) == (5e-9, 0.0)
    speed.measure(1000, 2.0, 0.5, now=10)
    assert (speed.seconds_per_byte(10), speed.latency_s(10)) == (0.002, 0.5)
    speed.measure(3000, 3.0, 0.0, now=20)
    assert speed.seconds_per_byte(20) == pytest.approx((0.8 * 2 + 3) / (0.8 * 1000 + 3000))
    assert speed.latency_s(20) == pytest.approx(0.4)


def test_a_load_that_was_cut_short_says_nothing_about_the_speed() -> None:
    store = Store()
    with site(disk=store) as s:
        s.save(9, Tier.DISK)
        store.damage(0, 0)
        s.movement.load(Tier.DISK, numbers(9), numbers(9))
        s.settle()
        assert s.movement.seconds_per_byte(Tier.DISK) == 1 / 200e6  # as if untried
        s.movement.load(Tier.DISK, slots(1), slots(1))
        s.settle()
        assert s.movement.seconds_per_byte(Tier.DISK) != 1 / 200e6


def test_a_slow_spell_is_forgotten_after_a_minute_so_that_the_tier_is_tried_again() -> None:
    speed = Speed(5e-9)
    speed.measure(1000, 1000.0, 9.0, now=0)
    assert speed.seconds_per_byte(60) == 1.0
    assert (speed.seconds_per_byte(60.1), speed.latency_s(60.1)) == (5e-9, 0.0)
    speed.measure(1000, 1.0, 0.0, now=100)
    assert (speed.seconds_per_byte(100), speed.latency_s(100)) == (0.001, 0.0)


def test_a_throttled_tier_is_found_to_be_slower_than_computing_and_a_fast_one_is_not() -> None:
    slow, fast = Store(), Store()
    slow.before_read = lambda slots, _layer: time.sleep(0.001 * len(slots))  # 3 ms per block of 3 layers
    with site(slow, fast) as s:
        s.save(8)
        s.save(8, Tier.DISK)

        def is_worth(tier: Tier) -> bool:
            per_byte, latency_s = s.movement.seconds_per_byte(tier), s.movement.latency_s(tier)
            return worth_loading(8, BLOCK_BYTES, per_byte, latency_s, 500e-6, 4)  # 16 ms to compute

        assert is_worth(Tier.HOST)  # not known yet: memory is fast
        for tier in (Tier.HOST, Tier.DISK):
            for _ in range(5):
                s.movement.load(tier, numbers(8), numbers(8))
                s.settle()
        assert s.movement.seconds_per_byte(Tier.HOST) > 0.003 / BLOCK_BYTES
        assert not is_worth(Tier.HOST)
        assert is_worth(Tier.DISK)


def test_a_hang_turns_a_tier_off_at_once_and_the_pause_ends_at_a_minute() -> None:
    health, now, pauses = Health(), 0.0, []
    for _ in range(8):
        assert health.hang(now)
        start = now
        while not health.is_alive(now):
            now += 0.5
        pauses.append(now - start)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]


def test_failures_of_jobs_that_were_queued_before_the_pause_do_not_lengthen_it() -> None:
    health = Health()
    assert [health.fail(0.0) for _ in range(9)] == [False, False, True, *[False] * 6]
    assert (health.is_alive(0.9), health.is_alive(1.0)) == (False, True)
