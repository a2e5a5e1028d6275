"""Whether a reply that was read can be written again."""

from __future__ import annotations

import orjson

from openclaw_cache.types import Json


def is_writable(reply: dict[str, Json]) -> bool:
    """Whether a replay could write the reply: orjson reads deeper nesting than it writes. Cost: O(size)."""
    try:
        orjson.dumps(reply)
    except orjson.JSONEncodeError:
        return False
    return True
