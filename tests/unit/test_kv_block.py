"""The block pool: contiguous runs by chunk, all or nothing, and no count that can go wrong unnoticed."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.kv.block import NOWHERE, BlockPool, IntegrityError, Tier


def blocks(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def take(pool: BlockPool, num: int, after: int = NOWHERE) -> list[int]:
    taken = pool.take(num, after)
    assert taken is not None
    assert taken.dtype == np.int32
    return taken.tolist()


def test_tiers_are_numbered_from_the_fastest() -> None:
    assert [(tier.name, tier.value) for tier in Tier] == [("DEVICE", 0), ("HOST", 1), ("DISK", 2)]
    assert NOWHERE == -1


def test_an_empty_arena_fills_from_its_start_in_one_run() -> None:
    pool = BlockPool(12, chunk_blocks=4)
    assert take(pool, 10) == list(range(10))
    assert pool.num_free == 2


def test_taking_more_than_is_free_takes_nothing() -> None:
    pool = BlockPool(6, chunk_blocks=4)
    assert pool.take(7) is None
    assert pool.num_free == 6
    take(pool, 6)
    assert pool.take(1) is None
    assert take(pool, 0) == []


def test_a_holder_extends_right_behind_its_last_block_before_another_chunk_is_opened() -> None:
    pool = BlockPool(16, chunk_blocks=4)
    first = take(pool, 2)
    second = take(pool, 1)
    assert (first, second) == ([0, 1], [4])
    assert take(pool, 1, after=1) == [2]
    assert take(pool, 2, after=4) == [5, 6]


def test_a_run_goes_on_in_the_next_chunk_where_that_is_wholly_free() -> None:
    pool = BlockPool(20, chunk_blocks=4)
    take(pool, 20)
    pool.release(blocks(*range(4, 8)))
    pool.release(blocks(*range(12, 20)))
    pool.release(blocks(0))
    # Chunks 1, 3 and 4 are wholly free; behind block 11 chunk 3 continues the run, and chunk 4 continues that.
    assert take(pool, 6, after=11) == [12, 13, 14, 15, 16, 17]


def test_whole_free_chunks_come_first_then_the_chunk_with_most_free_blocks_from_its_lowest_run() -> None:
    pool = BlockPool(12, chunk_blocks=4)
    take(pool, 12)
    pool.release(blocks(1, 8, 10, 11, 4, 5, 6, 7))
    assert take(pool, 4) == [4, 5, 6, 7]
    assert take(pool, 4) == [8, 10, 11, 1]


def test_a_taken_successor_is_not_taken_again() -> None:
    pool = BlockPool(8, chunk_blocks=4)
    take(pool, 3)
    pool.release(blocks(1))
    # Behind block 0 only block 1 is free in one run; block 2 is held.
    assert take(pool, 2, after=0) == [1, 4]


def test_behind_the_last_block_of_the_arena_there_is_nothing() -> None:
    pool = BlockPool(6, chunk_blocks=4)
    take(pool, 6)
    pool.release(blocks(2))
    assert take(pool, 1, after=5) == [2]


def test_a_wholly_freed_chunk_is_whole_again() -> None:
    pool = BlockPool(12, chunk_blocks=4)
    take(pool, 12)
    for block in (5, 7, 4, 6, 1):
        assert pool.release(blocks(block)) == 1
    assert take(pool, 4) == [4, 5, 6, 7]


def test_the_last_chunk_may_be_shorter() -> None:
    pool = BlockPool(5, chunk_blocks=4)
    assert take(pool, 5) == [0, 1, 2, 3, 4]
    assert pool.release(blocks(4)) == 1
    assert take(pool, 1) == [4]


def test_numpy_integers_leave_the_books_in_order_with_chunks_beyond_64_blocks() -> None:
    pool = BlockPool(200, chunk_blocks=100)
    first = pool.take(np.int32(70))  # type: ignore[arg-type]
    assert first is not None
    second = pool.take(np.int64(20), first[-1])  # type: ignore[arg-type]
    assert second is not None
    assert second.tolist() == list(range(70, 90))
    pool.check_integrity(dict.fromkeys(range(90), 1))


def test_a_block_is_free_only_when_its_last_holder_has_released_it() -> None:
    pool = BlockPool(4)
    take(pool, 2)
    pool.share(blocks(0))
    assert (pool.num_refs(0), pool.is_shared(0)) == (2, True)
    assert (pool.num_refs(1), pool.is_shared(1)) == (1, False)
    assert pool.release(blocks(0, 1)) == 1
    assert (pool.num_refs(0), pool.is_shared(0), pool.num_free) == (1, False, 3)
    assert pool.release(blocks(0)) == 1
    assert (pool.num_refs(0), pool.num_free) == (0, 4)


def test_a_block_listed_twice_counts_twice() -> None:
    pool = BlockPool(4)
    take(pool, 1)
    pool.share(blocks(0, 0))
    assert pool.num_refs(0) == 3
    assert pool.release(blocks(0, 0, 0)) == 1


@pytest.mark.parametrize(
    ("verb", "wrong"),
    [
        ("release", [0, 1, 3]),  # 3 is free
        ("release", [0, 1, 1]),  # 1 has one holder
        ("release", [0, -1]),
        ("release", [0, 4]),
        ("share", [0, 3]),
        ("share", [0, NOWHERE]),
        ("share", [0, 4]),
    ],
)
def test_a_wrong_block_is_named_and_nothing_changes(verb: str, wrong: list[int]) -> None:
    pool = BlockPool(4)
    take(pool, 2)
    with pytest.raises(ValueError, match=rf"block {wrong[-1]}\b"):
        getattr(pool, verb)(blocks(*wrong))
    pool.check_integrity({0: 1, 1: 1})


@pytest.mark.parametrize("block", [-1, 4])
def test_questions_about_blocks_outside_the_arena_are_refused(block: int) -> None:
    pool = BlockPool(4)
    with pytest.raises(ValueError, match=f"no block {block}"):
        pool.num_refs(block)
    with pytest.raises(ValueError, match=f"no block {block}"):
        pool.is_shared(block)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="-1 blocks"):
        BlockPool(-1)
    with pytest.raises(ValueError, match="chunks of 0"):
        BlockPool(4, 0)
    with pytest.raises(ValueError, match="-1 blocks"):
        BlockPool(4).take(-1)
    with pytest.raises(ValueError, match="no block 4"):
        BlockPool(4).take(1, after=4)


def test_an_arena_without_blocks_never_has_room() -> None:
    pool = BlockPool(0)
    assert (pool.num_blocks, pool.num_free, pool.take(1)) == (0, 0, None)
    pool.check_integrity({})


def test_integrity_names_a_block_whose_holders_and_count_differ() -> None:
    pool = BlockPool(6, chunk_blocks=4)
    take(pool, 3)
    pool.check_integrity({0: 1, 1: 1, 2: 1})
    pool.check_integrity(np.array([1, 1, 1, 0, 0, 0]))
    with pytest.raises(IntegrityError, match="block 2 is held 0 times and counted 1 times"):
        pool.check_integrity({0: 1, 1: 1})
    with pytest.raises(IntegrityError, match="block 3 is held 1 times and counted 0 times"):
        pool.check_integrity(np.array([1, 1, 1, 1, 0, 0]))
    with pytest.raises(IntegrityError, match="block 6 is held"):
        pool.check_integrity({0: 1, 1: 1, 2: 1, 6: 1})
    with pytest.raises(IntegrityError, match="the arena has 6"):
        pool.check_integrity(np.array([1, 1, 1]))


def broken_mask(pool: BlockPool) -> None:
    pool._free[0] |= 1


def broken_number(pool: BlockPool) -> None:
    pool._num_free += 1


def broken_list(pool: BlockPool) -> None:
    pool._chunks_by_free[1][0] = None


@pytest.mark.parametrize(
    ("damage", "message"),
    [(broken_mask, "chunk 0"), (broken_number, "free \\+ 1 held"), (broken_list, "lists of chunks")],
)
def test_integrity_finds_free_lists_that_contradict_the_counts(damage: object, message: str) -> None:
    pool = BlockPool(6, chunk_blocks=4)
    take(pool, 1)
    damage(pool)  # type: ignore[operator]
    with pytest.raises(IntegrityError, match=message):
        pool.check_integrity({0: 1})
