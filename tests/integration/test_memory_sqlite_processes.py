"""Several processes and killed processes: no write that was acknowledged is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.terms import text_query

if TYPE_CHECKING:
    from pathlib import Path

KEY = bytes(range(32))
KEYS = pytest.mark.parametrize("key", [None, KEY], ids=["plain", "encrypted"])

# Writes until it is told to stop or is killed; says what was acknowledged, after it was.
WRITER = """
import sys
from pathlib import Path
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.testing.memory_samples import memory, message, turn
path, key, who, count = Path(sys.argv[1]), bytes.fromhex(sys.argv[2]) or None, sys.argv[3], int(sys.argv[4])
store = SqliteStore.open(path, key=key)
for number in range(count):
    name = f"{who}-{number}"
    store.put([memory(f"m{name}", f"zebra {name} " * 20), memory(f"n{name}", "the other of a batch")])
    store.append(turn(f"t{name}", message(f"g{name}", "okapi " * 200)))
    if number % 3 == 0:
        store.forget([f"n{name}"])
    print(number, flush=True)
store.close()
"""


def start_writer(path: Path, key: bytes | None, who: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), (key or b"").hex(), who, str(count)], stdout=subprocess.PIPE
    )


def check(store: SqliteStore, who: str, num_acknowledged: int) -> None:
    """All that was acknowledged is there, and what comes after is whole or not there at all."""
    found = {memory.id for memory in store.page("", 100_000, Filter())}
    for number in range(num_acknowledged):
        name = f"{who}-{number}"
        assert f"m{name}" in found
        assert (f"n{name}" in found) is (number % 3 != 0)
        turn = store.turn(f"t{name}")
        assert turn is not None
        assert [message.id for message in turn.messages] == [f"g{name}"]
    next_name = f"{who}-{num_acknowledged}"
    if f"n{next_name}" in found:
        assert f"m{next_name}" in found


@KEYS
def test_two_processes_that_create_and_write_one_store_lose_nothing(
    tmp_path: Path, key: bytes | None
) -> None:
    path = tmp_path / "agent.db"
    writers = [start_writer(path, key, who, 40) for who in "ab"]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert out.split()[-1] == b"39"
    store = SqliteStore.open(path, key=key)
    for who in "ab":
        check(store, who, 40)
    assert len(store.match(text_query("zebra"), 1000, Filter())) == 80
    assert len(store.match(text_query("okapi"), 1000, Filter(of="message"))) >= 80
    store.close()


@KEYS
@pytest.mark.parametrize("after_s", [0.0, 0.13, 0.41])
def test_a_killed_process_loses_nothing_that_it_acknowledged(
    tmp_path: Path, key: bytes | None, after_s: float
) -> None:
    """At any moment, again and again on the same file; the full text index is whole, too."""
    path = tmp_path / "agent.db"
    acknowledged: dict[str, int] = {}
    for who in "abc":
        writer = start_writer(path, key, who, 100_000)
        assert writer.stdout is not None
        writer.stdout.readline()
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        writer.wait()
        lines = rest.split(b"\n")[:-1]
        acknowledged[who] = int(lines[-1]) + 1 if lines else 1
    store = SqliteStore.open(path, key=key)
    for who, number in acknowledged.items():
        check(store, who, number)
    stats = store.stats(None)
    assert len(store.match(text_query("zebra batch okapi"), 1_000_000, Filter())) == stats.num_passages
    store._db.run("INSERT INTO full_text (full_text) VALUES ('integrity-check')")
    assert store._db.rows("PRAGMA integrity_check") == [("ok",)]
    assert store._db.rows("PRAGMA foreign_key_check") == []
    store.close()
    assert os.listdir(tmp_path) == ["agent.db"]
