"""Stored questions are found in their partition only, live within bounds that nobody can use up for others, and go."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from openclaw_cache.semantic import large
from openclaw_cache.semantic.partitions import Partitions, Row
from support.stored_questions import key_of, stored
from support.vectors import grouped, nearby, unit

ROWS = grouped(400, 16, 1)
NOW = 2_000.0
PLENTY = 1 << 30


ONE = stored("any")


def stored_once(number: int) -> Row:
    """Without a reading of its own: thousands of them are quick to make."""
    return Row(key_of(number), b"p", ONE.question, "default", ONE.namespace, "m", 1_000.0, 9_000.0)


def roomy(max_rows: int = 10_000, max_bytes: int = PLENTY, large_from: int | None = None) -> Partitions:
    return Partitions(max_rows, max_bytes, large_from=large_from)


def keys(found: list[tuple[Row, float]]) -> list[bytes]:
    return [row.key for row, _ in found]


def test_only_rows_of_the_partition_are_found_however_near_others_are() -> None:
    partitions = roomy()
    partitions.add(stored("mine", partition=b"a"), ROWS[1])
    for number in range(50):
        partitions.add(stored(number, partition=b"b"), ROWS[0])
    assert keys(partitions.nearest(b"a", ROWS[0], 5, NOW)) == [key_of("mine")]
    assert len(partitions.nearest(b"b", ROWS[0], 5, NOW)) == 5
    assert partitions.nearest(b"c", ROWS[0], 5, NOW) == []
    assert (partitions.num_rows, partitions.num_partitions) == (51, 2)


def test_nearest_first_with_the_cosine() -> None:
    partitions = roomy()
    for name, angle in (("far", 1.0), ("same", 0.0), ("near", 0.5)):
        partitions.add(stored(name), np.array([np.cos(angle), np.sin(angle)], np.float32))
    found = partitions.nearest(b"p", np.array([1, 0], np.float32), 3, NOW)
    assert keys(found) == [key_of("same"), key_of("near"), key_of("far")]
    assert [cosine for _, cosine in found] == pytest.approx([1.0, 0.87758256, 0.54030231], abs=1e-6)


def test_the_same_key_again_replaces_the_row_and_its_vector_even_in_another_partition() -> None:
    partitions = roomy()
    partitions.add(stored("k", partition=b"a", namespace="one"), ROWS[0])
    partitions.add(stored("k", partition=b"b", namespace="two", text="what else"), ROWS[1])
    assert partitions.num_rows == partitions.num_partitions == 1
    assert partitions.nearest(b"a", ROWS[0], 5, NOW) == []
    [(row, cosine)] = partitions.nearest(b"b", ROWS[1], 5, NOW)
    assert (row.question, cosine) == ("what else", pytest.approx(1, abs=1e-6))
    assert partitions.by_key(key_of("k")) is row


def test_a_removed_row_is_never_found_again_and_takes_nothing() -> None:
    partitions = roomy()
    for number in range(40):
        partitions.add(stored(number, namespace=f"n{number % 3}"), ROWS[number])
    assert partitions.remove(key_of(7))
    assert not partitions.remove(key_of(7))
    assert partitions.by_key(key_of(7)) is None
    assert key_of(7) not in keys(partitions.nearest(b"p", ROWS[7], 40, NOW))
    for number in range(40):
        partitions.remove(key_of(number))
    assert (partitions.num_rows, partitions.num_partitions, partitions.memory_bytes) == (0, 0, 0)
    assert partitions.nearest(b"p", ROWS[7], 5, NOW) == []


def test_an_expired_row_is_never_found_and_hides_no_other() -> None:
    partitions = roomy()
    for number in range(30):
        partitions.add(stored(number, expires_at=NOW), ROWS[0])
    partitions.add(stored("valid", expires_at=NOW + 0.001), ROWS[1])
    assert keys(partitions.nearest(b"p", ROWS[0], 2, NOW)) == [key_of("valid")]
    assert partitions.nearest(b"p", ROWS[0], 2, NOW + 1) == []
    assert partitions.num_rows == 0


def test_dropping_the_expired_drops_these_and_says_how_many() -> None:
    partitions = roomy()
    for number in range(30):
        partitions.add(stored(number, expires_at=3_000.0 + number), ROWS[number])
    assert partitions.drop_expired(2_999.9) == 0
    assert partitions.drop_expired(3_009.0, limit=4) == 4
    assert partitions.drop_expired(3_009.0) == 6
    assert {row.key for row, _ in partitions.nearest(b"p", ROWS[0], 30, NOW)} == {
        key_of(n) for n in range(10, 30)
    }


def test_a_row_that_was_stored_again_lives_by_its_new_age() -> None:
    partitions = roomy()
    partitions.add(stored("k", expires_at=3_000.0), ROWS[0])
    partitions.add(stored("k", expires_at=8_000.0), ROWS[0])
    assert partitions.drop_expired(5_000.0) == 0
    assert partitions.by_key(key_of("k")) is not None
    assert partitions.drop_expired(8_000.0) == 1


def test_rows_are_dropped_by_what_an_operator_asks_for() -> None:
    partitions = roomy()
    for number in range(20):
        partitions.add(
            stored(number, text=f"question {number} about {'finance' if number % 4 == 0 else 'art'}"), ROWS[0]
        )
    assert partitions.remove_where(lambda row: "finance" in row.question) == 5
    assert partitions.num_rows == 15
    assert not any("finance" in row.question for row, _ in partitions.nearest(b"p", ROWS[0], 20, NOW))
    partitions.clear()
    assert (partitions.num_rows, partitions.num_partitions, partitions.memory_bytes) == (0, 0, 0)


# -- bounds


def test_the_row_that_was_not_hit_goes_first_and_a_hit_spares_once() -> None:
    partitions = roomy(max_rows=3)
    for number in range(3):
        partitions.add(stored(number), ROWS[number])
    partitions.touch(key_of(0))
    partitions.add(stored(3), ROWS[3])  # 0 is spared, 1 goes
    assert [partitions.by_key(key_of(number)) is not None for number in range(4)] == [True, False, True, True]
    for number in (4, 5, 6):  # 2 and 3 go, then 0, which was put behind them when it was spared
        assert partitions.by_key(key_of(0)) is not None
        partitions.add(stored(number), ROWS[number])
    assert [partitions.by_key(key_of(number)) is not None for number in range(7)] == [False] * 4 + [True] * 3
    assert partitions.num_evictions == 4
    partitions.touch(key_of("unknown"))


def test_a_namespace_with_many_rows_pushes_out_its_own_and_no_others() -> None:
    partitions = roomy(max_rows=100)
    for number in range(20):
        partitions.add(stored(f"small {number}", namespace="small", partition=b"s"), ROWS[number])
    for number in range(5_000):
        partitions.add(
            stored(number, namespace="greedy", partition=b"g%d" % (number % 7)), ROWS[number % 400]
        )
        partitions.touch(key_of(number))
    assert partitions.num_rows == 100
    assert all(partitions.by_key(key_of(f"small {number}")) for number in range(20))


def test_namespaces_that_want_all_end_with_equal_shares() -> None:
    partitions = roomy(max_rows=90)
    for number in range(300):
        partitions.add(stored(f"a{number}", namespace="a"), ROWS[0])
    for number in range(300):
        partitions.add(stored(f"b{number}", namespace="b"), ROWS[0])
    for number in range(300):
        partitions.add(stored(f"c{number}", namespace="c"), ROWS[0])
    num_rows = [
        sum(partitions.by_key(key_of(f"{name}{number}")) is not None for number in range(300))
        for name in "abc"
    ]
    assert num_rows == [30, 30, 30]


def test_many_near_rows_of_one_namespace_hide_no_row_of_another() -> None:
    partitions = roomy()
    for number in range(500):
        partitions.add(stored(number, namespace="loud", partition=b"loud"), ROWS[0])
    partitions.add(stored("quiet", namespace="quiet", partition=b"quiet"), ROWS[1])
    assert keys(partitions.nearest(b"quiet", ROWS[0], 1, NOW)) == [key_of("quiet")]


def test_bytes_are_bounded_and_a_text_that_is_too_large_is_refused() -> None:
    partitions = roomy(max_bytes=40_000)
    for number in range(100):
        partitions.add(stored(number, text="x" * 50), ROWS[number])
        assert partitions.memory_bytes <= 40_000
    assert 20 <= partitions.num_rows <= 28  # some 1,600 bytes each
    assert not partitions.add(stored("huge", text="x" * 60_000), ROWS[0])
    assert partitions.by_key(key_of("huge")) is None
    assert partitions.memory_bytes <= 40_000


@pytest.mark.parametrize("num_partitions", [1, 30, 1_000])
def test_what_is_counted_is_what_the_interpreter_takes_or_somewhat_more(num_partitions: int) -> None:
    vectors = grouped(1_000, 384, 2)
    stored("first")
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        partitions = roomy()
        for number, vector in enumerate(vectors):
            text = f"What do I have to pay for parcel number {number} to Bergen?"
            partitions.add(stored(number, text=text, partition=b"%016d" % (number % num_partitions)), vector)
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.6 * partitions.memory_bytes < used < partitions.memory_bytes


def test_books_of_expiry_and_shares_do_not_grow_with_what_came_and_went() -> None:
    partitions = roomy(max_rows=10)
    for number in range(1_000):
        partitions.add(stored_once(number), ROWS[number % 400])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(1_000, 4_000):
            partitions.add(stored_once(number), ROWS[number % 400])
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000


# -- what is no vector


@pytest.mark.parametrize(
    "bad", [np.zeros(16), np.full(16, np.nan), np.full(16, np.inf), np.ones(16), np.eye(4)]
)
def test_what_is_no_vector_of_length_one_is_refused(bad: np.ndarray) -> None:
    partitions = roomy()
    partitions.add(stored("kept"), ROWS[0])
    with pytest.raises(ValueError, match="length 1"):
        partitions.add(stored("bad"), bad.astype(np.float32))
    with pytest.raises(ValueError, match="length 1"):
        partitions.nearest(b"p", bad.astype(np.float32), 1, NOW)
    assert keys(partitions.nearest(b"p", ROWS[0], 5, NOW)) == [key_of("kept")]


def test_vectors_of_another_model_are_not_compared() -> None:
    partitions = roomy()
    partitions.add(stored("kept"), ROWS[0])
    other = unit(np.ones(24))
    with pytest.raises(ValueError, match="24 numbers in a partition of 16"):
        partitions.add(stored("kept"), other)
    assert partitions.nearest(b"p", other, 5, NOW) == []
    assert partitions.by_key(key_of("kept")) is not None


# -- sizes and threads


def test_a_search_of_many_rows_is_said_to_be_slow() -> None:
    partitions = roomy(max_rows=50_000)
    vectors = grouped(13_700, 384, 3)
    for number in range(13_600):
        partitions.add(stored_once(number), vectors[number])
    assert not partitions.is_slow(b"p")
    for number in range(13_600, 13_700):
        partitions.add(stored_once(number), vectors[number])
    assert partitions.is_slow(b"p")
    assert not partitions.is_slow(b"unknown")


@pytest.mark.skipif(not large.is_available(), reason="faiss-cpu is not installed")
def test_a_partition_that_became_large_finds_paraphrases_and_forgets_what_is_removed() -> None:
    partitions = roomy(large_from=1_000)
    vectors = grouped(5_000, 64, 4, num_groups=500)
    for number in range(5_000):
        partitions.add(stored_once(number), vectors[number])
    partitions.settle()
    chosen = np.random.default_rng(5).permutation(5_000)[:200]
    queries = nearby(vectors[chosen], 6)
    true_numbers = np.argmax(vectors @ queries.T, axis=0)
    found = [keys(partitions.nearest(b"p", query, 1, NOW))[0] for query in queries]
    assert sum(key == key_of(int(number)) for key, number in zip(found, true_numbers, strict=True)) >= 199
    gone = {key_of(number) for number in range(0, 5_000, 2)}
    for key in gone:
        assert partitions.remove(key)
    for query in queries:
        assert not gone & set(keys(partitions.nearest(b"p", query, 50, NOW)))
    assert partitions.num_rows == 2_500


@pytest.mark.parametrize(
    "large_from",
    [None, pytest.param(150, marks=pytest.mark.skipif(not large.is_available(), reason="no faiss-cpu"))],
)
def test_searches_in_a_thread_beside_adds_and_removals_return_only_what_was_stored(
    large_from: int | None,
) -> None:
    partitions = roomy(max_rows=300, large_from=large_from)
    stop, faults = threading.Event(), []
    vector_of = {key_of(number): ROWS[number] for number in range(400)}
    never = key_of(399)

    def look() -> None:
        while not stop.is_set():
            for query in ROWS[::40]:
                for row, cosine in partitions.nearest(b"p", query, 10, NOW):
                    if row.key == never or abs(float(vector_of[row.key] @ query) - cosine) > 1e-3:
                        faults.append(row)

    thread = threading.Thread(target=look)
    partitions.add(stored(399), ROWS[399])
    partitions.remove(never)
    thread.start()
    for _ in range(6):
        for number in range(399):
            partitions.add(stored_once(number), ROWS[number])
        for number in range(0, 399, 3):
            partitions.remove(key_of(number))
    stop.set()
    thread.join()
    partitions.settle()
    assert faults == []
    assert len(partitions.nearest(b"p", ROWS[0], 400, NOW)) == partitions.num_rows
