"""Where in a history the recalls stand: always after the message that they were made after.

A recall is made once, for the turn that is about to begin, and placed at the end of the history, before the turn's own
message. Whenever a later history shows the message before it, it stands there again with the same bytes. So the
prompt of a turn is the beginning of the next turn's prompt, as far as the host's own history is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.memory.record import Recall

UNKNOWN_BUDGET: Final = 32_000
"""Tokens that a prompt is taken to have room for, where the host does not say."""

_MADE: Final = 0.8
"""How much of the share new recalls may fill.

The room differs from turn to turn by what the host takes off it (a long question, another system prompt). A recall that
left the prompt for one turn and came back for the next would break the prefix twice; with a fifth in hand only a much
smaller window, which is another model's and has no prefix yet, shows less.
"""


@dataclass(frozen=True, slots=True)
class Place:
    """A message of the history, as far as assembling is concerned."""

    id: str
    is_tool_result: bool = False


@dataclass(frozen=True, slots=True)
class Insertion:
    """A user message with `text`, to stand before the history's message `index` (its length: at the end)."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to insert, and which recalls it is."""

    insertions: tuple[Insertion, ...]
    recalls: tuple[Recall, ...]

    room: int
    """Tokens that one more recall may have."""


def plan(history: Sequence[Place], recalls: Iterable[Recall], share: int, *, is_whole: bool) -> Plan:
    """Place each recall whose message the history shows; earlier ones first where there is not room for all.

    Pure; the same arguments give the same bytes. Cost: O(messages + recalls).

    Args:
        history: The messages before the current turn.
        recalls: Those of the session; an empty one takes no place.
        share: Tokens that all recalls may have in this prompt (`share_of`).
        is_whole: Whether the history begins where the session began: only then is what was recalled before its first
            message shown again.
    """
    index_of = {place.id: index for index, place in reversed(list(enumerate(history)))}
    placed = []
    for recall in recalls:
        if not recall.text:
            continue
        if recall.after:
            before = index_of.get(recall.after)
            if before is None:
                continue
            placed.append((_after(history, before), recall))
        elif is_whole or not history:
            placed.append((0, recall))
    placed.sort(key=lambda pair: (pair[0], pair[1].at, pair[1].id))
    num_tokens, shown = 0, []
    for index, recall in placed:
        if num_tokens + recall.num_tokens > share:
            break
        num_tokens += recall.num_tokens
        shown.append((index, recall))
    return Plan(
        tuple(Insertion(index, recall.text) for index, recall in shown),
        tuple(recall for _, recall in shown),
        max(0, int(_MADE * share) - num_tokens),
    )


def share_of(token_budget: int | None, ratio: float) -> int:
    """The tokens that recalls may have in a prompt with so much room."""
    return int((UNKNOWN_BUDGET if token_budget is None else token_budget) * ratio)


def decided(history: Sequence[Place], recalls: Iterable[Recall]) -> Recall | None:
    """What was decided for the turn that begins after this history: a recall, an empty one where nothing was found."""
    after = last_id(history)
    return next((recall for recall in recalls if recall.after == after), None)


def last_id(history: Sequence[Place]) -> str:
    """The id of the message after which a new recall stands; empty for a session that begins."""
    return history[-1].id if history else ""


def owners(recalls: Iterable[Recall]) -> Collection[str]:
    """What stands in recalls: ids of memories and messages."""
    return {item.owner for recall in recalls for item in recall.items}


def emptied(recall: Recall) -> Recall:
    """The recall without text: written in its place, it removes it."""
    return Recall(recall.id, recall.session, recall.after, "", (), 0, recall.at)


def _after(history: Sequence[Place], index: int) -> int:
    """The place behind a message; behind the tool results that follow it, which must not be parted from their call."""
    index += 1
    while index < len(history) and history[index].is_tool_result:
        index += 1
    return index
