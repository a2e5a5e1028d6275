"""GGUF → Hugging Face folder, once: a plain Llama with a byte-level BPE tokenizer.

Loading a GGUF through transformers takes a minute at every start and loses the tokenizer's digit splitting;
the converted folder loads in under two seconds. Formats: the GGUF specification (ggml-org/ggml, docs/gguf.md)
and the model card of SmolLM2 (HuggingFaceTB/SmolLM2-135M-Instruct).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openclaw_cache.engine import files
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from openclaw_cache.types import Json

_REVISION = 1  # raise it when the converter's output changes: older folders are then made anew

_CONTROL_TOKEN, _USER_TOKEN = 3, 4  # token types of the GGUF specification

_TOP_TENSORS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def converted(source: Path, name: str, models_dir: Path, say: Callable[[str], None]) -> tuple[Path, str]:
    """The folder converted from a GGUF file, made now if it is absent or damaged.

    The first call takes 5-12 s and 540 MB of disk for a 135M model; later ones only check hashes. Two
    processes may call it at once: one converts, the other waits and then finds the work done.

    Args:
        source: The GGUF file.
        name: First part of the folder's name; the rest is a hash of the source.
        models_dir: Where converted models live.
        say: Told about progress, one line at a time.

    Returns:
        The folder and the model's fingerprint.

    Raises:
        ConfigError: The file is not a GGUF that this converter knows, or the disk refuses.
    """
    source_hash = files.file_hash(source)
    folder_hash = files.fingerprint([("source", source_hash), ("revision", str(_REVISION))])
    folder = models_dir / f"{name}-{folder_hash[:8]}"
    with files.only_writer(folder):
        fingerprint = files.verified_fingerprint(folder)
        if fingerprint is not None:
            return folder, fingerprint
        if folder.exists():
            say(f"{folder.name} is damaged, converting it again")
        with files.replacing(folder) as draft:
            convert(source, draft, say)
            files.write_manifest(
                draft, {"name": source.name, "size_bytes": source.stat().st_size, "blake3": source_hash}
            )
        fingerprint = files.verified_fingerprint(folder)
    if fingerprint is None:
        raise ConfigError(f"{folder} does not read back as it was written: check the disk")
    return folder, fingerprint


def convert(source: Path, folder: Path, say: Callable[[str], None]) -> None:
    """Write config, tokenizer, chat template and fp32 weights of a GGUF file into an existing empty folder.

    Raises:
        ConfigError: The file is not a GGUF that this converter knows.
    """
    from gguf import GGUFReader  # noqa: PLC0415 - part of the [engine] extra, and slow to import

    say(f"reading {source.name}")
    try:
        reader = GGUFReader(source)
    except (ValueError, OSError, IndexError) as exc:
        raise ConfigError(f"{source} is not a readable GGUF file: {exc}") from exc
    meta = {key: field.contents() for key, field in reader.fields.items()}
    _refuse_unknown(source, meta, {tensor.name for tensor in reader.tensors})
    config = model_config(meta, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    tokens = meta["tokenizer.ggml.tokens"]
    # A model may close a text with the end of its training documents as well as with the end of a chat turn.
    kinds = zip(tokens, meta["tokenizer.ggml.token_type"], strict=True)
    ends = {i for i, kind in enumerate(kinds) if kind == ("<|endoftext|>", _CONTROL_TOKEN)}
    ends.add(meta["tokenizer.ggml.eos_token_id"])
    documents: dict[str, Json] = {
        "config.json": config,
        "generation_config.json": {"eos_token_id": sorted(ends)},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
        },
    }
    for file, document in documents.items():
        (folder / file).write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    (folder / "chat_template.jinja").write_text(meta["tokenizer.chat_template"], encoding="utf-8")
    build_tokenizer(meta).save(str(folder / "tokenizer.json"))
    _write_weights(reader, config, folder / "model.safetensors", say)


def model_config(meta: dict[str, Any], *, tied: bool) -> Json:
    """config.json of a Llama from the GGUF metadata."""
    heads = meta["llama.attention.head_count"]
    hidden = meta["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "hidden_size": hidden,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta.get("llama.attention.head_count_kv", heads),
        "head_dim": meta.get("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": meta["llama.context_length"],
        # GGUF keeps it as a 32-bit float (9.999999747378752e-06); six digits give back the model's own.
        "rms_norm_eps": float(f"{meta['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_theta": meta.get("llama.rope.freq_base", 10000.0),
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "dtype": "float32",
    }


def build_tokenizer(meta: dict[str, Any]) -> Any:
    """The `tokenizers.Tokenizer` of SmolLM2: digits one by one, then byte-level BPE without prefix space."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # noqa: PLC0415 - [engine] extra

    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    types: list[int] = meta["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ")) for merge in meta["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(t, normalized=False)
            for t, kind in zip(tokens, types, strict=True)
            if kind == _CONTROL_TOKEN
        ]
    )
    tokenizer.add_tokens(
        [
            AddedToken(t, normalized=False)
            for t, kind in zip(tokens, types, strict=True)
            if kind == _USER_TOKEN
        ]
    )
    return tokenizer


def tensor_name(name: str) -> str | None:
    """Hugging Face name of a GGUF tensor of a Llama, or None for one that a plain Llama does not have."""
    if name in _TOP_TENSORS:
        return _TOP_TENSORS[name]
    parts = name.split(".")
    match parts:
        case ["blk", layer, kind, "weight"] if kind in _LAYER_TENSORS and layer.isdigit():
            return f"model.layers.{layer}.{_LAYER_TENSORS[kind]}.weight"
    return None


def unpermuted(weights: NDArray[np.float32], num_heads: int) -> NDArray[np.float32]:
    """Rows of a query or key projection in Hugging Face order.

    GGUF stores each head's rows as rotary pairs (0, half, 1, half+1, …); Hugging Face wants the first halves
    and then the second halves.
    """
    rows, columns = weights.shape
    pairs = weights.reshape(num_heads, rows // num_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def _write_weights(reader: Any, config: Json, path: Path, say: Callable[[str], None]) -> None:
    import numpy as np  # noqa: PLC0415 - comes with the [engine] extra
    from gguf.quants import dequantize  # noqa: PLC0415 - [engine] extra
    from safetensors.numpy import save_file  # noqa: PLC0415 - [engine] extra

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    weights: dict[str, NDArray[np.float32]] = {}
    total = len(reader.tensors)
    for done, tensor in enumerate(reader.tensors, 1):
        name = tensor_name(tensor.name)
        if name is None:
            raise ConfigError(
                f"cannot convert the GGUF tensor {tensor.name}: only plain Llama models are known"
            )
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
        for kind, num_heads in heads.items():
            if f".{kind}." in tensor.name:
                values = unpermuted(values, num_heads)
        weights[name] = np.ascontiguousarray(values)
        if done * 4 // total > (done - 1) * 4 // total:
            say(f"converting weights {done * 100 // total}%")
    save_file(weights, path, metadata={"format": "pt"})


def _refuse_unknown(source: Path, meta: dict[str, Any], tensors: set[str]) -> None:
    """Refuse what would convert into a model that answers wrongly, with the reason."""
    expected = {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.add_bos_token": False,
    }
    advice = "give the model's Hugging Face folder (safetensors) instead"
    for key, value in expected.items():
        if meta.get(key, value if value is False else None) != value:
            raise ConfigError(
                f"cannot convert {source}: {key} is {meta.get(key)!r}, only {value!r} is known; {advice}"
            )
    scaled = [key for key in meta if key.startswith("llama.rope.scaling.")]
    if scaled or "rope_freqs.weight" in tensors:
        raise ConfigError(f"cannot convert {source}: scaled rotary embeddings are not known; {advice}")
    if "tokenizer.chat_template" not in meta:
        raise ConfigError(f"cannot convert {source}: it has no chat template; {advice}")
