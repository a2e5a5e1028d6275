"""What one event of a live stream says, for those who follow it."""

from __future__ import annotations

import json

import orjson

from openclaw_cache.types import Json


def payload(data: bytes) -> dict[str, Json]:
    """One event's payload as an object; empty where it is none: it is relayed as it came, and `merge` refuses it.

    Half a UTF-16 pair is read too: a text that is cut by its tokens may have one, and its stream is none the worse.
    """
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data.decode())
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}
