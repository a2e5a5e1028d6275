"""How much text a JSON value has: a low estimate of its tokens."""

from __future__ import annotations

from typing import Final

from openclaw_cache.types import Json

BYTES_PER_TOKEN: Final = 4
"""Of English text. Code and other languages have fewer bytes in a token, so the estimate is low, never high."""

_NO_TEXT: Final = frozenset(
    {"source", "image_url", "input_audio", "file", "file_data", "signature", "encrypted_content", "data"}
)
"""Members whose strings are no text of the prompt: images, sounds and files in base64, seals on thinking."""


def text_bytes(value: Json, most: int) -> int:
    """Bytes of all texts in a value, names of members aside; it stops counting at `most`. Cost: O(`most`)."""
    total, rest = 0, [value]
    while rest and total < most:
        item = rest.pop()
        if isinstance(item, str):
            total += len(item[: most - total].encode("utf-8", "replace"))
        elif isinstance(item, list):
            rest += reversed(item)
        elif isinstance(item, dict):
            rest += [member for name, member in item.items() if name not in _NO_TEXT]
    return min(total, most)
