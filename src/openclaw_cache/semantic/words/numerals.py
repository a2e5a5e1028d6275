"""How numbers are written in words, in English and in Chinese."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.words.listed import listed

ENGLISH: Final[dict[str, float]] = (
    {
        word: float(value)
        for value, word in enumerate(
            listed(
                """
                    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
                    fifteen sixteen seventeen eighteen nineteen
                """
            )
        )
    }
    | {
        word: float(value)
        for value, word in zip(
            range(20, 100, 10), listed("twenty thirty forty fifty sixty seventy eighty ninety"), strict=True
        )
    }
    | {"dozen": 12.0, "half": 0.5, "nil": 0.0}
)
ORDINALS: Final[dict[str, float]] = {
    word: float(value)
    for value, word in enumerate(
        listed(
            """
                zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
                thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth
            """
        )
    )
} | {"thirtieth": 30.0}
SCALES: Final[dict[str, float]] = {
    "hundred": 1e2,
    "thousand": 1e3,
    "k": 1e3,
    "grand": 1e3,
    "million": 1e6,
    "mn": 1e6,
    "billion": 1e9,
    "bn": 1e9,
    "trillion": 1e12,
}
_HAN_DIGITS: Final[dict[str, float]] = {
    han: float(value)
    for value, forms in enumerate(
        ("零〇", "一壹", "二两贰", "三叁", "四肆", "五伍", "六陆", "七柒", "八捌", "九玖")
    )
    for han in forms
}
_HAN_SCALES: Final[dict[str, float]] = {
    "十": 1e1,
    "拾": 1e1,
    "百": 1e2,
    "佰": 1e2,
    "千": 1e3,
    "仟": 1e3,
    "万": 1e4,
    "亿": 1e8,
}
HAN: Final = frozenset((*_HAN_DIGITS, *_HAN_SCALES, "半"))
"""Characters that Chinese numbers are written with."""


def english_number(words: list[str]) -> float:
    """Return the value of number words in their order ("two", "hundred", "five" is 205). Never raises."""
    total = part = 0.0
    for word in words:
        scale = SCALES.get(word)
        if scale is None:
            part += ENGLISH.get(word, ORDINALS.get(word, 0.0))
        elif scale == 1e2:
            part = (part or 1.0) * scale
        else:
            total += (part or 1.0) * scale
            part = 0.0
    return total + part


def han_number(text: str, start: float | None = None) -> float:
    """Return the value of a number in Chinese characters ("一万八" is 18000, "二〇二四" is 2024). Never raises.

    Args:
        text: Characters of `HAN` only.
        start: What stood in digits before it ("3万").
    """
    if text == "半":
        return 0.5
    if start is None and len(text) > 1 and all(c in _HAN_DIGITS for c in text):
        return float("".join(str(int(_HAN_DIGITS[c])) for c in text[:15]))
    total = section = 0.0
    digit = start
    last_scale = 0.0
    for c in text:
        if c in _HAN_DIGITS:
            digit = _HAN_DIGITS[c]
            if digit == 0.0:
                last_scale = 0.0
        elif c == "半":
            digit = (digit or 0.0) + 0.5
        else:
            scale = _HAN_SCALES[c]
            if scale >= 1e4:
                section += digit or 0.0
                if scale == 1e8:
                    section, total = total + section, 0.0
                total += (section or 1.0) * scale
                section = 0.0
            else:
                section += (1.0 if digit is None else digit) * scale
            digit, last_scale = None, scale
    if digit is not None:
        section += digit * (last_scale / 10 if last_scale >= 100 else 1.0)
    return total + section
