"""Replies in the shapes of OpenAI's API: chat completions, Responses, embeddings, models and errors.

Each is a function of the request alone, ids and all, so that a client may be compared with one that asks directly.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

from support.vendor_upstream import VendorCall, VendorReply, VendorUpstream

MODELS = ("gpt-5-mini", "gpt-4.1", "text-embedding-3-small")
WRONG_KEY = "sk-wrong"
_TRANSPORT_FIELDS = frozenset({"stream", "stream_options", "prompt_cache_key", "prompt_cache_retention"})
_CREATED = 1_800_000_000
_HEADERS = {
    "openai-processing-ms": "42",
    "openai-version": "2020-10-01",
    "x-ratelimit-remaining-requests": "4999",
}
ARGUMENTS = '{"city":"Zürich","days":2}'
"""What every tool is called with."""


def openai_upstream() -> VendorUpstream:
    """An upstream that speaks OpenAI's API."""
    return VendorUpstream(answer)


def answer(call: VendorCall) -> VendorReply:
    """The reply to one request."""
    if call.header("authorization") == f"Bearer {WRONG_KEY}":
        return failure(401, "Incorrect API key provided: sk-wrong.", code="invalid_api_key")
    if call.method == "GET":
        return _models()
    body = call.body
    model = body["model"]
    if model.endswith("-none"):
        said = f"The model `{model}` does not exist or you do not have access to it."
        return failure(404, said, code="model_not_found")
    if call.path == "/v1/embeddings":
        return VendorReply(_embeddings(body), headers=_HEADERS)
    if body.get("stream") is True:
        return streamed(body)
    return VendorReply(_chat(body) if "messages" in body else _response(body), headers=_HEADERS)


def streamed(body: dict[str, Any]) -> VendorReply:
    """The stream that answers a chat completion or a request of the Responses API."""
    is_chat = "messages" in body
    frames = _chat_frames(_chat(body), body) if is_chat else _response_frames(_response(body))
    return VendorReply(frames=frames, headers=_HEADERS)


def failure(status: int, message: str, *, code: str | None = None, **headers: str) -> VendorReply:
    """An error as OpenAI writes it; `retry_after` and other names are its headers."""
    kind = {429: "requests", 500: "server_error"}.get(status, "invalid_request_error")
    error = {"message": message, "type": kind, "param": None, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return VendorReply({"error": error}, status=status, headers=_HEADERS | named)


def text_for(body: dict[str, Any]) -> str:
    """The one right answer to a request."""
    return f"  答案 {_digest(body)[:24]}\n\n🦞 {_digest(body)[24:48]} \n"


def _digest(body: dict[str, Any]) -> str:
    kept = {name: value for name, value in body.items() if name not in _TRANSPORT_FIELDS}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _is_call(body: dict[str, Any]) -> bool:
    return body.get("tool_choice") not in (None, "auto", "none")


def _pieces(text: str, size: int = 7) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def _models() -> VendorReply:
    listed: list[dict[str, Any]] = [
        {"id": name, "object": "model", "created": _CREATED, "owned_by": "system"} for name in MODELS
    ]
    return VendorReply({"object": "list", "data": listed}, headers=_HEADERS)


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    asked = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = []
    for index, one in enumerate(asked):
        vector = vector_for(one, body.get("dimensions", 8))
        told: Any = vector
        if body.get("encoding_format") == "base64":
            told = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": told})
    usage = {"prompt_tokens": 4 * len(asked), "total_tokens": 4 * len(asked)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}


def vector_for(text: str, num_dimensions: int) -> list[float]:
    """A text's vector: eighths, which float32 and JSON both hold exactly."""
    digest = hashlib.sha256(text.encode()).digest()
    return [(digest[i % 32] - 128) / 8 for i in range(num_dimensions)]


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    digest = _digest(body)
    message: dict[str, Any] = {"role": "assistant", "content": text_for(body), "refusal": None}
    finish = "stop"
    if _is_call(body):
        function = {"name": body["tools"][0]["function"]["name"], "arguments": ARGUMENTS}
        calls = [{"id": f"call_{digest[:24]}", "type": "function", "function": function}]
        message |= {"content": None, "tool_calls": calls}
        finish = "tool_calls"
    return {
        "id": f"chatcmpl-{digest[:29]}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": f"{body['model']}-2025-08-07",
        "choices": [
            {
                "index": 0,
                "message": message | {"annotations": []},
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": {
            "prompt_tokens": 19,
            "completion_tokens": 10,
            "total_tokens": 29,
            "prompt_tokens_details": {"cached_tokens": 8, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0,
                "audio_tokens": 0,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        },
        "service_tier": "default",
        "system_fingerprint": "fp_44709d6fcb",
    }


def _chat_frames(whole: dict[str, Any], body: dict[str, Any]) -> list[bytes]:
    common = {name: whole[name] for name in ("id", "created", "model", "service_tier", "system_fingerprint")}
    common["object"] = "chat.completion.chunk"
    [choice] = whole["choices"]
    message = choice["message"]
    deltas: list[dict[str, Any]]
    if message["content"] is None:
        [call] = message["tool_calls"]
        opened = {"index": 0, **call, "function": call["function"] | {"arguments": ""}}
        deltas = [{"role": "assistant", "content": None, "tool_calls": [opened], "refusal": None}]
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in _pieces(ARGUMENTS)
        ]
    else:
        deltas = [{"role": "assistant", "content": "", "refusal": None}]
        deltas += [{"content": piece} for piece in _pieces(message["content"])]
    steps = [(delta, None) for delta in deltas] + [({}, choice["finish_reason"])]
    chunks: list[dict[str, Any]] = [
        common
        | {
            "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}],
            "obfuscation": "x" * (number % 5),
        }
        for number, (delta, finish) in enumerate(steps)
    ]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks = [chunk | {"usage": None} for chunk in chunks]
        chunks.append(common | {"choices": [], "usage": whole["usage"], "obfuscation": "xyz"})
    return [_frame(chunk) for chunk in chunks] + [b"data: [DONE]\n\n"]


def _frame(payload: dict[str, Any], kind: str = "") -> bytes:
    data = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {kind}\ndata: {data}\n\n" if kind else f"data: {data}\n\n").encode()


def _response(body: dict[str, Any]) -> dict[str, Any]:
    digest = _digest(body)
    output: list[dict[str, Any]] = []
    if body.get("reasoning"):
        summary = [{"type": "summary_text", "text": "**Looking**\n\nIt is a question."}]
        sealed = {"encrypted_content": f"gAAAAAB{digest}+/=="}
        output.append({"id": f"rs_{digest}", "type": "reasoning", **sealed, "summary": summary})
    if _is_call(body):
        call = {"arguments": ARGUMENTS, "call_id": f"call_{digest[:24]}", "name": body["tools"][0]["name"]}
        output.append({"id": f"fc_{digest}", "type": "function_call", "status": "completed", **call})
    else:
        part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text_for(body)}
        message = {"status": "completed", "content": [part], "role": "assistant"}
        output.append({"id": f"msg_{digest}", "type": "message", **message})
    return {
        "id": f"resp_{digest}",
        "object": "response",
        "created_at": _CREATED,
        "status": "completed",
        "background": False,
        "completed_at": _CREATED + 2,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": None,
        "model": f"{body['model']}-2025-08-07",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "prompt_cache_key": None,
        "reasoning": {"effort": "minimal", "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": body.get("store", True),
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 36,
            "input_tokens_details": {"cached_tokens": 16},
            "output_tokens": 21,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 57,
        },
        "user": None,
        "metadata": {},
    }


def _response_frames(whole: dict[str, Any]) -> list[bytes]:
    frames: list[bytes] = []

    def add(kind: str, **fields: Any) -> None:
        frames.append(_frame({"type": kind, "sequence_number": len(frames), **fields}, kind))

    begun = whole | {"status": "in_progress", "completed_at": None, "output": [], "usage": None}
    add("response.created", response=begun)
    add("response.in_progress", response=begun)
    for index, item in enumerate(whole["output"]):
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "reasoning":
            add("response.output_item.added", output_index=index, item=item | {"summary": []})
            [part] = item["summary"]
            place["summary_index"] = 0
            add("response.reasoning_summary_part.added", **place, part=part | {"text": ""})
            for piece in _pieces(part["text"]):
                add("response.reasoning_summary_text.delta", **place, delta=piece, obfuscation="xx")
            add("response.reasoning_summary_text.done", **place, text=part["text"])
            add("response.reasoning_summary_part.done", **place, part=part)
        elif item["type"] == "function_call":
            opened = item | {"status": "in_progress", "arguments": ""}
            add("response.output_item.added", output_index=index, item=opened)
            for piece in _pieces(ARGUMENTS):
                add("response.function_call_arguments.delta", **place, delta=piece, obfuscation="x")
            add("response.function_call_arguments.done", **place, arguments=ARGUMENTS)
        else:
            opened = item | {"status": "in_progress", "content": []}
            add("response.output_item.added", output_index=index, item=opened)
            [part] = item["content"]
            place["content_index"] = 0
            add("response.content_part.added", **place, part=part | {"text": ""})
            for piece in _pieces(part["text"]):
                add("response.output_text.delta", **place, delta=piece, logprobs=[], obfuscation="xxx")
            add("response.output_text.done", **place, text=part["text"], logprobs=[])
            add("response.content_part.done", **place, part=part)
        add("response.output_item.done", output_index=index, item=item)
    add("response.completed", response=whole)
    return frames
