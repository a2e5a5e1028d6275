"""The host tier: slots in one arena, verified on every read."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from openclaw_cache.kv.codec import Codec, KvLayout
from openclaw_cache.kv.tiers import CorruptBlockError, HostStore
from support.kv_blocks import BLOCK_BYTES, CODEC, LAYER_BYTES, layer_of, payloads, record_of, rows, slots


def filled(*numbers: int, num_slots: int = 8) -> HostStore:
    """Block i in slot i."""
    store = HostStore(num_slots, CODEC)
    store.write(slots(*numbers), [record_of(i) for i in numbers], payloads(list(numbers)))
    return store


def test_every_layer_of_every_block_comes_back_in_the_order_asked_for() -> None:
    store = filled(0, 1, 2, 5, 7)
    for asked in ([0, 1, 2], [2, 1, 0], [7, 0, 5], [5]):
        for layer in range(3):
            assert rows(store.read_layer(slots(*asked), layer)) == [layer_of(i, layer) for i in asked]


def test_blocks_written_to_scattered_slots_land_in_those_slots() -> None:
    store = HostStore(8, CODEC)
    store.write(slots(6, 2, 3), [record_of(i) for i in (10, 11, 12)], payloads([10, 11, 12]))
    assert rows(store.read_layer(slots(2, 3, 6), 1)) == [layer_of(11, 1), layer_of(12, 1), layer_of(10, 1)]


def test_neighbouring_slots_are_read_without_a_copy_and_others_with_one() -> None:
    store = filled(0, 1, 2, 3)
    first = store.read_layer(slots(1, 2, 3), 1)
    again = store.read_layer(slots(1, 2, 3), 1)
    assert first.data_ptr() == again.data_ptr()
    assert first.stride() == (BLOCK_BYTES, 1)
    assert store.read_layer(slots(1, 3), 1).stride() == (LAYER_BYTES, 1)


def test_a_changed_bit_is_found_in_its_layer_and_names_its_block_only() -> None:
    store = filled(0, 1, 2)
    store.read_layer(slots(1), 2)[0, 5] ^= 1  # a stray write through a view
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(2, 1, 0), 2)
    assert caught.value.bad.tolist() == [1]
    assert rows(store.read_layer(slots(2, 1, 0), 1)) == [layer_of(i, 1) for i in (2, 1, 0)]


def test_a_slot_that_was_never_written_or_was_forgotten_gives_nothing() -> None:
    store = filled(0, 1, 2)
    store.forget(slots(1))
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(0, 1, 2, 3), 0)
    assert caught.value.bad.tolist() == [1, 3]


def test_a_slot_written_again_holds_the_later_block() -> None:
    store = filled(0, 1)
    store.write(slots(1), [record_of(9)], payloads([9]))
    assert rows(store.read_layer(slots(0, 1), 2)) == [layer_of(0, 2), layer_of(9, 2)]


def test_sizes_are_those_of_the_codec_and_no_slots_are_refused() -> None:
    store = HostStore(3, CODEC)
    assert (store.num_slots, store.block_bytes) == (3, 3 * 2 * 4 * 2 * 4 * 2)
    with pytest.raises(ValueError, match="0 slots"):
        HostStore(0, CODEC)


@pytest.mark.parametrize(("ratio", "expected_bytes"), [(0.0, 0), (0.5, 64 << 20), (1.0, 128 << 20)])
def test_preallocation_takes_that_share_of_the_memory_at_once(ratio: float, expected_bytes: int) -> None:
    codec = Codec("fp16", KvLayout(num_layers=8, num_kv_heads=8, head_dim=64, block_tokens=64))
    assert codec.block_bytes == 1 << 20
    before = resident_bytes()
    store = HostStore(128, codec, preallocation_ratio=ratio)
    taken = resident_bytes() - before
    assert store.num_slots == 128
    assert abs(taken - expected_bytes) < 8 << 20


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_checksum_of_zero_is_not_taken_for_an_empty_slot_that_matches() -> None:
    store = HostStore(2, CODEC)
    zero = record_of(0)
    zero.checksums[:] = 0
    store.write(slots(0), [zero], torch.zeros((1, BLOCK_BYTES), dtype=torch.uint8))
    with pytest.raises(CorruptBlockError) as caught:
        store.read_layer(slots(0, 1), 0)
    assert np.array_equal(caught.value.bad, [0, 1])
