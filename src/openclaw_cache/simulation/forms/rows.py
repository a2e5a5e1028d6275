"""Lines of JSON as values, with errors that name line and field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from openclaw_cache.simulation.request import TraceError

Row = TypeVar("Row", bound=msgspec.Struct)

Lines = Iterable[bytes]


def rows(lines: Lines, kind: type[Row], name: str, first_line: int = 1) -> Iterator[tuple[str, Row]]:
    """Each line that is not empty: its place (`trace.jsonl:12`) and its value.

    Raises:
        TraceError: a line is no JSON, or a field of it is missing or wrong.
    """
    decoder = msgspec.json.Decoder(kind)
    for number, line in enumerate(lines, first_line):
        if not line.isspace() and line:
            place = f"{name}:{number}"
            try:
                yield place, decoder.decode(line)
            except (msgspec.DecodeError, RecursionError) as e:
                raise TraceError(f"{place}: {_reason(e)}") from None


def block_ids(names: Sequence[int | str], place: str, field: str) -> NDArray[np.int64]:
    """Block names as numbers: integers of 64 bits as they are, others by a hash of 64 bits.

    Raises:
        TraceError: integers and texts are mixed.
    """
    try:
        if not names or type(names[0]) is int:
            return np.array(names, np.int64)
    except (OverflowError, ValueError, TypeError):
        pass
    kinds = {type(name) for name in names}
    if len(kinds) > 1:
        raise TraceError(f"{place}: {field}: either all block ids are integers, or all are texts")
    return np.array([named(str(name).encode()) for name in names], np.int64)


def named(text: bytes) -> int:
    """A hash of 64 bits, the same in every run."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


def _reason(error: Exception) -> str:
    """`input_length: expected int, got str`."""
    text = str(error) or "nested too deeply"
    message, _, where = text.partition(" - at `$")
    field = where.rstrip("`").lstrip(".")
    return f"{field}: {message}" if field else message
