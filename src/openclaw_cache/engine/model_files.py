"""What a model's files tell without loading it: the size of its KV, and its tokenizer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.engine.convert import read_gguf
from openclaw_cache.engine.gguf_tokenizer import special_tokens, write_tokenizer
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from openclaw_cache.engine.gguf_meta import GgufMeta
    from openclaw_cache.engine.source import ModelSource

_FP16_BYTES: Final = 2


def kv_bytes_per_token(source: ModelSource) -> int:
    """Bytes of K and V that a token has in fp16.

    Raises:
        ConfigError: the files do not tell.
    """
    try:
        layers, kv_heads, head_dim = (_of_folder if source.path.is_dir() else _of_gguf)(source.path)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise ConfigError(
            f"{source.path} does not tell the size of its KV; say it with --bytes-per-token"
        ) from None
    return 2 * layers * kv_heads * head_dim * _FP16_BYTES


def text_encoder(source: ModelSource) -> Callable[[str], Sequence[int]]:
    """The tokenizer alone: token ids of a text, nothing added. Cost: some seconds for a GGUF file.

    Raises:
        ConfigError: there is none that can be read.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415 - part of the [engine] extra

    if source.path.is_dir():
        tokenizer = Tokenizer.from_file(str(source.path / "tokenizer.json"))
    else:
        meta = _metadata(source.path)
        with tempfile.TemporaryDirectory() as folder:
            write_tokenizer(meta, special_tokens(meta), Path(folder))
            tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))

    def encode(text: str) -> list[int]:
        # A lone half of a surrogate pair is no text to a tokenizer.
        plain = text.encode("utf-8", "replace").decode()
        ids: list[int] = tokenizer.encode(plain, add_special_tokens=False).ids
        return ids

    return encode


@lru_cache(maxsize=1)
def _metadata(file: Path) -> GgufMeta:
    """Of a GGUF file, read once: its list of tokens takes seconds."""
    meta, _ = read_gguf(file)
    return meta


def _of_folder(folder: Path) -> tuple[int, int, int]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_bytes())
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config["hidden_size"] // heads
    return int(config["num_hidden_layers"]), int(config.get("num_key_value_heads") or heads), int(head_dim)


def _of_gguf(file: Path) -> tuple[int, int, int]:
    meta = _metadata(file)
    heads = meta.whole(f"{meta.arch}.attention.head_count")
    hidden = meta.whole(f"{meta.arch}.embedding_length")
    return (
        meta.whole(f"{meta.arch}.block_count"),
        meta.whole(f"{meta.arch}.attention.head_count_kv", heads),
        meta.whole(f"{meta.arch}.attention.key_length", hidden // heads),
    )
