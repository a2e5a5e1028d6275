"""Decide which text completions may be stored: only complete ones, which would be given again."""

from __future__ import annotations

from openclaw_cache.dialects.completions.split import shape_fault
from openclaw_cache.dialects.openai.admission import Refusal
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.writable import is_writable
from openclaw_cache.types import Json


def refusal_to_store(reply: Json, request: Request) -> Refusal | None:
    """Return None when a reply may be stored, else one word that says why not (see `openai.REFUSALS`)."""
    if isinstance(reply, dict) and (
        reply.get("error") or "error" in (reply.get("object"), reply.get("type"))
    ):
        return "error"
    if shape_fault(reply) is not None or not is_writable(reply):
        return "shape"
    choices = reply["choices"]
    for choice in choices:
        refusal = _choice_refusal(choice)
        if refusal is not None:
            return refusal
    num_cut = sum(choice["finish_reason"] == "length" for choice in choices)
    return "truncated" if num_cut and not _is_own_limit(reply, request, num_cut) else None


def _choice_refusal(choice: dict[str, Json]) -> Refusal | None:
    finish = choice.get("finish_reason")
    if choice.get("error"):
        return "error"
    if not finish:
        return "unfinished"
    if finish == "content_filter":
        return "filtered"
    if finish not in ("stop", "length"):
        return "finish"
    return None if choice["text"] else "empty"


def _is_own_limit(reply: dict[str, Json], request: Request, num_cut: int) -> bool:
    """Whether the client's own limit cut every choice, so that it would be cut there again.

    The usage counts all choices together and none is longer than the limit, so each was cut there only if they make
    up its multiple. Where the request set no limit the upstream's default cut it, which may change.
    """
    usage = reply.get("usage")
    num_tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    num_choices = len(reply["choices"])
    return (
        type(num_tokens) is int
        and type(request.limit) is int
        and num_cut == num_choices
        and num_tokens == request.limit * num_choices
    )
