"""The elements of an array deep in a JSON document that is larger than memory."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import BinaryIO, Final

Path = tuple[str, ...]

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|["{}\[\]]', re.DOTALL)
"""A whole string, a bracket, or the quote of a string whose end has not been read yet."""
_BRACE: Final = re.compile(rb'[^"{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}]*+)*+[{}]', re.DOTALL)
"""Everything up to a brace that stands in no string."""
_BLOCK_BYTES: Final = 1 << 20
_OPENING: Final = ord("{")
_MOST_DEPTH: Final = 3
"""Of paths that are looked for, and one more."""
_MOST_GAP: Final = 4096
"""White space between a key and its value."""
MOST_BYTES: Final = 1 << 28
"""Of one element or line: more is no request."""


def elements(stream: BinaryIO, paths: Collection[Path]) -> Iterator[bytes | None]:
    """Give the objects that are elements of arrays at these paths of a document, as bytes, one after the other.

    A path is the keys from the outermost object on; `()` is an array that is the document itself. What is no JSON ends
    it, and so does an element of more than `MOST_BYTES`, for which None stands. One that the document's end tears is
    given as far as it goes. Memory: one element and a block.
    """
    yield from _Scanner(stream, paths).run()


def outer_keys(head: bytes) -> dict[str, str]:
    """Of a document's first bytes: each key of the outermost object that an object or array follows, and `{` or `[`."""
    found: dict[str, str] = {}
    depth, key, end = 0, "", 0
    for token in _TOKEN.finditer(head):
        first = head[token.start()]
        if first == ord('"'):
            key, end = (_text(token[0]), token.end()) if depth == 1 else ("", 0)
        elif first in b"{[":
            if depth == 1 and head[end : token.start()].strip() == b":":
                found[key] = chr(first)
            depth += 1
        else:
            depth -= 1
    return found


class _Scanner:
    def __init__(self, stream: BinaryIO, paths: Collection[Path]) -> None:
        self._stream = stream
        self._paths = paths
        self._buffer = b""
        self._position = 0
        self._open: list[tuple[bool, Path]] = []
        """The arrays and objects around: whether it is an array, and its path."""
        self._key, self._key_end = b"", 0
        self._start = -1
        """Of the element that is being read; -1 outside of one."""
        self._depth = 0

    def run(self) -> Iterator[bytes | None]:
        while True:
            if self._start < 0:
                if self._find():
                    continue
            elif (element := self._close()) is not None:
                yield element
                continue
            if self._start >= 0 and len(self._buffer) - self._start > MOST_BYTES:
                yield None
                return
            if not self._refill():
                if self._start >= 0:
                    yield self._buffer[self._start :]
                return

    def _find(self) -> bool:
        """Go on to where an element begins; False where the buffer ends before."""
        while (token := _TOKEN.search(self._buffer, self._position)) is not None:
            first = token[0]
            if first == b'"':  # its end has not been read yet
                self._position = token.start()
                return False
            self._position = token.end()
            if first in (b"{", b"["):
                is_array, around = self._open[-1] if self._open else (False, ())
                if first == b"{" and is_array and around in self._paths:
                    self._start, self._depth = token.start(), 1
                    return True
                self._open.append((first == b"[", self._path(around, token.start())))
            elif first in (b"}", b"]"):
                del self._open[-1:]
            else:
                self._key, self._key_end = first, token.end()
        self._position = len(self._buffer)
        return False

    def _path(self, around: Path, start: int) -> Path:
        """Of what begins here."""
        if not self._open:
            return ()
        has_key = self._buffer[self._key_end : start].strip() == b":" and len(self._open) < _MOST_DEPTH
        return (*around[:_MOST_DEPTH], _text(self._key) if has_key else "")

    def _close(self) -> bytes | None:
        """Go on to where the element ends, and return it; None where the buffer ends before."""
        buffer, position, depth, match = self._buffer, self._position, self._depth, _BRACE.match
        while depth and (token := match(buffer, position)) is not None:
            position = token.end()
            depth += 1 if buffer[position - 1] == _OPENING else -1
        self._position, self._depth = position, depth
        if depth:
            return None
        element = buffer[self._start : position]
        self._start, self._key_end = -1, position
        return element

    def _refill(self) -> bool:
        """Read on, and forget what is behind; False at the end of the file."""
        keep = self._start if self._start >= 0 else min(self._key_end, self._position)
        if self._start < 0 and self._position - keep > _MOST_GAP:
            keep = self._position  # what is so far away was no key, or its value is no object
        rest = self._buffer[keep:]
        # As much again as is kept: a long string is then looked through a few times, not once for each block.
        block = self._stream.read(max(_BLOCK_BYTES, len(rest)))
        self._buffer = rest + block
        self._position -= keep
        self._key_end = max(0, self._key_end - keep)
        self._start = min(0, self._start)
        return bool(block)


def _text(token: bytes) -> str:
    try:
        text = json.loads(token)
    except ValueError:
        return ""
    return text if isinstance(text, str) else ""
