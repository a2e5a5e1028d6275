"""Which form a trace has, told by its first line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

import msgspec

from openclaw_cache.simulation.forms import blocks, coding, mooncake
from openclaw_cache.simulation.forms.rows import Lines
from openclaw_cache.simulation.interleave import MAX_GAP_S, NUM_USERS, interleave
from openclaw_cache.simulation.request import Request, TraceError

Form = Literal["mooncake", "coding", "blocks"]

KNOWN: Final = "traces of block ids (Mooncake's, kv-cache-tester's, our own form), and logs of requests"


@dataclass(frozen=True, slots=True)
class Opened:
    """A trace whose requests are read as they are asked for."""

    form: str
    block_tokens: int
    requests: Iterator[Request]


def form_of(head: bytes) -> Form | None:
    """The form of a trace that begins with these bytes; None where it is none of block ids.

    Raises:
        TraceError: it is a trace that has no block ids to go by.
    """
    first_line, has_end, _ = head.lstrip().partition(b"\n")
    if first_line.lower().lstrip(b"\xef\xbb\xbf").startswith(b"timestamp,"):
        raise TraceError(
            "this trace has only times and lengths: which prompts begin alike cannot be told from it"
        )
    try:
        value = msgspec.json.decode(first_line)
    except (msgspec.DecodeError, RecursionError):
        if has_end:
            return None
        if all(key in first_line for key in (b'"block_size"', b'"requests"', b'"lcp"')):
            return "coding"
        return "mooncake" if b'"hash_ids"' in first_line and b'"input_length"' in first_line else None
    return _form_of_object(value) if isinstance(value, dict) else None


def _form_of_object(value: dict[str, object]) -> Form | None:
    if value.get("form") == blocks.FORM:
        return "blocks"
    if "hash_ids" in value:
        if isinstance(value["hash_ids"], dict):
            raise TraceError("hash_ids: this trace names components of prompts, not blocks of tokens")
        return "mooncake"
    return "coding" if "block_size" in value and "requests" in value else None


def opened(
    form: Form,
    lines: Lines,
    name: str,
    *,
    block_tokens: int | None = None,
    num_users: int = NUM_USERS,
    max_gap_s: float = MAX_GAP_S,
) -> Opened:
    """Begin to read a trace.

    Args:
        form: of `form_of`.
        lines: all of them.
        name: of the file, for errors.
        block_tokens: where the form does not tell it (Mooncake's): tokens of a block.
        num_users: of sessions with times of their own: how many run at a time.
        max_gap_s: of such a session: what it is idle beyond that is cut to that.

    Raises:
        TraceError: a line is wrong; also later, when it is read.
    """
    if form == "mooncake":
        size = block_tokens or mooncake.BLOCK_TOKENS
        return Opened(form, size, mooncake.requests(lines, name, size))
    if form == "blocks":
        size, requests = blocks.requests(lines, name)
        return Opened(form, size, requests)
    found = coding.sessions(lines, name)
    first = next(found, None)
    if first is None:
        raise TraceError(f"{name}: it has no session")
    size = first[0]

    def sessions() -> Iterator[list[Request]]:
        for own, session in chain([first], found):
            if own != size:
                raise TraceError(f"{name}: block_size: {own} after {size}; simulate such sessions apart")
            yield session

    return Opened(form, size, interleave(sessions(), num_users, max_gap_s))
