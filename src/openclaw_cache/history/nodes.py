"""Which gateways kept something on which day: a list for each day in the store, that only grows.

A gateway takes the first free place of a day, which the store's set-if-absent makes safe among several. So no
scan of the store is needed, gateways that come and go (pods with a new disk each) fill up nothing that stays, and a
day's list goes with the day.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from openclaw_cache.history.buckets import PREFIX
from openclaw_cache.store.store import Store

NUM_PLACES: Final = 256
"""Gateways of one day."""
_STRIDE: Final = 4
_NODE: Final = re.compile(rb"[0-9a-f]{16}")


class Nodes:
    """The lists of a store. Every method raises StoreError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._place: tuple[int, str, int] = (-1, "", 0)

    async def claim(self, day: int, node: str) -> None:
        """Put a gateway on the list of a day; one for which there is no place is not found by other gateways.

        Cost: one round trip where it was there already; the store may have lost the list, so it is asked.
        """
        name = node.encode()
        first = self._place[2] if self._place[:2] == (day, node) else 0
        for place in (first, *range(NUM_PLACES)):
            if await self._store.add(_key(day, place), name) == name:
                self._place = (day, node, place)
                return

    async def of(self, days: Collection[int]) -> dict[int, Sequence[str]]:
        """Who is on the lists of some days. A few round trips for all of them."""
        found: dict[int, list[str]] = {day: [] for day in days}
        open_days = list(found)
        for place in range(0, NUM_PLACES, _STRIDE):
            keys = [(day, _key(day, place + i)) for day in open_days for i in range(_STRIDE)]
            if not keys:
                break
            grown: set[int] = set()
            values = await self._store.get_many([key for _, key in keys])
            for (day, _), value in zip(keys, values, strict=True):
                if value is not None and _NODE.fullmatch(value):
                    found[day].append(value.decode())
                    grown.add(day)
            open_days = [day for day in open_days if day in grown]
        return {day: list(dict.fromkeys(names)) for day, names in found.items()}

    async def forget(self, day: int) -> None:
        """Remove the list of a day."""
        await self._store.delete(*(_key(day, place) for place in range(NUM_PLACES)))


def _key(day: int, place: int) -> bytes:
    return b"%bn:%d:%d" % (PREFIX, day, place)
