"""A store's file: what is in it, who may read it, and what happens when it is not as it should be."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import apsw
import pytest

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.sqlite import full_text
from openclaw_cache.memory.sqlite.schema import STORE_ID, STORE_MIGRATIONS
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.terms import terms, text_query
from openclaw_cache.testing.memory_samples import memory, message, owners_by_words, recall, turn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
EVERYTHING = Filter(with_superseded=True, with_heartbeats=True)
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def filled(path: Path, key: bytes | None, num_memories: int = 1000) -> None:
    store = SqliteStore.open(path, key=key)
    store.put([memory(f"m{number:04}", f"zebra number {number}. " * 5) for number in range(num_memories)])
    store.append(turn("t", message("g", "a giraffe. " * 200)))
    store.close()


def read_all(store: SqliteStore) -> None:
    store.page("", 10_000, EVERYTHING)
    store.match(text_query("zebra giraffe"), 10_000, EVERYTHING)
    store.turns(None, "", 100)
    store.admitted(store.recent(10_000, EVERYTHING), EVERYTHING)
    store.forget([f"m{number:04}" for number in range(0, 1000, 7)])


def code_of(path: Path, key: bytes | None) -> str:
    with pytest.raises(MemoryStoreError) as caught:
        SqliteStore.open(path, key=key)
    assert str(path) in str(caught.value)
    assert caught.value.__cause__ is None
    return caught.value.code


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        path = tmp_path / "new" / "agent.db"
        store = SqliteStore.open(path, key=None)
        store.put([memory("m")])
        modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert modes == {"agent.db": 0o600, "agent.db-wal": 0o600, "agent.db-shm": 0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        store.close()
        assert [file.name for file in path.parent.iterdir()] == ["agent.db"]
    finally:
        os.umask(old)


@pytest.mark.parametrize("is_closed", [False, True], ids=["open", "closed"])
def test_nothing_that_was_forgotten_is_in_any_file(tmp_path: Path, *, is_closed: bool) -> None:
    """Text, terms of the full text index, tags, slots and earlier versions; from long and from short records."""
    words = [
        "xylophonist",
        "quokkaherder",
        "zweihander",
        "oubliettes",
        "kumquatish",
        "zugzwangen",
        "marsupiala",
    ]
    store = SqliteStore.open(tmp_path / "agent.db", key=None)
    store.put([memory(f"m{number}", f"the {number}th text stays") for number in range(300)])
    store.put([memory("a", f"an {words[0]} plays", tags=(words[1],), slot=words[2])])
    store.put([memory("a", f"the {words[3]} " * 3000, version=2, tags=(words[1],))])
    store.put([memory("b", f"because {words[4]} {number}") for number in range(1)])
    store.append(
        turn("t", message("g1", f"I said {words[5]} once"), message("g2", {"x": f"{words[5]} " * 500}))
    )
    store.append(turn("u", message("h", f"all of {words[6]} goes"), session="dropped"))
    store.put_recall(recall("r", "", ("b", f"- because {words[4]} 0")))
    store.put([memory(f"n{number}", f"the {number}th text stays as well") for number in range(300)])
    store.close()
    store = SqliteStore.open(tmp_path / "agent.db", key=None)
    assert [word for word in words if word.encode() not in bytes_of(tmp_path)] == []
    store.forget(["a", "b"])
    store.redact([words[5]], "[gone]")
    store.replace_recalls([recall("r")])
    store.drop_session("dropped")
    if is_closed:
        store.close()
    left = bytes_of(tmp_path)
    for word in words:
        for term in {word, *terms(word)}:
            for size in (len(term), len(term) - 1, len(term) - 2):  # the index leaves out what terms share
                assert term[-size:].encode() not in left, term
    assert b"300th" not in left
    assert b"299th text stays" in left


@KEYS
def test_only_an_encrypted_store_hides_its_text(tmp_path: Path, key: bytes | None) -> None:
    """In the file, its log and its journal, while it is open and after; names of tables are hidden, too."""
    path = tmp_path / "agent.db"
    store = SqliteStore.open(path, key=key)
    store.put([memory(f"m{number}", f"xylophone {number}", tags=("quokka",)) for number in range(500)])
    store.append(turn("t", message("g", "my oubliette"), session_key="agent:zugzwang"))
    store.set_label("agent", "marsupial")
    seen = bytes_of(tmp_path)
    store.match(text_query("xylophone"), 1000, Filter())
    store.forget([f"m{number}" for number in range(0, 500, 3)])
    seen += bytes_of(tmp_path)
    store.close()
    seen += bytes_of(tmp_path)
    words = [
        b"xylophone",
        b"quokka",
        b"oubliette",
        b"zugzwang",
        b"marsupial",
        b"CREATE TABLE",
        b"SQLite format",
    ]
    assert {word in seen for word in words} == {key is None}


@KEYS
def test_nothing_is_written_outside_the_folder(tmp_path: Path, key: bytes | None) -> None:
    """A sort of 5,000 long rows, and temporary tables, stay in memory."""
    folder, elsewhere = tmp_path / "agent", tmp_path / "elsewhere"
    elsewhere.mkdir()
    program = (
        "import sys, os\nfrom pathlib import Path\n"
        "from openclaw_cache.memory.sqlite.store import SqliteStore\n"
        "from openclaw_cache.memory.record import Filter\n"
        "from openclaw_cache.testing.memory_samples import memory\n"
        "store = SqliteStore.open(Path(sys.argv[1]) / 'agent.db', key=bytes.fromhex(sys.argv[2]) or None)\n"
        "store.put([memory(f'm{n}', f'zebra {n} ' * 30) for n in range(5000)])\n"
        "store._db.rows('CREATE TEMP TABLE sorted AS SELECT text FROM passage ORDER BY text')\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    if fd.isdigit() and os.path.lexists(f'/proc/self/fd/{fd}'):\n"
        "        print(os.readlink(f'/proc/self/fd/{fd}'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), (key or b"").hex()],
        env=os.environ | {"TMPDIR": str(elsewhere), "SQLITE_TMPDIR": str(elsewhere)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(elsewhere.iterdir()) == []
    opened = [line for line in done.stdout.splitlines() if line.startswith("/") and "/dev/" not in line]
    assert {line for line in opened if "/proc/" not in line} == {
        str(folder / f"agent.db{suffix}") for suffix in ("", "-wal", "-shm")
    }


@pytest.mark.parametrize("right", [None, KEY], ids=["plain", "encrypted"])
@pytest.mark.parametrize("has_log", [False, True], ids=["closed", "killed"])
def test_a_wrong_key_is_named_and_harms_nothing(
    tmp_path: Path, right: bytes | None, *, has_log: bool
) -> None:
    """Also where a killed process left its last writes in the log."""
    path = tmp_path / "agent.db"
    store = SqliteStore.open(path, key=right)
    store.put([memory("m1")])
    store.close()
    store = SqliteStore.open(path, key=right)
    store.put([memory("m2")])
    if has_log:  # what a killed process leaves is what lies there now
        saved = {file: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
        store.close()
        for file, data in saved.items():
            file.write_bytes(data)
    else:
        store.close()
    for wrong in {None, KEY, OTHER_KEY} - {right}:
        with pytest.raises(
            MemoryStoreError, match="cannot be read" if right else "is not encrypted"
        ) as caught:
            SqliteStore.open(path, key=wrong)
        assert caught.value.code == "wrong_key"
    store = SqliteStore.open(path, key=right)
    assert [found.id for found in store.page("", 10, Filter())] == ["m1", "m2"]
    store.close()


@KEYS
def test_a_commit_waits_for_the_disk(tmp_path: Path, key: bytes | None) -> None:
    """No test here can cut the power, so this one looks at the setting: 2 is FULL, each commit is synced."""
    store = SqliteStore.open(tmp_path / "agent.db", key=key)
    assert store._db.one("PRAGMA synchronous") == (2,)
    assert store._db.one("PRAGMA journal_mode") == ("wal",)
    store.close()


@KEYS
def test_a_file_becomes_smaller_when_most_is_forgotten(tmp_path: Path, key: bytes | None) -> None:
    path = tmp_path / "agent.db"
    filled(path, key)
    before = path.stat().st_size
    store = SqliteStore.open(path, key=key)
    store.forget([f"m{number:04}" for number in range(900)])
    assert store.stats(None).size_bytes < before / 2
    assert len(store.match(text_query("zebra"), 1000, Filter())) == 100
    store.close()
    assert path.stat().st_size < before / 2


@KEYS
def test_many_that_open_a_new_store_at_once_all_get_it(tmp_path: Path, key: bytes | None) -> None:
    """Whoever is first makes the tables; nobody is refused."""

    def open_and_write(number: int) -> int:
        store = SqliteStore.open(tmp_path / f"{number // 6}.db", key=key)
        store.put([memory(f"m{number}")])
        found = len(store.page("", 10, Filter()))
        store.close()
        return found

    with ThreadPoolExecutor(6) as pool:
        assert min(pool.map(open_and_write, range(60))) >= 1
    for file in range(10):
        store = SqliteStore.open(tmp_path / f"{file}.db", key=key)
        assert store.stats(None).num_memories == 6
        store.close()


def test_a_key_of_another_length_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        SqliteStore.open(tmp_path / "agent.db", key=b"short")
    assert list(tmp_path.iterdir()) == []


def test_no_error_shows_the_key_or_a_text(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    filled(path, KEY)
    with pytest.raises(MemoryStoreError) as caught:
        SqliteStore.open(path, key=OTHER_KEY)
    store = SqliteStore.open(path, key=KEY)
    with pytest.raises(MemoryStoreError) as refused:
        store.append(turn("t", message("other"), key="another key under a known id"))
    for error in (caught, refused):
        for hidden in (KEY.hex(), OTHER_KEY.hex(), "zebra", "INSERT", "another key"):
            assert hidden not in str(error.value)
            assert hidden not in repr(error.value)
    assert KEY.hex() not in repr(vars(store)) + repr(vars(store._db))
    store.close()


@KEYS
def test_a_damaged_file_is_said_to_be_so(tmp_path: Path, key: bytes | None) -> None:
    """Wherever the damage is: the one thing that is raised is ours, and of an encrypted file every page is checked."""
    path = tmp_path / "agent.db"
    filled(path, key)
    good = path.read_bytes()
    codes: list[str] = []
    for at in range(5000, len(good) - 64, len(good) // 40):
        path.write_bytes(good[:at] + bytes(byte ^ 0xFF for byte in good[at : at + 64]) + good[at + 64 :])
        try:
            store = SqliteStore.open(path, key=key)
            try:
                read_all(store)
            finally:
                store.close()
            codes.append("none")
        except MemoryStoreError as error:
            codes.append(error.code if error.code == "damaged" else str(error))
        for file in tmp_path.glob("agent.db-*"):
            file.unlink()
    assert set(codes) <= {"damaged", "none"}
    assert codes.count("damaged") >= len(codes) * (0.8 if key else 0.3)


@KEYS
def test_a_record_whose_bytes_changed_is_not_given_out(tmp_path: Path, key: bytes | None) -> None:
    """What SQLite does not notice in a plain file, the record's checksum does."""
    path = tmp_path / "agent.db"
    filled(path, key)
    store = SqliteStore.open(path, key=key)
    (body,) = store._db.one("SELECT body FROM memory WHERE id = 'm0007'")
    changed = body.replace(b"number 7", b"number 8")
    assert changed != body
    store._db.run("UPDATE memory SET body = ? WHERE id = 'm0007'", (changed,))
    with pytest.raises(MemoryStoreError) as caught:
        store.get(["m0007"])
    assert caught.value.code == "damaged"
    assert store.get(["m0008"])[0] is not None
    store.close()


@KEYS
@pytest.mark.parametrize("kept_ratio", [0.1, 0.5, 0.9])
def test_a_file_that_was_cut_is_damaged(tmp_path: Path, key: bytes | None, kept_ratio: float) -> None:
    path = tmp_path / "agent.db"
    filled(path, key)
    os.truncate(path, int(path.stat().st_size * kept_ratio) // 4096 * 4096)
    with pytest.raises(MemoryStoreError) as caught:  # noqa: PT012 - it may be noticed at once, or when read
        store = SqliteStore.open(path, key=key)
        try:
            read_all(store)
        finally:
            store.close()
    assert caught.value.code == "damaged"


def test_what_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    path.write_bytes(b"hello " * 10_000)
    assert code_of(path, None) == code_of(path, KEY) == "wrong_key"
    assert path.read_bytes() == b"hello " * 10_000


def test_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    other.close()
    assert code_of(path, None) == "damaged"
    other = apsw.Connection(str(path))
    assert other.execute("SELECT x FROM theirs").fetchall() == [(1,)]
    assert other.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (1,)
    other.close()


def test_a_store_of_a_newer_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    filled(path, None)
    other = apsw.Connection(str(path))
    other.execute(f"PRAGMA user_version = {len(STORE_MIGRATIONS) + 1}")
    other.close()
    assert code_of(path, None) == "newer"
    other = apsw.Connection(str(path))
    other.execute(f"PRAGMA user_version = {len(STORE_MIGRATIONS)}")
    other.close()
    store = SqliteStore.open(path, key=None)
    assert store.stats(None).num_memories == 1000
    store.close()


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    """The format of version 1 is fixed: its header tells it from every other SQLite file."""
    path = tmp_path / "agent.db"
    SqliteStore.open(path, key=None).close()
    head = path.read_bytes()[:100]
    assert head[:16] == b"SQLite format 3\0"
    assert int.from_bytes(head[60:64]) == 1
    assert int.from_bytes(head[68:72]) == STORE_ID == 0x4F43_4D31


@KEYS
def test_a_file_without_a_byte_is_a_new_store(tmp_path: Path, key: bytes | None) -> None:
    """So it is where the machine stopped right after it was created."""
    path = tmp_path / "agent.db"
    path.touch()
    store = SqliteStore.open(path, key=key)
    store.put([memory("m")])
    assert store.get(["m"]) == [memory("m")]
    store.close()


def test_the_index_is_made_anew_when_terms_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store written by a version that saw other terms is searched with ours, and forgets completely."""
    path = tmp_path / "agent.db"

    def reversed_terms(text: str) -> list[str]:
        return [term[::-1] for term in terms(text)]

    def with_terms(how: Callable[[str], list[str]]) -> SqliteStore:
        monkeypatch.setattr(full_text, "terms", how)
        full_text._look_of_terms.cache_clear()
        return SqliteStore.open(path, key=None)

    store = with_terms(reversed_terms)
    store.put([memory(f"m{number}", f"the zebra {number}") for number in range(2500)])
    assert store.match(text_query("zebra"), 10, Filter()) == []
    store.close()
    store = with_terms(terms)
    assert len(store.match(text_query("zebra"), 5000, Filter())) == 2500
    store.forget([f"m{number}" for number in range(2500)])
    assert store.match(text_query("zebra"), 5000, Filter()) == []
    store.close()
    assert b"zebra" not in path.read_bytes()
    assert b"arbez" not in path.read_bytes()
    store = with_terms(terms)
    store.put([memory("m", "zebra")])
    assert owners_by_words(store, "zebra", Filter()) == ["m"]
    store.close()
    full_text._look_of_terms.cache_clear()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "agent.db"
    filled(path, None)
    path.parent.chmod(0o500)
    try:
        assert code_of(path.parent / "new.db", None) == "read_only"
    finally:
        path.parent.chmod(0o700)


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    assert code_of(tmp_path / "folder" / "agent.db", None) == "read_only"


@KEYS
def test_a_full_disk_stops_writing_and_harms_nothing(tmp_path: Path, key: bytes | None) -> None:
    """A limit on the size of files stands for the disk: what was acknowledged stays, and writing goes on with room."""
    path = tmp_path / "agent.db"
    filled(path, key, num_memories=10)
    store = SqliteStore.open(path, key=key)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, hard))
    acknowledged: list[str] = []
    try:
        with pytest.raises(MemoryStoreError) as caught:  # noqa: PT012 - which of them fails is the disk's choice
            for number in range(100):
                store.put([memory(f"big{number}", os.urandom(50_000).hex())])
                acknowledged.append(f"big{number}")
        assert caught.value.code == "full"
        assert None not in store.get(acknowledged)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert acknowledged
    store.put([memory("afterwards")])
    store.close()
    store = SqliteStore.open(path, key=key)
    assert None not in store.get([*acknowledged, "afterwards", "m0001"])
    assert store.stats(None).num_memories == len(acknowledged) + 11
    store.close()


def test_a_store_that_another_holds_too_long_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_cache.memory.sqlite.database.BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "agent.db"
    filled(path, None, num_memories=1)
    store = SqliteStore.open(path, key=None)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(MemoryStoreError) as caught:
        store.put([memory("m")])
    assert caught.value.code == "busy"
    other.execute("COMMIT")
    other.close()
    store.put([memory("m")])
    store.close()
