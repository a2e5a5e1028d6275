"""Sessions of coding agents, one a line, gzipped (callanjfox/kv-cache-tester).

`{"id", "block_size": 64, "requests": [{"t", "in", "lcp", "suf": [[first, count], …], "stop"}, {"t", "sub": […]}]}`:
a request has the first `lcp` blocks of the request before it in the file (not in time), and then the runs of `suf`.
Sub-agents' requests count their time from where they stand. Block ids are local to a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.forms.rows import Lines, rows
from openclaw_cache.simulation.request import Request, TraceError

_HINTS: Final = {"tool_use": Hint.TOOL, "end_turn": Hint.IDLE}
_NO_BLOCKS: Final = np.empty(0, np.int64)

_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _Call(msgspec.Struct, gc=False):
    t: float | None = None
    num_tokens: _Count = msgspec.field(name="in", default=0)
    lcp: _Count = 0
    suf: list[tuple[_Count, _Count]] = []
    stop: str | None = None
    sub: list[_Call] | None = None


class _Session(msgspec.Struct, gc=False):
    block_size: Annotated[int, msgspec.Meta(ge=1)]
    requests: list[_Call]
    id: str = ""


def sessions(lines: Lines, name: str) -> Iterator[tuple[int, list[Request]]]:
    """Tokens of a block, and the requests of a session in order of time, for each line.

    Raises:
        TraceError: a line is wrong; it names the request in it.
    """
    for place, session in rows(lines, _Session, name):
        walk = _Walk(session, place)
        walk.through(session.requests, 0.0, "requests")
        walk.found.sort(key=lambda request: request.at)
        yield session.block_size, walk.found


class _Walk:
    """Through a session's requests, sub-agents' included, in the order of the file."""

    def __init__(self, session: _Session, place: str) -> None:
        self.found: list[Request] = []
        self._session = session
        self._place = place
        self._path: NDArray[np.int64] = _NO_BLOCKS

    def through(self, calls: list[_Call], start: float, field: str) -> None:
        for i, call in enumerate(calls):
            at = start + (call.t or 0.0)
            where = f"{field}[{i}]"
            if call.sub is not None:
                self.through(call.sub, at, f"{where}.sub")
                continue
            self._path = self._continued(call, where)
            hint = _HINTS.get(call.stop or "", Hint.NONE)
            name = f"{self._place}: {where}"
            self.found.append(Request(at, self._path, call.num_tokens, hint, self._session.id, name))

    def _continued(self, call: _Call, where: str) -> NDArray[np.int64]:
        place, size = f"{self._place}: {where}", self._session.block_size
        if call.lcp > len(self._path):
            raise TraceError(
                f"{place}.lcp: {call.lcp}, but the prompt before it has {len(self._path)} blocks"
            )
        num_blocks = call.lcp + sum(count for _, count in call.suf)
        if num_blocks and (num_blocks - 1) * size >= call.num_tokens:
            raise TraceError(
                f"{place}.suf: {num_blocks} blocks of {size} tokens are more than the {call.num_tokens} of `in`"
            )
        runs = [np.arange(first, first + count, dtype=np.int64) for first, count in call.suf]
        return np.concatenate([self._path[: call.lcp], *runs])
