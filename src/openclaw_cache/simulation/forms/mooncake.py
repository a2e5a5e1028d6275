"""Mooncake's traces (Qin et al., FAST 2025): a request a line, `{timestamp, input_length, output_length, hash_ids}`.

Times are in milliseconds. A hash id stands for a block of 512 tokens and all before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from openclaw_cache.simulation.forms.rows import Lines, block_ids, rows
from openclaw_cache.simulation.request import Request, TraceError

BLOCK_TOKENS: Final = 512


class _Row(msgspec.Struct, gc=False):
    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: Annotated[int, msgspec.Meta(ge=0)]
    hash_ids: list[int | str]


def requests(lines: Lines, name: str, block_tokens: int = BLOCK_TOKENS) -> Iterator[Request]:
    """The requests, as they come. Raises TraceError."""
    for place, row in rows(lines, _Row, name):
        if (len(row.hash_ids) - 1) * block_tokens >= row.input_length and row.hash_ids:
            raise TraceError(
                f"{place}: hash_ids: {len(row.hash_ids)} blocks of {block_tokens} tokens are more than input_length "
                f"{row.input_length}; --block-tokens says how long a block is"
            )
        ids = block_ids(row.hash_ids, place, "hash_ids")
        yield Request(row.timestamp / 1000, ids, row.input_length, place=place)
