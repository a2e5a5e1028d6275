"""The log of turns: read it, search it, and see what stood around a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.api.agents.asked_time import asked_time
from openclaw_cache.api.agents.recalling import Limit, Query, Session
from openclaw_cache.api.agents.shapes import message_json, turn_json, why_json
from openclaw_cache.api.agents.times import Moment, shown
from openclaw_cache.errors import RequestError
from openclaw_cache.memory import finding, writing
from openclaw_cache.memory.passages import text_of
from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.retrieval.tokens import estimated_tokens
from openclaw_cache.types import Json

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Message
    from openclaw_cache.memory.store import MemoryStore

MOST_PAGE: Final = 200
MOST_AROUND: Final = 100


class TurnSearchOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST turns:search`."""

    query: Query = ""
    session_id: Session | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Limit = 10
    explain: bool = False


class ExpandOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST turns:expand`."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    """Of a turn or a message."""
    before: Annotated[int, msgspec.Meta(ge=0, le=MOST_AROUND)] = 2
    after: Annotated[int, msgspec.Meta(ge=0, le=MOST_AROUND)] = 2
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 4000


async def read(ask: Ask) -> Reply:
    """One turn."""
    ask.only()
    (turn_id,) = ask.params
    async with ask.memory() as memory:
        turn = await memory.run(lambda store: store.turn(turn_id))
    if turn is None:
        raise _unknown("turn")
    return Reply(turn_json(turn))


async def page(ask: Ask) -> Reply:
    """Turns in the order in which they were stored."""
    ask.only("session", "cursor", "limit")
    limit = ask.number("limit", 20, most=MOST_PAGE)
    session, after = ask.query.get("session"), ask.query.get("cursor", "")
    async with ask.memory() as memory:
        found = await memory.run(lambda store: store.turns(session, after, limit + 1))
    more = len(found) > limit
    turns = found[:limit]
    return Reply(
        {"turns": [turn_json(turn) for turn in turns], "next_cursor": turns[-1].id if more else None}
    )


async def search(ask: Ask) -> Reply:
    """Find messages."""
    order = ask.order(TurnSearchOrder)
    asked = asked_time(order.since, order.until, ask.now)
    within = Filter(of="message", session=order.session_id, since=asked.since, until=asked.until)
    async with ask.memory() as memory:
        found = await finding.find(
            memory, order.query, within, limit=order.limit, looks_for_time=not asked.is_given
        )
        turns = await memory.run(lambda store: store.turn_ids([hit.passage.owner for hit in found.hits]))
    results = []
    for hit, turn in zip(found.hits, turns, strict=True):
        passage = hit.passage
        result = {
            "message": passage.owner,
            "turn": turn,
            "session": passage.session,
            "role": passage.role,
            "time": shown(passage.at),
            "snippet": passage.text,
            "score": round(hit.score, 6),
        }
        results.append(result | {"why": why_json(hit)} if order.explain else result)
    reply: dict[str, Json] = {"results": results}
    if (told := asked.shown()) is not None:
        reply["range"] = told
    if found.degraded:
        reply["degraded"] = list(found.degraded)
    return Reply(reply)


async def expand(ask: Ask) -> Reply:
    """What stood around a message or a turn, as much of it as `max_tokens` lets through."""
    order = ask.order(ExpandOrder)
    async with ask.memory() as memory:
        found, middle = await memory.run(lambda store: _around(store, order))
    if not found:
        raise _unknown("turn or message")
    begin, end, is_cut = within_tokens([text_of(message) for message in found], middle, order.max_tokens)
    messages = [message_json(message) for message in found[begin:end]]
    if is_cut and end - begin == 1 and estimated_tokens(text_of(found[begin])) > order.max_tokens:
        messages[0]["content"] = _cut(text_of(found[begin]), order.max_tokens)
    return Reply({"messages": messages, "truncated": is_cut})


async def drop(ask: Ask) -> Reply:
    """Remove a session's turns with all that was recalled in it."""
    ask.only()
    (session,) = ask.params
    async with ask.memory() as memory:
        num_turns = await memory.run(lambda store: writing.drop_session(store, session, ask.now))
        if num_turns:
            memory.drop_vectors()
    return Reply({"removed": num_turns})


def within_tokens(texts: Sequence[str], middle: range, max_tokens: int) -> tuple[int, int, bool]:
    """Which of the texts fit, as a slice that begins with `middle` and grows on both sides; and whether some do not.

    Where the middle itself does not fit, as many of its first ones as do, at least one.
    """
    sizes = [estimated_tokens(text) for text in texts]
    begin, end, left = middle.start, middle.start + 1, max_tokens - sizes[middle.start]
    while end < middle.stop and sizes[end] <= left:
        left -= sizes[end]
        end += 1
    may_grow = end >= middle.stop
    grows_down, grows_up = may_grow, may_grow
    while grows_down or grows_up:
        grows_down = grows_down and begin > 0 and sizes[begin - 1] <= left
        if grows_down:
            begin -= 1
            left -= sizes[begin]
        grows_up = grows_up and end < len(sizes) and sizes[end] <= left
        if grows_up:
            left -= sizes[end]
            end += 1
    return begin, end, begin > 0 or end < len(sizes) or left < 0


def _around(store: MemoryStore, order: ExpandOrder) -> tuple[list[Message], range]:
    """The messages around what is asked for, and which of them that is."""
    turn = store.turn(order.id)
    if turn is None or not turn.messages:
        found = store.around(order.id, order.before, order.after)
        at = next((i for i, message in enumerate(found) if message.id == order.id), 0)
        return found, range(at, at + 1)
    own = list(turn.messages)
    before = store.around(own[0].id, order.before, 0)[:-1]
    after = store.around(own[-1].id, 0, order.after)[1:]
    return [*before, *own, *after], range(len(before), len(before) + len(own))


def _cut(text: str, max_tokens: int) -> str:
    """As many of a text's first characters as fit."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimated_tokens(text[:middle]) <= max_tokens else (low, middle - 1)
    return text[:low]


def _unknown(what: str) -> RequestError:
    return RequestError(404, f"id: there is no such {what}", code="not_found", param="id")


ROUTES: Final[Table] = {
    ("GET", "turns"): page,
    ("GET", "turns/*"): read,
    ("POST", "turns:search"): search,
    ("POST", "turns:expand"): expand,
    ("DELETE", "sessions/*"): drop,
}
