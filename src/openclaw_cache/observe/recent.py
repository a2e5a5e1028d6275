"""The last requests, for whoever looks: in memory only, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Final

from openclaw_cache.observe.record import RequestRecord

FILTERS: Final = ("outcome", "agent", "session", "model")
"""Fields of a record that requests can be chosen by."""


class Recent:
    """Keeps the records of the last requests, about 2 kB each.

    Args:
        most: How many; 0 = none.
    """

    def __init__(self, most: int) -> None:
        self._records: deque[RequestRecord] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: RequestRecord) -> None:
        """Keep a request's record; the oldest gives way. 0.1 µs."""
        self._records.append(record)

    def find(self, request_id: str) -> RequestRecord | None:
        """The newest request of this id, which is its client's word. O(requests)."""
        return next((record for record in reversed(self._records) if record.request_id == request_id), None)

    def last(self, limit: int, **wanted: str) -> Iterator[RequestRecord]:
        """The last requests whose fields (`FILTERS`) have these values, newest first. O(requests)."""
        found = (
            record
            for record in reversed(self._records)
            if all(getattr(record, name) == value for name, value in wanted.items())
        )
        return islice(found, limit)
