"""When two texts say the same in the same words."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_GAP: Final = re.compile(r"[\W_]+")


def normal(text: str) -> str:
    """A text without regard to case, width, spaces and punctuation; the text itself where nothing else is in it."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return _GAP.sub(" ", folded).strip() or text.strip()


def is_same(a: str, b: str) -> bool:
    """Whether two texts are equal but for case, width, spaces and punctuation."""
    return normal(a) == normal(b)
