# ruff: noqa: E501 - events stand on one line each, as they are sent
"""Streams in the shapes that Anthropic's API sends, with the messages they add up to, and the official SDK's view.

Each stream has its message beside it, written out by hand as the API sends it without streaming.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2

BASIC_STREAM = b"""event: message_start
data: {"type":"message_start","message":{"id":"msg_01Basic","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}     }

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Good"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" day!"}   }

event: content_block_stop
data: {"type":"content_block_stop","index":0  }

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":6}}

event: message_stop
data: {"type":"message_stop"   }

"""
BASIC_MESSAGE: dict[str, Any] = {
    "id": "msg_01Basic",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Good day!"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 11,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 6,
        "service_tier": "standard",
    },
}

TOOL_STREAM = b"""event: message_start
data: {"type":"message_start","message":{"id":"msg_01Tool","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":472,"output_tokens":2}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Which city?\\n"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"\\u676d\\u5dde."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4a"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\\"city\\": \\"Hang"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"zhou\\", \\"days\\": 2, \\"min\\": 1.0}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_02","name":"now","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"""
TOOL_MESSAGE: dict[str, Any] = {
    "id": "msg_01Tool",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {
            "type": "thinking",
            "thinking": "Which city?\n杭州.",
            "signature": "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds+/==",
        },
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
        {
            "type": "tool_use",
            "id": "toolu_01",
            "name": "get_weather",
            "input": {"city": "Hangzhou", "days": 2, "min": 1.0},
        },
        {"type": "tool_use", "id": "toolu_02", "name": "now", "input": {}},
    ],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 472, "output_tokens": 89},
}

SEARCH_STREAM = b"""event: message_start
data: {"type":"message_start","message":{"id":"msg_01Search","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,"usage":{"input_tokens":2679,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":3}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_01","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"query\\":\\"tide\\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01","content":[{"type":"web_search_result","title":"Tides","url":"https://tides.example/","encrypted_content":"Ev0DCioIAxgC","page_age":null}]}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"citations":[],"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","cited_text":"High at noon.","url":"https://tides.example/","title":"Tides","encrypted_index":"EpABCioI"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"High tide is at noon"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null,"stop_details":null,"container":null},"usage":{"input_tokens":10682,"cache_creation_input_tokens":5,"cache_read_input_tokens":7,"output_tokens":510,"server_tool_use":{"web_search_requests":1}}}

event: message_stop
data: {"type":"message_stop"}

"""
SEARCH_MESSAGE: dict[str, Any] = {
    "id": "msg_01Search",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "tide"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_01",
            "content": [
                {
                    "type": "web_search_result",
                    "title": "Tides",
                    "url": "https://tides.example/",
                    "encrypted_content": "Ev0DCioIAxgC",
                    "page_age": None,
                }
            ],
        },
        {
            "type": "text",
            "text": "High tide is at noon",
            "citations": [
                {
                    "type": "web_search_result_location",
                    "cited_text": "High at noon.",
                    "url": "https://tides.example/",
                    "title": "Tides",
                    "encrypted_index": "EpABCioI",
                }
            ],
        },
    ],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "stop_details": None,
    "container": None,
    "usage": {
        "input_tokens": 10682,
        "cache_creation_input_tokens": 5,
        "cache_read_input_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 510,
        "server_tool_use": {"web_search_requests": 1},
    },
}

BETA_STREAM = b"""event: message_start
data: {"type":"message_start","message":{"id":"msg_01Beta","type":"message","role":"assistant","model":"claude-opus-4-7","content":[],"container":null,"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"compaction","content":null,"encrypted_content":null}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"compaction_delta","content":"They spoke of tides.","encrypted_content":"EpwBCioIDxgC"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Noon."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":8,"iterations":[{"type":"message","input_tokens":25,"output_tokens":8}]},"context_management":{"applied_edits":[{"type":"clear_tool_uses_20250919","cleared_input_tokens":1500,"cleared_tool_uses":2}]}}

event: message_stop
data: {"type":"message_stop"}

"""
BETA_MESSAGE: dict[str, Any] = {
    "id": "msg_01Beta",
    "type": "message",
    "role": "assistant",
    "model": "claude-opus-4-7",
    "content": [
        {"type": "compaction", "content": "They spoke of tides.", "encrypted_content": "EpwBCioIDxgC"},
        {"type": "text", "text": "Noon."},
    ],
    "container": None,
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 25,
        "output_tokens": 8,
        "iterations": [{"type": "message", "input_tokens": 25, "output_tokens": 8}],
    },
    "context_management": {
        "applied_edits": [
            {"type": "clear_tool_uses_20250919", "cleared_input_tokens": 1500, "cleared_tool_uses": 2}
        ]
    },
}

RECORDED = {
    "basic": (BASIC_STREAM, BASIC_MESSAGE),
    "tool": (TOOL_STREAM, TOOL_MESSAGE),
    "search": (SEARCH_STREAM, SEARCH_MESSAGE),
    "beta": (BETA_STREAM, BETA_MESSAGE),
}


def client(status: int, body: bytes, content_type: str = "application/json") -> anthropic.Anthropic:
    """The official SDK, of which every request is answered with these bytes."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, headers={"content-type": content_type}, content=body)

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return anthropic.Anthropic(api_key="k", base_url="http://upstream", max_retries=0, http_client=transport)


def accumulated(stream: bytes) -> dict[str, Any]:
    """The message that the official SDK makes of a stream, without its null fields."""
    sdk = client(200, stream, "text/event-stream")
    with sdk.beta.messages.stream(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "a"}]
    ) as events:
        message: dict[str, Any] = filled(json.loads(events.get_final_message().to_json(warnings=False)))
    return message


def filled(value: Any) -> Any:
    """A JSON value without the null fields of its objects: the SDK adds some of its own."""
    if isinstance(value, dict):
        return {name: filled(member) for name, member in value.items() if member is not None}
    return [filled(item) for item in value] if isinstance(value, list) else value
