"""`since` and `until` of a search: moments, or words such as `last week` and `上周`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_cache.api.agents.times import Moment, moment, shown
from openclaw_cache.errors import RequestError
from openclaw_cache.memory.finding import local_zone
from openclaw_cache.memory.retrieval.time_words import find_range

if TYPE_CHECKING:
    from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class AskedTime:
    """A span of Unix time; `until` is exclusive, None is no bound. `phrase` are the words that named it."""

    since: float | None = None
    until: float | None = None
    phrase: str | None = None
    is_given: bool = False

    def shown(self) -> Json:
        """As JSON; None where no time was asked for."""
        if not self.is_given:
            return None
        return {
            "since": None if self.since is None else shown(self.since),
            "until": None if self.until is None else shown(self.until),
            "phrase": self.phrase,
        }


def asked_time(since: Moment | None, until: Moment | None, now: float) -> AskedTime:
    """Read both. Words in `since` alone mean the whole span: `last week` ends on Sunday night.

    Raises:
        RequestError: 400, one is neither a moment nor words for one; or the span is empty.
    """
    if since is None and until is None:
        return AskedTime()
    begin, span_end, first = _bound(since, "since", now)
    end_begin, end, last = _bound(until, "until", now)
    if until is None and first is not None:
        end = span_end
    elif until is not None and last is None:
        end = end_begin
    if begin is not None and end is not None and begin >= end:
        raise RequestError(400, "until: it is not after since", param="until")
    return AskedTime(begin, end, first or last, is_given=True)


def _bound(value: Moment | None, name: str, now: float) -> tuple[float | None, float | None, str | None]:
    """Begin and end of what is named, and the words; a moment begins and has no end."""
    if value is None:
        return None, None, None
    if isinstance(value, str):
        try:
            return moment(value, name), None, None
        except RequestError:
            found = find_range(value, now, local_zone(now))
            if found is None:
                raise
            return found.since, found.until, found.phrase
    return moment(value, name), None, None
