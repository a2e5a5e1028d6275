"""Lists of words as text, which people can read and mend."""

from __future__ import annotations


def listed(text: str) -> tuple[str, ...]:
    """Return the words of a text, parted by white space."""
    return tuple(text.split())
