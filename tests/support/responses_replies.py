"""Responses in the form in which OpenAI's API gives them, and streams of them event by event."""

from __future__ import annotations

from typing import Any

import httpx2
import orjson
from openai import OpenAI

from openclaw_cache.dialects.sse import SseEvent, SseParser

USAGE: dict[str, Any] = {
    "input_tokens": 36,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 87,
    "output_tokens_details": {"reasoning_tokens": 64},
    "total_tokens": 123,
}

REASONING: dict[str, Any] = {
    "id": "rs_1",
    "type": "reasoning",
    "encrypted_content": "gAAAAAB+/=é\\n",
    "summary": [{"type": "summary_text", "text": "**Look**\n\nfirst"}, {"type": "summary_text", "text": ""}],
}

CALL: dict[str, Any] = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "arguments": '{"place":"Zürich"}',
    "call_id": "call_1",
    "name": "weather",
}

CUSTOM: dict[str, Any] = {
    "id": "ctc_1",
    "type": "custom_tool_call",
    "status": "completed",
    "call_id": "call_2",
    "input": "*** Begin Patch\n",
    "name": "apply_patch",
}


def text(told: str, **fields: Any) -> dict[str, Any]:
    """A part of text."""
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": told, **fields}


def message(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A message of the assistant."""
    return {
        "id": "msg_1",
        "type": "message",
        "status": "completed",
        "content": list(parts),
        "role": "assistant",
        **fields,
    }


def response(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A completed response with all fields that the API sends."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1741476777,
        "status": "completed",
        "completed_at": 1741476778,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5-2025-08-07",
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": "minimal", "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": USAGE,
        "user": None,
        "metadata": {},
        **fields,
    }


def events(*told: tuple[str, dict[str, Any]]) -> list[bytes]:
    """Payloads of a stream: types and fields, numbered from 0."""
    return [
        orjson.dumps({"type": f"response.{kind}", "sequence_number": number, **fields})
        for number, (kind, fields) in enumerate(told)
    ]


def read(stream: bytes) -> list[SseEvent]:
    """The events of a written stream."""
    return SseParser().feed(stream)


def client(stream: bytes) -> OpenAI:
    """The official SDK before an upstream that answers everything with this event stream."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)

    return OpenAI(
        api_key="k",
        base_url="http://upstream.test/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )
