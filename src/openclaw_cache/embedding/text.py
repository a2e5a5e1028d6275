"""What any model can be given: texts without the characters that break encoders."""

from __future__ import annotations

import re
from typing import Final

_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def prepared(text: str, max_chars: int) -> str | None:
    """The text as a model gets it; None where there is nothing to read in it, or more than `max_chars` characters.

    NUL becomes a space (it ends a string in C), half a surrogate pair U+FFFD (it has no UTF-8).
    """
    if len(text) > max_chars:
        return None
    text = text.replace("\0", " ").strip()
    text = _LONE_SURROGATE.sub(_REPLACEMENT, text)
    return text if any(char.isprintable() and not char.isspace() for char in text) else None
