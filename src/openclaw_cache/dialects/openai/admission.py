"""Decide which replies may be stored: only complete answers, which would be given again."""

from __future__ import annotations

from typing import Final, Literal

import orjson

from openclaw_cache.dialects.openai.split import shape_fault
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.writable import is_writable
from openclaw_cache.types import Json

Refusal = Literal["error", "shape", "refusal", "filtered", "unfinished", "truncated", "finish", "empty"]

REFUSALS: Final[dict[Refusal, str]] = {
    "error": "The reply carries an error object.",
    "shape": "The reply is no chat completion that could be replayed as a stream without loss.",
    "refusal": "The model refused to answer.",
    "filtered": "The upstream's content filter cut the reply.",
    "unfinished": "A choice has no finish_reason, or a call no name or no JSON as arguments: the reply was cut.",
    "truncated": "The reply ends at a length that is not the request's own max tokens.",
    "finish": "A choice finished for a reason other than stop or tool_calls.",
    "empty": "A choice has neither content nor tool calls, which is a fault more often than an answer.",
}

_COMPLETE: Final = ("stop", "tool_calls")
_INCOMPLETE: Final[dict[str | None, Refusal]] = {
    None: "unfinished",
    "": "unfinished",
    "content_filter": "filtered",
}
_ANSWERS: Final = ("content", "tool_calls", "function_call", "audio")


def refusal_to_store(reply: Json, request: Request) -> Refusal | None:
    """Return None when a reply may be stored, else one word that says why not (see REFUSALS)."""
    if isinstance(reply, dict) and (
        reply.get("error") or "error" in (reply.get("object"), reply.get("type"))
    ):
        return "error"
    if shape_fault(reply) is not None or not is_writable(reply):
        return "shape"
    for choice in reply["choices"]:
        refusal = _choice_refusal(choice, reply, request)
        if refusal is not None:
            return refusal
    return None


def _choice_refusal(choice: dict[str, Json], reply: dict[str, Json], request: Request) -> Refusal | None:
    message, finish = choice["message"], choice.get("finish_reason")
    if choice.get("error"):
        return "error"
    if message.get("refusal"):
        return "refusal"
    if finish == "length":
        if not _is_own_limit(reply, request):
            return "truncated"
    elif finish not in _COMPLETE:
        return _INCOMPLETE.get(finish, "finish")
    if not all(map(_is_whole_call, message.get("tool_calls") or ())):
        return "unfinished"
    return None if any(message.get(name) for name in _ANSWERS) else "empty"


def _is_whole_call(call: dict[str, Json]) -> bool:
    """Whether a tool call can be carried out. A stream that lost events in its middle shows nowhere else."""
    function = call.get("function")
    if not isinstance(function, dict):
        return call.get("type") != "function"
    arguments = function.get("arguments")
    if isinstance(arguments, str) and arguments:
        try:
            orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return False
    return bool(function.get("name"))


def _is_own_limit(reply: dict[str, Json], request: Request) -> bool:
    """Whether the client's own limit cut the reply, so that it would be cut there again."""
    usage = reply.get("usage")
    num_tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return type(num_tokens) is int and type(request.limit) is int and num_tokens == request.limit
