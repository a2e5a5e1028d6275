"""Weights of a GGUF file under their Hugging Face names, in fp32.

Names: gguf-py's tensor mapping (ggml-org/llama.cpp, gguf-py/gguf/tensor_mapping.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from openclaw_cache.engine.gguf_meta import GgufMeta
    from openclaw_cache.types import Json

ROPE_FACTORS: Final = "rope_freqs.weight"
"""A tensor that is part of the configuration."""

_MATRICES: Final = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_NORMS: Final = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_HEAD_NORMS: Final = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}


def tensor_names(config: Json) -> dict[str, tuple[str, tuple[int, ...]]]:
    """All weights of a model with this configuration: Hugging Face name and shape by GGUF name."""
    vocabulary = (config["vocab_size"], config["hidden_size"])
    names: dict[str, tuple[str, tuple[int, ...]]] = {
        "token_embd.weight": ("model.embed_tokens.weight", vocabulary),
        "output_norm.weight": ("model.norm.weight", vocabulary[1:]),
    }
    if not config["tie_word_embeddings"]:
        names["output.weight"] = ("lm_head.weight", vocabulary)
    of_one_layer = _layer(config)
    for layer in range(config["num_hidden_layers"]):
        for ours, (theirs, shape) in of_one_layer.items():
            names[f"blk.{layer}.{ours}"] = (f"model.layers.{layer}.{theirs}", shape)
    return names


def write_weights(
    tensors: list[Any], meta: GgufMeta, config: Json, path: Path, say: Callable[[str], None]
) -> None:
    """Write the tensors of a `gguf.GGUFReader` as one safetensors file. All of them are in memory at the end.

    A bias that the model has and the file has not is zero.

    Raises:
        ConfigError: A tensor is missing, is of no use in this model, or has another shape or an unknown encoding.
    """
    import numpy as np  # noqa: PLC0415 - comes with the [engine] extra
    from safetensors.numpy import save_file  # noqa: PLC0415 - [engine] extra

    wanted = tensor_names(config)
    weights: dict[str, NDArray[np.float32]] = {}
    for done, tensor in enumerate(tensors, 1):
        if tensor.name != ROPE_FACTORS:
            if tensor.name not in wanted:
                raise meta.refusal(f"the tensor {tensor.name} is not known in a {meta.arch} model")
            name, shape = wanted.pop(tensor.name)
            values = _values(tensor, meta, config)
            if values.shape != shape:
                raise meta.refusal(f"the tensor {tensor.name} has the shape {values.shape}, not {shape}")
            weights[name] = np.ascontiguousarray(values)
        if done * 4 // len(tensors) > (done - 1) * 4 // len(tensors):
            say(f"converting weights {done * 100 // len(tensors)}%")
    for missing, (name, shape) in wanted.items():
        if not missing.endswith(".bias"):
            raise meta.refusal(f"the tensor {missing} is missing")
        weights[name] = np.zeros(shape, dtype=np.float32)
    save_file(weights, path, metadata={"format": "pt"})


def unpermuted(weights: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection, or of its bias, in Hugging Face order.

    A Llama's GGUF stores each head's rows as rotary pairs (0, half, 1, half+1, …); Hugging Face wants the first
    halves and then the second halves.
    """
    pairs = weights.reshape(num_heads, len(weights) // num_heads // 2, 2, *weights.shape[1:])
    return pairs.swapaxes(1, 2).reshape(weights.shape)


def _layer(config: Json) -> dict[str, tuple[str, tuple[int, ...]]]:
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes = {
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
    }
    names: dict[str, tuple[str, tuple[int, ...]]] = {}
    for ours, theirs in _MATRICES.items():
        names[f"{ours}.weight"] = (f"{theirs}.weight", shapes[ours])
        part = "attention_bias" if ours.startswith("attn") else "mlp_bias"
        if config.get(part) or (config["model_type"] == "qwen2" and ours in {"attn_q", "attn_k", "attn_v"}):
            names[f"{ours}.bias"] = (f"{theirs}.bias", shapes[ours][:1])
    norms = {ours: (theirs, hidden) for ours, theirs in _NORMS.items()}
    if config["model_type"] == "qwen3":
        norms |= {ours: (theirs, head_dim) for ours, theirs in _HEAD_NORMS.items()}
    for ours, (theirs, size) in norms.items():
        names[f"{ours}.weight"] = (f"{theirs}.weight", (size,))
    return names


def _values(tensor: Any, meta: GgufMeta, config: Json) -> NDArray[np.float32]:
    """The tensor in fp32, its rows as Hugging Face has them."""
    import numpy as np  # noqa: PLC0415 - comes with the [engine] extra
    from gguf.quants import dequantize  # noqa: PLC0415 - [engine] extra

    try:
        values: NDArray[np.float32] = dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError as exc:
        raise meta.refusal(
            f"the tensor {tensor.name} is encoded as {tensor.tensor_type.name}, which is not known",
            "give the model in another quantisation, or its Hugging Face folder",
        ) from exc
    values = values.astype(np.float32, copy=False)
    if meta.arch == "llama":
        heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
        for kind, num_heads in heads.items():
            if f".{kind}." in tensor.name:
                return unpermuted(values, num_heads)
    return values
