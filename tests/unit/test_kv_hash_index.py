"""The index over ready block hashes: what is known of a path is always a prefix of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from hashlib import sha256

import numpy as np
import pytest

from openclaw_cache.kv.block import IntegrityError
from openclaw_cache.kv.hash_index import HashIndex, Run


def path(*labels: object) -> list[bytes]:
    """Chained names: each covers its label and all before it."""
    names, parent = [], b""
    for label in labels:
        parent = sha256(parent + repr(label).encode()).digest()
        names.append(parent)
    return names


def slots(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


@pytest.fixture
def index() -> HashIndex:
    return HashIndex()


def test_an_empty_index_knows_nothing(index: HashIndex) -> None:
    assert index.match(path("a", "b")).num_blocks == 0
    assert index.match([]).slots().tolist() == []
    index.check_integrity()


def test_a_path_is_known_up_to_where_it_leaves_what_was_inserted(index: HashIndex) -> None:
    index.insert(path(*"abcde"), slots(1, 2, 3, 4, 5))
    for prompt, num in (("abcde", 5), ("abcdefg", 5), ("abc", 3), ("abxde", 2), ("xbcde", 0), ("a", 1)):
        known = index.match(path(*prompt))
        assert known.num_blocks == num
        assert known.slots().tolist() == [1, 2, 3, 4, 5][:num]


@pytest.mark.parametrize("num_blocks", [1, 2, 3, 7, 64, 1700])
def test_the_place_where_a_path_leaves_a_run_is_found_wherever_it_is(
    index: HashIndex, num_blocks: int
) -> None:
    names = path(*range(num_blocks))
    index.insert(names, np.arange(num_blocks, dtype=np.int32))
    for at in {0, 1, num_blocks // 2, num_blocks - 2, num_blocks - 1} & set(range(num_blocks)):
        other = path(*range(at), "other", *range(at + 1, num_blocks + 3))
        assert index.match(other).num_blocks == at
    assert index.num_blocks == num_blocks


def test_branches_share_their_beginning_and_keep_its_slots(index: HashIndex) -> None:
    index.insert(path(*"abcd"), slots(1, 2, 3, 4))
    before = index.insert(path(*"abxy"), slots(9, 9, 5, 6))
    assert before.num_blocks == 2
    index.insert(path(*"abxyz"), slots(9, 9, 9, 9, 7))
    assert index.match(path(*"abcd")).slots().tolist() == [1, 2, 3, 4]
    assert index.match(path(*"abxyz")).slots().tolist() == [1, 2, 5, 6, 7]
    assert index.num_blocks == 7
    index.check_integrity()


def test_what_is_known_is_not_inserted_again(index: HashIndex) -> None:
    index.insert(path(*"abc"), slots(1, 2, 3))
    assert index.insert(path(*"ab"), slots(8, 8)).num_blocks == 2
    assert index.match(path(*"abc")).slots().tolist() == [1, 2, 3]
    assert index.num_blocks == 3


def test_the_end_of_a_path_goes_with_all_that_continues_it(index: HashIndex) -> None:
    index.insert(path(*"abcd"), slots(1, 2, 3, 4))
    index.insert(path(*"abxy"), slots(0, 0, 5, 6))
    index.insert(path(*"abcdef"), slots(0, 0, 0, 0, 7, 8))
    assert sorted(index.forget(path(*"abcd"), 3).tolist()) == [4, 7, 8]
    assert index.match(path(*"abcdef")).num_blocks == 3
    assert sorted(index.forget(path(*"ab"), 1).tolist()) == [2, 3, 5, 6]
    assert index.match(path(*"abxy")).slots().tolist() == [1]
    index.check_integrity()
    assert index.forget(path("a")).tolist() == [1]
    assert index.num_blocks == 0


def test_only_what_is_known_can_be_forgotten(index: HashIndex) -> None:
    index.insert(path(*"abc"), slots(1, 2, 3))
    for names, num_kept in (
        (path(*"xy"), 0),
        (path(*"abx"), 2),
        (path(*"abcd"), 3),
        (path(*"ab"), 5),
        ([], 0),
    ):
        assert index.forget(names, num_kept).tolist() == []
    assert index.num_blocks == 3


def test_the_index_holds_on_to_no_array_of_the_caller(index: HashIndex) -> None:
    wide = np.arange(6, dtype=np.int32)
    index.insert(path(*"abc"), wide[::2])
    index.insert(path(*"abcd"), wide[:4])
    wide[:] = 0
    assert index.match(path(*"abcd")).slots().tolist() == [0, 2, 4, 3]


def test_what_was_forgotten_can_come_back(index: HashIndex) -> None:
    index.insert(path(*"abc"), slots(1, 2, 3))
    index.forget(path(*"abc"), 1)
    index.insert(path(*"abd"), slots(7, 8, 9))
    assert index.match(path(*"abd")).slots().tolist() == [1, 8, 9]
    assert index.match(path(*"abc")).num_blocks == 2


@pytest.mark.parametrize(
    ("names", "given", "fault"),
    [
        (path(*"ab"), slots(1), "2 blocks have not the slots"),
        (path(*"ab"), np.array([1, 2]), "int64"),
        ([b"short"], slots(1), "32 bytes"),
        ([*path("a"), b"x" * 31], slots(1, 2), "32 bytes"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    index: HashIndex, names: list[bytes], given: np.ndarray, fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        index.insert(names, given)
    assert index.num_blocks == 0
    index.check_integrity()


def test_a_match_asks_for_few_of_the_hashes() -> None:
    class Counting(list):  # type: ignore[type-arg]
        num_asked = 0

        def __getitem__(self, at):  # type: ignore[no-untyped-def]
            Counting.num_asked += 1
            return super().__getitem__(at)

    index, names = HashIndex(), path(*range(1700))
    index.insert(names, np.arange(1700, dtype=np.int32))
    assert index.match(Counting(names)).num_blocks == 1700
    assert Counting.num_asked == 2  # the first finds the run, the last answers for it
    Counting.num_asked = 0
    assert index.match(Counting(path(*range(900), *"x" * 800))).num_blocks == 900
    assert Counting.num_asked <= 2 + 11  # 2 ** 11 > 1700


def corrupt_count(index: HashIndex, run: Run) -> None:
    index.num_blocks += 1


def corrupt_slots(index: HashIndex, run: Run) -> None:
    del run.slots[-4:]


def corrupt_start(index: HashIndex, run: Run) -> None:
    run.start = 1


def corrupt_name(index: HashIndex, run: Run) -> None:
    run.names[0] ^= 1


@pytest.mark.parametrize(
    ("corrupt", "fault"),
    [
        (corrupt_count, "are counted"),
        (corrupt_slots, "bytes for"),
        (corrupt_start, "wrong place"),
        (corrupt_name, "wrong place"),
    ],
)
def test_the_integrity_check_names_the_fault(
    index: HashIndex, corrupt: Callable[[HashIndex, Run], None], fault: str
) -> None:
    index.insert(path(*"abc"), slots(1, 2, 3))
    corrupt(index, index.match(path(*"abc")).run)
    with pytest.raises(IntegrityError, match=fault):
        index.check_integrity()


def test_any_order_of_calls_agrees_with_a_set_of_prefixes() -> None:
    chance, index, known = random.Random(1), HashIndex(), {}
    for turn in range(3000):
        labels = tuple(chance.choice("ab") for _ in range(chance.randint(1, 12)))
        names = path(*labels)
        prefixes = [labels[: end + 1] for end in range(len(labels))]
        num = next((at for at, prefix in enumerate(prefixes) if prefix not in known), len(labels))
        found = index.match(names)
        assert found.num_blocks == num
        assert found.slots().tolist() == [known[prefix] for prefix in prefixes[:num]]
        if chance.random() < 0.6:
            index.insert(names, np.arange(turn * 20, turn * 20 + len(labels), dtype=np.int32))
            for at, prefix in enumerate(prefixes):
                known.setdefault(prefix, turn * 20 + at)
        else:
            kept = chance.randrange(len(labels))
            gone = {each for each in known if each[: kept + 1] == labels[: kept + 1]}
            assert sorted(index.forget(names, kept).tolist()) == sorted(known.pop(each) for each in gone)
        assert index.num_blocks == len(known)
    index.check_integrity()
