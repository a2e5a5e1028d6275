"""The indexes find what looking at every row finds, forget what is removed, and give its memory back."""

from __future__ import annotations

import math
import sys
import threading
import tracemalloc

import numpy as np
import pytest

from openclaw_cache.semantic import growing, large
from openclaw_cache.semantic.growing import GrowingIndex
from openclaw_cache.semantic.index import Index
from openclaw_cache.semantic.large import LargeIndex
from openclaw_cache.semantic.matrix import BLOCK_ROWS, MatrixIndex
from support.vectors import grouped, nearby, nearest, unit

needs_faiss = pytest.mark.skipif(not large.is_available(), reason="faiss-cpu is not installed")


def filled(index: Index, rows: np.ndarray) -> Index:
    for row_id, row in enumerate(rows):
        index.add(row_id, row)
    return index


def large_index(rows: np.ndarray) -> LargeIndex:
    return LargeIndex(np.arange(len(rows)), rows)


# -- plain geometry: values from outside


def test_cosines_of_known_angles() -> None:
    index = MatrixIndex(2)
    for row_id, degrees in enumerate((0, 30, 60, 90, 180)):
        index.add(
            row_id, np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))], np.float32)
        )
    found = index.search(np.array([1, 0], np.float32), 5)
    assert [row_id for row_id, _ in found] == [0, 1, 2, 3, 4]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.8660254, 0.5, 0, -1], abs=1e-6)


def test_an_empty_index_finds_nothing_and_takes_no_rows_memory() -> None:
    index = MatrixIndex(384)
    assert index.search(unit(np.ones(384)), 5) == []
    assert not index.remove(1)
    assert index.capacity_bytes == 0


def test_one_row_takes_the_memory_of_one_row() -> None:
    index = filled(MatrixIndex(384), grouped(1, 384, 0))
    assert index.capacity_bytes == 384 * 4


@pytest.mark.parametrize("k", [0, 1, 3, 4, 50])
def test_as_many_as_asked_for_or_as_there_are(k: int) -> None:
    rows = grouped(4, 8, 1)
    for index in [filled(MatrixIndex(8), rows), *([large_index(rows)] if large.is_available() else [])]:
        assert len(index.search(rows[0], k)) == min(k, 4)


def test_the_vector_is_copied() -> None:
    index, row = MatrixIndex(4), unit(np.array([1.0, 2, 3, 4]))
    index.add(7, row)
    row[:] = 0
    assert index.search(unit(np.array([1.0, 2, 3, 4])), 1) == [(7, pytest.approx(1, abs=1e-6))]


@pytest.mark.parametrize("kind", [MatrixIndex, pytest.param(LargeIndex, marks=needs_faiss)])
def test_the_same_number_again_replaces_its_vector(kind: type) -> None:
    rows = grouped(50, 16, 2)
    index = filled(MatrixIndex(16), rows) if kind is MatrixIndex else large_index(rows)
    moved = -rows[3]
    index.add(3, moved)
    assert len(index) == 50
    assert index.search(moved, 1) == [(3, pytest.approx(1, abs=1e-3))]
    assert [row_id for row_id, _ in index.search(rows[3], 50)].count(3) <= 1
    assert index.remove(3)
    assert not index.remove(3)
    assert 3 not in [row_id for row_id, _ in index.search(moved, 50)]


# -- exactness


@pytest.mark.parametrize(
    "num_rows", [1, 2, 9, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 5]
)
def test_a_matrix_finds_exactly_what_brute_force_finds_across_blocks(num_rows: int) -> None:
    rows = grouped(num_rows, 24, 3)
    index = filled(MatrixIndex(24), rows)
    for query in nearby(rows[:: max(1, num_rows // 20)], 4):
        expected = nearest(dict(enumerate(rows)), query, 10)
        found = index.search(query, 10)
        assert [cosine for _, cosine in found] == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
        assert {row_id for row_id, _ in found} == {row_id for row_id, _ in expected}


def test_a_matrix_is_exact_after_nine_tenths_were_removed_and_others_came() -> None:
    rows = grouped(BLOCK_ROWS + 2000, 24, 5)
    index = filled(MatrixIndex(24), rows)
    held = dict(enumerate(rows))
    for row_id in np.random.default_rng(6).permutation(len(rows))[: len(rows) * 9 // 10].tolist():
        assert index.remove(row_id)
        del held[row_id]
    for row_id, row in enumerate(grouped(300, 24, 7), start=100_000):
        index.add(row_id, row)
        held[row_id] = row
    assert len(index) == len(held)
    for query in grouped(30, 24, 8):
        expected = nearest(held, query, 10)
        assert {row_id for row_id, _ in index.search(query, 10)} == {row_id for row_id, _ in expected}


def test_a_matrix_gives_memory_back() -> None:
    rows = grouped(3 * BLOCK_ROWS, 16, 9)
    index = filled(MatrixIndex(16), rows)
    assert index.capacity_bytes == rows.nbytes
    for row_id in range(3 * BLOCK_ROWS - 100):
        index.remove(row_id)
        assert index.capacity_bytes <= (len(index) * 4 / 3 + 2) * 16 * 4
    for row_id in range(3 * BLOCK_ROWS - 100, 3 * BLOCK_ROWS):
        index.remove(row_id)
    assert index.capacity_bytes == 0


# -- large


@needs_faiss
def test_a_large_index_finds_the_nearest_row_of_a_paraphrase_and_its_cosine() -> None:
    rows = grouped(6000, 96, 10, num_groups=300)
    index = large_index(rows)
    chosen = np.random.default_rng(11).permutation(6000)[:300]
    queries = nearby(rows[chosen], 12)
    true_ids = np.argmax(rows @ queries.T, axis=0)
    num_right = 0
    for row_id, query, true_id in zip(chosen.tolist(), queries, true_ids.tolist(), strict=True):
        (found, cosine), *_ = index.search(query, 5)
        num_right += found == true_id
        assert cosine == pytest.approx(float(rows[found] @ query), abs=5e-4)
        assert found == row_id or cosine > float(rows[row_id] @ query)
    assert num_right >= 298


@needs_faiss
def test_a_large_index_leaves_no_ghost_after_many_removals() -> None:
    rows = grouped(3000, 32, 13)
    index = large_index(rows)
    for row_id in range(2700):
        assert index.remove(row_id)
    assert len(index) == 300
    for query in rows[:200]:
        assert all(row_id >= 2700 for row_id, _ in index.search(query, 50))
    for row_id in range(2700, 3000):
        assert index.search(rows[row_id], 1)[0][1] == pytest.approx(1, abs=5e-4)
        index.remove(row_id)
    assert index.search(rows[0], 5) == []


@needs_faiss
def test_a_large_index_returns_each_row_once_when_it_is_copied() -> None:
    rows = grouped(1000, 32, 14)
    index = large_index(rows)
    index.remove(5)
    ids, copies = index.rows()
    assert len(ids) == 999
    copied = dict(zip(ids.tolist(), copies, strict=True))
    assert sorted(copied) == [row_id for row_id in range(1000) if row_id != 5]
    assert max(float(np.abs(row - rows[row_id]).max()) for row_id, row in copied.items()) < 5e-4  # float16's


@needs_faiss
def test_making_a_large_index_of_few_rows_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    for num_rows in (1, 2, 10, 500):
        assert len(large_index(grouped(num_rows, 16, 15))) == num_rows
    assert capfd.readouterr() == ("", "")


# -- growing


@needs_faiss
def test_it_becomes_large_and_small_again_and_finds_all_rows_in_between() -> None:
    rows = grouped(3000, 32, 16)
    index = GrowingIndex(32, large_from=500)
    for row_id, row in enumerate(rows):
        index.add(row_id, row)
        if row_id % 100 == 0:
            assert index.search(row, 1)[0][1] == pytest.approx(1, abs=5e-4)
    index.settle()
    assert index.is_large
    assert len(index) == 3000
    for row_id in range(2950):
        assert index.remove(row_id)
        if row_id % 500 == 0:
            index.settle()
    index.settle()
    assert not index.is_large
    assert len(index) == 50
    for row_id in range(2950, 3000):
        assert index.search(rows[row_id], 1) == [(row_id, pytest.approx(1, abs=5e-4))]
    assert {row_id for row_id, _ in index.search(rows[0], 100)} == set(range(2950, 3000))


@needs_faiss
def test_what_comes_and_goes_while_a_new_kind_is_made_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    class Held(LargeIndex):
        def __init__(self, row_ids: np.ndarray, vectors: np.ndarray) -> None:
            has_begun.set()
            may_end.wait(20)
            super().__init__(row_ids, vectors)

    monkeypatch.setattr(growing, "LargeIndex", Held)
    rows = grouped(1000, 16, 17)
    index = GrowingIndex(16, large_from=200)
    for row_id in range(200):
        index.add(row_id, rows[row_id])
    assert has_begun.wait(20)
    for row_id in range(200, 1000):
        index.add(row_id, rows[row_id])
    for row_id in range(0, 1000, 2):
        assert index.remove(row_id)
    index.add(4, -rows[4])
    index.add(7, -rows[7])
    assert not index.is_large
    may_end.set()
    index.settle()
    assert index.is_large
    assert len(index) == 501
    expected = {row_id: rows[row_id] for row_id in range(1, 1000, 2)} | {4: -rows[4], 7: -rows[7]}
    for row_id, row in expected.items():
        assert index.search(row, 1) == [(row_id, pytest.approx(1, abs=5e-4))]
    assert {row_id for row_id, _ in index.search(rows[0], 1000)} <= set(expected)


@needs_faiss
def test_where_a_new_kind_cannot_be_made_the_old_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts, seen = [], []

    def out_of_memory(*_: object) -> None:
        attempts.append(1)
        raise MemoryError

    monkeypatch.setattr(growing, "LargeIndex", out_of_memory)
    monkeypatch.setattr(threading, "excepthook", seen.append)
    rows = grouped(700, 16, 18)
    index = GrowingIndex(16, large_from=100)
    for row_id, row in enumerate(rows):
        index.add(row_id, row)
        index.settle()
    assert len(attempts) == len(seen) == 2  # at 100 rows, and after three times as many adds more
    assert index.search(rows[650], 1) == [(650, pytest.approx(1, abs=1e-6))]


def test_without_faiss_the_matrix_goes_on() -> None:
    rows = grouped(BLOCK_ROWS + 10, 8, 19)
    index = filled(GrowingIndex(8, large_from=None), rows)
    assert index.search(rows[-1], 1)[0][1] == pytest.approx(1, abs=1e-6)


def test_without_faiss_nothing_imports_it() -> None:
    assert large.__name__ in sys.modules
    assert not hasattr(large, "faiss")


# -- threads


def test_searches_in_threads_never_pair_a_row_with_the_cosine_of_another_nor_return_one_that_was_gone() -> (
    None
):
    rows = grouped(3000, 16, 20)
    index = filled(MatrixIndex(16), rows)
    gone = set(range(500))
    for row_id in gone:
        index.remove(row_id)
    stop, faults = threading.Event(), []

    def look() -> None:
        rng = np.random.default_rng()
        while not stop.is_set():
            query = rows[rng.integers(0, len(rows))]
            for row_id, cosine in index.search(query, 20):
                if row_id in gone or abs(float(rows[row_id] @ query) - cosine) > 1e-5:
                    faults.append((row_id, cosine))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        for row_id in range(500, 2000):
            index.remove(row_id)
        for row_id in range(500, 2000):
            index.add(row_id, rows[row_id])
    stop.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert {row_id for row_id, _ in index.search(rows[0], 3000)} == set(range(500, 3000))


def test_a_matrix_of_one_row_takes_less_than_two_kilobytes_beside_its_vector() -> None:
    rows = grouped(500, 384, 21)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        indexes = [GrowingIndex(384, None) for _ in rows]
        for index, row in zip(indexes, rows, strict=True):
            index.add(1_000_000, row)
        used = (tracemalloc.get_traced_memory()[0] - before) / len(rows)
    finally:
        tracemalloc.stop()
    assert 384 * 4 < used < 384 * 4 + 2000
