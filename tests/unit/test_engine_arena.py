"""Arena: blocks of K/V in one tensor, committed as they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from openclaw_cache.engine.arena import Arena  # noqa: E402
from openclaw_cache.kv.codec import KvLayout  # noqa: E402

LAYOUT = KvLayout(num_layers=2, num_kv_heads=3, head_dim=4, block_tokens=4)


def make(num_blocks: int = 8) -> Arena:
    return Arena(LAYOUT, num_blocks, torch.float32, "cpu")


def blocks(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def test_every_slot_begins_as_zero() -> None:
    assert not make().keys_values(1).any()


def test_size_is_layers_times_keys_and_values_times_slots_times_heads_times_dim() -> None:
    assert make(8).num_bytes == 2 * 2 * 8 * 4 * 3 * 4 * 4


@pytest.mark.parametrize("numbers", [(2, 3, 4), (5, 1, 6), (4, 3, 2), (7,), ()])
def test_what_is_written_to_blocks_of_a_layer_is_read_from_them_and_from_no_other(
    numbers: tuple[int, ...],
) -> None:
    arena = make()
    kv = torch.randn(2, len(numbers), 4, 3, 4, dtype=torch.float64)
    arena.write_layer(blocks(*numbers), 1, kv)
    assert torch.equal(arena.read_layer(blocks(*numbers), 1), kv.float())
    others = [number for number in range(8) if number not in numbers]
    assert not arena.read_layer(blocks(*others), 1).any()
    assert not arena.keys_values(0).any()


def test_neighbouring_blocks_are_read_without_a_copy() -> None:
    arena = make()
    start = arena.keys_values(1).data_ptr()
    assert arena.read_layer(blocks(2, 3), 1).data_ptr() == start + 2 * 4 * 3 * 4 * 4
    assert arena.read_layer(blocks(3, 2), 1).data_ptr() != start + 3 * 4 * 3 * 4 * 4


def test_slot_of_a_token_is_block_number_times_block_tokens_plus_offset() -> None:
    arena = make()
    arena.write_layer(blocks(5), 0, torch.arange(96.0).view(2, 1, 4, 3, 4))
    # Values before token 2 of V: 4 tokens of K and 2 of V, 12 values each.
    assert arena.keys_values(0)[1, 5 * 4 + 2, 0, 0] == 6 * 12


def test_copy_tokens_copies_the_first_tokens_in_all_layers_and_leaves_the_rest() -> None:
    arena = make()
    for layer in range(2):
        arena.write_layer(blocks(6), layer, torch.randn(2, 1, 4, 3, 4))
        arena.write_layer(blocks(1), layer, torch.full((2, 1, 4, 3, 4), 9.0))
    arena.copy_tokens(6, 1, 3)
    for layer in range(2):
        source, target = arena.read_layer(blocks(6), layer), arena.read_layer(blocks(1), layer)
        assert torch.equal(target[:, :, :3], source[:, :, :3])
        assert (target[:, :, 3] == 9).all()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize(("preallocation_ratio", "least", "most"), [(0.0, 0, 8e6), (0.25, 64e6, 76e6)])
def test_only_the_preallocated_share_of_pages_is_committed(
    preallocation_ratio: float, least: float, most: float
) -> None:
    layout = KvLayout(num_layers=4, num_kv_heads=4, head_dim=64, block_tokens=16)  # 128 KiB a block
    make()  # what the first use of torch loads is not counted
    before = resident_bytes()
    arena = Arena(layout, 2048, torch.float32, "cpu", preallocation_ratio)
    assert arena.num_bytes == 2**28
    assert least <= resident_bytes() - before <= most
