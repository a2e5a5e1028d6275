"""Memories themselves: store, read, change, forget."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.api.agents.shapes import memory_json
from openclaw_cache.api.agents.times import Moment, moment
from openclaw_cache.errors import RequestError
from openclaw_cache.memory import finding, writing
from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.writing import Changes, NewMemory, SameTextError, UnknownMemoryError

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Memory
    from openclaw_cache.types import Headers, Json

MOST_CHARS: Final = 100_000
MOST_BATCH: Final = 1000
MOST_PAGE: Final = 1000

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_CHARS)]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Tag = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Tags = Annotated[list[Tag], msgspec.Meta(max_length=500)]
Slot = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_VERSION: Final = re.compile(r'(?:W/)?"([0-9]{1,9})"')


class MemoryOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST memories`, and one of those of `POST memories:batch`."""

    text: Text
    kind: Word = "fact"
    tags: Tags = []
    time: Moment | None = None
    """When it happened or was said; now, without it."""
    source: Word = "api"
    slot: Slot | None = None
    """What a single-valued statement is about: of memories with one slot, one is current."""
    supersedes: Annotated[list[Id], msgspec.Meta(max_length=100)] = []


class BatchOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST memories:batch`."""

    memories: Annotated[list[MemoryOrder], msgspec.Meta(min_length=1, max_length=MOST_BATCH)]


class ChangeOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `PATCH memories/{id}`: what is not there stays."""

    text: Text | msgspec.UnsetType = msgspec.UNSET
    kind: Word | msgspec.UnsetType = msgspec.UNSET
    tags: Tags | msgspec.UnsetType = msgspec.UNSET
    time: Moment | msgspec.UnsetType = msgspec.UNSET
    slot: Slot | msgspec.UnsetType | None = msgspec.UNSET
    """null takes it away."""


async def store(ask: Ask) -> Reply:
    """Store one memory; says which others are nearly the same."""
    began = time.perf_counter()
    new = _new(ask.order(MemoryOrder), "")
    async with ask.memory(create=True) as memory:
        try:
            (added,) = await memory.run(lambda store: writing.add(store, [new], ask.now))
        except UnknownMemoryError as e:
            raise _unknown(str(e), "supersedes", 400) from None
        if not added.is_new:
            return Reply({"memory": memory_json(added.memory), "similar": []}, headers=_tag(added.memory))
        memory.touched()
        ask.service.metrics.memory_update_seconds.observe(time.perf_counter() - began)
        similar = await finding.similar(memory, added.memory)
    shown = [{"memory": memory_json(found), "score": round(score, 4)} for found, score in similar]
    return Reply({"memory": memory_json(added.memory), "similar": shown}, 201, _tag(added.memory))


async def store_batch(ask: Ask) -> Reply:
    """Store many, all or none."""
    began = time.perf_counter()
    order = ask.order(BatchOrder)
    news = [_new(one, f"memories[{i}].") for i, one in enumerate(order.memories)]
    async with ask.memory(create=True) as memory:
        try:
            added = await memory.run(lambda store: writing.add(store, news, ask.now))
        except UnknownMemoryError as e:
            raise _unknown(str(e), "supersedes", 400) from None
        memory.touched()
    ask.service.metrics.memory_update_seconds.observe((time.perf_counter() - began) / len(news))
    return Reply({"memories": [memory_json(one.memory) for one in added]})


async def read(ask: Ask) -> Reply:
    """One memory, with its versions where they are asked for."""
    ask.only("versions")
    (memory_id,) = ask.params
    with_versions = ask.flag("versions")
    async with ask.memory() as memory:
        (found,) = await memory.run(lambda store: store.get([memory_id]))
        if found is None:
            raise _unknown(memory_id, "id", 404)
        shown: dict[str, Json] = {"memory": memory_json(found)}
        if with_versions:
            versions = await memory.run(lambda store: store.versions(memory_id))
            shown["versions"] = [memory_json(version) for version in versions]
    return Reply(shown, headers=_tag(found))


async def page(ask: Ask) -> Reply:
    """Memories in the order in which they were made."""
    ask.only("cursor", "limit", "kind", "tag", "since", "until", "superseded")
    limit = ask.number("limit", 50, most=MOST_PAGE)
    since, until = (
        moment(ask.query[name], name) if name in ask.query else None for name in ("since", "until")
    )
    within = Filter(
        of="memory",
        kinds=(ask.query["kind"],) if "kind" in ask.query else (),
        tags=(ask.query["tag"],) if "tag" in ask.query else (),
        since=since,
        until=until,
        with_superseded=ask.flag("superseded"),
    )
    after = ask.query.get("cursor", "")
    async with ask.memory() as memory:
        found = await memory.run(lambda store: store.page(after, limit + 1, within))
    more = len(found) > limit
    shown = found[:limit]
    return Reply(
        {"memories": [memory_json(one) for one in shown], "next_cursor": shown[-1].id if more else None}
    )


async def change(ask: Ask) -> Reply:
    """Give a memory a new version."""
    (memory_id,) = ask.params
    order = ask.order(ChangeOrder)
    expected = _expected(ask.headers)
    changes = Changes(
        text=_text(order.text, "text") if isinstance(order.text, str) else None,
        kind=order.kind if isinstance(order.kind, str) else None,
        tags=_tags(order.tags) if isinstance(order.tags, list) else None,
        at=None if isinstance(order.time, msgspec.UnsetType) else moment(order.time, "time"),
        slot="" if order.slot is None else order.slot if isinstance(order.slot, str) else None,
    )
    async with ask.memory() as memory:
        try:
            changed, gone = await memory.run(
                lambda store: writing.change(store, memory_id, changes, expected=expected, now=ask.now)
            )
        except UnknownMemoryError:
            raise _unknown(memory_id, "id", 404) from None
        except SameTextError as e:
            raise RequestError(
                409, f"text: the memory {e} says the same already", code="duplicate_text", param="text"
            ) from None
        memory.drop_numbers(gone)
        memory.touched()
    return Reply({"memory": memory_json(changed)}, headers=_tag(changed))


async def forget(ask: Ask) -> Reply:
    """Remove a memory with its versions, and its text from recalls and turns."""
    ask.only()
    (memory_id,) = ask.params
    async with ask.memory() as memory:
        done = await memory.forget([memory_id])
    if not done.num_forgotten:
        raise _unknown(memory_id, "id", 404)
    return Reply({"forgotten": done.num_forgotten, "redacted": done.num_redacted})


def _new(order: MemoryOrder, place: str) -> NewMemory:
    return NewMemory(
        text=_text(order.text, f"{place}text"),
        kind=order.kind,
        tags=_tags(order.tags),
        source=order.source,
        at=None if order.time is None else moment(order.time, f"{place}time"),
        slot=order.slot,
        supersedes=tuple(dict.fromkeys(order.supersedes)),
    )


def _text(text: str, param: str) -> str:
    if not text.strip():
        raise RequestError(400, f"{param}: there is nothing in it to remember", param=param)
    return text


def _tags(tags: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


def _expected(headers: Headers) -> int | None:
    """The version that `If-Match` asks for. Raises RequestError (400)."""
    value = next((value.decode("latin-1").strip() for name, value in headers if name == b"if-match"), None)
    if value is None or value == "*":
        return None
    if (found := _VERSION.fullmatch(value)) is None:
        raise RequestError(400, 'If-Match: write the version in quotes, such as "3"', param="If-Match")
    return int(found[1])


def _tag(memory: Memory) -> Headers:
    return [(b"etag", b'"%d"' % memory.version)]


def _unknown(name: str, param: str, status: int) -> RequestError:
    shown = name[:128] if name.isprintable() else ascii(name)[:128]
    return RequestError(
        status, f"{param}: there is no memory {shown!r}", code="memory_not_found", param=param
    )


ROUTES: Final[Table] = {
    ("POST", "memories"): store,
    ("GET", "memories"): page,
    ("POST", "memories:batch"): store_batch,
    ("GET", "memories/*"): read,
    ("PATCH", "memories/*"): change,
    ("DELETE", "memories/*"): forget,
}
