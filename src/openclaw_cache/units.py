"""Sizes, durations and shares as people write them."""

from __future__ import annotations

import math
import os
import re
from typing import Literal

_SIZE_UNITS = {
    "": 1, "B": 1,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40,
}  # fmt: skip
_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_MOST_INT = 10**300  # beyond it float() has no answer
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def parse_size(value: object) -> int:
    """Bytes from `256MB`, `1.5 GiB`, `4096` or a share of this machine's memory, `5%`."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        number, unit = float(value), ""
    elif isinstance(value, str) and (m := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*|%)\s*", value)):
        number, unit = float(m[1]), m[2].upper()
    else:
        raise ValueError(f"{value!r} is not a size: write for example 256MB, 1GiB or 5%")
    if unit == "%":
        if not 0 <= number <= 100:
            raise ValueError(f"{value!r} is not between 0% and 100%")
        return int(number / 100 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    if unit not in _SIZE_UNITS or not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is not a size: write for example 256MB, 1GiB or 5%")
    return int(number * _SIZE_UNITS[unit])


def parse_size_or_auto(value: object) -> int | Literal["auto"]:
    """Like `parse_size`, or the word `auto`."""
    return "auto" if value == "auto" else parse_size(value)


def parse_ratio(value: object) -> float:
    """A share in 0–1 from `80%` or `0.8`."""
    ratio = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        ratio = float(value)
    elif isinstance(value, str) and (m := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", value)):
        ratio = float(m[1]) / 100 if m[2] else float(m[1])
    if 0 <= ratio <= 1:
        return ratio
    raise ValueError(f"{value!r} is not a share: write for example 80% or 0.8")


def parse_duration(value: object) -> float:
    """Seconds from `24h`, `1h30m`, `500ms`, or a bare number of seconds."""
    seconds = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MOST_INT:
        seconds = float(value)
    elif isinstance(value, str):
        text = value.replace(" ", "")
        if re.fullmatch(r"\d+(\.\d+)?", text):
            seconds = float(text)
        elif text and not _DURATION.sub("", text):
            seconds = sum(float(n) * _DURATION_UNITS[unit] for n, unit in _DURATION.findall(text))
    if 0 <= seconds < math.inf:
        return seconds
    raise ValueError(f"{value!r} is not a duration: write for example 500ms, 30s, 15m, 24h or 1h30m")


def human_size(num_bytes: int) -> str:
    """`256MB` for 256000000, `1GiB` for 2**30; plain bytes where no unit fits exactly."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB"):
        if num_bytes and num_bytes % _SIZE_UNITS[unit.upper()] == 0:
            return f"{num_bytes // _SIZE_UNITS[unit.upper()]}{unit}"
    return f"{num_bytes}B"


def human_duration(seconds: float) -> str:
    """`24h` for 86400, `1h30m` for 5400, `50ms` for 0.05."""
    left_ms = round(seconds * 1000)
    parts = []
    for unit, unit_ms in (("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left_ms = divmod(left_ms, unit_ms)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def human_ratio(ratio: float) -> str:
    """`80%` for 0.8."""
    return f"{ratio * 100:.10g}%"
