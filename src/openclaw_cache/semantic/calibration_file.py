"""Calibrations as files: those that come with the package, and an operator's own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import msgspec
from blake3 import blake3

from openclaw_cache.errors import ConfigError
from openclaw_cache.semantic.calibration import Calibration


def shipped(embedder: str) -> Calibration | None:
    """The calibration of an embedder that comes with the package; None where there is none of this name."""
    if not embedder.isalnum():
        return None
    file = resources.files("openclaw_cache.semantic").joinpath("calibrations", f"{embedder}.json")
    try:
        return msgspec.json.decode(file.read_bytes(), type=Calibration)
    except FileNotFoundError:
        return None


def load(path: Path) -> Calibration:
    """Read a file that `openclaw-cache calibrate` wrote. Raises ConfigError, naming it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Calibration)
    except OSError as e:
        raise ConfigError(f"semantic_cache.calibration: cannot read {path}: {e.strerror}") from None
    except msgspec.MsgspecError as e:
        raise ConfigError(
            f"semantic_cache.calibration: {path} is no file that `openclaw-cache calibrate` wrote: {e}"
        ) from None


def name_of(calibration: Calibration) -> str:
    """Names a calibration: another one has another scale, and what was learnt on one says nothing of the other."""
    return blake3(msgspec.json.encode(calibration)).hexdigest(16)
