"""Why a request's stored reply was not there, and what is remembered of it for the next one that asks the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from openclaw_cache.gateway.misses import Misses, Way
from openclaw_cache.gateway.passage import Passage
from openclaw_cache.observe.aside import Aside


@dataclass(slots=True)
class WhyMissed:
    """Keeps the memory of misses for one gateway. A failure of it is counted, and fails no request."""

    misses: Misses = field(default_factory=Misses)
    aside: Aside = field(default_factory=lambda: Aside("misses"))

    def why(self, passage: Passage, now: float) -> str:
        """Why there is no stored reply: one of `record.MISSES`."""
        with self.aside:
            way = self._way(passage)
            return "store" if way is None else self.misses.why(passage.outcome.prompt_id, way, now)
        return "new"

    def found(self, passage: Passage, expires_at: float) -> None:
        """Its reply was found in the store, where another process may have put it."""
        with self.aside:
            if (way := self._way(passage)) is not None:
                self.misses.stored(passage.outcome.prompt_id, way, expires_at)

    def asked(self, passage: Passage) -> None:
        """Its reply was not there, and an upstream is asked for it."""
        with self.aside:
            if not passage.planned.reads or (way := self._way(passage)) is None:
                return
            if passage.planned.writes:
                self.misses.asked(passage.outcome.prompt_id, way)
            else:
                self.misses.unstored(passage.outcome.prompt_id, way)

    def settled(self, passage: Passage, stored_until: float | None) -> None:
        """The upstream's reply has come to an end; it is stored until then (unix seconds), or not at all (None)."""
        with self.aside:
            if not passage.planned.writes or (way := self._way(passage)) is None:
                return
            if stored_until is not None:
                self.misses.stored(passage.outcome.prompt_id, way, stored_until)
            elif passage.planned.reads:
                self.misses.unstored(passage.outcome.prompt_id, way)

    def _way(self, passage: Passage) -> Way | None:
        make_key = passage.make_key
        if passage.way is None and make_key is not None:
            passage.way = self.misses.way_of(make_key)
        return passage.way
