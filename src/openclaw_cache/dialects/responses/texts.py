"""Where the text of an output item lives, and by which events it is streamed. `merge` and `split` agree on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from openclaw_cache.types import Json


class Text(NamedTuple):
    """A text that is streamed in deltas.

    Args:
        event: The events are named after it: `EVENT.delta`, `EVENT.done`.
        field: Where it stands, in its part or item and in the `done` event.
    """

    event: str
    field: str


PARTS: Final[dict[tuple[str, str, str], Text]] = {
    ("message", "content", "output_text"): Text("response.output_text", "text"),
    ("message", "content", "refusal"): Text("response.refusal", "refusal"),
    ("reasoning", "summary", "summary_text"): Text("response.reasoning_summary_text", "text"),
    ("reasoning", "content", "reasoning_text"): Text("response.reasoning_text", "text"),
}
"""By the type of the item, its list of parts, and the type of the part."""

ITEMS: Final[dict[str, Text]] = {
    "function_call": Text("response.function_call_arguments", "arguments"),
    "custom_tool_call": Text("response.custom_tool_call_input", "input"),
}
"""By the type of the item, which has the text itself."""

LISTS: Final[dict[str, tuple[str, ...]]] = {"message": ("content",), "reasoning": ("summary", "content")}
"""The lists of parts of an item, by its type, in the order in which they are streamed."""

DELTAS: Final = frozenset(f"{text.event}.delta" for text in (*PARTS.values(), *ITEMS.values()))


def streamed(item: dict[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the texts of an item, each with the type of the deltas that it comes in."""
    kind = item["type"]
    if (own := ITEMS.get(kind)) is not None and isinstance(item.get(own.field), str):
        yield f"{own.event}.delta", item[own.field]
    for name in LISTS.get(kind, ()):
        for part in parts(item, name) or ():
            text = PARTS.get((kind, name, part["type"]))
            if text is not None and isinstance(part.get(text.field), str):
                yield f"{text.event}.delta", part[text.field]


def parts(item: dict[str, Json], name: str) -> list[dict[str, Json]] | None:
    """Return a list of parts, or None where the field is no list of objects with a type each."""
    value = item.get(name)
    if isinstance(value, list) and all(
        isinstance(part, dict) and isinstance(part.get("type"), str) for part in value
    ):
        return value
    return None
