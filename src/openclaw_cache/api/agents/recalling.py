"""What is found in an agent's memory, and what is taken into it from a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.api.agents.asked_time import asked_time
from openclaw_cache.api.agents.memories import Id, Tags, Word
from openclaw_cache.api.agents.shapes import memory_json, range_json, why_json
from openclaw_cache.api.agents.times import Moment
from openclaw_cache.memory import finding
from openclaw_cache.memory.context.host import HostMessage, as_message, is_logged
from openclaw_cache.memory.record import Filter
from openclaw_cache.types import Json

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Message

MOST_FOUND: Final = 100
MOST_QUERY_CHARS: Final = 20_000

Query = Annotated[str, msgspec.Meta(max_length=MOST_QUERY_CHARS)]
Session = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
Limit = Annotated[int, msgspec.Meta(ge=1, le=MOST_FOUND)]


class SearchOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST memories:search`. Without a query: the newest."""

    query: Query = ""
    mode: Literal["hybrid", "vector", "text", "time"] = "hybrid"
    since: Moment | None = None
    """A moment, or words such as `last week`."""
    until: Moment | None = None
    tags: Tags = []
    kinds: Annotated[list[Word], msgspec.Meta(max_length=100)] = []
    limit: Limit = 10
    explain: bool = False
    include_superseded: bool = False


class CaptureOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST memories:capture`."""

    messages: Annotated[list[HostMessage], msgspec.Meta(min_length=1, max_length=1000)]
    session_id: Session | None = None


class RecallOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST memories:recall`."""

    query: Query
    session_id: Session | None = None
    """For the log of who asks; what is recalled does not depend on it."""
    max_items: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1500
    exclude: Annotated[list[Id], msgspec.Meta(max_length=10_000)] = []


async def search(ask: Ask) -> Reply:
    """Find memories."""
    order = ask.order(SearchOrder)
    asked = asked_time(order.since, order.until, ask.now)
    within = Filter(
        of="memory",
        kinds=tuple(order.kinds),
        tags=tuple(order.tags),
        since=asked.since,
        until=asked.until,
        with_superseded=order.include_superseded,
    )
    async with ask.memory() as memory:
        found = await finding.find(
            memory,
            order.query,
            within,
            mode=order.mode,
            limit=order.limit,
            looks_for_time=not asked.is_given,
        )
    results = []
    for hit, one in zip(found.hits, found.memories, strict=True):
        shown = {"memory": memory_json(one), "score": round(hit.score, 6)}
        results.append(shown | {"why": why_json(hit)} if order.explain else shown)
    told = asked.shown() or (None if found.asked is None else range_json(found.asked))
    reply: dict[str, Json] = {"results": results}
    if told is not None:
        reply["range"] = told
    if found.degraded:
        reply["degraded"] = list(found.degraded)
    return Reply(reply)


async def capture(ask: Ask) -> Reply:
    """Take what is worth remembering out of messages."""
    order = ask.order(CaptureOrder)
    messages: list[Message] = [
        as_message(message, "", ask.now) for message in order.messages if is_logged(message)
    ]
    async with ask.memory(create=True) as memory:
        captured = await memory.capture(order.session_id, messages, ask.now)
    return Reply(
        {"captured": [memory_json(one) for one in captured.memories], "superseded": list(captured.superseded)}
    )


async def recall(ask: Ask) -> Reply:
    """What bears on a prompt, as a block of text to put before it."""
    order = ask.order(RecallOrder)
    async with ask.memory() as memory:
        found = await memory.recall(
            order.query,
            max_items=order.max_items,
            max_tokens=order.max_tokens,
            exclude=frozenset(order.exclude),
        )
    hits = {hit.passage.owner: hit for hit in found.hits}
    items = [
        {
            "of": item.of,
            "id": item.owner,
            "score": round(hits[item.owner].score, 6),
            "why": why_json(hits[item.owner]),
        }
        for item in found.items
    ]
    reply: dict[str, Json] = {"text": found.text, "items": items, "num_tokens": found.num_tokens}
    if found.degraded:
        reply["degraded"] = list(found.degraded)
    return Reply(reply)


ROUTES: Final[Table] = {
    ("POST", "memories:search"): search,
    ("POST", "memories:capture"): capture,
    ("POST", "memories:recall"): recall,
}
