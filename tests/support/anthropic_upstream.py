"""Replies in the shapes of Anthropic's API: messages, token counts, models and errors.

Each is a function of the request alone, ids and all, so that a client may be compared with one that asks directly.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from support.vendor_upstream import VendorCall, VendorReply, VendorUpstream

MODELS = ("claude-opus-5", "claude-haiku-5")
WRONG_KEY = "sk-ant-wrong"
INPUT = {"city": "Zürich", "days": 2, "min": 1.0}
"""What every tool is called with."""
_HEADERS = {
    "request-id": "req_011CSHoEeqs5C35K2UUqR7Fy",
    "anthropic-organization-id": "org-1",
    "anthropic-ratelimit-requests-remaining": "3999",
}
_KINDS = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def anthropic_upstream() -> VendorUpstream:
    """An upstream that speaks Anthropic's API."""
    return VendorUpstream(answer)


def answer(call: VendorCall) -> VendorReply:
    """The reply to one request."""
    if WRONG_KEY in (call.header("x-api-key"), (call.header("authorization") or "").removeprefix("Bearer ")):
        return failure(401, "invalid x-api-key")
    if call.method == "GET":
        return VendorReply(_models(), headers=_HEADERS)
    body = call.body
    if body["model"].endswith("-none"):
        return failure(404, f"model: {body['model']}")
    if call.path == "/v1/messages/count_tokens":
        return VendorReply({"input_tokens": num_tokens_for(body)}, headers=_HEADERS)
    return streamed(body) if body.get("stream") is True else VendorReply(_message(body), headers=_HEADERS)


def streamed(body: dict[str, Any]) -> VendorReply:
    """The stream that answers a request."""
    return VendorReply(frames=_frames(_message(body)), headers=_HEADERS)


def failure(status: int, message: str, **headers: str) -> VendorReply:
    """An error as Anthropic writes it; `retry_after` and other names are its headers."""
    whole = {
        "type": "error",
        "error": {"type": _KINDS[status], "message": message},
        "request_id": _HEADERS["request-id"],
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return VendorReply(whole, status=status, headers=_HEADERS | named)


def overloaded_stream(body: dict[str, Any]) -> VendorReply:
    """A stream that begins well and ends with an error event, as Anthropic's does under load."""
    error = {"type": "error", "error": {"details": None, "type": "overloaded_error", "message": "Overloaded"}}
    return VendorReply(frames=[*_frames(_message(body))[:4], _frame(error)], headers=_HEADERS)


def num_tokens_for(body: dict[str, Any]) -> int:
    """How many tokens a prompt has, by this upstream's reckoning."""
    return len(json.dumps([body.get("system"), body.get("tools"), body["messages"]])) // 4


def text_for(body: dict[str, Any]) -> str:
    """The one right answer to a request."""
    return f"  答案 {_digest(body)[:24]}\n\n🦞 {_digest(body)[24:48]} \n"


def _digest(body: dict[str, Any]) -> str:
    kept = {name: value for name, value in body.items() if name != "stream"}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _models() -> dict[str, Any]:
    data = [
        {"type": "model", "id": name, "display_name": name.title(), "created_at": "2025-09-29T00:00:00Z"}
        for name in MODELS
    ]
    return {"data": data, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}


def _message(body: dict[str, Any]) -> dict[str, Any]:
    digest = _digest(body)
    content: list[dict[str, Any]] = []
    if (body.get("thinking") or {}).get("type") == "enabled":
        content.append(
            {"type": "thinking", "thinking": "Which city?\n苏黎世.", "signature": f"EqQBCgIYAhIM{digest}+/=="}
        )
        content.append({"type": "redacted_thinking", "data": f"EmwKAhgBEgy3{digest}"})
    stop = "end_turn"
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        name = body["tools"][0]["name"]
        content.append({"type": "text", "text": "I will look."})
        content.append({"type": "tool_use", "id": f"toolu_{digest[:24]}", "name": name, "input": INPUT})
        stop = "tool_use"
    else:
        content.append({"type": "text", "text": text_for(body)})
    return {
        "model": body["model"],
        "id": f"msg_{digest[:24]}",
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 12,
            "cache_creation_input_tokens": 100,
            "cache_read_input_tokens": 2000,
            "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
            "output_tokens": 33,
            "service_tier": "standard",
        },
    }


def _frame(event: dict[str, Any], pad: str = "") -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data[:-1]}{pad}}}\n\n".encode()  # Anthropic pads with spaces


def _frames(whole: dict[str, Any]) -> list[bytes]:
    begun = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    frames = [_frame({"type": "message_start", "message": begun}, "   ")]
    for index, block in enumerate(whole["content"]):
        opened, deltas = _streamed(block)
        frames.append(_frame({"type": "content_block_start", "index": index, "content_block": opened}, " "))
        if index == 0:
            frames.append(b'event: ping\ndata: {"type": "ping"}\n\n')
        frames += [
            _frame({"type": "content_block_delta", "index": index, "delta": delta}, " " * (number % 4))
            for number, delta in enumerate(deltas)
        ]
        frames.append(_frame({"type": "content_block_stop", "index": index}, "    "))
    told = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {name: whole["usage"][name] for name in told}
    frames.append(_frame({"type": "message_delta", "delta": delta, "usage": usage}, " "))
    frames.append(_frame({"type": "message_stop"}, "  "))
    return frames


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it opens, and its deltas."""
    kind = block["type"]
    if kind == "text":
        pieces = _pieces(block["text"])
        return block | {"text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return block | {"thinking": "", "signature": ""}, deltas
    if kind == "tool_use":
        pieces = ["", *_pieces(json.dumps(block["input"], ensure_ascii=False))]
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": p} for p in pieces]
    return block, []


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]
