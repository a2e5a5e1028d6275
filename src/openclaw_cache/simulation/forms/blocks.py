"""Our own form of a trace: nothing but times, lengths and names of blocks, so that it can be given away.

The first line says what it is: `{"form": "openclaw-cache-trace", "block_tokens": 16}`. Every other line is a request:
`{"at": 12.5, "num_tokens": 130, "blocks": ["a1", "b2"], "session": "s1", "next": "tool"}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.forms.rows import Lines, block_ids, rows
from openclaw_cache.simulation.request import Request, TraceError

FORM: Final = "openclaw-cache-trace"
_HINTS: Final = {None: Hint.NONE, "tool": Hint.TOOL, "idle": Hint.IDLE, "ended": Hint.ENDED}

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]


class _Head(msgspec.Struct):
    form: str
    block_tokens: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


class _Row(msgspec.Struct, gc=False):
    num_tokens: _Count
    blocks: list[int | str | tuple[_Count, _Count]]
    """Names of blocks, integers or texts; or runs `[first, count]` of integers."""
    at: float = 0.0
    session: str = ""
    next: Literal["tool", "idle", "ended"] | None = None
    """What the reply says of the session's next call: `kv.rhythm.Hint`."""


def requests(lines: Lines, name: str) -> tuple[int, Iterator[Request]]:
    """Tokens of a block, and the requests as they come. Raises TraceError."""
    stream = iter(lines)
    head = next(rows(islice(stream, 1), _Head, name), None)
    if head is None:
        raise TraceError(f"{name}:1: the first line must be {{'form': {FORM!r}, 'block_tokens': …}}")
    return head[1].block_tokens, _requests(chain(stream), name, head[1].block_tokens)


def _requests(lines: Lines, name: str, block_tokens: int) -> Iterator[Request]:
    for place, row in rows(lines, _Row, name, first_line=2):
        num_blocks = sum(block[1] if isinstance(block, tuple) else 1 for block in row.blocks)
        if num_blocks and (num_blocks - 1) * block_tokens >= row.num_tokens:
            raise TraceError(
                f"{place}: blocks: {num_blocks} blocks of {block_tokens} tokens are more than num_tokens "
                f"{row.num_tokens}"
            )
        yield Request(row.at, _ids(row, place), row.num_tokens, _HINTS[row.next], row.session, place)


def _ids(row: _Row, place: str) -> NDArray[np.int64]:
    plain = [block for block in row.blocks if not isinstance(block, tuple)]
    if len(plain) == len(row.blocks):
        return block_ids(plain, place, "blocks")
    runs = [block if isinstance(block, tuple) else (block, 1) for block in row.blocks]
    found = []
    for first, count in runs:
        if isinstance(first, str):
            raise TraceError(f"{place}: blocks: runs are of integers; {first!r} stands beside one")
        found.append(np.arange(first, first + count, dtype=np.int64))
    return np.concatenate(found)
