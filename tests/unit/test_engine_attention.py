"""Plan and attention of a packed step, against brute force over single rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from openclaw_cache.engine import plan as plan_module  # noqa: E402
from openclaw_cache.engine.arena import Arena  # noqa: E402
from openclaw_cache.engine.attention import Step, attend, flash_on_cpu, plain  # noqa: E402
from openclaw_cache.engine.plan import Context, Own, Plan, Segment  # noqa: E402
from openclaw_cache.errors import ConfigError  # noqa: E402
from openclaw_cache.kv.codec import Codec, KvLayout  # noqa: E402

B = 4


def segment(num_tokens: int, start: int, table: list[int]) -> Segment:
    return Segment(np.arange(100, 100 + num_tokens, dtype=np.int32), start, np.array(table, np.int32))


def slots_read(plan: Plan, block_tokens: int) -> list[list[int]]:
    """The slots that each row attends to, piece by piece, through the plan's merge."""
    partial: list[tuple[int, list[int]]] = []
    for piece in plan.pieces:
        if isinstance(piece, Own):
            slots = plan.slots[piece.begin : piece.end].tolist()
            partial += [(piece.begin + i, slots[: i + 1]) for i in range(len(slots))]
            continue
        for group, (rows, num) in enumerate(zip(piece.rows, piece.num_tokens, strict=True)):
            if piece.first_slot is not None:
                slots = list(range(piece.first_slot, piece.first_slot + num))
            else:
                assert piece.blocks is not None
                slots = [int(b) * block_tokens + i for b in piece.blocks[group] for i in range(block_tokens)]
            partial += [(int(row), slots[:num]) for row in rows]
    if plan.merge is None:
        assert [row for row, _ in partial] == list(range(len(plan.positions)))
        return [slots for _, slots in partial]
    read = []
    for row, (index, is_padding) in enumerate(zip(plan.merge.index, plan.merge.is_padding, strict=True)):
        mine = [partial[i] for i in index[~is_padding]]
        assert all(target == row for target, _ in mine)
        read.append([slot for _, slots in mine for slot in slots])
    return read


def slots_due(segments: list[Segment], block_tokens: int) -> list[list[int]]:
    return [
        sorted(int(s.table[p // block_tokens]) * block_tokens + p % block_tokens for p in range(position + 1))
        for s in segments
        for position in range(s.start, s.start + len(s.tokens))
    ]


def test_plan_gives_each_new_token_its_position_slot_and_segment_end() -> None:
    plan = Plan.of([segment(3, 2, [5, 9]), segment(1, 4, [7, 2])], B)
    assert plan.tokens.tolist() == [100, 101, 102, 100]
    assert plan.positions.tolist() == [2, 3, 4, 4]
    assert plan.slots.tolist() == [5 * 4 + 2, 5 * 4 + 3, 9 * 4, 2 * 4]
    assert plan.last_rows.tolist() == [2, 3]


def test_long_prefix_that_decodes_share_is_read_once_for_all_of_them_and_in_place() -> None:
    prefix = list(range(10, 522))
    segments = [segment(1, 2048 + i, [*prefix, 600 + 2 * i]) for i in range(3)]
    shared, *tails = Plan.of(segments, B).pieces
    assert isinstance(shared, Context)
    assert (shared.rows.tolist(), shared.num_tokens.tolist(), shared.first_slot) == ([[0, 1, 2]], [2048], 40)
    (tail,) = tails
    assert isinstance(tail, Context)
    assert (tail.rows.tolist(), tail.num_tokens.tolist()) == ([[0], [1], [2]], [1, 2, 3])


def test_context_in_many_short_runs_is_gathered_into_one_piece() -> None:
    (piece,) = Plan.of([segment(1, 400, list(range(202, 0, -2)))], B).pieces
    assert isinstance(piece, Context)
    assert piece.blocks is not None
    assert piece.blocks.tolist() == [list(range(202, 0, -2))]


def test_first_piece_of_a_prompt_needs_no_merge() -> None:
    plan = Plan.of([segment(6, 0, [3, 1])], B)
    assert plan.pieces == (Own(0, 6),)
    assert plan.merge is None


@st.composite
def batches(draw: st.DrawFn) -> list[Segment]:
    """Sequences that branch off one another at block bounds, in scattered blocks, with own last blocks."""
    fresh = iter(draw(st.permutations(range(200))))
    tables: list[list[int]] = []
    segments = []
    for _ in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from(tables)) if tables else []
        shared = parent[: draw(st.integers(0, len(parent)))]
        in_order = draw(st.booleans())
        own = [next(fresh) for _ in range(draw(st.integers(1, 8)))]
        table = [*shared, *(sorted(own) if in_order else own)]
        tables.append(table)
        end = draw(st.integers(len(shared) * B + 1, len(table) * B))
        num = draw(st.one_of(st.just(1), st.integers(1, end - len(shared) * B)))
        segments.append(segment(num, end - num, table))
    return segments


@pytest.mark.parametrize("call_tokens", [0, 10, 1024])
def test_each_row_attends_to_exactly_the_tokens_up_to_its_own(
    call_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "_CALL_TOKENS", call_tokens)
    monkeypatch.setattr(plan_module, "_ROW_TOKENS", 1)
    monkeypatch.setattr(plan_module, "_SHORT_TOKENS", 4)

    @settings(max_examples=150, deadline=None)
    @given(batches())
    def check(segments: list[Segment]) -> None:
        read = slots_read(Plan.of(segments, B), B)
        assert [sorted(slots) for slots in read] == slots_due(segments, B)

    check()


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([segment(1, 8, [0, 1])], "does not cover"),
        ([segment(0, 8, [0, 1])], "no tokens"),
        ([segment(1, 1, [4]), segment(1, 1, [4])], "same slot"),
    ],
)
def test_batch_that_would_read_or_write_wrong_slots_is_refused(segments: list[Segment], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Plan.of(segments, B)


def dense(query: Any, key: Any, value: Any, scale: float) -> tuple[Any, Any]:
    """Attention of one query row [D] over [n, D] in float64, with numpy."""
    scores = (key.astype(np.float64) @ query.astype(np.float64)) * scale
    weights = np.exp(scores)
    return weights @ value / weights.sum(), math.log(weights.sum())


@pytest.mark.parametrize("kernel", [flash_on_cpu, plain])
@pytest.mark.parametrize("kind", ["whole", "causal", "masked"])
def test_kernels_give_softmax_attention_and_its_logsumexp(kernel: Any, kind: str) -> None:
    torch.manual_seed(1)
    num_keys = 7 if kind == "causal" else 40
    query = torch.randn(2, 3, 7, 16)
    strided = torch.randn(2, num_keys, 6, 16).transpose(1, 2)  # as slots lie in the arena: token, then head
    key, value = strided[:, :3], strided[:, 3:]
    seen = np.ones((2, 7, num_keys), bool)
    mask = None
    if kind == "causal":
        seen[:] = np.tril(np.ones((7, 7), bool))
    if kind == "masked":
        seen[1, :, 5:] = False
        mask = torch.zeros(2, 1, 1, num_keys).masked_fill(torch.arange(num_keys) >= 5, -torch.inf)
        mask[0] = 0
    out, logsumexp = kernel(query, key, value, 0.3, is_causal=kind == "causal", mask=mask)
    for n, h, r in np.ndindex(2, 3, 7):
        keys, values = key[n, h].numpy()[seen[n, r]], value[n, h].numpy()[seen[n, r]]
        expected, expected_logsumexp = dense(query[n, h, r].numpy(), keys, values, 0.3)
        np.testing.assert_allclose(out[n, h, r].numpy(), expected, atol=2e-6)
        assert float(logsumexp[n, h, r]) == pytest.approx(expected_logsumexp, abs=2e-6)


@pytest.mark.parametrize("kernel", [flash_on_cpu, plain])
@pytest.mark.parametrize("call_tokens", [0, 1024])
def test_attention_of_a_mixed_batch_is_softmax_over_each_rows_tokens(
    kernel: Any, call_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_module, "_CALL_TOKENS", call_tokens)
    monkeypatch.setattr("openclaw_cache.engine.attention.flash_on_cpu", kernel)
    torch.manual_seed(2)
    layout = KvLayout(num_layers=2, num_kv_heads=2, head_dim=8, block_tokens=B)
    arena = Arena(layout, 40, torch.float32, "cpu")
    arena.keys_values(1).copy_(torch.randn(2, 160, 2, 8))
    prefix = list(range(20))
    segments = [
        segment(1, 80, [*prefix, 30]),
        segment(5, 0, [25, 22]),
        segment(1, 83, [*prefix, 28]),
        segment(3, 81, [*prefix, 35]),
        segment(1, 5, [39, 21]),
    ]
    plan = Plan.of(segments, B)
    num_rows = len(plan.positions)
    query, key, value = (torch.randn(1, heads, num_rows, 8) for heads in (6, 2, 2))
    waited: list[int] = []
    step = Step(plan, arena, Codec("fp32", layout), waited.append)
    out = step.attend(1, query, key, value, 0.4)
    assert waited == [1]
    kv = arena.keys_values(1).numpy()
    assert np.array_equal(kv[0, plan.slots], key[0].transpose(0, 1).numpy())
    assert np.array_equal(kv[1, plan.slots], value[0].transpose(0, 1).numpy())
    for row, slots in enumerate(slots_due(segments, B)):
        for head in range(6):
            keys, values = kv[0, slots, head // 3], kv[1, slots, head // 3]
            expected, _ = dense(query[0, head, row].numpy(), keys, values, 0.4)
            np.testing.assert_allclose(out[0, row, head].numpy(), expected, atol=2e-6)


def test_new_keys_and_values_are_rounded_before_they_are_used_and_written() -> None:
    layout = KvLayout(num_layers=1, num_kv_heads=1, head_dim=4, block_tokens=B)
    arena = Arena(layout, 2, torch.float32, "cpu")
    step = Step(Plan.of([segment(3, 0, [1])], B), arena, Codec("fp16", layout))
    third = torch.full((1, 1, 3, 4), 1 / 3)
    out = step.attend(0, third, third, third, 1.0)
    # The float16 nearest to 1/3 is 1365 / 4096.
    np.testing.assert_allclose(out.numpy(), 1365 / 4096, atol=1e-7)
    assert (arena.keys_values(0)[:, 4:7] == 1365 / 4096).all()


@pytest.mark.parametrize("asked", [{"softcap": 30.0}, {"s_aux": torch.zeros(2)}])
def test_layer_that_asks_for_other_attention_is_refused_with_its_name(asked: dict[str, Any]) -> None:
    q = torch.zeros(1, 2, 1, 4)
    with pytest.raises(ConfigError, match=next(iter(asked))):
        attend(torch.nn.Module(), q, q, q, None, **asked)
