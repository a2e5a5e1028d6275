"""GGUF → Hugging Face folder, once.

Loading a GGUF through transformers takes a minute at every start and loses the tokenizer's digit splitting;
the converted folder loads in under two seconds. Formats: the GGUF specification (ggml-org/ggml, docs/gguf.md).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openclaw_cache.engine import files
from openclaw_cache.engine.gguf_config import model_config
from openclaw_cache.engine.gguf_meta import GgufMeta
from openclaw_cache.engine.gguf_tokenizer import special_tokens, write_tokenizer
from openclaw_cache.engine.gguf_weights import ROPE_FACTORS, write_weights
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_REVISION = 1  # raise it when the output for a file that converted before changes: folders are then made anew


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

    Everything is checked before the weights are written: what is not known is refused, since a model that is
    converted wrongly still answers.

    Raises:
        ConfigError: The file is not a GGUF that this converter knows; the message names key, value and remedy.
    """
    say(f"reading {source.name}")
    meta, tensors = read_gguf(source)
    if meta.whole("split.count", 1) > 1:
        raise meta.refusal("it is one part of several", "merge them first: llama-gguf-split --merge")
    special = special_tokens(meta)
    by_name = {tensor.name: tensor for tensor in tensors}
    factors = by_name.get(ROPE_FACTORS)
    config = model_config(
        meta,
        vocab_size=len(meta.texts("tokenizer.ggml.tokens")),
        tensors=by_name.keys(),
        rope_factors=None if factors is None else factors.data.tolist(),
        bos=special.bos,
        eos=special.eos,
    )
    (folder / "config.json").write_text(json.dumps(config, indent=1, ensure_ascii=False), encoding="utf-8")
    write_tokenizer(meta, special, folder)
    write_weights(tensors, meta, config, folder / "model.safetensors", say)


def read_gguf(source: Path) -> tuple[GgufMeta, list[Any]]:
    """Metadata and tensors; these are mapped from the file and read when they are used."""
    from gguf import GGUFReader  # noqa: PLC0415 - part of the [engine] extra, and slow to import

    try:
        reader = GGUFReader(source)
        fields = {key: field.contents() for key, field in reader.fields.items()}
    except (ValueError, OSError, IndexError, KeyError) as exc:
        raise ConfigError(f"{source} is not a readable GGUF file: {exc}") from exc
    return GgufMeta(source, fields), reader.tensors
