"""Tiny GGUF files, written by the format's own library from models with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, LAYERS, WINDOW = 32, 4, 2, 16, 2, 64
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "1", "2", "Ġ", "ab", "Ġab"]
TYPES = [3, 3, 3, 1, 1, 1, 1, 1, 1, 1]
TEMPLATE = "{% for m in messages %}{{ m['content'] }}{% endfor %}"

_LAYER = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def random_model(model_type: str, **changes: Any) -> Any:
    """A model of transformers that `fields` describes, with random weights and biases."""
    config = AutoConfig.for_model(
        model_type,
        **{
            "vocab_size": len(TOKENS),
            "hidden_size": HIDDEN,
            "intermediate_size": 48,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "max_position_embeddings": WINDOW,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100000.0},
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
        }
        | changes,
    )
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3)
    return model


def weights_of(model: Any) -> dict[str, Any]:
    """A model's weights under GGUF names, in GGUF's order of rows."""
    weights: dict[str, Any] = {}
    is_tied = model.config.tie_word_embeddings
    for name, tensor in model.state_dict().items():
        stem, _, end = name.rpartition(".")
        values = tensor.numpy()
        if name.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            ours = f"blk.{layer}.{_LAYER[part]}"
            if model.config.model_type in {"llama", "mistral"} and _LAYER[part] in {"attn_q", "attn_k"}:
                values = values[rotary_pairs(len(values), HEADS if part[-6] == "q" else KV_HEADS)]
        elif is_tied and stem == "lm_head":
            continue
        else:
            ours = _TOP[stem]
        weights[f"{ours}.{end}"] = np.ascontiguousarray(values)
    return weights


def rotary_pairs(num_rows: int, num_heads: int) -> list[int]:
    """Order of rows that llama.cpp's converter writes: within a head, row i of each half next to each other."""
    size = num_rows // num_heads
    rows = []
    for head in range(num_heads):
        for i in range(size // 2):
            rows += [head * size + i, head * size + size // 2 + i]
    return rows


def fields(arch: str = "llama", **changes: Any) -> dict[str, Any]:
    """Metadata of `random_model`; a name in `changes` has "__" for "." and is under the architecture, or under
    `tokenizer.ggml` if it begins with "tokenizer"; None removes a field.
    """
    values: dict[str, Any] = {
        "block_count": LAYERS,
        "context_length": WINDOW,
        "embedding_length": HIDDEN,
        "feed_forward_length": 48,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 100000.0,
        "tokenizer.model": "gpt2",
        "tokenizer.pre": "smollm",
        "tokenizer.tokens": TOKENS,
        "tokenizer.token_type": TYPES,
        "tokenizer.merges": ["a b", "Ġ ab"],
        "tokenizer.bos_token_id": 1,
        "tokenizer.eos_token_id": 2,
        "tokenizer.chat_template": TEMPLATE,
    }
    values |= {name.replace("__", "."): value for name, value in changes.items()}
    return {_key(arch, name): value for name, value in values.items() if value is not None}


def write_gguf(path: Path, weights: dict[str, Any], arch: str = "llama", **changes: Any) -> Path:
    """A GGUF file with the weights and with `fields`; a weight may be a pair of bytes and its quantisation."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in fields(arch, **changes).items():
        _add(writer, key, value)
    for name, tensor in weights.items():
        values, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _key(arch: str, name: str) -> str:
    if name == "tokenizer.chat_template" or name.startswith(("general.", "split.")):
        return name
    if name.startswith("tokenizer."):
        return name.replace("tokenizer.", "tokenizer.ggml.")
    return f"{arch}.{name}"


def _add(writer: Any, key: str, value: Any) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case list():
            writer.add_array(key, value)
