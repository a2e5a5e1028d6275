"""Two tiers that agree, whatever the store does."""

from __future__ import annotations

import asyncio
import dataclasses
import fnmatch
import hashlib

import msgspec
import pytest
from result_stores import DictStore

from openclaw_cache.errors import CorruptEntryError, StoreUnavailableError
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.result.eviction import matcher
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.memory import MemoryTier
from openclaw_cache.types import CacheKey, Entry, Namespace

NOW = 1_760_000_000.0
SECRET = b"s" * 32
TEAM, OTHER = Namespace("team"), Namespace("other")


def key(number: int) -> CacheKey:
    return CacheKey(number.to_bytes(32, "big"))


def entry(prompt: str = "hi", *, namespace: Namespace = TEAM, model: str = "m", ttl_s: float = 60) -> Entry:
    return Entry(
        reply=b'{"id":"1"}',
        model=model,
        upstream="local",
        namespace=namespace,
        created_at=NOW,
        expires_at=NOW + ttl_s,
        prompt_tokens=1,
        completion_tokens=1,
        has_usage=True,
        prompt=prompt,
    )


class Node:
    """One gateway's result cache; `degraded` lists what was counted."""

    def __init__(
        self,
        store: DictStore,
        *,
        max_pending_bytes: int = 1 << 20,
        memory_bytes: int = 1 << 20,
        exclusive: bool = False,
    ) -> None:
        self.now = NOW
        self.degraded: list[str] = []
        self.store = store
        self.keyer = Keyer(SECRET)
        self.cache = ResultCache(
            MemoryTier(memory_bytes),
            store,
            self.keyer,
            EntryCodec(SECRET),
            on_degraded=self.degraded.append,
            exclusive=exclusive,
            clock=lambda: self.now,
            max_pending_bytes=max_pending_bytes,
        )

    async def stored(self, number: int, value: Entry) -> None:
        self.cache.put(key(number), value)
        assert await self.cache.flush(5)


@pytest.fixture
def store() -> DictStore:
    return DictStore()


@pytest.fixture
def node(store: DictStore) -> Node:
    return Node(store)


async def test_what_is_put_is_in_memory_at_once_and_in_the_store_soon(node: Node) -> None:
    node.cache.put(key(1), entry())
    assert node.cache.peek(key(1), NOW) == entry()
    assert node.store.data == {}
    assert node.cache.stats().num_pending_writes == 1
    assert await node.cache.flush(5)
    assert node.store.ttls == {node.keyer.store_key(TEAM, key(1)): 60}
    assert dataclasses.astuple(node.cache.stats())[-2:] == (0, 0)


async def test_another_process_is_served_from_the_store_and_keeps_it_in_memory(node: Node) -> None:
    await node.stored(1, entry("long " * 1000))
    fresh = Node(node.store)
    assert fresh.cache.peek(key(1), NOW) is None
    found = await fresh.cache.find(TEAM, key(1))
    assert found is not None
    assert found.reply == b'{"id":"1"}'
    assert fresh.cache.peek(key(1), NOW) is found


async def test_another_namespace_does_not_reach_an_entry(node: Node) -> None:
    await node.stored(1, entry())
    assert await Node(node.store).cache.find(OTHER, key(1)) is None


async def test_an_entry_expires_by_its_creation_in_both_tiers_however_often_it_is_hit(node: Node) -> None:
    await node.stored(1, entry(ttl_s=10))
    for at in range(10):
        node.now = NOW + at
        assert node.cache.peek(key(1), node.now) is not None
        assert await Node(node.store).cache.find(TEAM, key(1)) is not None
    assert node.cache.peek(key(1), NOW + 10) is None
    late = Node(node.store)
    late.now = NOW + 10
    assert await late.cache.find(TEAM, key(1)) is None
    assert late.degraded == []


async def test_a_corrupt_entry_is_told_counted_removed_and_replaced_by_the_next_put(node: Node) -> None:
    await node.stored(1, entry())
    place = node.keyer.store_key(TEAM, key(1))
    node.store.data[place] = node.store.data[place][:-1] + b"?"
    fresh = Node(node.store)
    with pytest.raises(CorruptEntryError):
        await fresh.cache.find(TEAM, key(1))
    assert fresh.degraded == ["entry_corrupt"]
    assert node.store.data == {}
    assert await fresh.cache.find(TEAM, key(1)) is None
    await fresh.stored(1, entry())
    assert await Node(node.store).cache.find(TEAM, key(1)) is not None


async def test_an_entry_copied_to_another_place_in_the_store_is_not_served(node: Node) -> None:
    await node.stored(1, entry())
    node.store.data[node.keyer.store_key(TEAM, key(2))] = node.store.data[node.keyer.store_key(TEAM, key(1))]
    with pytest.raises(CorruptEntryError):
        await node.cache.find(TEAM, key(2))
    assert node.degraded == ["entry_corrupt"]


async def test_a_store_that_is_down_or_full_fails_no_write_and_tells_who_reads(node: Node) -> None:
    node.store.full = True
    await node.stored(1, entry())
    node.store.full, node.store.down = False, True
    await node.stored(2, entry())
    with pytest.raises(StoreUnavailableError):
        await node.cache.find(TEAM, key(3))
    assert node.degraded == ["store_full", "store_unavailable"]  # who reads counts a failed look-up
    assert node.cache.peek(key(1), NOW) is not None
    assert node.cache.peek(key(2), NOW) is not None


async def test_pending_writes_are_bounded_in_bytes_and_the_rest_stays_in_memory_only(
    store: DictStore,
) -> None:
    node = Node(store, max_pending_bytes=1000)
    store.gates["put"] = asyncio.Event()
    for number in range(20):
        node.cache.put(key(number), entry())
    pending = node.cache.stats()
    assert 0 < pending.pending_bytes <= 1000
    assert node.degraded == ["write_overflow"] * (20 - pending.num_pending_writes)
    assert not await node.cache.flush(0.01)
    store.gates["put"].set()
    assert await node.cache.flush(5)
    assert len(store.data) == pending.num_pending_writes
    assert all(node.cache.peek(key(number), NOW) for number in range(20))


async def test_a_slow_read_does_not_put_an_older_entry_over_a_newer_one(node: Node) -> None:
    await node.stored(1, entry("older"))
    fresh = Node(node.store)
    fresh.store.gates["get"] = asyncio.Event()
    read = asyncio.create_task(fresh.cache.find(TEAM, key(1)))
    await asyncio.sleep(0.01)
    fresh.cache.put(key(1), entry("newer"))
    fresh.store.gates["get"].set()
    await read
    found = fresh.cache.peek(key(1), NOW)
    assert found is not None
    assert found.prompt == "newer"


async def test_an_entry_too_large_for_memory_is_still_served_by_the_store(store: DictStore) -> None:
    node = Node(store, memory_bytes=10_000)
    await node.stored(1, msgspec.structs.replace(entry(), reply=b"x" * 5_000))
    assert node.cache.peek(key(1), NOW) is None
    assert await node.cache.find(TEAM, key(1)) is not None


# a store of our own


def spread(number: int) -> CacheKey:
    """A key as uniform as a hash: those of `key` look all the same to a filter."""
    return CacheKey(hashlib.sha256(str(number).encode()).digest())


async def test_a_store_of_our_own_is_asked_only_for_what_it_may_hold(store: DictStore) -> None:
    before = Node(store, exclusive=True)
    before.cache.put(spread(1), entry())
    assert await before.cache.aclose(5)

    node = Node(store, exclusive=True)
    assert (
        await node.cache.find(TEAM, spread(9)) is None
    )  # nothing is known yet: this asks, and starts a scan
    await asyncio.sleep(0.01)
    store.calls.clear()
    assert [await node.cache.find(TEAM, spread(number)) for number in range(2, 50)] == [None] * 48
    assert store.calls == []
    assert await node.cache.find(TEAM, spread(1)) == entry()
    assert store.calls == ["get"]


async def test_what_was_put_into_a_store_of_our_own_is_found_there_when_memory_has_dropped_it(
    store: DictStore,
) -> None:
    node = Node(store, exclusive=True, memory_bytes=0)
    assert await node.cache.find(TEAM, spread(0)) is None
    for number in range(20):  # before, during and after the scan
        node.cache.put(spread(number), entry(f"{number}"))
        await asyncio.sleep(0)
    assert await node.cache.flush(5)
    found = [await node.cache.find(TEAM, spread(number)) for number in range(20)]
    assert found == [entry(f"{number}") for number in range(20)]
    report = await node.cache.evict("*")
    assert report.num_matched == 20
    assert [await node.cache.find(TEAM, spread(number)) for number in range(20)] == [None] * 20


async def test_a_store_of_our_own_that_is_down_costs_nothing_for_what_it_does_not_hold(
    store: DictStore,
) -> None:
    node = Node(store, exclusive=True)
    await node.cache.find(TEAM, spread(9))
    await asyncio.sleep(0.01)
    store.down = True
    assert await node.cache.find(TEAM, spread(1)) is None
    assert node.degraded == []  # nothing was lost
    node.cache.put(spread(1), entry())
    assert await node.cache.flush(5)
    assert node.degraded == ["store_unavailable"]


async def test_closing_writes_what_is_pending_and_ends_the_scan(store: DictStore) -> None:
    node = Node(store, exclusive=True)
    store.gates["scan"] = asyncio.Event()
    await node.cache.find(TEAM, spread(9))
    node.cache.put(spread(1), entry())
    assert await node.cache.aclose(5)
    assert await node.cache.aclose(5)
    assert len(store.data) == 1
    assert len(asyncio.all_tasks()) == 1


# evict


CORPUS = [
    entry("tell me about finance today"),
    entry("first line\nfinance in the second\nthird"),
    entry("Finance with a capital"),
    entry("cats " * 1000 + "finance" + " dogs" * 1000),
    entry("nothing", model="finance-model-7b"),
    entry("nothing", namespace=Namespace("finance-team")),
    entry("nothing at all"),
    entry("[finance]", namespace=OTHER),
]


async def filled(node: Node) -> None:
    for number, value in enumerate(CORPUS):
        await node.stored(number, value)


def served(node: Node) -> set[int]:
    return {number for number in range(len(CORPUS)) if node.cache.peek(key(number), NOW)}


@pytest.mark.parametrize(
    ("pattern", "namespace", "matched"),
    [
        ("*finance*", None, {0, 1, 3, 4, 5, 7}),
        ("*finance*", TEAM, {0, 1, 3, 4}),
        ("*[Ff]inance*", OTHER, {7}),
        ("finance*", None, {4, 5}),
        ("m", None, {0, 1, 2, 3, 5, 6, 7}),
        ("other", None, {7}),
        ("nothing", None, {4, 5}),
        ("*Finance*", None, {2}),
        ("??thing", None, {4, 5}),
        ("*", OTHER, {7}),
        ("*absent*", None, set()),
    ],
)
async def test_evict_removes_what_matches_model_namespace_or_prompt_from_both_tiers(
    node: Node, pattern: str, namespace: Namespace | None, matched: set[int]
) -> None:
    everything = set(range(len(CORPUS)))
    for value in (CORPUS[number] for number in matched):
        assert any(
            fnmatch.fnmatchcase(text, pattern) for text in (value.model, value.namespace, value.prompt)
        )
    await filled(node)

    told = await node.cache.evict(pattern, namespace=namespace, dry_run=True)
    assert told.num_matched == len(matched)
    assert served(node) == everything
    assert len(node.store.data) == len(everything)

    report = await node.cache.evict(pattern, namespace=namespace)
    assert (report.num_matched, report.memory_bytes, report.store_bytes) == (
        told.num_matched,
        told.memory_bytes,
        told.store_bytes,
    )
    assert sum(report.num_by_model.values()) == len(matched)
    assert served(node) == everything - matched
    fresh = Node(node.store)
    found = {n for n, value in enumerate(CORPUS) if await fresh.cache.find(value.namespace, key(n))}
    assert found == everything - matched


async def test_evict_finds_entries_that_only_one_tier_holds(node: Node) -> None:
    node.store.full = True
    await node.stored(1, entry("finance in memory"))
    node.store.full = False
    await Node(node.store).stored(2, entry("finance in the store"))
    report = await node.cache.evict("*finance*")
    assert report.num_matched == 2
    assert node.cache.peek(key(1), NOW) is None
    assert node.store.data == {}


async def test_a_report_shows_a_bounded_sample_and_no_text(node: Node) -> None:
    for number in range(50):
        await node.stored(number, entry(f"finance {number}"))
    report = await node.cache.evict("*finance*", dry_run=True)
    assert (report.num_matched, len(report.sample)) == (50, 20)
    assert "finance" not in repr(report)


async def test_a_pending_write_does_not_bring_an_evicted_entry_back(node: Node) -> None:
    node.store.gates["put"] = asyncio.Event()
    node.cache.put(key(1), entry("finance"))
    evict = asyncio.create_task(node.cache.evict("*finance*"))
    await asyncio.sleep(0.01)
    node.store.gates["put"].set()
    report = await evict
    await node.cache.flush(5)
    assert report.num_matched == 1
    assert node.store.data == {}
    assert node.cache.peek(key(1), NOW) is None


@pytest.mark.parametrize("read_first", [True, False])
async def test_a_read_that_crosses_an_evict_does_not_bring_the_entry_back(
    node: Node, read_first: bool
) -> None:
    await node.stored(1, entry("finance"))
    fresh = Node(node.store)
    fresh.store.gates = {"get": asyncio.Event(), "scan": asyncio.Event()}
    if read_first:
        read = asyncio.create_task(fresh.cache.find(TEAM, key(1)))
        await asyncio.sleep(0.01)
    evict = asyncio.create_task(fresh.cache.evict("*finance*"))
    await asyncio.sleep(0.01)
    if not read_first:
        read = asyncio.create_task(fresh.cache.find(TEAM, key(1)))
        await asyncio.sleep(0.01)
        fresh.store.gates["get"].set()
        await read
    fresh.store.gates["scan"].set()
    await evict
    fresh.store.gates["get"].set()
    await read
    assert fresh.cache.peek(key(1), NOW) is None
    assert await fresh.cache.find(TEAM, key(1)) is None


async def test_evict_with_the_store_down_clears_memory_and_does_not_claim_success(node: Node) -> None:
    await filled(node)
    node.store.down = True
    with pytest.raises(StoreUnavailableError):
        await node.cache.evict("*")
    assert served(node) == set()
    node.store.down = False
    await node.stored(1, entry())
    assert await Node(node.store).cache.find(TEAM, key(1)) is not None


async def test_evict_leaves_keys_of_others_in_a_shared_store_alone(node: Node) -> None:
    theirs = {b"r:sessions:42": b"x", b"r:": b"y", b"e:0001": b"z", b"sessions": b"s"}
    node.store.data |= theirs
    await filled(node)
    await node.cache.evict("*")
    assert node.store.data == theirs
    assert node.degraded == []


async def test_evict_removes_and_counts_what_it_cannot_read(node: Node) -> None:
    await node.stored(1, entry())
    node.store.data[node.keyer.store_key(TEAM, key(1))] = b"junk"
    report = await Node(node.store).cache.evict("*absent*", dry_run=True)
    assert (report.num_matched, report.num_corrupt) == (0, 1)
    await node.cache.evict("*absent*")
    assert node.store.data == {}
    assert node.degraded == ["entry_corrupt"]


async def test_a_pattern_made_to_explode_does_not(node: Node) -> None:
    await node.stored(1, entry("a" * 20_000))
    report = await node.cache.evict("*a" * 12 + "b")
    assert report.num_matched == 0


def test_a_pattern_matches_a_model_by_the_name_it_was_asked_for_too() -> None:
    aliased = msgspec.structs.replace(entry(model="dated"), requested_model="latest")
    assert [matcher(pattern)(aliased) for pattern in ("dated", "latest", "l*", "other")] == [
        True,
        True,
        True,
        False,
    ]
