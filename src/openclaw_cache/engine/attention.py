"""Attention over the blocks of an arena, as transformers calls it in each layer of a step.

K/V are rounded to the codec's dtype before they are used and before they are written, so that a token computed
from cached K/V and one computed from fresh ones are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from transformers import AttentionInterface

from openclaw_cache.engine.plan import Own, Plan, Segment
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.engine.arena import Arena
    from openclaw_cache.engine.plan import Context, Merge
    from openclaw_cache.kv.codec import Codec

__all__ = ["ATTENTION_NAME", "Kernel", "Plan", "Segment", "Step", "attend", "flash_on_cpu", "plain"]

ATTENTION_NAME: Final = "openclaw_paged"
"""What `model.set_attn_implementation` is told. It has no entry among transformers' masks: no mask is made."""

# Arguments by which attention layers ask for what is not done here; sliding windows are judged by the config.
_FOREIGN = ("softcap", "s_aux", "sinks", "head_mask", "position_bias", "block_mask")


class Kernel(Protocol):
    """Attention of `query` [N, H, R, D] over `key` and `value` [N, H, n, D], any strides.

    `mask` [N, 1, 1, n] is added to the scores; with `is_causal` (R = n) row i sees keys 0 … i. Returns the result
    [N, H, R, D] and the natural logarithm of the softmax's denominator [N, H, R], float32.
    """

    def __call__(  # noqa: D102 - described by its class
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scale: float,
        *,
        is_causal: bool = False,
        mask: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


def flash_on_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Torch's tiled CPU kernel, a `Kernel`: reads strided views without a copy (Dao et al., 2022, arXiv:2205.14135)."""
    out, logsumexp = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )
    return out, logsumexp


def plain(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    *,
    is_causal: bool = False,
    mask: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Matrix products and a float32 softmax, a `Kernel` for any device; R × n scores per head are in memory."""
    scores = ((query * scale) @ key.transpose(-1, -2)).float()  # scaled first: float16 must not overflow
    if mask is not None:
        scores += mask
    if is_causal:
        above = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores.masked_fill_(above, -torch.inf)
    logsumexp = scores.logsumexp(-1)
    weights = (scores - logsumexp[..., None]).exp_()
    return weights.to(value.dtype) @ value, logsumexp


class Step:
    """One forward pass on its way through the layers: the plan on the device, and what it reads and writes.

    `wait_layer(l)` is called before layer l reads or writes the arena; what it raises ends the pass.
    """

    def __init__(
        self, plan: Plan, arena: Arena, codec: Codec, wait_layer: Callable[[int], None] | None = None
    ) -> None:
        device = arena.device
        self._arena = arena
        self._codec = codec
        self._wait_layer = wait_layer
        self._kernel: Kernel = flash_on_cpu if device.type == "cpu" else plain
        self._num_rows = len(plan.slots)
        self._slots = torch.from_numpy(plan.slots).to(device)
        self._pieces = [piece if isinstance(piece, Own) else _Read(piece, arena) for piece in plan.pieces]
        self._merge = None if plan.merge is None else _Merging(plan.merge, device)

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Write the layer's new K/V [1, Hkv, T, D], and attend with `query` [1, H, T, D]; returns [1, T, H, D].

        Rows after the plan's are idle: nothing of them is kept, and they get zeros.
        """
        if self._wait_layer is not None:
            self._wait_layer(layer)
        num_idle = query.shape[2] - self._num_rows
        query, key, value = (t[:, :, : self._num_rows] for t in (query, key, value))
        key, value = self._codec.round(key)[0], self._codec.round(value)[0]
        slots = self._arena.keys_values(layer)
        slots[0].index_copy_(0, self._slots, key.transpose(0, 1))
        slots[1].index_copy_(0, self._slots, value.transpose(0, 1))
        num_kv_heads, num_rows, head_dim = key.shape
        # Query heads of one KV head become rows beside each other: K/V need not be repeated for them.
        grouped = query.reshape(num_kv_heads, -1, num_rows, head_dim)
        outs, logsumexps = [], []
        for piece in self._pieces:
            if isinstance(piece, Own):
                out, logsumexp = self._among_own(piece, grouped, key, value, scale)
            else:
                out, logsumexp = piece.attend(self._kernel, grouped, slots, scale)
            outs.append(out)
            logsumexps.append(logsumexp)
        out = outs[0] if len(outs) == 1 else torch.cat(outs, 2)
        out = out.reshape(-1, out.shape[2], head_dim)
        if self._merge is not None:
            logsumexp = logsumexps[0] if len(logsumexps) == 1 else torch.cat(logsumexps, 2)
            out = self._merge(out, logsumexp.reshape(-1, logsumexp.shape[2]))
        out = out.view(-1, num_rows, head_dim).transpose(0, 1)[None]
        return torch.nn.functional.pad(out, (0, 0, 0, 0, 0, num_idle)) if num_idle else out

    def _among_own(
        self, own: Own, grouped: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = slice(own.begin, own.end)
        shape = grouped[:, :, rows].shape
        return self._kernel(
            grouped[:, :, rows],
            key[:, None, rows].expand(shape),
            value[:, None, rows].expand(shape),
            scale,
            is_causal=True,
        )


class _Read:
    """A piece of context on the device. Results are [Hkv, G, S × R, D] and [Hkv, G, S × R]."""

    def __init__(self, context: Context, arena: Arena) -> None:
        device = arena.device
        self._num_groups, self._group_rows = context.rows.shape
        rows = context.rows.reshape(-1)
        first, num_rows = int(rows[0]), len(rows)
        is_run = bool((rows[1:] - rows[:-1] == 1).all())
        self._rows = slice(first, first + num_rows) if is_run else torch.from_numpy(rows).to(device)
        self._num_tokens = int(context.num_tokens.max())
        self._first_slot = context.first_slot
        self._block_tokens = arena.layout.block_tokens
        self._blocks = self._mask = None
        if context.blocks is not None:
            self._blocks = torch.from_numpy(context.blocks.reshape(-1)).to(device)
        if self._num_groups > 1:
            num_tokens = torch.from_numpy(context.num_tokens).to(device)
            is_padding = torch.arange(self._num_tokens, device=device) >= num_tokens[:, None]
            mask = torch.zeros(is_padding.shape, dtype=arena.dtype, device=device)
            self._mask = mask.masked_fill_(is_padding, -torch.inf)[:, None, None]

    def attend(
        self, kernel: Kernel, grouped: torch.Tensor, slots: torch.Tensor, scale: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend with the piece's rows of `grouped` [Hkv, G, T, D] over `slots` [2, num_slots, Hkv, D]."""
        num_kv_heads, num_query, _, head_dim = grouped.shape
        split = (num_kv_heads, num_query, self._num_groups, self._group_rows)
        query = grouped[:, :, self._rows].reshape(*split, head_dim).permute(2, 0, 1, 3, 4)
        key, value = self._context(slots)
        out, logsumexp = kernel(query.flatten(2, 3), key, value, scale, mask=self._mask)
        by_group = (self._num_groups, num_kv_heads, num_query, self._group_rows)
        out = out.view(*by_group, head_dim).permute(1, 2, 0, 3, 4)
        return out.flatten(2, 3), logsumexp.view(by_group).permute(1, 2, 0, 3).flatten(2, 3)

    def _context(self, slots: torch.Tensor) -> torch.Tensor:
        """K and V, [2, S, Hkv, n, D]."""
        if self._blocks is None:
            first = self._first_slot or 0
            return slots[:, first : first + self._num_tokens].transpose(1, 2)[:, None]
        _, _, num_kv_heads, head_dim = slots.shape
        by_block = slots.view(2, -1, self._block_tokens, num_kv_heads, head_dim)
        copied = by_block.index_select(1, self._blocks).view(2, self._num_groups, -1, num_kv_heads, head_dim)
        return copied[:, :, : self._num_tokens].transpose(2, 3)


class _Merging:
    """Merges partial results: their logsumexps, through a softmax, are their weights (arXiv:1805.02867)."""

    def __init__(self, merge: Merge, device: torch.device) -> None:
        self._shape = merge.index.shape
        self._index = torch.from_numpy(merge.index.reshape(-1)).to(device)
        self._is_padding = torch.from_numpy(merge.is_padding).to(device) if merge.is_padding.any() else None

    def __call__(self, out: torch.Tensor, logsumexp: torch.Tensor) -> torch.Tensor:
        """Rows [H, T, D] from partial results [H, M, D] and their logsumexps [H, M]."""
        num_heads, _, head_dim = out.shape
        parts = logsumexp.index_select(1, self._index).view(num_heads, *self._shape)
        if self._is_padding is not None:
            parts = parts.masked_fill(self._is_padding, -torch.inf)
        weights = parts.softmax(-1).to(out.dtype)
        values = out.index_select(1, self._index).view(num_heads, *self._shape, head_dim)
        return (values * weights[..., None]).sum(2)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float | None = None,
    paged_step: Step | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The function that transformers calls in each layer; `paged_step` comes from the model's keyword arguments.

    Raises:
        ConfigError: The layer asks for attention that is not done here.
    """
    foreign = [name for name in _FOREIGN if others.get(name) is not None]
    if paged_step is None:
        foreign.append("its own way of calling layers")
    if attention_mask is not None:
        foreign.append("its own attention mask")
    if key.shape != value.shape:
        foreign.append("keys and values of different size")
    if foreign or paged_step is None:
        raise ConfigError(f"the KV cache cannot serve this model: its attention needs {', '.join(foreign)}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    layer: int = module.layer_idx  # type: ignore[assignment]
    return paged_step.attend(layer, query, key, value, scale), None


AttentionInterface.register(ATTENTION_NAME, attend)
