"""A text in runs that are short enough to have one vector, and to be shown."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from openclaw_cache.memory.record import Message

MAX_TOKENS: Final = 200
"""Tokens of a passage by our own estimate, which is above what multilingual models count (`tests` compare)."""

_SENTENCE: Final = re.compile(
    r"[^。！？!?.…\n]*(?:[。！？!?…]+[”’」』）)\"']*\s*|\.+[”’)\"']*(?:\s+|\Z)|\.|\n+|\Z)", re.DOTALL
)
"""Up to and with its end; a full stop ends one where white space follows."""
_BIT: Final = re.compile(r"[A-Za-z]+|[0-9]+|\s+|.", re.DOTALL)
_HUMP: Final = re.compile("[a-z][A-Z]|[A-Z][a-z](?<!^..)")
_WIDE: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]")


def split(text: str) -> Iterator[str]:
    """Yield the runs of a text, in order, each at most as long as an embedder reads; nothing of it is left out.

    A run ends where a sentence ends, if one does; joined they are the text. Nothing comes of an empty text.
    """
    run: list[str] = []
    size = 0.0
    for piece, weight in _pieces(text):
        if run and size + weight > MAX_TOKENS:
            yield "".join(run)
            run, size = [], 0.0
        run.append(piece)
        size += weight
    if run:
        yield "".join(run)


def text_of(message: Message) -> str:
    """The text of a message that search shall find: its text parts, and a tool call's name and arguments."""
    content = message.content
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(filter(None, (_text_of_part(part) for part in content)))


def _text_of_part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if part.get("type") == "toolCall":
        arguments = part.get("arguments") or {}
        return f"{part.get('name', '')} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}".strip()
    text = part.get("text")
    return text if part.get("type", "text") == "text" and isinstance(text, str) else ""


def _pieces(text: str) -> Iterator[tuple[str, float]]:
    """Sentences with their weight in tokens; parts of those that are too long."""
    for match in _SENTENCE.finditer(text):
        bits = [(bit, _weight(bit)) for bit in _bits(match[0])]
        weight = sum(weight for _, weight in bits)
        if weight <= MAX_TOKENS:
            if bits:
                yield match[0], weight
        else:
            yield from bits


def _bits(sentence: str) -> Iterator[str]:
    """Words, numbers and single characters; what is longer than any word in parts."""
    for match in _BIT.finditer(sentence):
        bit = match[0]
        for start in range(0, len(bit), 40):
            yield bit[start : start + 40]


def _weight(bit: str) -> float:
    """Tokens of a bit: of a word one, and one more for every two letters past the fifth, and for camels."""
    if bit.isspace():
        return 0.0
    if bit.isascii():
        if bit.isalpha():
            return 1 + max(0, len(bit) - 5) / 2 + len(_HUMP.findall(bit))
        return len(bit) * 0.75 if bit.isdigit() else 1.0
    if _WIDE.match(bit):
        return 0.85
    return float(len(unicodedata.normalize("NFKC", bit)))
