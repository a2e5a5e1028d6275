"""All that an agent's store keeps, as lines of JSON: a header, then memories with their versions, turns and recalls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from openclaw_cache.memory.forms.fault import FormError, Skipped
from openclaw_cache.memory.nesting import flat
from openclaw_cache.memory.record import Memory, Recall, Turn
from openclaw_cache.memory.retrieval.block import harmless, joined

FORMAT: Final = "openclaw-cache-memory"
VERSION: Final = 1
MOST_CHARS: Final = 100_000
"""Of a memory's text, as in the API."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. The counts are of the lines that should follow it."""

    agent: str
    exported_at: float
    num_memories: int
    num_turns: int
    num_recalls: int
    format: str = FORMAT
    version: int = VERSION


class History(msgspec.Struct, frozen=True):
    """All versions of one memory, oldest first."""

    versions: tuple[Memory, ...]


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    memory: tuple[Memory, ...] | None = None
    turn: Turn | None = None
    recall: Recall | None = None


_encoder: Final = msgspec.json.Encoder()
_header: Final = msgspec.json.Decoder(Header)
_line: Final = msgspec.json.Decoder(_Line)


def export_lines(
    header: Header, histories: Iterable[Sequence[Memory]], turns: Iterable[Turn], recalls: Iterable[Recall]
) -> Iterator[bytes]:
    r"""The lines of an export, each ending in `\n`. Takes what it is given one by one."""
    yield _encoder.encode(header) + b"\n"
    for versions in histories:
        yield _encoder.encode(_Line(memory=tuple(versions))) + b"\n"
    for turn in turns:
        yield _encoder.encode(_Line(turn=turn)) + b"\n"
    for recall in recalls:
        yield _encoder.encode(_Line(recall=recall)) + b"\n"


def read_lines(lines: Iterable[bytes]) -> Iterator[Header | History | Turn | Recall | Skipped]:
    """What an export holds, in its order; a line that cannot be read comes as `Skipped`, and so does a missing end.

    Raises:
        FormError: it does not begin with the header of an export, or that of a newer version.
    """
    numbered = enumerate(lines, 1)
    header = _read_header(next((line for _, line in numbered), b""))
    yield header
    found = {"memory": 0, "turn": 0, "recall": 0}
    last = 1
    for number, line in numbered:
        if not line.strip():
            continue
        last = number
        item = _read_line(number, line)
        match item:
            case History():
                found["memory"] += 1
            case Turn():
                found["turn"] += 1
            case Recall():
                found["recall"] += 1
            case _:
                pass
        yield item
    promised = {"memory": header.num_memories, "turn": header.num_turns, "recall": header.num_recalls}
    for kind, number in promised.items():
        if found[kind] < number:
            yield Skipped(
                last + 1, f"the export ends early: {number - found[kind]} lines of kind {kind} are missing"
            )


def _read_header(line: bytes) -> Header:
    try:
        header = _header.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormError("it does not begin with the header of an export of memories") from error
    if header.format != FORMAT:
        raise FormError("it does not begin with the header of an export of memories")
    if header.version > VERSION:
        raise FormError(f"it is of version {header.version}; this program reads up to version {VERSION}")
    return header


def _read_line(number: int, line: bytes) -> History | Turn | Recall | Skipped:
    try:
        read = _line.decode(line)
    except msgspec.ValidationError as error:
        return Skipped(number, _where(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Skipped(number, "not JSON")
    given = [item for item in (read.memory, read.turn, read.recall) if item is not None]
    if len(given) != 1:
        return Skipped(number, "neither a memory, nor a turn, nor a recall")
    if read.memory is not None:
        return _history(number, read.memory)
    if read.turn is not None:
        return _turn(read.turn)
    return _fenced(read.recall) if read.recall is not None else Skipped(number, "empty")


def _history(number: int, versions: tuple[Memory, ...]) -> History | Skipped:
    follows = all(old.id == new.id and old.version < new.version for old, new in pairwise(versions))
    if not versions or not follows or versions[0].version < 1:
        return Skipped(number, "the versions are not those of one memory, in order")
    if not all(version.text.strip() and len(version.text) <= MOST_CHARS for version in versions):
        return Skipped(number, f"a text is empty, or longer than {MOST_CHARS:,} characters")
    return History(versions)


def _turn(turn: Turn) -> Turn:
    return msgspec.structs.replace(
        turn, messages=tuple(msgspec.structs.replace(m, content=flat(m.content)) for m in turn.messages)
    )


def _fenced(recall: Recall) -> Recall:
    """The recall as we would have written it, whatever the file says: it goes into prompts as it is."""
    block = joined([msgspec.structs.replace(item, line=harmless(item.line)) for item in recall.items])
    return msgspec.structs.replace(recall, text=block.text, items=block.items, num_tokens=block.num_tokens)


def _where(error: msgspec.ValidationError) -> str:
    """What is wrong. msgspec quotes names of fields and never values; an unknown field's name is the file's own."""
    message = str(error)
    return "a field that is unknown" if "unknown field" in message else message
