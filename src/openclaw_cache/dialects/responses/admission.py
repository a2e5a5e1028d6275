"""Decide which responses may be stored: only complete answers, which would be given again."""

from __future__ import annotations

from typing import Final, Literal

from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.responses.split import shape_fault
from openclaw_cache.dialects.writable import is_writable
from openclaw_cache.types import Json

Refusal = Literal["error", "shape", "background", "refusal", "filtered", "unfinished", "truncated", "empty"]

REFUSALS: Final[dict[Refusal, str]] = {
    "error": "The response carries an error, or failed.",
    "shape": "The reply is no response that could be replayed as a stream without loss.",
    "background": "The response is worked on in the background: what came is not the answer.",
    "refusal": "The model refused to answer.",
    "filtered": "The upstream's content filter cut the response.",
    "unfinished": "The response, or an item of its output, is not completed.",
    "truncated": "The response ends at a length that is not the request's own max_output_tokens.",
    "empty": "The output has neither text nor a call, which is a fault more often than an answer.",
}

_NO_ANSWERS: Final = ("reasoning", "compaction")
"""Output items that are no answer by themselves."""


def refusal_to_store(reply: Json, request: Request) -> Refusal | None:
    """Return None when a response may be stored, else one word that says why not (see REFUSALS)."""
    if isinstance(reply, dict) and (
        reply.get("error") or reply.get("status") == "failed" or reply.get("object") == "error"
    ):
        return "error"
    if isinstance(reply, dict) and reply.get("background") is True:
        return "background"
    if shape_fault(reply) is not None or not is_writable(reply):
        return "unfinished" if _is_waiting(reply) else "shape"
    return _unfinished(reply, request) or _output_refusal(reply["output"])


def _is_waiting(reply: Json) -> bool:
    return isinstance(reply, dict) and reply.get("status") in ("queued", "in_progress", "cancelled")


def _unfinished(reply: dict[str, Json], request: Request) -> Refusal | None:
    if reply["status"] == "completed":
        whole = all(item.get("status") in (None, "completed") for item in reply["output"])
        return None if whole else "unfinished"
    details = reply.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        return "filtered"
    return None if reason == "max_output_tokens" and _is_own_limit(reply, request) else "truncated"


def _is_own_limit(reply: dict[str, Json], request: Request) -> bool:
    """Whether the client's own limit cut the response, so that it would be cut there again."""
    usage = reply.get("usage")
    num_tokens = usage.get("output_tokens") if isinstance(usage, dict) else None
    return type(num_tokens) is int and type(request.limit) is int and num_tokens == request.limit


def _output_refusal(output: list[dict[str, Json]]) -> Refusal | None:
    parts = [
        part
        for item in output
        if item["type"] == "message" and isinstance(item.get("content"), list)
        for part in item["content"]
        if isinstance(part, dict)
    ]
    if any(part.get("type") == "refusal" or part.get("refusal") for part in parts):
        return "refusal"
    has_call = any(item["type"] not in ("message", *_NO_ANSWERS) for item in output)
    return None if has_call or any(part.get("text") for part in parts) else "empty"
