"""Which of the hits are recalled unasked: what an agent remembers first, then a little of what was said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from openclaw_cache.memory.record import Memory
from openclaw_cache.memory.retrieval.block import Noted
from openclaw_cache.memory.retrieval.search import Hit

MOST_MESSAGES: Final = 3
"""Of a long session every turn is a little like the next: more would leave no room for later recalls."""


def noted(
    hits: Sequence[Hit],
    memories: Mapping[str, Memory],
    said: Callable[[str], str],
    *,
    exclude: Collection[str],
    is_known: Callable[[Memory], bool],
) -> list[tuple[Hit, Noted]]:
    """The notes for a prompt, memories before messages, each kind best first.

    Of messages only what a user stated or the assistant answered: no tool calls, no tools' results, no questions; and
    none that says what a memory in the notes says.

    Args:
        hits: What is relevant, best first.
        memories: The current memories among them, by id.
        said: The text of a message by its id, without what it calls.
        exclude: Ids of memories and messages that are in the prompt already.
        is_known: Whether a memory's text is.
    """
    kept = [hit for hit in hits if hit.passage.owner not in exclude]
    notes: list[tuple[Hit, Noted]] = []
    for hit in kept:
        memory = memories.get(hit.passage.owner) if hit.passage.of == "memory" else None
        if memory is not None and not is_known(memory):
            notes.append((hit, Noted("memory", memory.id, memory.text, memory.at)))
    remembered = [memories[note.owner] for _, note in notes]
    sources = {memory.provenance.message for memory in remembered}
    texts = [memory.text for memory in remembered]
    num_messages = 0
    for hit in kept:
        passage = hit.passage
        if num_messages == MOST_MESSAGES or passage.of != "message" or passage.owner in sources:
            continue
        text = _stated(passage.text, passage.role, said(passage.owner))
        if not text or any(other in text or text in other for other in texts):
            continue
        texts.append(text)
        num_messages += 1
        notes.append((hit, Noted("message", passage.owner, text, passage.at)))
    return notes


def _stated(text: str, role: str | None, said: str) -> str:
    """What of a passage was stated; empty where it is a question, or what a tool was called with or returned."""
    if role not in ("user", "assistant"):
        return ""
    if text.strip() not in said:  # a tool call stands in it
        text = said if len(said) <= len(text) else ""
    return "" if role == "user" and text.rstrip().endswith(("?", "？")) else text.strip()
