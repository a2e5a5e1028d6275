"""config.json of a Llama, Mistral or Qwen model from GGUF metadata.

The meaning of the keys: ggml-org/ggml, docs/gguf.md, and how llama.cpp writes and reads them (ggml-org/llama.cpp,
conversion/base.py and src/llama-model.cpp).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from openclaw_cache.engine.gguf_meta import GgufMeta
    from openclaw_cache.types import Json

_CLASSES: Final = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}

# Below "{arch}.". A key that is not here might change what the model computes.
_KNOWN: Final = frozenset(
    {
        "attention.causal",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window",
        "attention.value_length",
        "block_count",
        "context_length",
        "embedding_length",
        "expert_count",
        "expert_used_count",
        "feed_forward_length",
        "pooling_type",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scale_linear",
        "rope.scaling.attn_factor",
        "rope.scaling.factor",
        "rope.scaling.finetuned",
        "rope.scaling.original_context_length",
        "rope.scaling.type",
        "rope.scaling.yarn_attn_factor",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
        "rope.scaling.yarn_ext_factor",
        "rope.scaling.yarn_log_multiplier",
        "tensor_data_layout",
        "vocab_size",
    }
)

# Of all of Meta's models with scaled rotary embeddings (Llama 3.1 to 3.3); GGUF keeps only what follows from them.
_LLAMA3: Final[dict[str, float]] = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def model_config(
    meta: GgufMeta,
    *,
    vocab_size: int,
    tensors: Collection[str],
    rope_factors: Sequence[float] | None,
    bos: int | None,
    eos: int,
) -> Json:
    """The Hugging Face configuration of a GGUF model, in fp32.

    Args:
        meta: The file's metadata.
        vocab_size: Number of tokens.
        tensors: Names of the file's tensors: which biases there are, and whether the output has its own weights.
        rope_factors: The tensor `rope_freqs.weight`: what each rotary frequency is divided by.
        bos: Id of the token that begins a text.
        eos: Id of the token that ends one.

    Raises:
        ConfigError: The model is of a kind that is not known; the message names key, value and remedy.
    """
    _refuse_unknown(meta)
    arch = meta.arch
    heads = meta.whole(f"{arch}.attention.head_count")
    hidden = meta.whole(f"{arch}.embedding_length")
    head_dim = meta.whole(f"{arch}.attention.key_length", hidden // heads)
    for key in ("attention.value_length", "rope.dimension_count"):
        if meta.whole(f"{arch}.{key}", head_dim) != head_dim:
            raise meta.unknown(f"{arch}.{key}", (head_dim,))
    theta = meta.number(f"{arch}.rope.freq_base", 10000.0)
    config: Json = {
        "architectures": [_CLASSES[arch]],
        "model_type": arch,
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "intermediate_size": meta.whole(f"{arch}.feed_forward_length"),
        "num_hidden_layers": meta.whole(f"{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": meta.whole(f"{arch}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": meta.whole(f"{arch}.context_length"),
        # GGUF keeps it as a 32-bit float (9.999999747378752e-06); six digits give back the model's own.
        "rms_norm_eps": float(f"{meta.number(f'{arch}.attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": theta,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in tensors,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "dtype": "float32",
    }
    scaling = _scaling(meta, theta, head_dim, rope_factors)
    if scaling is not None:
        config["rope_scaling"] = scaling
    config |= _biases(arch, tensors)
    _slide(meta, config)
    return config


def llama3_factors(
    theta: float,
    head_dim: int,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> list[float]:
    """What Llama 3.1 divides each rotary frequency by: `head_dim` ÷ 2 numbers, from high frequency to low.

    Wave lengths shorter than a part of the original context keep their frequency, long ones are slowed down by
    `factor`, those between partly (Llama Team, 2024, arXiv:2407.21783; meta-llama/llama-models, `apply_scaling`).
    """
    factors = []
    for i in range(0, head_dim, 2):
        turns = original_max_position_embeddings / (2 * math.pi * theta ** (i / head_dim))
        smooth = min(max((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0.0), 1.0)
        factors.append(1 / ((1 - smooth) / factor + smooth))
    return factors


def _refuse_unknown(meta: GgufMeta) -> None:
    if meta.arch not in _CLASSES:
        raise meta.unknown("general.architecture", _CLASSES)
    prefix = f"{meta.arch}."
    for key in meta.keys(prefix):
        if key.removeprefix(prefix) not in _KNOWN:
            raise meta.refusal(f"{key} is not known")
    for name in ("expert_count", "pooling_type"):  # mixtures of experts; models that embed or rank
        if meta.whole(prefix + name, 0) != 0:
            raise meta.unknown(prefix + name, (0,))
    if not meta.flag(f"{prefix}attention.causal", default=True):
        raise meta.unknown(f"{prefix}attention.causal", (True,))


def _scaling(
    meta: GgufMeta, theta: float, head_dim: int, rope_factors: Sequence[float] | None
) -> Json | None:
    """`rope_scaling` of config.json, or None for plain rotary embeddings."""
    prefix = f"{meta.arch}.rope."
    kind = meta.text(f"{prefix}scaling.type", "linear")  # llama.cpp's default too
    if kind not in {"none", "linear", "yarn"}:
        raise meta.unknown(f"{prefix}scaling.type", ("none", "linear", "yarn"))
    factor = meta.number(f"{prefix}scaling.factor", meta.number(f"{prefix}scale_linear", 1.0)) or 1.0
    is_scaled = kind == "yarn" or (kind == "linear" and factor != 1.0)
    if rope_factors is not None:
        if is_scaled:
            raise meta.refusal(f"it has both rope_freqs.weight and {prefix}scaling.factor")
        return _llama3(meta, theta, head_dim, rope_factors)
    if not is_scaled:
        return None
    # How these are meant differs between the programs that write them and those that read them.
    for name, neutral in (
        ("attn_factor", 1.0),
        ("yarn_attn_factor", 1.0),
        ("yarn_ext_factor", 1.0),
        ("yarn_log_multiplier", 0.0),
    ):
        if meta.number(f"{prefix}scaling.{name}", neutral) != neutral:
            raise meta.unknown(f"{prefix}scaling.{name}", (neutral,))
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": meta.whole(f"{prefix}scaling.original_context_length"),
        "beta_fast": meta.number(f"{prefix}scaling.yarn_beta_fast", 32.0),
        "beta_slow": meta.number(f"{prefix}scaling.yarn_beta_slow", 1.0),
    }


def _llama3(meta: GgufMeta, theta: float, head_dim: int, rope_factors: Sequence[float]) -> Json:
    """The parameters that `rope_factors` were computed from; there is nothing else that tells them."""
    factor = float(f"{max(rope_factors):.6g}")
    expected = llama3_factors(theta, head_dim, factor=factor, **_LLAMA3)
    if len(rope_factors) != len(expected) or not all(
        math.isclose(one, other, rel_tol=1e-4) for one, other in zip(rope_factors, expected, strict=True)
    ):
        raise meta.refusal("rope_freqs.weight are not the rotary frequencies of Llama 3.1, 3.2 or 3.3")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def _biases(arch: str, tensors: Collection[str]) -> Json:
    """Which parts of the model have biases, where that is a choice (it is none in a Qwen 2)."""
    kinds = {} if arch == "qwen2" else {"attention_bias": ".attn_", "mlp_bias": ".ffn_"}
    return {
        part: True
        for part, kind in kinds.items()
        if any(kind in name and name.endswith(".bias") for name in tensors)
    }


def _slide(meta: GgufMeta, config: Json) -> None:
    """Make the configuration one of a model with a sliding window, where the file has one that matters."""
    key = f"{meta.arch}.attention.sliding_window"
    window = meta.whole(key, 0)
    if window in {0, -1} or window >= config["max_position_embeddings"]:
        return
    if meta.arch != "llama":  # GGUF does not say in which of Qwen's layers it slides
        raise meta.refusal(f"{key} is {window}: which layers it concerns is not known")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise meta.refusal(f"{key} is {window}: a Mistral with biases is not known")
    config |= {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": window}
