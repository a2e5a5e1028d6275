"""A request's bytes with a stable beginning."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import orjson

from openclaw_cache.canonical.editing import Done, Edit, edited
from openclaw_cache.canonical.ordering import ordered
from openclaw_cache.canonical.prompt import (
    APIS,
    Place,
    SystemText,
    place_behind,
    system_texts,
    with_text_behind,
    with_texts,
)
from openclaw_cache.canonical.rewriting import rewritten
from openclaw_cache.canonical.rule import HeadLine, Rule, ToolOrder
from openclaw_cache.canonical.rules import RULES
from openclaw_cache.observe.record import CanonicalEffect
from openclaw_cache.types import Json

Level = Literal["off", "report", "safe", "full"]


@dataclass(frozen=True, slots=True)
class Canonicalised:
    """What goes upstream, and what was done."""

    raw: bytes
    effects: Sequence[CanonicalEffect]
    body: dict[str, Json]
    """The decoded value of `raw`."""
    has_late_system: bool = False
    """Whether a message in the system's role now stands behind the history: not every server takes that."""


def canonicalise(
    raw: bytes,
    body: dict[str, Json],
    api: str,
    level: Level,
    *,
    late_system: bool = True,
    without: Set[str] = frozenset(),
) -> Canonicalised:
    """Apply the rules of a level. `report` says what `full` would do, and changes nothing. Never fails.

    On any doubt about the body (a member twice, a number beyond 64 bits, no Unicode) `raw` is returned as it is.

    Cost: O(size of the system prompt); where something changes O(len(raw)), see `rewriting.rewritten`.

    Args:
        raw: The request's bytes.
        body: Its decoded value; it is not changed.
        api: `Dialect.name`.
        level: How far to go.
        late_system: Whether the server takes a system message behind the history.
        without: Ids of rules that are not tried.
    """
    if level == "off" or api not in APIS:
        return Canonicalised(raw, (), body)
    texts = system_texts(body, api)
    rules = [rule for rule in RULES if rule.id not in without] if without else RULES
    whole = _plan(body, api, texts, rules, late_system=late_system)
    applied = whole if level == "full" else None
    if level == "safe":
        applied = _plan(
            body, api, texts, [rule for rule in rules if rule.level == "safe"], late_system=late_system
        )
    new = None
    if applied is not None and applied.done:
        new = rewritten(raw, body, applied.body)
    done_now = applied.done if applied is not None and new is not None else {}
    return Canonicalised(
        raw if new is None else new,
        [
            CanonicalEffect(rule, done.num_places, done.num_bytes, rule in done_now)
            for rule, done in {**whole.done, **done_now}.items()
        ],
        body if new is None or applied is None else applied.body,
        has_late_system=new is not None and applied is not None and applied.has_late_system,
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A body after some rules."""

    body: dict[str, Json]
    done: dict[str, Done]
    has_late_system: bool = False


def _plan(
    body: dict[str, Json], api: str, texts: Sequence[SystemText], rules: Sequence[Rule], *, late_system: bool
) -> _Plan:
    place = place_behind(body, api)
    if place == "message" and not late_system:
        place = "system_end" if api == "messages" else None
    edit = _edit(texts, rules, place)
    done: dict[str, Done] = {}
    changed, has_late_system = body, False
    if edit is not None:
        done |= edit.done
        changed = with_texts(body, texts, edit.texts)
        if edit.source is not None and place is not None:
            source = texts[edit.source]
            # `source` is told by the body in which it stood.
            changed = with_text_behind(changed, body, api, place, source, "\n".join(edit.moved))
            has_late_system = place == "message"
    begin = next((t for t in (edit.texts if edit else [t.text for t in texts]) if t), "")
    if (order := ordered(body.get("tools"), begin, rules)) is not None:
        rule, tools, moved = order
        done[rule.id] = Done(len(moved), _num_bytes(moved))
        changed = {**changed, "tools": tools}
    return _Plan(changed, done, has_late_system)


def _edit(texts: Sequence[SystemText], rules: Sequence[Rule], place: Place | None) -> Edit | None:
    """What the rules about text do, where what they move has a place; else what those do that move nothing."""
    about_text = [rule for rule in rules if not isinstance(rule, ToolOrder)]
    if place is not None:
        edit = edited(texts, about_text)
        if edit is not None and not (place == "system_end" and _is_last_already(edit, texts)):
            return edit
    return edited(texts, [rule for rule in about_text if isinstance(rule, HeadLine)])


def _is_last_already(edit: Edit, texts: Sequence[SystemText]) -> bool:
    """Whether what would move stands behind all else of the system prompt."""
    if edit.source is None:
        return False
    rest = "\n".join(text.text for text in texts[edit.source :])
    for piece in reversed(edit.moved):
        rest = rest.rstrip()
        if not rest.endswith(piece.rstrip()):
            return False
        rest = rest[: len(rest) - len(piece.rstrip())]
    return True


def _num_bytes(tools: Sequence[Json]) -> int:
    try:
        return len(orjson.dumps(tools))
    except TypeError:
        return 0
