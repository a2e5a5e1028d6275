"""Names and keys of stores: one for each agent of each namespace, and telling nothing."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.store_files import StoreFiles

SECRET, KEY = b"s" * 32, bytes(range(32))
FILES = StoreFiles(Path("/data/agents"), SECRET, KEY)


def test_a_file_lies_in_one_of_256_folders_under_32_hex_digits() -> None:
    name = FILES.name("team", "main")
    assert len(bytes.fromhex(name)) == 16
    assert FILES.path(name) == Path("/data/agents") / name[:2] / f"{name}.db"


def test_different_agents_have_different_names_and_keys() -> None:
    """Where one string ends and the other begins matters, and so do case and Unicode form."""
    pairs = [
        ("ab", "c"),
        ("a", "bc"),
        ("", "abc"),
        ("abc", ""),
        ("a", "b/c"),
        ("a/b", "c"),
        ("a\0b", "c"),
        ("A", "bc"),
        ("a", "é"),
        ("a", "e\u0301"),
        ("a", "../../etc/passwd"),
        ("a", "\ud800"),
    ]
    names = [FILES.name(*pair) for pair in pairs]
    for one, other in combinations(names, 2):
        assert one != other
        assert FILES.key(one) != FILES.key(other)
    assert names == [FILES.name(*pair) for pair in pairs]


def test_names_depend_on_the_secret_and_keys_on_the_encryption_key() -> None:
    other = StoreFiles(Path("/data/agents"), b"t" * 32, KEY)
    unencrypted = StoreFiles(Path("/data/agents"), SECRET, None)
    rekeyed = StoreFiles(Path("/data/agents"), SECRET, bytes(32))
    name = FILES.name("team", "main")
    assert other.name("team", "main") != name
    assert unencrypted.name("team", "main") == rekeyed.name("team", "main") == name
    assert unencrypted.key(name) is unencrypted.index_key is None
    assert len({FILES.key(name), FILES.index_key, rekeyed.key(name), rekeyed.index_key, KEY, SECRET}) == 6
    assert {len(FILES.key(name) or b""), len(FILES.index_key or b"")} == {32}


def test_names_that_are_there_are_those_of_stores_only(tmp_path: Path) -> None:
    files = StoreFiles(tmp_path, SECRET, None)
    assert list(files.names()) == []
    mine = [files.name("team", f"a{number}") for number in range(10)]
    for name in mine:
        files.path(name).parent.mkdir(exist_ok=True)
        files.path(name).touch()
        files.path(name).with_name(f"{name}.db-wal").touch()
    files.index_path.touch()
    elsewhere = tmp_path / ("00" if mine[0][:2] != "00" else "01")
    elsewhere.mkdir(exist_ok=True)
    (elsewhere / f"{mine[0]}.db").touch()
    (elsewhere / "note.db").touch()
    assert sorted(files.names()) == sorted(mine)


def test_a_folder_that_cannot_be_seen_is_named() -> None:
    """No program has a path as long as this one; a folder without access is the same to us, but not to root."""
    files = StoreFiles(Path("/" + "x" * 5000), SECRET, None)
    for look in (lambda: list(files.names()), lambda: files.is_there("00")):
        with pytest.raises(MemoryStoreError) as caught:
            look()
        assert caught.value.code == "read_only"


def test_no_key_is_shown() -> None:
    assert KEY.hex() not in repr(FILES)
    assert repr(KEY) not in repr(FILES)
