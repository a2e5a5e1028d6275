"""Memories, turns and recalls with little to write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openclaw_cache.memory.record import Memory, Message, Recall, RecalledItem, Turn
from openclaw_cache.memory.terms import text_query

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Filter
    from openclaw_cache.memory.store import MemoryStore
    from openclaw_cache.types import Json

AWKWARD_TEXTS = [
    "",
    " ",
    "\0",
    "before\0after",
    "\u2028\u200d\ufeff",
    "naïve café, ÀÉÎ, Straße, ﬁ",
    "我们决定用Python写，截止日期是三月",
    "👩‍👩‍👧 🙂 🇨🇳",
    "she said \"it's\" 'fine' ``",
    'AND OR NOT NEAR(a b, 2) ^x * col:y {a b}:z "unclosed',
    "'; DROP TABLE memory; --",
    "\\ % _ ? ?1 :a @b $c",
    "word " * 200_000,  # 1 MB
    "字" * 300_000,
]


def memory(memory_id: str, text: str = "some text", at: float = 1.0, **fields: Any) -> Memory:
    """A memory with what its fields say, and plain values elsewhere."""
    values: dict[str, Any] = {
        "kind": "fact",
        "tags": (),
        "source": "api",
        "created_at": at,
        "updated_at": at,
    } | fields
    return Memory(id=memory_id, text=text, at=at, **values)


def message(
    message_id: str, content: Json = "some words", at: float = 1.0, role: str = "user", **fields: Any
) -> Message:
    """A message of the user, unless its fields say something else."""
    return Message(id=message_id, role=role, content=content, at=at, **fields)


def turn(turn_id: str, *messages: Message, session: str = "s", at: float = 1.0, **fields: Any) -> Turn:
    """A turn whose key is made from its id, unless its fields say something else."""
    values: dict[str, Any] = {"key": f"key of {turn_id}"} | fields
    return Turn(id=turn_id, session=session, at=at, messages=messages, **values)


def recall(recall_id: str, after: str = "", *lines: tuple[str, str], session: str = "s") -> Recall:
    """A recall with lines of memories: pairs of a memory's id and the line."""
    items = tuple(RecalledItem(of="memory", owner=owner, line=line) for owner, line in lines)
    text = "\n".join(["<notes>", *(line for _, line in lines), "</notes>"])
    return Recall(
        id=recall_id, session=session, after=after, text=text, items=items, num_tokens=len(text), at=1.0
    )


def owners_by_words(store: MemoryStore, words: str, within: Filter, limit: int = 10) -> list[str]:
    """Whose passages have one of the words, best first."""
    numbers = [number for number, _ in store.match(text_query(words), limit, within)]
    return [passage.owner for passage in store.admitted(numbers, within)]
