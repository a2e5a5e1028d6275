"""Requests of several files in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import inf
from typing import Final

from openclaw_cache.request_logs.logged_request import LoggedRequest

_MOST_OPEN: Final = 256
"""Files at a time: of more that cover the same time, one is read after the other."""

Source = Callable[[], Iterator[LoggedRequest]]


def in_order(sources: Sequence[Source]) -> Iterator[LoggedRequest]:
    """Merge sources, each of which is in order and can be read twice: once to see what time it covers.

    Where a request does not tell its time, sources follow one another as given. Memory: one request of each of those
    sources whose times overlap.
    """
    spans = [_span(source()) for source in sources]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans):
        yield from chain.from_iterable(source() for source in sources)
        return
    together: list[Source] = []
    end = -inf
    for (first, last), _, source in sorted(
        (span, number, source) for number, (span, source) in enumerate(zip(known, sources, strict=True))
    ):
        if first > end:
            yield from _merged(together)
            together = []
        together.append(source)
        end = max(end, last)
    yield from _merged(together)


def _merged(sources: Sequence[Source]) -> Iterator[LoggedRequest]:
    if len(sources) > _MOST_OPEN:
        return chain.from_iterable(source() for source in sources)
    return heapq.merge(*(source() for source in sources), key=lambda request: request.at or 0.0)


def _span(requests: Iterator[LoggedRequest]) -> tuple[float, float] | None:
    """From when to when; None where a request does not tell. Of no requests, nothing before everything."""
    first, last = inf, -inf
    for request in requests:
        if request.at is None:
            return None
        first, last = min(first, request.at), max(last, request.at)
    return (first, last) if first <= last else (-inf, -inf)
