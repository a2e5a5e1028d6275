"""Decide which replies may be stored: only complete answers, which would be given again."""

from __future__ import annotations

from typing import Final, Literal

from openclaw_cache.dialects.anthropic.split import shape_fault
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import count
from openclaw_cache.dialects.writable import is_writable
from openclaw_cache.types import Json

Refusal = Literal["error", "shape", "refusal", "unfinished", "truncated", "finish", "empty"]

REFUSALS: Final[dict[Refusal, str]] = {
    "error": "The reply carries an error object.",
    "shape": "The reply is no message that could be replayed as a stream without loss.",
    "refusal": "The model refused to answer, or another one answered in its place.",
    "unfinished": "The message has no stop_reason, or paused: it goes on in another request.",
    "truncated": "The message ends at a length that is not the request's own max_tokens.",
    "finish": "The message ended for a reason other than end_turn, stop_sequence or tool_use.",
    "empty": "The message has no text and no tool use, which is a fault more often than an answer.",
}

_COMPLETE: Final = ("end_turn", "stop_sequence", "tool_use")
_INCOMPLETE: Final[dict[str | None, Refusal]] = {
    None: "unfinished",
    "": "unfinished",
    "pause_turn": "unfinished",
    "refusal": "refusal",
    "model_context_window_exceeded": "truncated",
}
_ASIDES: Final = ("thinking", "redacted_thinking", "compaction")
"""Types of blocks that accompany an answer and are none."""


def refusal_to_store(reply: Json, request: Request) -> Refusal | None:
    """Return None when a message may be stored, else one word that says why not (see REFUSALS)."""
    if isinstance(reply, dict) and (reply.get("error") or reply.get("type") == "error"):
        return "error"
    if shape_fault(reply) is not None or not is_writable(reply):
        return "shape"
    if any(block["type"] == "fallback" for block in reply["content"]):
        return "refusal"
    refusal = _stop_refusal(reply, request)
    if refusal is None and not any(map(_is_answer, reply["content"])):
        return "empty"
    return refusal


def _stop_refusal(reply: dict[str, Json], request: Request) -> Refusal | None:
    stop = reply.get("stop_reason")
    if stop == "max_tokens":
        return None if _is_own_limit(reply, request) else "truncated"
    return None if stop in _COMPLETE else _INCOMPLETE.get(stop, "finish")


def _is_answer(block: dict[str, Json]) -> bool:
    kind = block["type"]
    return bool(block["text"]) if kind == "text" else kind not in _ASIDES


def _is_own_limit(reply: dict[str, Json], request: Request) -> bool:
    """Whether the client's own limit cut the reply, so that it would be cut there again."""
    num_tokens = count(reply["usage"].get("output_tokens"))
    return num_tokens is not None and type(request.limit) is int and num_tokens == request.limit
