"""The table of flights that identical requests may join."""

from __future__ import annotations

from openclaw_cache.gateway.flight import Flight
from openclaw_cache.types import CacheKey


class Flights:
    """Flights in the air by key. A flight leaves the table before its readers wake."""

    def __init__(self) -> None:
        self._by_key: dict[CacheKey, Flight] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def find(self, key: CacheKey) -> Flight | None:
        """The flight to join; None where a new one must start. O(1)."""
        flight = self._by_key.get(key)
        if flight is not None and flight.oversize:
            del self._by_key[key]
            return None
        return flight

    def add(self, key: CacheKey, flight: Flight) -> None:
        """Let later identical requests join."""
        self._by_key[key] = flight

    def close(self) -> None:
        """Close every flight to joiners; their present readers stay. Costs later requests a call each."""
        self._by_key.clear()

    def remove(self, key: CacheKey, flight: Flight) -> None:
        """Close the flight to joiners; a newer flight under the same key stays."""
        if self._by_key.get(key) is flight:
            del self._by_key[key]
