"""An ONNX file with a `tokenizer.json`, computed by ONNX Runtime (MIT)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from openclaw_cache.embedding.files import FIELD, fingerprint_of, hashes_of
from openclaw_cache.embedding.pooling import pooled
from openclaw_cache.embedding.recipe import read_recipe
from openclaw_cache.embedding.tokens import Tokens
from openclaw_cache.embedding.unit import unit
from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_cache.embedding.embedder import Vector

_PREPARATION: Final = 1
_SENTENCE_OUTPUT: Final = "sentence_embedding"
_FATAL: Final = 4
"""ONNX Runtime's log level: it speaks of nothing less."""


class Onnx:
    """A network in an ONNX file. Its tokenizer, and the files that say how it is used, lie beside it or one above.

    It is given those of `input_ids`, `attention_mask` and `token_type_ids` that it asks for. Its output
    `sentence_embedding` is taken where it has one, else the pooled first output.

    Raises:
        ConfigError: the file is not such a network.
    """

    def __init__(self, file: Path) -> None:
        import onnxruntime  # type: ignore[import-untyped]  # noqa: PLC0415 - only who names such a file needs it

        folder = _home_of(file)
        self._recipe = read_recipe(folder)
        weights = [file, *sorted(file.parent.glob(f"{file.name}[._]data*"))]
        self.fingerprint = fingerprint_of(
            "onnx",
            {**hashes_of(folder, self._recipe.files), **hashes_of(file.parent, weights)},
            _PREPARATION,
        )
        self._tokens = Tokens(folder, self._recipe)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        try:
            self._session: Any = onnxruntime.InferenceSession(
                str(file), options, providers=["CPUExecutionProvider"]
            )
        except Exception as exc:  # noqa: BLE001 - its errors have no common parent but this
            raise ConfigError(f"{FIELD}: {file} cannot be loaded: {exc}") from None
        self._inputs = {value.name for value in self._session.get_inputs()}
        if unknown := self._inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise ConfigError(
                f"{FIELD}: {file} asks for {', '.join(sorted(unknown))}, which a text does not give"
            )
        outputs = [value.name for value in self._session.get_outputs()]
        self._output = _SENTENCE_OUTPUT if _SENTENCE_OUTPUT in outputs else outputs[0]
        self.window_tokens = self._recipe.window_tokens
        self.num_dims = len(self.encode("a"))

    def num_tokens(self, text: str) -> int:
        """Tokens of the text, prompt and marks counted."""
        return len(self._tokens.of(text))

    def encode(self, text: str) -> Vector:
        """The text's vector."""
        ids = np.array([self._tokens.of(text)], np.int64)
        given = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        try:
            (output,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        except Exception as exc:  # noqa: BLE001 - as above
            raise EmbeddingError(f"the model cannot read a text: {type(exc).__name__}") from None
        found = np.asarray(output)[0]
        return unit(found if found.ndim == 1 else pooled(found, self._recipe.pooling))


def _home_of(file: Path) -> Path:
    for folder in (file.parent, file.parent.parent):
        if (folder / "tokenizer.json").is_file():
            return folder
    raise ConfigError(f"{FIELD}: {file} needs a tokenizer.json beside it")
