"""The disk tier on real files: restarts, damage of every kind, crashes, full disks, neighbours."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from openclaw_cache.kv.codec import Codec
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.disk_folder import prune
from openclaw_cache.kv.disk_record import RecordFormat
from openclaw_cache.kv.tiers import CorruptBlockError, TierError
from support.kv_blocks import (
    BLOCK_BYTES,
    CODEC,
    IDENTITY,
    LAYER_BYTES,
    LAYOUT,
    RECORD_BYTES,
    layer_of,
    name_of,
    payload_of,
    payloads,
    record_of,
    rows,
    slots,
)

SLOT_BYTES = BLOCK_BYTES + RECORD_BYTES
TESTS = Path(__file__).parents[1]


def opened(parent: Path, num_slots: int = 16, fingerprint: str = "f00d") -> DiskStore:
    identity = replace(IDENTITY, fingerprint=fingerprint)
    return DiskStore.open(parent, CODEC, identity, num_slots * SLOT_BYTES)


def written(parent: Path, *numbers: int, num_slots: int = 16) -> Path:
    """Block i in slot i, in a folder that is closed again."""
    store = opened(parent, num_slots)
    store.write(slots(*numbers), [record_of(i) for i in numbers], payloads(list(numbers)))
    store.close()
    return store.folder


def found(store: DiskStore) -> dict[int, bytes]:
    return {slot: record.name for slot, record in store.recover()}


def python(code: str, *args: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", code, *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


# What is written comes back


@pytest.mark.parametrize("has_holes", [True, False])
def test_what_is_forgotten_can_not_be_read_from_the_file_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_holes: bool
) -> None:
    if not has_holes:
        monkeypatch.setattr("sys.platform", "elsewhere")
    store = opened(tmp_path)
    store.write(slots(0, 1, 2, 3), [record_of(i) for i in range(4)], payloads([0, 1, 2, 3]))
    store.forget(slots(1, 2, 9))  # slot 9 lies beyond the end of the file
    content = (store.folder / "data").read_bytes()
    store.close()
    expected = [payload_of(name_of(0)), bytes(2 * BLOCK_BYTES), payload_of(name_of(3))]
    assert content == b"".join(expected)


def test_the_files_take_what_hand_arithmetic_says(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    assert (folder / "data").stat().st_size == 3 * (3 * 2 * 4 * 2 * 4 * 2)
    assert (folder / "index").stat().st_size == 3 * RECORD_BYTES == 3 * 200
    assert RecordFormat(LAYOUT).record_bytes == 200


def test_blocks_come_back_layer_by_layer_from_neighbouring_and_scattered_slots(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.write(slots(3, 4, 5, 11, 1), [record_of(i) for i in range(5)], payloads([0, 1, 2, 3, 4]))
    for layer in range(3):
        assert rows(store.read_layer(slots(3, 4, 5), layer)) == [layer_of(i, layer) for i in (0, 1, 2)]
        assert rows(store.read_layer(slots(1, 11, 4), layer)) == [layer_of(i, layer) for i in (4, 3, 1)]
    store.close()


def test_after_a_restart_every_block_is_found_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    records = [
        record_of(7, index=2, flags=1 | 4, salt=b""),
        record_of(6, index=1, salt=b"x" * 64),
        record_of(5, index=0, salt=b"\0a\0"),
    ]
    store.write(slots(2, 9, 4), records, payloads([7, 6, 5]))
    store.close()

    again = opened(tmp_path)
    recovered = again.recover()
    assert [slot for slot, _ in recovered] == [4, 9, 2]  # parents before children
    for (_, record), original in zip(recovered, reversed(records), strict=True):
        assert (record.name, record.parent, record.salt, record.index) == (
            original.name, original.parent, original.salt, original.index,
        )  # fmt: skip
        assert record.tokens.dtype == np.int32
        assert record.tokens.tolist() == original.tokens.tolist()
        assert record.checksums.tolist() == original.checksums.tolist()
    assert [record.flags for _, record in recovered] == [0, 0, 1]
    assert rows(again.read_layer(slots(4, 9, 2), 2)) == [layer_of(i, 2) for i in (5, 6, 7)]
    again.close()


def test_a_forgotten_block_does_not_come_back_after_a_restart(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, 2, 3)
    store = opened(tmp_path)
    store.recover()
    store.forget(slots(1, 2, 12))
    with pytest.raises(CorruptBlockError):
        store.read_layer(slots(1), 0)
    store.close()
    again = opened(tmp_path)
    assert found(again) == {0: name_of(0), 3: name_of(3)}
    again.close()


def test_a_salt_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(ValueError, match="64 bytes"):
        store.write(slots(0), [record_of(0, salt=b"x" * 65)], payloads([0]))
    store.close()


# Damage


def test_a_record_with_any_byte_changed_is_not_believed(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    raw = (folder / "index").read_bytes()
    records = RecordFormat(LAYOUT)
    for at in range(RECORD_BYTES, 2 * RECORD_BYTES):
        damaged = bytearray(raw)
        damaged[at] ^= 1 << random.randrange(8)
        assert [slot for slot, _ in records.unpack(bytes(damaged), 0)] == [0, 2], at


def test_a_changed_byte_on_disk_hides_its_own_block_only(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    flip(folder / "index", RECORD_BYTES + 40)
    store = opened(tmp_path)
    assert found(store) == {0: name_of(0), 2: name_of(2)}
    store.close()


@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 77, LAYER_BYTES - 1])
def test_a_changed_payload_byte_is_found_when_its_layer_is_read(tmp_path: Path, layer: int, at: int) -> None:
    folder = written(tmp_path, 0, 1, 2)
    flip(folder / "data", BLOCK_BYTES + layer * LAYER_BYTES + at)
    store = opened(tmp_path)
    assert len(store.recover()) == 3
    for other in {0, 1, 2} - {layer}:
        assert rows(store.read_layer(slots(0, 1, 2), other)) == [layer_of(i, other) for i in (0, 1, 2)]
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(0, 1, 2), layer)
    assert caught.value.bad.tolist() == [1]
    assert rows(store.read_layer(slots(0, 2), layer)) == [layer_of(0, layer), layer_of(2, layer)]
    store.close()


def test_records_that_strayed_to_each_others_place_are_not_believed(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    swap(folder / "index", RECORD_BYTES)
    store = opened(tmp_path)
    assert found(store) == {2: name_of(2)}
    store.close()


def test_payloads_that_strayed_to_each_others_place_are_misses(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    swap(folder / "data", BLOCK_BYTES)
    store = opened(tmp_path)
    store.recover()
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(0, 1, 2), 1)
    assert caught.value.bad.tolist() == [0, 1]
    store.close()


def test_a_new_payload_under_an_old_record_and_a_new_record_over_an_old_payload_are_misses(
    tmp_path: Path,
) -> None:
    folder = written(tmp_path, 0, 1)
    old_data, old_index = (folder / "data").read_bytes(), (folder / "index").read_bytes()
    store = opened(tmp_path)
    store.write(slots(0, 1), [record_of(10), record_of(11)], payloads([10, 11]))
    store.close()
    half = BLOCK_BYTES + LAYER_BYTES + 50  # the second block's old payload came to its middle layer
    torn = {
        "data": ((folder / "data").read_bytes()[:half] + old_data[half:], (folder / "index").read_bytes()),
        "index": ((folder / "data").read_bytes(), old_index),
    }
    for data, index in torn.values():
        (folder / "data").write_bytes(data)
        (folder / "index").write_bytes(index)
        again = opened(tmp_path)
        again.recover()
        with pytest.raises(CorruptBlockError) as caught:
            again.read_layer(slots(0, 1), 2)
        assert 1 in caught.value.bad
        again.close()


@pytest.mark.parametrize("missing", [1, LAYER_BYTES, BLOCK_BYTES - 1])
def test_a_block_whose_data_is_cut_off_is_not_found(tmp_path: Path, missing: int) -> None:
    folder = written(tmp_path, 0, 1, 2)
    os.truncate(folder / "data", 3 * BLOCK_BYTES - missing)
    store = opened(tmp_path)
    assert found(store) == {0: name_of(0), 1: name_of(1)}
    store.close()


def test_data_that_is_cut_off_while_in_use_is_a_miss_for_what_is_gone(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, 2)
    store = opened(tmp_path)
    store.recover()
    os.truncate(store.folder / "data", BLOCK_BYTES + LAYER_BYTES)
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(0, 1, 2), 1)
    assert caught.value.bad.tolist() == [1, 2]
    assert rows(store.read_layer(slots(0, 1), 0)) == [layer_of(0, 0), layer_of(1, 0)]
    store.close()


def test_an_index_that_is_cut_off_loses_only_what_was_cut(tmp_path: Path) -> None:
    folder = written(tmp_path, 0, 1, 2)
    os.truncate(folder / "index", 3 * RECORD_BYTES - 1)
    store = opened(tmp_path)
    assert found(store) == {0: name_of(0), 1: name_of(1)}
    store.close()


@pytest.mark.parametrize("header", [b"", b"something else", None])
def test_a_folder_with_a_foreign_or_damaged_header_is_emptied(tmp_path: Path, header: bytes | None) -> None:
    folder = written(tmp_path, 0, 1)
    if header is None:
        flip(folder / "header", 30)
    else:
        (folder / "header").write_bytes(header)
    store = opened(tmp_path)
    assert store.recover() == []
    store.write(slots(0), [record_of(5)], payloads([5]))
    store.close()
    again = opened(tmp_path)
    assert found(again) == {0: name_of(5)}
    again.close()


# Bounds


def test_a_folder_that_had_another_bound_keeps_the_blocks_in_the_slots_that_are_left(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, 2, 3, 4, 5)
    smaller = opened(tmp_path, num_slots=3)
    assert smaller.num_slots == 3
    assert found(smaller) == {i: name_of(i) for i in range(3)}
    smaller.close()
    assert (smaller.folder / "data").stat().st_size == 3 * BLOCK_BYTES
    larger = opened(tmp_path, num_slots=32)
    assert found(larger) == {i: name_of(i) for i in range(3)}
    larger.close()


def test_a_bound_below_one_block_is_refused_and_lets_the_folder_go(tmp_path: Path) -> None:
    with pytest.raises(TierError, match="less than one block"):
        DiskStore.open(tmp_path, CODEC, IDENTITY, SLOT_BYTES - 1)
    opened(tmp_path, num_slots=1).close()


def test_only_the_owner_may_look_into_the_files(tmp_path: Path) -> None:
    folder = written(tmp_path / "kv", 0)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == dict.fromkeys(
        ("data", "header", "index", "lock"), 0o600
    )


# Several models, several processes


def test_models_and_codecs_do_not_share_a_folder(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path, fingerprint="beef")
    coded = DiskStore.open(tmp_path, Codec("bf16", LAYOUT), IDENTITY, 16 * SLOT_BYTES)
    assert len({one.folder, other.folder, coded.folder}) == 3
    one.write(slots(0), [record_of(0)], payloads([0]))
    assert other.recover() == []
    for store in (one, other, coded):
        store.close()


HOLDER = """
import sys, time
from pathlib import Path
from support.kv_blocks import CODEC, IDENTITY
from openclaw_cache.kv.disk import DiskStore
store = DiskStore.open(Path(sys.argv[1]), CODEC, IDENTITY, 10**6)
print("open", flush=True)
time.sleep(60)
"""


def test_a_second_process_is_refused_by_name_and_let_in_when_the_first_has_died(tmp_path: Path) -> None:
    with python(HOLDER, str(tmp_path)) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(TierError, match=rf"{tmp_path}.*is held by process {holder.pid}"):
                opened(tmp_path)
        finally:
            holder.kill()
    opened(tmp_path).close()


def test_the_folder_whose_last_use_is_longest_ago_goes_first(tmp_path: Path) -> None:
    folders = {}
    for age, fingerprint in enumerate(("new", "older", "oldest")):
        store = opened(tmp_path, num_slots=1000, fingerprint=fingerprint)
        store.close()
        fill(store.folder, 100_000)
        os.utime(store.folder / "lock", (1e9 - age, 1e9 - age))
        folders[fingerprint] = store.folder
    bystander = tmp_path / "notes"
    bystander.mkdir()
    fill(bystander, 1_000_000)

    assert prune(tmp_path, 10**6, keep=folders["new"]) == 0
    assert prune(tmp_path, 250_000, keep=folders["new"]) == 1
    assert [folder.exists() for folder in folders.values()] == [True, True, False]
    assert prune(tmp_path, 1, keep=folders["oldest"]) == 2
    assert bystander.exists()


def test_a_folder_that_is_in_use_and_the_one_to_keep_are_never_pruned(tmp_path: Path) -> None:
    held, kept = opened(tmp_path, fingerprint="held"), opened(tmp_path, fingerprint="kept")
    kept.close()
    for store in (held, kept):
        fill(store.folder, 100_000)
    assert prune(tmp_path, 1, keep=kept.folder) == 0
    assert held.folder.exists()
    held.close()
    assert prune(tmp_path, 1, keep=kept.folder) == 1
    assert (held.folder.exists(), kept.folder.exists()) == (False, True)


def test_a_store_that_grows_pushes_out_the_folders_beside_it(tmp_path: Path) -> None:
    old = opened(tmp_path, fingerprint="old", num_slots=400)
    old.close()
    fill(old.folder, 120_000)
    store = opened(tmp_path, num_slots=400)  # 233,600 bytes for all folders together
    assert old.folder.exists()
    for first in range(0, 400, 40):
        numbers = range(first, first + 40)
        store.write(slots(*numbers), [record_of(i) for i in numbers], payloads(list(numbers)))
    assert not old.folder.exists()
    store.close()


# Crashes and failing disks

WRITER = """
import random, sys
from pathlib import Path
from support.kv_blocks import CODEC, IDENTITY, payloads, record_of, slots
from openclaw_cache.kv.disk import DiskStore
store = DiskStore.open(Path(sys.argv[1]), CODEC, IDENTITY, 64 * 584)
store.recover()
dice = random.Random(int(sys.argv[2]))
print("writing", flush=True)
while True:
    places = dice.sample(range(64), dice.randint(1, 16))
    if dice.random() < 0.5:
        places.sort()
    numbers = [dice.randrange(10**6) for _ in places]
    if dice.random() < 0.1:
        store.forget(slots(*places))
    else:
        store.write(slots(*places), [record_of(n) for n in numbers], payloads(numbers))
"""


def test_a_killed_writer_leaves_only_blocks_that_are_what_their_names_say_or_misses(tmp_path: Path) -> None:
    num_read = 0
    for round_ in range(5):
        with python(WRITER, str(tmp_path), str(round_)) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            time.sleep(random.uniform(0.02, 0.15))
            writer.send_signal(signal.SIGKILL)
        store = DiskStore.open(tmp_path, CODEC, IDENTITY, 64 * 584)
        for slot, record in store.recover():
            try:
                layers = [rows(store.read_layer(slots(slot), layer))[0] for layer in range(3)]
            except CorruptBlockError:
                continue
            assert b"".join(layers) == payload_of(record.name)
            num_read += 1
        store.close()
    assert num_read > 100


FULL = """
import resource, sys
from pathlib import Path
from support.kv_blocks import CODEC, IDENTITY, layer_of, payloads, record_of, rows, slots
from openclaw_cache.kv.disk import DiskStore
from openclaw_cache.kv.tiers import CorruptBlockError
store = DiskStore.open(Path(sys.argv[1]), CODEC, IDENTITY, 64 * 584)
first, second = range(8), range(8, 16)
store.write(slots(*first), [record_of(i) for i in first], payloads(list(first)))
limit = 384 * int(sys.argv[2]) + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    store.write(slots(4, *second), [record_of(100 + i) for i in (4, *second)], payloads([104, *range(108, 116)]))
except OSError as error:
    print(type(error).__name__)
for slot in (4, *second):
    try:
        store.read_layer(slots(slot), 0)
        print("read", slot)
    except CorruptBlockError:
        pass
assert rows(store.read_layer(slots(0, 1), 2)) == [layer_of(0, 2), layer_of(1, 2)]
"""


@pytest.mark.parametrize("fitting", [9, 12])
def test_a_write_that_the_disk_has_no_room_for_fails_and_leaves_none_of_its_blocks(
    tmp_path: Path, fitting: int
) -> None:
    with python(FULL, str(tmp_path), str(fitting)) as process:
        out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "OSError\n")
    store = opened(tmp_path, num_slots=64)
    assert found(store) == {i: name_of(i) for i in (0, 1, 2, 3, 5, 6, 7)}
    store.close()


def flip(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 0x10
    path.write_bytes(raw)


def swap(path: Path, size: int) -> None:
    """Exchange the first two pieces."""
    raw = path.read_bytes()
    path.write_bytes(raw[size : 2 * size] + raw[:size] + raw[2 * size :])


def fill(folder: Path, num_bytes: int) -> None:
    (folder / "data").write_bytes(random.randbytes(num_bytes))
