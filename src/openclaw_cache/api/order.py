"""An operator's order as it stands in a request's body."""

from __future__ import annotations

import difflib
from typing import TypeVar

import msgspec

from openclaw_cache.errors import RequestError

_T = TypeVar("_T", bound=msgspec.Struct)


def decode_order(raw: bytes, kind: type[_T]) -> _T:
    """Read an order. Raises RequestError (400) that names the wrong field, and for an unknown one the nearest."""
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except RecursionError:
        raise RequestError(400, "the order is nested too deeply") from None
    except msgspec.DecodeError as e:
        known = [f.name for f in msgspec.structs.fields(kind)]
        message = str(e)
        if "unknown field" in message and " - at `$" not in message:  # else it is a field of something inside
            wrong = message.split("`")[1]
            near = difflib.get_close_matches(wrong, known, n=1)
            message += f": did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
        raise RequestError(400, message) from None
