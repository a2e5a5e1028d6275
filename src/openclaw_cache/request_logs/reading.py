"""One open file, whatever its form: a value in each line, a document of many requests, or a transcript."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs.elements import MOST_BYTES, elements, outer_keys
from openclaw_cache.request_logs.logged_request import LoggedRequest, Skipped, decoded
from openclaw_cache.request_logs.records import NoRequestError, request_in, requests_in
from openclaw_cache.request_logs.transcript import TranscriptReader, is_transcript

_BLOCK_BYTES: Final = 1 << 16
_BOM: Final = b"\xef\xbb\xbf"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_DOCUMENTS: Final = (("requests",), ("log", "entries"), ())
"""Where a document has its requests: a capture, a HAR, a list."""


class Reading:
    """The requests of one file, and what could not be read of it."""

    def __init__(self, file: str, head: bytes, stream: BinaryIO) -> None:
        self._file = file
        self._head = head
        self._stream = stream
        self._transcript: TranscriptReader | None = None

    def run(self) -> Iterator[LoggedRequest | Skipped]:
        """Each in turn.

        Raises:
            ConfigError: it is no UTF-8 text.
        """
        head = self._head
        if head.startswith(_UTF16):
            raise ConfigError(f"{self._file} is UTF-16: save it as UTF-8")
        if head.startswith(_BOM):
            self._stream.read(len(_BOM))
            head = head.removeprefix(_BOM)
        if has_elements(head):
            yield from self._elements()
        elif is_document(head):
            yield from self._whole()
        else:
            yield from self._lines()

    def _elements(self) -> Iterator[LoggedRequest | Skipped]:
        number = 0
        for number, raw in enumerate(elements(self._stream, _DOCUMENTS), 1):
            yield self._too_long(number) if raw is None else self._element(raw, number)

    def _element(self, raw: bytes, number: int) -> LoggedRequest | Skipped:
        try:
            return request_in(decoded(raw), self._file, number)
        except NoRequestError as e:
            return Skipped(self._file, number, str(e))
        except ValueError:
            return Skipped(self._file, number, "not valid JSON")

    def _whole(self) -> Iterator[LoggedRequest | Skipped]:
        """A document that is one request, written over several lines."""
        raw = self._stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            yield self._too_long(1)
        else:
            yield from self._values(raw, 1)

    def _lines(self) -> Iterator[LoggedRequest | Skipped]:
        number = 0
        while line := self._stream.readline(MOST_BYTES):
            number += 1
            if len(line) == MOST_BYTES and not line.endswith(b"\n"):
                while (rest := self._stream.readline(_BLOCK_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield self._too_long(number)
            elif line.strip():
                yield from self._values(line, number)

    def _values(self, raw: bytes, line: int) -> Iterator[LoggedRequest | Skipped]:
        try:
            value = decoded(raw)
            if self._transcript is None and is_transcript(value):
                self._transcript = TranscriptReader(self._file)
            if self._transcript is None:
                yield from requests_in(value, self._file, line)
            elif (request := self._transcript.read(value, line)) is not None:
                yield request
        except NoRequestError as e:
            yield Skipped(self._file, line, str(e))
        except ValueError:
            yield Skipped(self._file, line, "not valid JSON")

    def _too_long(self, line: int) -> Skipped:
        return Skipped(self._file, line, f"more than {MOST_BYTES >> 20} MiB")


def has_elements(head: bytes) -> bool:
    """Whether a file's first bytes are those of a list, a capture or a HAR, to be read element by element."""
    if head.lstrip()[:1] == b"[":
        return True
    if not is_document(head) and b"\n" in head.strip():
        return False
    keys = outer_keys(head)
    return keys.get("requests") == "[" or keys.get("log") == "{"


def is_document(head: bytes) -> bool:
    """Whether the first bytes are those of one JSON value over several lines, and not of one in each line."""
    first, _, rest = head.lstrip().partition(b"\n")
    return first[:1] == b"{" and first.rstrip()[-1:] in (b"{", b"[", b",", b":") and bool(rest.strip())
