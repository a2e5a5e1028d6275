"""One content block of a streamed message while its deltas come in."""

from __future__ import annotations

from typing import Final

from openclaw_cache.dialects.anthropic.exact import exact
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json

TOOL_USES: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks whose `input` is streamed as pieces of JSON."""

_GROWTH: Final = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")} | dict.fromkeys(
    TOOL_USES, ("input_json_delta", "partial_json")
)
"""By type of block: the delta that grows it, and that delta's field."""

_ONCE: Final = {
    ("thinking", "signature_delta"): ("signature",),
    ("compaction", "compaction_delta"): ("content", "encrypted_content"),
}
"""By types of block and delta: fields that come whole. The SDKs disagree on what a second one would mean."""


class OpenBlock:
    """A block from its content_block_start to its content_block_stop."""

    __slots__ = ("_delta", "_field", "_fields", "_kind", "_pieces")

    def __init__(self, block: Json) -> None:
        """Open a block as its content_block_start has it. Raises MergeError where it has no type."""
        kind = block.get("type") if type(block) is dict else None
        if type(kind) is not str:
            raise MergeError("a content block has no type")
        self._fields: dict[str, Json] = block
        self._kind: str = kind
        self._delta, self._field = _GROWTH.get(kind, ("", ""))
        self._pieces: list[str] = []
        if kind in ("text", "thinking"):
            start = block.get(kind)
            if type(start) is not str:
                raise MergeError(f"a {kind} block has no {kind}")
            self._pieces.append(start)

    @property
    def fallback_model(self) -> str | None:
        """The model that goes on from here; None where the block marks no change of model."""
        if self._kind != "fallback":
            return None
        to = self._fields.get("to")
        model = to.get("model") if type(to) is dict else None
        if type(model) is not str:
            raise MergeError("a fallback block names no model")
        return model

    def add(self, delta: Json) -> None:
        """Take in one delta. Raises MergeError where this type of block does not have it."""
        if type(delta) is not dict:
            raise MergeError("a content_block_delta has no delta")
        kind = delta.get("type")
        if self._delta and kind == self._delta and len(delta) == 2:
            piece = delta.get(self._field)
            if type(piece) is not str:
                raise MergeError("a delta has no text")
            self._pieces.append(piece)
            return
        said = {name: value for name, value in delta.items() if name != "type"}
        once = _ONCE.get((self._kind, kind)) if type(kind) is str else None
        if once is not None:
            self._set(said, once)
        elif kind == "citations_delta" and self._kind == "text" and said.keys() == {"citation"}:
            self._cite(said["citation"])
        else:
            raise MergeError("a delta is unknown, or not one of its block's type")

    def close(self) -> dict[str, Json]:
        """Return the whole block.

        Raises:
            MergeError: a tool's input is not a JSON object that every reader reads alike.
        """
        fields = self._fields
        if self._kind in ("text", "thinking"):
            fields[self._kind] = "".join(self._pieces)
        elif any(self._pieces):
            value = exact("".join(self._pieces).encode())
            if type(value) is not dict or fields.get("input"):
                raise MergeError("a tool's input is no object, or came twice")
            fields["input"] = value
        return fields

    def _set(self, said: dict[str, Json], names: tuple[str, ...]) -> None:
        if not said:
            raise MergeError("a delta says nothing")
        for name, value in said.items():
            if name not in names or not (value is None or type(value) is str) or self._fields.get(name):
                raise MergeError("a delta has an unknown field, or one that had come before")
            self._fields[name] = value

    def _cite(self, citation: Json) -> None:
        citations = self._fields.get("citations")
        if citations is None:
            citations = self._fields["citations"] = []
        elif type(citations) is not list:
            raise MergeError("citations is not an array")
        citations.append(citation)
