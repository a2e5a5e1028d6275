"""An index for many thousands of rows: it looks only into the neighbourhoods that a vector may belong to.

faiss's inverted file (IVF) with rows as float16, chosen over others in docs/decisions/0011-vector-index.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from openclaw_cache.embedding.embedder import Vector

Ids = npt.NDArray[np.int64]
Vectors = npt.NDArray[np.float32]

_NUM_PROBES: Final = 64
"""Neighbourhoods that a search looks into."""
_SAMPLE: Final = 64
"""Rows for each neighbourhood that training looks at."""
_NUM_ROUNDS: Final = 8
_BATCH: Final = 4096


def is_available() -> bool:
    """Whether faiss is installed (`faiss-cpu` in the extra `semantic`)."""
    return importlib.util.find_spec("faiss") is not None


class LargeIndex:
    """Rows in about `2 √n` neighbourhoods, of which a search reads the 64 nearest.

    So it may miss the nearest row, rarely where that is as near as a paraphrase. Neighbourhoods are fixed when the
    index is made: after some times as many adds as it was made from it should be made anew. Cosines are those of
    the vectors as float16, 0.0005 off at most. A removed row's place is kept for later ones.

    Cost: 0.1 ms a row to make, without the interpreter's lock; add 25 µs, remove 5 µs, search 0.6 ms for 100,000.

    Args:
        row_ids: the numbers of the first rows, at least one.
        vectors: theirs, one a line. They say what the neighbourhoods are.
    """

    def __init__(self, row_ids: Ids, vectors: Vectors) -> None:
        self._faiss: Any = importlib.import_module("faiss")
        self._lock = threading.Lock()
        num_rows, self._num_dims = vectors.shape
        self._num_lists = min(num_rows, int(2 * num_rows**0.5))
        self._quantizer = self._faiss.IndexFlatL2(self._num_dims)
        self._index = self._faiss.IndexIVFScalarQuantizer(
            self._quantizer,
            self._num_dims,
            self._num_lists,
            self._faiss.ScalarQuantizer.QT_fp16,
            self._faiss.METRIC_INNER_PRODUCT,
            False,  # rows themselves, not what sets them apart from their neighbourhood's centre
        )
        self._index.nprobe = min(_NUM_PROBES, self._num_lists)
        clustering = self._index.cp
        clustering.niter = _NUM_ROUNDS
        clustering.min_points_per_centroid = 1  # or it writes a warning to stderr
        clustering.max_points_per_centroid = _SAMPLE
        sample = np.random.default_rng(0).permutation(num_rows)[: self._num_lists * _SAMPLE]
        self._one_thread()
        self._index.train(np.ascontiguousarray(vectors[np.sort(sample)]))
        self._index.set_direct_map_type(self._faiss.DirectMap.Hashtable)
        for start in range(0, num_rows, _BATCH):
            self.add_many(row_ids[start : start + _BATCH], vectors[start : start + _BATCH])

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def search_bytes(self) -> int:
        """The neighbourhoods' centres, and the rows of those that are looked into."""
        num_rows = self._num_lists * 2 + len(self) * self._index.nprobe // self._num_lists
        return int(num_rows * self._num_dims * 2)

    def add(self, row_id: int, vector: Vector) -> None:
        """Place a vector; the same number again replaces it."""
        self.add_many(np.array([row_id], np.int64), vector[None])

    def add_many(self, row_ids: Ids, vectors: Vectors) -> None:
        """Place vectors; numbers that are there already get theirs replaced. `row_ids` has each number once."""
        with self._lock:
            self._one_thread()
            self._forget(row_ids)  # or a number would stand in two places
            self._index.add_with_ids(np.ascontiguousarray(vectors, np.float32), row_ids)

    def remove(self, row_id: int) -> bool:
        """Forget a vector. Returns whether it was there."""
        with self._lock:
            return self._forget(np.array([row_id], np.int64)) > 0

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """The `k` nearest that it finds, with their cosines, nearest first."""
        if k <= 0:
            return []
        with self._lock:
            self._one_thread()
            cosines, row_ids = self._index.search(vector[None], k)
        pairs = zip(row_ids[0].tolist(), cosines[0].tolist(), strict=True)
        return [(row_id, cosine) for row_id, cosine in pairs if row_id >= 0]

    def rows(self) -> tuple[Ids, Vectors]:
        """A copy of all numbers and vectors; each neighbourhood as it is in the moment when its turn comes."""
        lists = self._index.invlists
        all_ids, all_codes = [np.empty(0, np.int64)], [np.empty(0, np.uint8)]
        for number in range(self._num_lists):
            with self._lock:
                size = lists.list_size(number)
                if size:
                    all_ids.append(self._faiss.rev_swig_ptr(lists.get_ids(number), size).copy())
                    codes = self._faiss.rev_swig_ptr(lists.get_codes(number), size * lists.code_size)
                    all_codes.append(codes.copy())
        codes = np.concatenate(all_codes).view(np.float16).reshape(-1, self._num_dims)
        return np.concatenate(all_ids), codes.astype(np.float32)

    def _forget(self, row_ids: Ids) -> int:
        chosen = self._faiss.IDSelectorArray(len(row_ids), self._faiss.swig_ptr(row_ids))
        return int(self._index.remove_ids(chosen))

    def _one_thread(self) -> None:
        """A setting of each thread: more of them would only take cores from the requests."""
        self._faiss.omp_set_num_threads(1)
