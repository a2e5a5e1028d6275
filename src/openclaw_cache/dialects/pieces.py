"""Cut a text into pieces for a replayed stream, between what a reader sees as characters."""

from __future__ import annotations

import unicodedata

_ZWJ = "\u200d"
_ZWNJ = "\u200c"
_LOOKBACK = 64
"""How far back a cut may move, in code points: longer clusters (Zalgo text) are cut inside."""


def pieces(text: str, max_chars: int) -> list[str]:
    """Cut `text` into pieces of at most `max_chars` code points; joined they are `text` again.

    Cuts avoid the inside of a grapheme cluster (Unicode UAX #29: combining marks, variation selectors,
    emoji joined by ZWJ, skin tones, flags, Hangul jamo, CR LF) where one is no longer than the piece.
    Costs one slice per piece, plus a look at the code points around each cut.
    """
    size = len(text)
    if size <= max_chars:
        return [text] if text else []
    if text.isascii():
        return [text[start : start + max_chars] for start in range(0, size, max_chars)]
    cut: list[str] = []
    start = 0
    while size - start > max_chars:
        end = _boundary(text, start, start + max_chars)
        cut.append(text[start:end])
        start = end
    cut.append(text[start:])
    return cut


def _boundary(text: str, start: int, end: int) -> int:
    """Return the last cut in (start, end] that splits no cluster, or `end` where there is none near."""
    for position in range(end, max(start, end - _LOOKBACK), -1):
        if not _is_inside(text, start, position):
            return position
    return end


def _is_inside(text: str, start: int, position: int) -> bool:
    """Whether a cut before `position` would part two code points of one cluster."""
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return before == _ZWJ or (before == "\r" and after == "\n")
    if _is_regional(after):  # a flag is a pair: cut only after a whole number of pairs
        run = position
        while run > start and _is_regional(text[run - 1]):
            run -= 1
        return (position - run) % 2 == 1
    return before == _ZWJ or _extends(after) or _is_jamo_pair(before, after)


def _extends(char: str) -> bool:
    """Whether a code point continues the character before it."""
    return (
        char in (_ZWJ, _ZWNJ)
        or unicodedata.category(char)[0] == "M"  # combining marks, variation selectors, keycaps
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags, as in Scotland's flag
    )


def _is_jamo_pair(before: str, after: str) -> bool:
    if "\u1160" <= after <= "\u11ff":  # vowel or final
        return True
    is_lead_or_syllable = "\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3"
    return is_lead_or_syllable and "\u1100" <= before <= "\u115f"


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
