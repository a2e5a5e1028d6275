"""Partitions against plain dictionaries and brute force, under any order of calls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from openclaw_cache.semantic import large
from openclaw_cache.semantic.partitions import Partitions, Row
from support.stored_questions import key_of, stored
from support.vectors import grouped

POOL = grouped(24, 8, 1, num_groups=4)
names = st.integers(0, 30)
vectors = st.integers(0, len(POOL) - 1)
parts = st.sampled_from([b"a", b"a", b"b"])
spaces = st.sampled_from(["one", "one", "two", "three"])
FLOAT16_ERROR = 1e-3


@dataclass
class Held:
    row: Row
    vector: np.ndarray
    was_hit: bool = False


class PartitionsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.held: dict[bytes, Held] = {}  # in the order of the lines
        self.size_of: dict[bytes, int] = {}

    @initialize(
        max_rows=st.integers(1, 25),
        room=st.sampled_from([8_000, 60_000, 1 << 30]),
        large_from=st.sampled_from([None, 4, 10]),
    )
    def choose(self, max_rows: int, room: int, large_from: int | None) -> None:
        self.max_rows, self.room = max_rows, room
        self.partitions = Partitions(max_rows, room, large_from=large_from if large.is_available() else None)
        self.probe = Partitions(10, 1 << 30, large_from=None)  # tells what one row counts

    @rule(
        name=names,
        at=vectors,
        partition=parts,
        namespace=spaces,
        text=st.sampled_from(["short", "a much longer question about a parcel to Bergen"]),
        life=st.integers(1, 40),
    )
    def add(self, name: int, at: int, partition: bytes, namespace: str, text: str, life: int) -> None:
        row = stored(
            name,
            partition=partition,
            namespace=namespace,
            text=text,
            created_at=self.now,
            expires_at=self.now + life,
        )
        self.probe.clear()
        self.probe.add(stored("other", partition=partition), POOL[0])
        before = self.probe.memory_bytes
        self.probe.add(row, POOL[at])
        self.size_of[row.key] = self.probe.memory_bytes - before

        is_kept = self.partitions.add(row, POOL[at])
        self.held.pop(row.key, None)
        self.held[row.key] = Held(row, POOL[at])
        gone = {key for key in self.held if self.partitions.by_key(key) is None}
        while gone:
            assert self.is_over()
            victims = gone & self.victims()
            assert victims, "it gave up a row that was not the next of the greatest namespace"
            self.give_up(victims.pop(), gone)
        assert not self.is_over()
        assert is_kept == (row.key in self.held)

    def bytes_of(self) -> dict[str, int]:
        sizes: dict[str, int] = defaultdict(int)
        for key, held in self.held.items():
            sizes[held.row.namespace] += self.size_of[key]
        return sizes

    def is_over(self) -> bool:
        total = sum(self.bytes_of().values()) + 1_100 * len(
            {held.row.partition for held in self.held.values()}
        )
        return len(self.held) > self.max_rows or total > self.room

    def line(self, namespace: str) -> list[bytes]:
        return [key for key, held in self.held.items() if held.row.namespace == namespace]

    def victim(self, namespace: str) -> bytes:
        line = self.line(namespace)
        return next((key for key in line if not self.held[key].was_hit), line[0])

    def victims(self) -> set[bytes]:
        sizes = self.bytes_of()
        return {self.victim(namespace) for namespace, size in sizes.items() if size == max(sizes.values())}

    def give_up(self, victim: bytes, gone: set[bytes]) -> None:
        for key in self.line(self.held[victim].row.namespace):  # those before it are spared, and queue again
            if not self.held[key].was_hit:
                break
            held = self.held.pop(key)
            held.was_hit = False
            self.held[key] = held
        del self.held[victim]
        gone.discard(victim)

    @rule(name=names)
    def touch(self, name: int) -> None:
        self.partitions.touch(key_of(name))
        if key_of(name) in self.held:
            self.held[key_of(name)].was_hit = True

    @rule(name=names)
    def remove(self, name: int) -> None:
        assert self.partitions.remove(key_of(name)) == (key_of(name) in self.held)
        self.held.pop(key_of(name), None)

    @rule(namespace=spaces)
    def remove_where(self, namespace: str) -> None:
        doomed = self.line(namespace)
        assert self.partitions.remove_where(lambda row: row.namespace == namespace) == len(doomed)
        for key in doomed:
            del self.held[key]

    @rule(elapsed=st.integers(0, 15), is_dropped=st.booleans())
    def wait(self, elapsed: int, is_dropped: bool) -> None:
        self.now += elapsed
        if is_dropped:
            doomed = [key for key, held in self.held.items() if held.row.expires_at <= self.now]
            assert self.partitions.drop_expired(self.now) == len(doomed)
            for key in doomed:
                del self.held[key]

    @rule()
    def settle(self) -> None:
        self.partitions.settle()

    @rule(partition=parts, at=vectors, k=st.integers(1, 40))
    def nearest(self, partition: bytes, at: int, k: int) -> None:
        found = self.partitions.nearest(partition, POOL[at], k, self.now)
        valid = {
            key: float(held.vector.astype(float) @ POOL[at].astype(float))
            for key, held in self.held.items()
            if held.row.partition == partition and held.row.expires_at > self.now
        }
        assert len({row.key for row, _ in found}) == len(found) == min(k, len(valid))
        for row, cosine in found:
            assert row is self.held[row.key].row
            assert abs(cosine - valid[row.key]) < FLOAT16_ERROR
        best = sorted(valid.values(), reverse=True)[:k]
        assert all(abs(cosine - true) < FLOAT16_ERROR for (_, cosine), true in zip(found, best, strict=True))
        for key in [key for key in self.held if self.partitions.by_key(key) is None]:  # met, and expired
            assert self.held.pop(key).row.expires_at <= self.now

    @invariant()
    def the_books_agree(self) -> None:
        if not hasattr(self, "partitions"):
            return
        assert self.partitions.num_rows == len(self.held) <= self.max_rows
        assert self.partitions.num_partitions == len({held.row.partition for held in self.held.values()})
        assert self.partitions.memory_bytes <= self.room
        assert all(self.partitions.by_key(key) is held.row for key, held in self.held.items())
        if not self.held:
            assert self.partitions.memory_bytes == 0

    def teardown(self) -> None:
        if hasattr(self, "partitions"):
            self.partitions.settle()


TestPartitions = PartitionsMachine.TestCase
TestPartitions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
