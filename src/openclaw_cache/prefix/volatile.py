"""Tokens of a text that change by themselves: dates, times, ids, paths, numbers. Texts equal but for them are alike."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?"
    r"|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY: Final = r"(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
_CLOCK: Final = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp]\.?[Mm]\.?)?"

_CLASSES: Final = (
    (
        "date",
        rf"\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}(?:\s?Z|[+-]\d{{2}}:?\d{{2}})?)?"
        r"|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{4}|\d{4}年\d{1,2}月\d{1,2}日?|星期[一二三四五六日天]"
        rf"|(?:\b{_DAY}\b,?\s+)?\b{_MONTH}\.?\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?\b"
        rf"|(?:\b{_DAY}\b,?\s+)?\b\d{{1,2}}(?:st|nd|rd|th)?\s+{_MONTH}\.?(?:,?\s+\d{{4}})?\b"
        rf"|\b{_DAY}\b"
        rf"|\b{_CLOCK}(?:\s?(?:UTC|GMT)(?:[+-]\d{{1,2}})?)?"
        r"|\b(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific)/[A-Za-z_]+(?:/[A-Za-z_]+)?"
        r"|\b(?:UTC|GMT)(?:[+-]\d{1,2}(?::\d{2})?)?"
        r"|\b1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?\b",
    ),
    (
        "id",
        r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"
        r"|\b[A-Za-z]{2,10}[_-](?=[A-Za-z0-9_-]{0,64}\d)[A-Za-z0-9_-]{8,64}\b"
        r"|\b(?=[0-9a-fA-F]{0,64}[a-fA-F])(?=[0-9a-fA-F]{0,64}\d)[0-9a-fA-F]{5,64}\b",
    ),
    ("path", r"(?:~|\b[A-Za-z]:)?(?:[/\\][\w.@+~-]+){2,}[/\\]?|file://\S+"),
    ("counter", r"\$?\b\d[\d,]*(?:\.\d+)?\s?(?:%|[kKmM]\b)?"),
)
_TOKEN: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _CLASSES))


class Token(NamedTuple):
    """A token that changes by itself."""

    kind: str
    """The cause that it would be: `date`, `id`, `path`, `counter`."""
    text: str


def masked(text: str) -> tuple[str, list[Token]]:
    """A text with such tokens replaced by the names of their kinds; and the tokens, in order."""
    found: list[Token] = []

    def replace(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        found.append(Token(kind, match[0]))
        return f"<{kind}>"

    return _TOKEN.sub(replace, text), found


def changed_kind(before: str, after: str) -> str:
    """The kind of the first token that differs, where two texts differ in such tokens only; else empty."""
    ours, old = masked(before)
    theirs, new = masked(after)
    if ours != theirs:
        return ""
    return next((one.kind for one, other in zip(old, new, strict=True) if one.text != other.text), "")
