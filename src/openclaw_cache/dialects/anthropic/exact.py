"""Parse JSON that every reader reads alike."""

from __future__ import annotations

import json
from typing import Final

import orjson

from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

_INT64_MIN: Final = -(2**63)
_UINT64_MAX: Final = 2**64 - 1
_MAX_DIGITS: Final = 20
"""Longest spelling of a 64-bit integer, its sign included."""


def exact(raw: bytes) -> Json:
    """Return the value of a JSON text. Linear; text in orjson's own compact form is parsed only once.

    Raises:
        MergeError: it is not JSON, nested deeper than we could write again, or two readers may read it
            differently: a name stands twice in an object, or an integer is beyond 64 bits, a number beyond a double.
    """
    try:
        value = orjson.loads(raw)
        is_plain = orjson.dumps(value) == raw  # then no member was dropped and no number changed
    except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
        raise MergeError("a value is not JSON that we could write again") from error
    if not is_plain:
        json.loads(raw, object_pairs_hook=_members, parse_int=_whole)
    return value


def _members(pairs: list[tuple[str, Json]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise MergeError("an object has two members of one name")


def _whole(digits: str) -> None:
    if len(digits) > _MAX_DIGITS or not _INT64_MIN <= int(digits) <= _UINT64_MAX:
        raise MergeError("an integer is beyond 64 bits")
