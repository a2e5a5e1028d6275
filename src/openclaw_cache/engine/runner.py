"""The forward pass of a model of transformers over the blocks of an arena."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from openclaw_cache.engine.attention import ATTENTION_NAME, Step
from openclaw_cache.engine.plan import Plan, Segment
from openclaw_cache.errors import ConfigError
from openclaw_cache.kv.codec import KvLayout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openclaw_cache.engine.arena import Arena
    from openclaw_cache.kv.codec import Codec

_PROBE_TOKENS: Final = 12
_PROBE_TOLERANCE: Final = 0.02  # of the range of the logits: fp16 K/V move them by a thousandth at most

_ROWS_TOGETHER: Final = 4
_FREE_ROWS: Final = 64

# Rotary embeddings whose angles depend on the longest text of the batch: cached K would not fit other requests.
_UNSTABLE_ROPES = ("dynamic", "longrope")


class Runner:
    """Computes packed steps of a decoder; K/V come from and go to the arena. For one thread.

    The model is set to our attention for good. At construction it is compared with its own attention on a few
    tokens (two short forward passes), which overwrites the first blocks of the arena.

    Args:
        model: A causal language model of transformers, in the arena's dtype and on its device.
        arena: Its layout must be `kv_layout` of the model.
        codec: Rounds K/V before they are used.

    Raises:
        ConfigError: Our attention would not answer as the model's own does; the message says why.
    """

    def __init__(self, model: Any, arena: Arena, codec: Codec) -> None:
        self._model = model
        self._arena = arena
        self._codec = codec
        refuse_foreign_attention(model)
        if arena.layout != kv_layout(model.config, arena.layout.block_tokens):
            raise ConfigError(f"the KV arena's layout {arena.layout} is not that of the model")
        tokens = np.arange(min(_PROBE_TOKENS, arena.num_blocks * arena.layout.block_tokens), dtype=np.int32)
        tokens %= int(model.get_input_embeddings().num_embeddings)
        with torch.inference_mode():
            ids = torch.from_numpy(tokens)[None].long().to(arena.device)
            expected = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0].float()
        model.set_attn_implementation(ATTENTION_NAME)
        self._compare(tokens, expected)

    @torch.inference_mode()
    def forward(
        self, segments: Sequence[Segment], wait_layer: Callable[[int], None] | None = None
    ) -> torch.Tensor:
        """Compute the K/V of all new tokens, and the logits after each segment's last one.

        Segments may share blocks that they read, also such as another segment of this step writes; no two may write
        the same slot.

        Args:
            segments: At least one.
            wait_layer: Called with l before layer l touches the arena, so that a transfer may still be bringing
                the layers after it. What it raises ends the pass: the new tokens' K/V are then unfinished.

        Returns:
            float32 [len(segments), vocabulary], an inference tensor.

        Raises:
            ValueError: See `Plan.of`.
        """
        device = self._arena.device
        plan = Plan.of(segments, self._arena.layout.block_tokens)
        num_idle = _num_idle(len(plan.tokens))
        output = self._model(
            input_ids=torch.from_numpy(np.pad(plan.tokens, (0, num_idle)))[None].to(device),
            position_ids=torch.from_numpy(np.pad(plan.positions, (0, num_idle)))[None].to(device),
            use_cache=False,  # of transformers: ours needs none of its objects
            logits_to_keep=torch.from_numpy(plan.last_rows).to(device),
            paged_step=Step(plan, self._arena, self._codec, wait_layer),
        )
        logits: torch.Tensor = output.logits[0].float()
        return logits

    def _compare(self, tokens: np.ndarray[Any, np.dtype[np.int32]], expected: torch.Tensor) -> None:
        """Refuse a model whose logits differ from `expected` when its tokens are computed in three steps."""
        table = np.arange(self._arena.num_blocks, dtype=np.int32)
        try:
            for start, end in ((0, 5), (5, len(tokens) - 1), (len(tokens) - 1, len(tokens))):
                if start < end:
                    logits = self.forward([Segment(tokens[start:end], start, table)])
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as exc:
            raise ConfigError(f"the KV cache cannot serve this model: {exc}") from exc
        deviation = float((logits - expected).abs().max() / (expected.max() - expected.min()))
        if not deviation < _PROBE_TOLERANCE:
            raise ConfigError(
                "the KV cache cannot serve this model: over the cache its logits differ from its own by "
                f"{deviation:.1%} of their range"
            )


def _num_idle(num_tokens: int) -> int:
    """Rows that are computed for nothing, so that no row depends on how many others it is computed with.

    The CPU's matrix product gives a row the same bits in every batch of 4, 8, 12 … rows, other bits in batches of
    2, 3, 5 … 11, and is no faster for those. A single row has a path of its own, which is worth its other bits:
    it takes two thirds of the time of four.
    """
    return -num_tokens % _ROWS_TOGETHER if 1 < num_tokens < _FREE_ROWS else 0


def kv_layout(config: Any, block_tokens: int) -> KvLayout:
    """The layout of a model's K/V, from its transformers configuration.

    Raises:
        ConfigError: It has no attention heads.
    """
    text = config.get_text_config(decoder=True)
    num_heads = getattr(text, "num_attention_heads", None)
    if num_heads is None:
        raise ConfigError("the KV cache cannot serve this model: it has no attention heads")
    return KvLayout(
        num_layers=text.num_hidden_layers,
        num_kv_heads=getattr(text, "num_key_value_heads", None) or num_heads,
        head_dim=getattr(text, "head_dim", None) or text.hidden_size // num_heads,
        block_tokens=block_tokens,
    )


def refuse_foreign_attention(model: Any) -> None:
    """Refuse a model whose configuration asks for attention that is not plain, causal and over all tokens.

    Raises:
        ConfigError: The message says what it asks for.
    """
    config = model.config.get_text_config(decoder=True)
    window = getattr(config, "max_position_embeddings", None)
    reasons: list[str] = []
    if model.config.is_encoder_decoder:
        reasons.append("an encoder")
    if not model._supports_attention_backend:
        reasons.append("attention that cannot be replaced")
    kinds = set(getattr(config, "layer_types", None) or [_only_kind(config)])
    spans = {
        "sliding_attention": getattr(config, "sliding_window", None),
        "chunked_attention": getattr(config, "attention_chunk_size", None),
    }
    for kind in sorted(kinds - {"full_attention"}):
        span = spans.get(kind)
        if span is None or window is None or span < window:  # a span of the whole window changes nothing
            reasons.append(f"layers of type {kind}")
    if getattr(config, "attn_logit_softcapping", None) is not None:
        reasons.append("capped attention scores")
    if any(name.endswith("sinks") for name, _ in model.named_parameters()):
        reasons.append("attention sinks")
    if getattr(config, "kv_lora_rank", None) is not None:
        reasons.append("keys and values of different size")
    reasons += [
        f"rotary embeddings of type {rope}" for rope in _UNSTABLE_ROPES if rope in _rope_types(config)
    ]
    if reasons:
        raise ConfigError(f"the KV cache cannot serve this model: it has {', '.join(reasons)}")


def _only_kind(config: Any) -> str:
    """The type of all layers, for a configuration that does not list them."""
    if (
        getattr(config, "sliding_window", None) is not None
        and getattr(config, "use_sliding_window", True) is not False
    ):
        return "sliding_attention"
    return "full_attention" if getattr(config, "attention_chunk_size", None) is None else "chunked_attention"


def _rope_types(config: Any) -> set[str]:
    rope = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in rope.values() if isinstance(value, dict)]
    return {str(part.get("rope_type", "default")) for part in (rope, *nested)}
