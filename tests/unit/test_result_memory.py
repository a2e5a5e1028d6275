"""The memory tier: its bound, its order of eviction, expiry."""

from __future__ import annotations

import gzip
import lzma
import os
import tracemalloc
from pathlib import Path

import pytest

from openclaw_cache.result.memory import MemoryTier, entry_bytes
from openclaw_cache.result.s3fifo import S3Fifo
from openclaw_cache.types import CacheKey, Entry, Namespace


def entry(reply_bytes: int = 100, *, expires_at: float = 1e12) -> Entry:
    return Entry(
        reply=os.urandom(reply_bytes),
        model="".join(["smollm2", "-135m"]),  # built anew, as a decoded one is
        upstream="".join(["lo", "cal"]),
        namespace=Namespace("".join(["te", "am"])),
        created_at=float(reply_bytes),
        expires_at=expires_at,
        prompt_tokens=1000 + reply_bytes,
        completion_tokens=2000 + reply_bytes,
        has_usage=True,
        prompt="".join(["what is ", "a cache?"]),
    )


def key() -> CacheKey:
    return CacheKey(os.urandom(32))


@pytest.mark.parametrize(
    ("budget", "reply_bytes"), [(4_000_000, 100), (8_000_000, 2_000), (16_000_000, 40_000)]
)
def test_the_budget_is_what_the_interpreter_really_spends(budget: int, reply_bytes: int) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tier = MemoryTier(budget)
        while tier.num_evictions < 2000:
            tier.put(key(), entry(reply_bytes))
        spent = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert tier.used_bytes <= budget
    assert tier.used_bytes > 0.9 * budget
    assert 0.75 * budget < spent < 1.25 * budget


def test_an_entry_over_an_eighth_of_the_budget_is_refused_and_pushes_nothing_out() -> None:
    tier, small, big = MemoryTier(80_000), key(), key()
    tier.put(small, entry(100))
    assert not tier.put(big, entry(10_000))
    assert tier.get(big, 0) is None
    assert tier.get(small, 0) is not None
    assert tier.put(key(), entry(9_000))


def test_a_refused_entry_does_not_leave_an_older_one_under_its_key() -> None:
    tier, name = MemoryTier(80_000), key()
    tier.put(name, entry(100))
    tier.put(name, entry(70_000))
    assert tier.get(name, 0) is None


def test_an_expired_entry_is_gone_and_its_bytes_are_free() -> None:
    tier, name = MemoryTier(80_000), key()
    tier.put(name, entry(100, expires_at=50.0))
    assert tier.get(name, 49.9) is not None
    assert tier.get(name, 50.0) is None
    assert (len(tier), tier.used_bytes) == (0, 0)


def test_a_hit_does_not_lengthen_a_life() -> None:
    tier, name = MemoryTier(80_000), key()
    tier.put(name, entry(100, expires_at=50.0))
    for now in range(50):
        assert tier.get(name, now) is not None
    assert tier.get(name, 50.0) is None


def test_replacing_an_entry_counts_its_bytes_once() -> None:
    tier, name, newer = MemoryTier(80_000), key(), entry(3_000)
    tier.put(name, entry(100))
    tier.put(name, newer)
    assert tier.get(name, 0) is newer
    assert (len(tier), tier.used_bytes) == (1, entry_bytes(newer))
    assert [(found, size) for found, _, size in tier.items()] == [(name, entry_bytes(newer))]
    assert tier.remove(name)
    assert not tier.remove(name)
    assert (len(tier), tier.used_bytes) == (0, 0)


# the policy


def filled(capacity: int, keys: range) -> S3Fifo[int, str]:
    cache: S3Fifo[int, str] = S3Fifo(capacity)
    for name in keys:
        cache.put(name, str(name), 1)
    return cache


def test_keys_in_use_survive_a_scan_of_keys_seen_once() -> None:
    cache = filled(100, range(100))
    for _ in range(3):
        for name in range(80):
            cache.get(name)
    for name in range(1000, 11_000):
        cache.put(name, "scan", 1)
    assert sum(cache.get(name) is not None for name in range(80)) >= 70
    assert len(cache) <= 100
    assert cache.num_evictions >= 10_000


def test_a_key_that_comes_back_soon_after_leaving_stays_through_a_scan() -> None:
    cache = filled(100, range(200))  # the small queue has thrown out many, remembered as ghosts
    gone = next(name for name in range(199, -1, -1) if cache.get(name) is None)
    cache.put(gone, "again", 1)
    for name in range(1000, 1080):
        cache.put(name, "scan", 1)
    assert cache.get(gone) == "again"


def test_removed_keys_are_not_remembered_and_not_counted_as_evictions() -> None:
    cache = filled(10, range(5))
    assert cache.remove(3)
    assert (len(cache), cache.size, cache.num_evictions) == (4, 4, 0)


LIBCACHESIM_S3FIFO = {  # libcachesim 0.3.5, S3FIFO with its defaults, objects of size 1
    ("cache2k_web07.trace.xz", 204): 0.4375,
    ("cache2k_web07.trace.xz", 1024): 0.5425,
    ("cache2k_web07.trace.xz", 4096): 0.6245,
    ("lirs_multi3.trace.gz", 372): 0.3667,
    ("lirs_multi3.trace.gz", 1490): 0.5549,
}


@pytest.mark.parametrize(("trace", "capacity"), LIBCACHESIM_S3FIFO)
def test_hit_ratio_on_real_traces_is_that_of_an_independent_implementation(
    data_root: Path, trace: str, capacity: int
) -> None:
    raw = (lzma if trace.endswith("xz") else gzip).open(data_root / "cachetraces" / trace).read()
    requests: list[bytes] = (
        [raw[at : at + 4] for at in range(0, len(raw), 4)]
        if trace.endswith("xz")
        else [line for line in raw.split() if b"*" not in line]
    )
    cache: S3Fifo[bytes, bool] = S3Fifo(capacity)
    hits = 0
    for name in requests:
        if cache.get(name):
            hits += 1
        else:
            cache.put(name, True, 1)
    assert hits / len(requests) == pytest.approx(LIBCACHESIM_S3FIFO[trace, capacity], abs=0.002)
