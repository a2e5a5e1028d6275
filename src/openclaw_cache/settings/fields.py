"""How a setting's value is written, and what every section of the configuration has in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from openclaw_cache.units import parse_duration, parse_ratio, parse_size, parse_size_or_auto

Size = Annotated[int, BeforeValidator(parse_size)]
SizeOrAuto = Annotated[int | Literal["auto"], BeforeValidator(parse_size_or_auto)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Ratio = Annotated[float, BeforeValidator(parse_ratio)]
MOST_BYTES = 2**60
MOST_TTL_S = 100 * 365 * 86_400.0  # a store counts milliseconds in 64 bits, and refuses what does not fit
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$"


class Section(BaseModel):
    """One section of the configuration: frozen, and without room for unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def expanded(path: Path | None) -> Path | None:
    """The absolute path, `~` read. Raises ValueError where it cannot be one."""
    if path is not None and "\0" in str(path):
        raise ValueError("a path cannot have a NUL character in it")
    try:
        return path.expanduser().absolute() if path is not None else None
    except RuntimeError:  # a user without an entry in passwd, as in many containers, and HOME unset
        raise ValueError("there is no home directory here: set HOME, or write an absolute path") from None
