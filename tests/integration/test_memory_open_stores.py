"""Many agents, few open files: who gets which store, which are closed, and what the list of agents says."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.open_stores import STORE_BYTES, OpenStore, OpenStores, StoreFiles
from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.testing.memory_samples import memory, message, turn

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET, KEY = b"s" * 32, bytes(range(32))
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])
UNBOUNDED = 1 << 60


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def files_in(folder: Path, key: bytes | None = None) -> StoreFiles:
    return StoreFiles(folder / "agents", SECRET, key)


def stores_in(
    folder: Path,
    key: bytes | None = None,
    *,
    max_open: int = 64,
    max_bytes: int = UNBOUNDED,
    clock: Clock | None = None,
) -> OpenStores:
    return OpenStores(files_in(folder, key), max_open=max_open, max_bytes=max_bytes, clock=clock or Clock())


def acquired(stores: OpenStores, agent: str, namespace: str = "team") -> OpenStore:
    opened = stores.acquire(namespace, agent, create=True)
    assert opened is not None
    return opened


def tell(stores: OpenStores, agent: str, *texts: str, namespace: str = "team") -> None:
    opened = acquired(stores, agent, namespace)
    opened.store.put([memory(f"m{number}", text) for number, text in enumerate(texts)])
    stores.release(opened)


def told(stores: OpenStores, agent: str, namespace: str = "team") -> list[str]:
    opened = acquired(stores, agent, namespace)
    texts = [found.text for found in opened.store.page("", 100, Filter())]
    stores.release(opened)
    return texts


def num_open_files(folder: Path) -> int:
    count = 0
    for descriptor in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{descriptor}"
        count += os.path.lexists(path) and os.readlink(path).startswith(str(folder))
    return count


@pytest.fixture
def ram_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that need not wait for a disk, where there is one."""
    ram = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=ram if os.access(ram, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.mark.parametrize(("key", "num_agents"), [(None, 100), (KEY, 1000)], ids=["plain", "encrypted"])
def test_1000_agents_with_16_open_are_all_readable(
    ram_folder: Path, key: bytes | None, num_agents: int
) -> None:
    """Open files stay bounded by three for each open store; each agent has its own and nobody else's."""
    stores = stores_in(ram_folder, key, max_open=16)
    for number in range(num_agents):
        tell(stores, f"agent {number}", f"the text of {number}")
        if number % 100 == 99:
            assert stores.num_open == 16
            assert num_open_files(ram_folder) <= 3 * 16 + 3
    order = list(range(num_agents))
    random.Random(5).shuffle(order)
    for number in order:
        assert told(stores, f"agent {number}") == [f"the text of {number}"]
    assert num_open_files(ram_folder) <= 3 * 16 + 3
    rows = stores.agents("team")
    assert [row.agent for row in rows] == sorted(f"agent {number}" for number in range(num_agents))
    assert {row.num_memories for row in rows} == {1}
    stores.close()
    assert num_open_files(ram_folder) == 0


def test_two_asks_for_one_agent_give_one_store(tmp_path: Path) -> None:
    stores = stores_in(tmp_path)
    one, two = acquired(stores, "main"), acquired(stores, "main")
    assert one is two
    assert acquired(stores, "other") is not one
    assert acquired(stores, "main", "another team") is not one
    assert stores.num_open == 3
    stores.release(one)
    assert acquired(stores, "main") is one
    stores.close()


def test_a_store_in_use_is_never_closed(tmp_path: Path) -> None:
    """More are open than allowed as long as they are used; afterwards the longest unused go first."""
    stores = stores_in(tmp_path, max_open=2)
    used = [acquired(stores, f"a{number}") for number in range(5)]
    assert stores.num_open == 5
    for opened in used:
        opened.store.put([memory("m")])
    for opened in used[:3]:
        stores.release(opened)
    assert stores.num_open == 2
    for opened in used[3:]:
        assert opened.store.get(["m"]) == [memory("m")]
    stores.release(used[4])
    stores.release(used[3])
    assert stores.num_open == 2
    assert acquired(stores, "a3") is used[3]
    assert acquired(stores, "a0") is not used[0]
    stores.close()


def test_the_longest_unused_is_closed_first(tmp_path: Path) -> None:
    stores = stores_in(tmp_path, max_open=3)
    first = {agent: acquired(stores, agent) for agent in "abc"}
    for opened in first.values():
        stores.release(opened)
    stores.release(acquired(stores, "a"))
    stores.release(acquired(stores, "d"))
    assert acquired(stores, "a") is first["a"]
    assert acquired(stores, "c") is first["c"]
    assert acquired(stores, "b") is not first["b"]
    stores.close()


def test_companions_count_to_the_bound_on_memory_and_go_with_their_store(tmp_path: Path) -> None:
    stores = stores_in(tmp_path, max_bytes=3 * STORE_BYTES)
    opened = acquired(stores, "a")
    opened.companion = "an index"
    opened.extra_bytes = STORE_BYTES
    stores.release(opened)
    stores.release(acquired(stores, "b"))
    assert stores.num_open == 2
    assert stores.memory_bytes == 3 * STORE_BYTES
    again = acquired(stores, "a")
    assert again.companion == "an index"
    again.extra_bytes = 10 * STORE_BYTES
    assert stores.memory_bytes == 12 * STORE_BYTES
    stores.release(again)
    assert stores.num_open == 0
    assert acquired(stores, "a").companion is None
    stores.close()


def test_nothing_is_created_by_looking(tmp_path: Path) -> None:
    stores = stores_in(tmp_path)
    assert stores.acquire("team", "main", create=False) is None
    assert stores.agents(None) == stores.agents("team") == []
    assert stores.remove("team", "main") is False
    blank = stores.blank("team", "main")
    blank.store.put([memory("m")])
    stores.release(blank)
    with pytest.raises(MemoryStoreError):
        blank.store.get(["m"])
    assert stores.num_open == 0
    assert list(tmp_path.iterdir()) == []
    tell(stores, "main", "text")
    found = stores.acquire("team", "main", create=False)
    assert found is not None
    assert len(found.store.page("", 10, Filter())) == 1
    stores.close()


def test_looking_at_a_store_in_use_leaves_it_its_locks(tmp_path: Path) -> None:
    """POSIX takes all locks of a process on a file when it closes that file once: only SQLite may open it."""
    path = files_in(tmp_path).path(files_in(tmp_path).name("team", "main"))
    stores = stores_in(tmp_path)
    held = acquired(stores, "main")
    held.store.put([memory("m")])

    def num_locks() -> int:
        lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        inode = str(path.stat().st_ino)
        return sum(line[5].split(":")[2] == inode for line in lines if line[1] == "POSIX")

    assert num_locks() > 0
    assert stores.agents("team")[0].num_memories == 1
    assert num_locks() > 0
    with pytest.raises(MemoryStoreError):
        SqliteStore.open(path, key=KEY)
    SqliteStore.open(path, key=None).close()
    assert num_locks() > 0
    stores.close()
    assert num_locks() == 0


def test_the_list_is_of_one_namespace(tmp_path: Path) -> None:
    """Or of all, for an operator; with names as they were given."""
    stores = stores_in(tmp_path)
    for namespace, agent in (("b", "小明"), ("a", "main"), ("b", "Main"), ("b", "../x")):
        tell(stores, agent, "text", namespace=namespace)
    assert [row.agent for row in stores.agents("b")] == ["../x", "Main", "小明"]
    assert [(row.namespace, row.agent) for row in stores.agents(None)] == [
        ("a", "main"),
        ("b", "../x"),
        ("b", "Main"),
        ("b", "小明"),
    ]
    assert stores.agents("c") == []
    stores.close()


@KEYS
def test_the_list_counts_open_and_closed_stores_alike(tmp_path: Path, key: bytes | None) -> None:
    clock = Clock()
    stores = stores_in(tmp_path, key, max_open=1, clock=clock)
    tell(stores, "closed", "one", "two")
    clock.now = 2000.0
    opened = acquired(stores, "open")
    opened.store.put([memory("m")])
    opened.store.append(turn("t", message("g")))
    closed, still_open = stores.agents("team")
    assert (closed.num_memories, closed.num_turns, closed.last_used_at) == (2, 0, 1000.0)
    assert (still_open.num_memories, still_open.num_turns, still_open.last_used_at) == (1, 1, 2000.0)
    assert (
        closed.size_bytes
        == files_in(tmp_path, key).path(files_in(tmp_path).name("team", "closed")).stat().st_size
    )
    clock.now = 3000.0
    stores.release(opened)
    assert stores.agents("team")[1].last_used_at == 3000.0
    stores.close()


@KEYS
def test_the_list_hides_names_where_stores_are_encrypted(tmp_path: Path, key: bytes | None) -> None:
    stores = stores_in(tmp_path, key)
    tell(stores, "zebra-agent", "text", namespace="okapi-team")
    stores.agents(None)
    stores.close()
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}
    seen = b"".join(path.read_bytes() for path in paths) + b"".join(str(path).encode() for path in paths)
    assert {name in seen for name in (b"zebra-agent", b"okapi-team")} == {key is None}


@KEYS
@pytest.mark.parametrize("harm", ["removed", "damaged", "empty"])
def test_the_list_mends_itself_from_the_stores(tmp_path: Path, key: bytes | None, harm: str) -> None:
    """It can be lost, and restored from a backup older or newer than the stores."""
    stores = stores_in(tmp_path, key)
    for agent in "abcd":
        tell(stores, agent, "text")
    stores.close()
    files = files_in(tmp_path, key)
    match harm:
        case "removed":
            files.index_path.unlink()
        case "damaged":
            files.index_path.write_bytes(b"nonsense " * 1000)
        case _:
            files.index_path.write_bytes(b"")
    files.path(files.name("team", "d")).unlink()
    stores = stores_in(tmp_path, key)
    assert [(row.agent, row.num_memories) for row in stores.agents(None)] == [("a", 1), ("b", 1), ("c", 1)]
    stores.close()
    files.path(files.name("team", "c")).unlink()
    stores = stores_in(tmp_path, key)
    assert [row.agent for row in stores.agents(None)] == ["a", "b"]
    stores.close()


def test_a_wrong_key_does_not_touch_the_list(tmp_path: Path) -> None:
    stores = stores_in(tmp_path, KEY)
    tell(stores, "a", "text")
    stores.close()
    before = files_in(tmp_path).index_path.read_bytes()
    for wrong in (None, bytes(32)):
        stores = stores_in(tmp_path, wrong)
        with pytest.raises(MemoryStoreError) as caught:
            stores.agents(None)
        assert caught.value.code == "wrong_key"
        with pytest.raises(MemoryStoreError):
            stores.acquire("team", "a", create=True)
        assert stores.num_open == 0
        stores.close()
    assert files_in(tmp_path).index_path.read_bytes() == before
    stores = stores_in(tmp_path, KEY)
    assert told(stores, "a") == ["text"]
    stores.close()


def test_one_damaged_store_is_no_matter_for_the_others(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    stores = stores_in(tmp_path)
    tell(stores, "good", "text")
    tell(stores, "bad", "text")
    stores.close()
    files.path(files.name("team", "bad")).write_bytes(b"nonsense " * 1000)
    stores = stores_in(tmp_path)
    for _ in range(2):
        with pytest.raises(MemoryStoreError):
            stores.acquire("team", "bad", create=True)
    assert stores.num_open == 0
    assert told(stores, "good") == ["text"]
    assert [row.agent for row in stores.agents("team")] == ["bad", "good"]
    assert stores.remove("team", "bad") is True
    assert told(stores, "bad") == []
    stores.close()


@KEYS
def test_a_store_that_was_put_in_anothers_place_is_refused(tmp_path: Path, key: bytes | None) -> None:
    """No exchange of files lets an agent read another's memory."""
    files = files_in(tmp_path, key)
    stores = stores_in(tmp_path, key)
    tell(stores, "a", "text of a")
    tell(stores, "b", "text of b")
    stores.close()
    shutil.copy(files.path(files.name("team", "a")), files.path(files.name("team", "b")))
    stores = stores_in(tmp_path, key)
    with pytest.raises(MemoryStoreError) as caught:
        stores.acquire("team", "b", create=True)
    assert caught.value.code == ("wrong_key" if key else "damaged")
    assert told(stores, "a") == ["text of a"]
    stores.close()


def test_a_removed_store_is_gone_at_once(tmp_path: Path) -> None:
    """Whoever still has it is told; the agent begins anew; other agents notice nothing."""
    files = files_in(tmp_path)
    stores = stores_in(tmp_path)
    tell(stores, "other", "text")
    tell(stores, "main", "text")
    held = acquired(stores, "main")
    assert stores.remove("team", "main") is True
    assert stores.remove("team", "main") is False
    with pytest.raises(MemoryStoreError) as caught:
        held.store.get(["m0"])
    assert caught.value.code == "removed"
    assert list(files.path(files.name("team", "main")).parent.glob("*")) == []
    assert [row.agent for row in stores.agents("team")] == ["other"]
    assert told(stores, "main") == []
    stores.release(held)
    assert told(stores, "main") == []
    assert told(stores, "other") == ["text"]
    stores.close()


def test_a_store_whose_process_was_killed_is_counted_as_it_is(tmp_path: Path) -> None:
    """The list learns from the store what the process could not write down."""
    program = (
        "import os, sys\nfrom pathlib import Path\n"
        "from openclaw_cache.memory.open_stores import OpenStores, StoreFiles\n"
        "from openclaw_cache.testing.memory_samples import memory\n"
        "stores = OpenStores(StoreFiles(Path(sys.argv[1]) / 'agents', b's' * 32, None), max_bytes=1 << 40)\n"
        "for agent in 'ab':\n"
        "    opened = stores.acquire('team', agent, create=True)\n"
        "    opened.store.put([memory(f'm{n}') for n in range(7)])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -9
    stores = stores_in(tmp_path)
    for _ in range(2):
        assert [(row.agent, row.num_memories) for row in stores.agents("team")] == [("a", 7), ("b", 7)]
    stores.close()


def test_a_closed_collection_gives_nothing(tmp_path: Path) -> None:
    stores = stores_in(tmp_path)
    held = acquired(stores, "main")
    stores.close()
    stores.close()
    with pytest.raises(MemoryStoreError):
        held.store.get(["m"])
    with pytest.raises(MemoryStoreError):
        stores.acquire("team", "main", create=True)
    stores.release(held)


def test_many_threads_at_once_lose_nothing(tmp_path: Path) -> None:
    """Opening, closing and removing together: no agent gets another's store, none is closed while it is used."""
    stores = stores_in(tmp_path, max_open=3)
    locks = {f"a{number}": threading.Lock() for number in range(8)}
    written = dict.fromkeys(locks, 0)

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            agent = chance.choice(list(locks))
            opened = acquired(stores, agent)
            try:
                with locks[agent]:
                    number = written[agent]
                    opened.store.put([memory(f"m{number:05}", agent)])
                    written[agent] += 1
            finally:
                stores.release(opened)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    for agent, count in written.items():
        assert told(stores, agent) == [agent] * min(count, 100)
        assert len(told(stores, agent)) == min(count, 100)
    assert sum(written.values()) == 240
    assert {row.agent: row.num_memories for row in stores.agents("team")} == written
    assert stores.num_open <= 3
    stores.close()


def test_removing_while_others_ask_never_mixes_old_and_new(tmp_path: Path) -> None:
    """A store that is acquired after a removal has nothing of before, and what is written to it stays."""
    stores = stores_in(tmp_path, max_open=2)
    stop = threading.Event()
    refused: list[str] = []

    def use() -> None:
        while not stop.is_set():
            opened = acquired(stores, "main")
            try:
                opened.store.page("", 10, Filter())
            except MemoryStoreError as error:
                refused.append(error.code)
            finally:
                stores.release(opened)

    threads = [threading.Thread(target=use) for _ in range(1)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        stores.remove("team", "main")
    stop.set()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"removed"}
    stores.remove("team", "main")
    tell(stores, "main", "new")
    assert told(stores, "main") == ["new"]
    stores.close()
