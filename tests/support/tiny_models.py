"""Models of sentences small enough to reckon by hand: a table of two numbers per word, in an ONNX file.

The file's bytes are written here by the rules of onnx.proto (field numbers beside each line), so that no other
package than the one under test has to read them first.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

WORDS = {"[UNK]": (1.0, 1.0), "a": (3.0, 0.0), "b": (0.0, 4.0), "zero": (0.0, 0.0), "back": (-3.0, 0.0)}
"""The table; the tokenizer's ids are the rows."""


def write_onnx(
    folder: Path,
    *,
    words: dict[str, tuple[float, float]] = WORDS,
    ready: bool = False,
    extra_input: str | None = None,
) -> Path:
    """`model.onnx` and its tokenizer.json. `ready`: the network pools itself, by the mean."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder, words)
    table = np.array(list(words.values()), "<f4")
    tensor = _ints(1, table.shape) + _int(2, 1) + _text(8, "table") + _bytes(9, table.tobytes())  # FLOAT
    nodes = [_node("Gather", ["table", "input_ids"], "last_hidden_state")]
    outputs = [_value("last_hidden_state", 1, ["batch", "sequence", 2])]
    if ready:
        axes = _text(1, "axes") + _int(8, 1) + _int(20, 7)  # INTS
        keep = _text(1, "keepdims") + _int(3, 0) + _int(20, 2)  # INT
        nodes.append(_node("ReduceMean", ["last_hidden_state"], "sentence_embedding", [axes, keep]))
        outputs.append(_value("sentence_embedding", 1, ["batch", 2]))
    inputs = ["input_ids", "attention_mask", *([extra_input] if extra_input else [])]
    graph = (
        b"".join(_bytes(1, node) for node in nodes)
        + _text(2, "words")
        + _bytes(5, tensor)
        + b"".join(_bytes(11, _value(name, 7, ["batch", "sequence"])) for name in inputs)  # INT64
        + b"".join(_bytes(12, output) for output in outputs)
    )
    file = folder / "model.onnx"
    file.write_bytes(_int(1, 8) + _bytes(7, graph) + _bytes(8, _text(1, "") + _int(2, 13)))  # IR 8, opset 13
    return file


def write_tokenizer(folder: Path, words: dict[str, tuple[float, float]] = WORDS) -> None:
    """A tokenizer.json that knows whole words only."""
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: row for row, word in enumerate(words)},
            "unk_token": "[UNK]",
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))


def _node(kind: str, inputs: list[str], output: str, attributes: list[bytes] | None = None) -> bytes:
    given = b"".join(_text(1, name) for name in inputs)
    return given + _text(2, output) + _text(4, kind) + b"".join(_bytes(5, one) for one in attributes or [])


def _value(name: str, kind: int, shape: list[str | int]) -> bytes:
    dims = b"".join(_bytes(1, _int(1, dim) if isinstance(dim, int) else _text(2, dim)) for dim in shape)
    return _text(1, name) + _bytes(2, _bytes(1, _int(1, kind) + _bytes(2, dims)))


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _int(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _ints(field: int, values: tuple[int, ...]) -> bytes:
    return b"".join(_int(field, value) for value in values)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
