"""A sentence-transformers folder, computed by transformers on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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


class Folder:
    """A model in a folder as sentence-transformers writes it: Transformer, Pooling, Normalize.

    Weights are read from safetensors only, code from the folder never runs, and nothing is looked up elsewhere.
    Loading hashes all weights: about 0.1 s per 100 MB, beside what torch takes.

    Raises:
        ConfigError: the folder is not such a model.
    """

    def __init__(self, folder: Path) -> None:
        import torch  # noqa: PLC0415 - only who names a folder needs it
        from transformers import AutoModel  # noqa: PLC0415

        self._torch: Any = torch
        self._recipe = read_recipe(folder)
        weights = sorted(folder.glob("*.safetensors"))
        if not weights or not (folder / "config.json").is_file():
            raise ConfigError(f"{FIELD}: {folder} has no config.json with a model.safetensors beside it")
        self.fingerprint = fingerprint_of(
            "folder", hashes_of(folder, [*weights, *self._recipe.files]), _PREPARATION
        )
        self._tokens = Tokens(folder, self._recipe)
        torch.set_num_threads(1)
        try:
            network, found = AutoModel.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, ImportError) as exc:
            raise ConfigError(f"{FIELD}: {folder} cannot be loaded: {exc}") from None
        if missing := sorted(key for key in found["missing_keys"] if not key.startswith("pooler.")):
            # transformers would go on with random numbers in their place (the pooler is not used here)
            raise ConfigError(f"{FIELD}: {folder} lacks weights: {', '.join(missing[:3])}")
        self._network: Any = network.eval()
        self.window_tokens = self._recipe.window_tokens
        self.num_dims = len(self.encode("a"))

    def num_tokens(self, text: str) -> int:
        """Tokens of the text, prompt and marks counted."""
        return len(self._tokens.of(text))

    def encode(self, text: str) -> Vector:
        """The text's vector."""
        with self._torch.inference_mode():
            ids = self._torch.tensor([self._tokens.of(text)])
            try:
                states = self._network(input_ids=ids, attention_mask=self._torch.ones_like(ids))
            except (RuntimeError, IndexError) as exc:  # a token that the network has no row for, no memory
                raise EmbeddingError(f"the model cannot read a text: {type(exc).__name__}") from None
        return unit(pooled(states.last_hidden_state[0].numpy(), self._recipe.pooling))
