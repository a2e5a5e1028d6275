"""Sessions, each with times of its own, as the traffic of so many users."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from openclaw_cache.simulation.request import Request

NUM_USERS: Final = 40
MAX_GAP_S: Final = 600.0
_PAUSE_S: Final = 60.0
_START_S: Final = 600.0


class _Turn(NamedTuple):
    """When a user's next request comes, or its next session begins. Of equals the session that began first."""

    at: float
    number: int
    place: int
    session: Sequence[Request]
    first_id: int


def interleave(
    sessions: Iterable[Sequence[Request]],
    num_users: int = NUM_USERS,
    max_gap_s: float = MAX_GAP_S,
    rng: random.Random | None = None,
    *,
    has_own_ids: bool = True,
) -> Iterator[Request]:
    """Every user runs sessions back to back; what a session is idle beyond `max_gap_s` is cut to that.

    Users begin at random within ten minutes, and pause for a minute between sessions. `has_own_ids`: block ids are
    local to a session, and are moved so that no two sessions share one. Memory: one session per user.
    """
    rng = rng or random.Random(0)  # noqa: S311 - the same traffic in every run
    turns = [_Turn(rng.random() * _START_S, user, 0, (), 0) for user in range(num_users)]
    heapq.heapify(turns)
    waiting, number, first_id = iter(sessions), num_users, 0
    while turns:
        turn = heapq.heappop(turns)
        at, session, place = turn.at, turn.session, turn.place
        if place < len(session):
            request = session[place]
            yield replace(request, at=at, ids=np.asarray(request.ids, np.int64) + turn.first_id)
            if place + 1 < len(session):
                gap_s = min(max(0.0, session[place + 1].at - request.at), max_gap_s)
                heapq.heappush(turns, turn._replace(at=at + gap_s, place=place + 1))
                continue
            at += _PAUSE_S
        session = next((one for one in waiting if len(one)), ())
        if len(session):
            start = at + min(max(0.0, session[0].at), max_gap_s)
            heapq.heappush(turns, _Turn(start, number, 0, session, first_id))
            number += 1
            if has_own_ids:
                first_id += 1 + max((int(one.ids.max()) for one in session if len(one.ids)), default=0)
