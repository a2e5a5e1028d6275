"""Keys of history on real stores: every stored sum comes under the current key, and none is lost on the way."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.history.buckets import DAYS, HOURS, MINUTES, Bucket
from openclaw_cache.history.coding import Codec
from openclaw_cache.history.rekeying import StoredHistory
from openclaw_cache.history_part import HistoryPart
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.result.encryption import EntryCipher
from openclaw_cache.result.rekey import RekeyReport, rewrite
from openclaw_cache.store.remote import RemoteStore
from support.cluster_store import opened
from support.history_node import HERE, SECRET, THERE, Clock, Node
from support.own_valkey import connected, own_valkey
from support.records import NOON, answered, missed
from support.valkey_cluster import Cluster, running_cluster

KEY_A, KEY_B = (hashlib.sha256(name).digest() for name in (b"a", b"b"))
OF_A, OF_B = EntryCipher({"a": KEY_A}), EntryCipher({"b": KEY_B})
OF_B_THEN_A = EntryCipher({"b": KEY_B, "a": KEY_A})
DAY_S = 86_400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(params=["one server", "a cluster"])
async def store(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[RemoteStore]:
    if request.param == "one server":
        async with own_valkey(tmp_path) as server, connected(server, timeout_s=5.0) as running:
            yield running
        return
    await cluster.flush()
    store = await opened(cluster.url)
    yield store
    await store.aclose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def rekey(store: RemoteStore, cipher: EntryCipher, clock: Clock) -> RekeyReport:
    return await rewrite(store, StoredHistory(Codec(SECRET, cipher), wall=clock.wall), clock=clock.wall)


async def sealed(store: RemoteStore) -> dict[bytes, bytes]:
    """All that may be encrypted: sums, and what was learnt of upstreams."""
    keys = [key async for key in store.scan(b"h:") if key[:4] not in (b"h:n:", b"h:s:")]
    values = await store.get_many(keys)
    return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


async def kept(store: RemoteStore, clock: Clock, cipher: EntryCipher | None, *records: str) -> None:
    """A gateway that is stopped after it has kept these."""
    node = Node(store, clock, cipher=cipher)
    for agent in records:
        node.history.add(missed(agent=agent, at=clock.now))
    node.durations.learn(missed())
    await node.keeping.flush()


async def agents(store: RemoteStore, clock: Clock, cipher: EntryCipher | None) -> dict[str, int]:
    found = await Node(store, clock, "f" * 16, cipher).last(3600, clock)
    return {name: line.num_requests for name, line in found.lines_by(1).items()}


async def test_everything_kept_comes_under_the_current_key_and_is_read_without_the_older_one(
    store: RemoteStore, clock: Clock
) -> None:
    await kept(store, clock, OF_A, "heron", "heron", "stork")
    clock.pass_by(60)
    await kept(store, clock, OF_A, "crane")
    # Two minutes, one hour, one day, and what was learnt.
    assert await rekey(store, OF_B_THEN_A, clock) == RekeyReport(num_rewritten=5)
    assert {value[:6] for value in (await sealed(store)).values()} == {b"oce\x02\x01b"}
    assert await rekey(store, OF_B_THEN_A, clock) == RekeyReport(num_current=5)
    assert await agents(store, clock, OF_B) == {"heron": 2, "stork": 1, "crane": 1}
    again = Node(store, clock, cipher=OF_B)
    await again.keeping.flush()
    asked = {"prompt_tokens": 90, "completion_tokens": 20, "took_s": 1.0}
    assert again.durations.saved_s("oa", "gpt-heron", **asked) == 1.0  # type: ignore[arg-type]


async def test_what_was_kept_before_encryption_names_nobody_after_a_rekey(
    store: RemoteStore, clock: Clock
) -> None:
    node = Node(store, clock)
    node.history.add(missed(agent="a-very-secret-agent"))
    await node.keeping.flush()
    assert await rekey(store, OF_A, clock) == RekeyReport(num_rewritten=3)
    for value in (await sealed(store)).values():
        assert value[:6] == b"oce\x02\x01a"
        assert b"secret" not in value
    assert await agents(store, clock, OF_A) == {"a-very-secret-agent": 1}


async def test_history_that_is_no_longer_kept_is_rewritten_too(store: RemoteStore, tmp_path: Path) -> None:
    clock = Clock()
    clock.now = time.time()
    await kept(store, clock, OF_A, "heron")
    part = HistoryPart(
        tmp_path / "data",
        store,
        SECRET,
        OF_B_THEN_A,
        Metrics(),
        [],
        is_kept=False,
        may_use_store=lambda: True,
        on_degraded=lambda _what: None,
    )
    assert await part.rekey() == RekeyReport(num_rewritten=4)
    assert await agents(store, clock, OF_B) == {"heron": 1}


async def test_what_cannot_be_read_is_counted_and_left_as_it_is(store: RemoteStore, clock: Clock) -> None:
    await kept(store, clock, OF_A, "heron")
    damaged = Bucket.of(DAYS, NOON).key(THERE)
    await store.put(damaged, b"och\x01 torn")
    await store.put(b"h:not-ours", b"anything")
    before = await sealed(store)
    assert await rekey(store, OF_B, clock) == RekeyReport(num_unreadable=5)
    assert await sealed(store) == before
    assert await rekey(store, OF_B_THEN_A, clock) == RekeyReport(num_rewritten=4, num_unreadable=1)
    assert (await sealed(store))[damaged] == b"och\x01 torn"


async def test_sums_that_are_to_be_removed_do_not_stay_when_they_are_written_once_more(
    store: RemoteStore, clock: Clock
) -> None:
    class Noting:
        """A store that notes which keys are written with an expiry."""

        def __init__(self) -> None:
            self.scan, self.get_many = store.scan, store.get_many
            self.lives: dict[Bucket | None, float | None] = {}

        async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
            self.lives[Bucket.named(key)] = ttl_s
            await store.put(key, value, ttl_s)

    await kept(store, clock, OF_A, "heron")
    clock.pass_by(36 * DAY_S)
    noting, history = Noting(), StoredHistory(Codec(SECRET, OF_B_THEN_A), wall=clock.wall)
    await rewrite(noting, history, clock=clock.wall)  # type: ignore[arg-type]
    # The minute and the hour are over: somebody may remove them just before they are written, and does so once.
    assert noting.lives == {
        None: None,  # what was learnt of upstreams
        Bucket.of(DAYS, NOON): None,
        Bucket.of(HOURS, NOON): pytest.approx(35 * DAY_S),
        Bucket.of(MINUTES, NOON): pytest.approx(25 * 3600),
    }


async def test_a_rekey_by_a_clock_that_is_far_ahead_loses_nothing_with_the_older_key(
    store: RemoteStore, clock: Clock
) -> None:
    await kept(store, clock, OF_A, "heron")
    ahead = Clock()
    ahead.pass_by(1000 * DAY_S)
    assert await rekey(store, OF_B_THEN_A, ahead) == RekeyReport(num_rewritten=4)
    assert await agents(store, clock, OF_B) == {"heron": 1}


class _Meddling:
    """A store in which a gateway writes once, between the last look at what is rewritten and the rewriting."""

    def __init__(self, store: RemoteStore, gateway: Node) -> None:
        self._store, self._gateway = store, gateway
        self._num_looks = 0
        self.scan = store.scan

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        found = await self._store.get_many(keys)
        self._num_looks += 1
        if self._num_looks == 2:
            await self._gateway.keeping.flush()
        return found

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        assert ttl_s is None, "history does not expire"
        await self._store.put(key, value)


@pytest.mark.parametrize("earlier", [OF_A, None], ids=["an older key", "no key"])
async def test_what_a_gateway_writes_at_the_very_moment_is_not_lost(
    store: RemoteStore, clock: Clock, earlier: EntryCipher | None
) -> None:
    before = Node(store, clock, cipher=earlier)
    before.history.add(missed())
    await before.keeping.flush()
    # The same gateway, restarted with the new key: it adds to the same minute, hour and day.
    now = Node(store, clock, cipher=OF_B_THEN_A)
    now.history.add(answered())
    meddling = _Meddling(store, now)
    codec = Codec(SECRET, OF_B_THEN_A)
    report = await rewrite(meddling, StoredHistory(codec, wall=clock.wall))  # type: ignore[arg-type]
    assert report == RekeyReport(num_rewritten=3)
    clock.pass_by(6)
    for reader in (now, Node(store, clock, THERE, OF_B)):
        found = await reader.last(3600, clock)
        assert (found.num_requests, found.line().spent, found.line().saved) == (2, 700, 500)
        assert found.nodes == {HERE}  # one gateway, whatever keys it had


async def test_a_rekey_that_is_broken_off_goes_on_where_it_was(store: RemoteStore, clock: Clock) -> None:
    node = Node(store, clock, cipher=OF_A)
    for _ in range(20):
        clock.pass_by(60)
        node.history.add(missed(at=clock.now))
    await node.keeping.flush()

    def break_off(_: RekeyReport) -> None:
        raise StoreUnavailableError("broken off after the first batch")

    history = StoredHistory(Codec(SECRET, OF_B_THEN_A), wall=clock.wall)
    with pytest.raises(StoreUnavailableError):
        await rewrite(store, history, on_progress=break_off)
    assert await rekey(store, OF_B_THEN_A, clock) == RekeyReport(num_rewritten=6, num_current=16)
    assert await agents(store, clock, OF_B) == {"heron": 20}


@pytest.mark.parametrize(
    ("first", "second"),
    [(OF_A, OF_B), (OF_A, None), (None, OF_A), (OF_A, EntryCipher({"a": KEY_B}))],
    ids=["another key", "no key", "its first key", "another key of the same name"],
)
async def test_sums_under_a_key_that_a_gateway_lacks_are_there_when_it_has_the_key_again(
    store: RemoteStore, clock: Clock, first: EntryCipher | None, second: EntryCipher | None
) -> None:
    for cipher, agent in ((first, "heron"), (second, "stork"), (first, "heron")):
        node = Node(store, clock, cipher=cipher)
        for _ in range(2):
            node.history.add(answered(agent=agent))
            await node.keeping.flush()
        clock.pass_by(1)
    assert (await agents(store, clock, first))["heron"] == 4
    assert (await agents(store, clock, second))["stork"] == 2


async def test_what_was_learnt_under_a_key_that_a_gateway_lacks_is_not_replaced(
    store: RemoteStore, clock: Clock
) -> None:
    for cipher, took_s in ((OF_A, 4.0), (OF_B, 9.0)):
        node = Node(store, clock, cipher=cipher)
        node.durations.learn(missed(duration_s=took_s))
        await node.keeping.flush()
    again = Node(store, clock, cipher=OF_A)
    await again.keeping.flush()
    asked = {"prompt_tokens": 90, "completion_tokens": 20, "took_s": 1.0}
    assert again.durations.saved_s("oa", "gpt-heron", **asked) == 3.0  # type: ignore[arg-type]


async def test_sums_whose_key_was_taken_back_after_a_rekey_are_not_overwritten(
    store: RemoteStore, clock: Clock
) -> None:
    await kept(store, clock, OF_A, "heron")
    await rekey(store, OF_B_THEN_A, clock)
    await kept(store, clock, OF_A, "stork")  # with the older key alone, under the name that it had before
    assert await agents(store, clock, OF_A) == {"stork": 1}
    assert await agents(store, clock, OF_B_THEN_A) == {"heron": 1, "stork": 1}


async def test_sums_that_a_gateway_cannot_read_are_not_overwritten_when_its_clock_goes_back_to_them(
    store: RemoteStore, clock: Clock
) -> None:
    await kept(store, clock, None, "heron")
    await rekey(store, OF_A, clock)  # now under the key, by the name that a gateway without one has
    without = Node(store, clock)
    clock.pass_by(2 * DAY_S)
    without.history.add(missed(agent="stork", at=clock.now))
    await without.keeping.flush()
    clock.now -= 2 * DAY_S
    without.history.add(missed(agent="crane", at=clock.now))
    await without.keeping.flush()
    assert await agents(store, clock, OF_A) == {"heron": 1}
    assert set((await without.last(3600, clock)).lines_by(1)) == {"crane"}  # as long as it runs


class _PartlyAway:
    """A cluster of which the node that has some of the keys is away."""

    def __init__(self, store: RemoteStore, away: Sequence[bytes]) -> None:
        self.away, self._store = away, store
        self.add, self.delete = store.add, store.delete

    def _ask(self, keys: Sequence[bytes]) -> None:
        if set(keys) & set(self.away):
            raise StoreUnavailableError("a node of the cluster is away")

    async def get(self, key: bytes) -> bytes | None:
        self._ask([key])
        return await self._store.get(key)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._ask(keys)
        return await self._store.get_many(keys)

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        self._ask([key])
        await self._store.put(key, value, ttl_s)


async def test_a_gateway_that_starts_while_a_node_of_the_cluster_is_away_writes_what_the_others_take(
    store: RemoteStore, clock: Clock
) -> None:
    hour, day = (Bucket.of(resolution, NOON).key(HERE) for resolution in (HOURS, DAYS))
    partly = _PartlyAway(store, [hour])
    node = Node(partly, clock)  # type: ignore[arg-type]
    node.history.add(missed())
    await node.keeping.flush()
    assert (await store.get(hour), await store.get(day) is not None) == (None, True)
    partly.away = []
    await node.keeping.flush()
    assert await store.get(hour) is not None
