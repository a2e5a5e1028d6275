"""Token ids by a folder's `tokenizer.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_cache.embedding.files import FIELD
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_cache.embedding.recipe import Recipe


class Tokens:
    """Texts as a recipe wants them, in token ids, never cut and never filled up.

    Raises:
        ConfigError: no tokenizer.json, or not one.
    """

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415 - only who names a folder needs it

        file = folder / "tokenizer.json"
        if not file.is_file():
            raise ConfigError(f"{FIELD}: {file} is missing: a tokenizer in its fast form is needed")
        try:
            self._tokenizer = Tokenizer.from_file(str(file))
        except Exception as exc:  # noqa: BLE001 - the library raises nothing more special
            raise ConfigError(f"{FIELD}: {file} is not a tokenizer: {exc}") from None
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._recipe = recipe

    def of(self, text: str) -> list[int]:
        """The ids of the prompt and the text, with the model's own marks."""
        whole = self._recipe.prompt + text
        ids: list[int] = self._tokenizer.encode(whole.lower() if self._recipe.lower_case else whole).ids
        return ids
