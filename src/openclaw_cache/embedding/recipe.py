"""How a sentence-transformers folder says that its model is used: prompt, window, pooling."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from openclaw_cache.embedding.files import FIELD
from openclaw_cache.errors import ConfigError

Pooling = Literal["mean", "cls", "max", "lasttoken"]
"""How the vectors of a text's tokens become one."""

_POOLINGS: Final[dict[str, Pooling]] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_lasttoken": "lasttoken",
}
_KNOWN_MODULES: Final = ("Transformer", "Pooling", "Normalize")
_PLAIN_WINDOW: Final = 512
_MOST_WINDOW: Final = 1_000_000
"""Tokenizers state a window of 10^30 where they know of none."""

FILES: Final = (
    "config.json",
    "config_sentence_transformers.json",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)
"""What beside the weights decides about a vector; the pooling's own file comes to it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is done to a text before the network, and to the network's answer after it."""

    pooling: Pooling
    prompt: str
    window_tokens: int
    lower_case: bool
    files: tuple[Path, ...]
    """The files that say so, for the fingerprint."""


def read_recipe(folder: Path) -> Recipe:
    """The recipe that a folder states; what it does not state is as sentence-transformers would take it.

    The prompt is the folder's default one, else the one for queries: what we compare are questions. Vectors are
    brought to length 1 in any case.

    Raises:
        ConfigError: a file is damaged, or asks for a step that we do not have.
    """
    pooling_file = None
    for module in _read(folder / "modules.json", []):
        kind = str(module.get("type", "")).rsplit(".", 1)[-1]
        if kind not in _KNOWN_MODULES:
            raise ConfigError(
                f"{FIELD}: {folder} has a step {kind!r}, and only {', '.join(_KNOWN_MODULES)} are known here: "
                "serve it with an OpenAI-compatible /v1/embeddings and name that URL"
            )
        if kind == "Pooling":
            pooling_file = folder / str(module.get("path", "1_Pooling")) / "config.json"
    if pooling_file is None and (folder / "1_Pooling" / "config.json").is_file():
        pooling_file = folder / "1_Pooling" / "config.json"
    files = tuple(folder / name for name in FILES if (folder / name).is_file())
    bert = _read(folder / "sentence_bert_config.json", {})
    return Recipe(
        pooling="mean" if pooling_file is None else _pooling(pooling_file),
        prompt=_prompt(folder),
        window_tokens=_window(folder, bert),
        lower_case=bool(bert.get("do_lower_case", False)),
        files=files if pooling_file is None else (*files, pooling_file),
    )


def _pooling(file: Path) -> Pooling:
    stated = _read(file, {})
    name = stated.get("pooling_mode")  # as newer releases write it
    if name is None:
        on = [key for key, value in stated.items() if key.startswith("pooling_mode_") and value is True]
        name = _POOLINGS.get(on[0]) if len(on) == 1 else None
    if name not in _POOLINGS.values():
        raise ConfigError(f"{FIELD}: {file}: only one of {', '.join(_POOLINGS.values())} is known here")
    if stated.get("include_prompt", True) is not True:
        raise ConfigError(f"{FIELD}: {file}: include_prompt: false is not known here")
    pooling: Pooling = name
    return pooling


def _prompt(folder: Path) -> str:
    stated = _read(folder / "config_sentence_transformers.json", {})
    prompts = stated.get("prompts") or {}
    return str(prompts.get(stated.get("default_prompt_name") or "query", ""))


def _window(folder: Path, bert: dict[str, Any]) -> int:
    tokenizer = _read(folder / "tokenizer_config.json", {})
    network = _read(folder / "config.json", {})
    positions = network.get("max_position_embeddings", _MOST_WINDOW)
    if network.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        positions -= 2  # its positions begin after the padding's
    stated = [bert.get("max_seq_length"), tokenizer.get("model_max_length"), positions]
    known = [int(value) for value in stated if isinstance(value, (int, float)) and 0 < value < _MOST_WINDOW]
    return min(known, default=_PLAIN_WINDOW)


def _read(file: Path, otherwise: Any) -> Any:
    if not file.is_file():
        return otherwise
    try:
        value = json.loads(file.read_bytes())
    except ValueError as exc:
        raise ConfigError(f"{FIELD}: {file} is not JSON: {exc}") from None
    if not isinstance(value, type(otherwise)):
        raise ConfigError(f"{FIELD}: {file} does not hold what such a file holds")
    return value
