"""Whether a request's body may be written anew."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from openclaw_cache.types import Json

_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1


def rewritten(raw: bytes, body: dict[str, Json], changed: dict[str, Json]) -> bytes | None:
    """`changed` in the compact form, members in their order; None where it is not sure that all else stays the same.

    What SDKs send is in that form already; then every byte that no rule touches stays what it is.

    Args:
        raw: The request's bytes.
        body: Their decoded value.
        changed: The value to write.

    Cost: two writes, 0.2 ms for 232 kB; where `raw` is in another form one more careful parse, ten times as much.
    """
    try:
        if orjson.dumps(body) == raw or _says_only(raw, body):
            return orjson.dumps(changed)
    except TypeError:  # no Unicode, a number beyond 64 bits, or nested too deeply
        pass
    return None


def _says_only(raw: bytes, body: dict[str, Json]) -> bool:
    """Whether every receiver reads `body`: no member stands twice, no number is one that only some can hold."""
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_members,
            parse_int=_whole,
            parse_float=_real,
            parse_constant=_constant,
        )
        return bool(value == body)
    except (ValueError, RecursionError):
        return False


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member stands twice")
    return found


def _whole(digits: str) -> int:
    number = int(digits) if len(digits) <= 20 else _UINT64_MAX + 1
    if not _INT64_MIN <= number <= _UINT64_MAX:
        raise ValueError("beyond 64 bits")
    return number


def _real(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("beyond a double")
    return number


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
