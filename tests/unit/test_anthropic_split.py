import json
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.anthropic.merge import merge
from openclaw_cache.dialects.anthropic.split import shape_fault, split
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.sse import SseParser
from support.anthropic_replies import (
    BETA_MESSAGE,
    RECORDED,
    SEARCH_MESSAGE,
    TOOL_MESSAGE,
    accumulated,
    filled,
)

MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {
        "input_tokens": 3,
        "cache_read_input_tokens": 2,
        "output_tokens": 4,
        "service_tier": "standard",
    },
}


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in SseParser().feed(stream)]


def events(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(data) for data in payloads(stream)]


def deltas(stream: bytes) -> list[dict[str, Any]]:
    return [event["delta"] for event in events(stream) if event["type"] == "content_block_delta"]


def test_a_stream_has_the_events_of_anthropics_documentation() -> None:
    start = {**MESSAGE, "content": [], "stop_reason": None, "usage": {**MESSAGE["usage"], "output_tokens": 0}}
    piece = {"type": "content_block_delta", "index": 0}
    assert events(split(MESSAGE, max_piece_chars=3)) == [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {**piece, "delta": {"type": "text_delta", "text": "Hel"}},
        {**piece, "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"input_tokens": 3, "cache_read_input_tokens": 2, "output_tokens": 4},
        },
        {"type": "message_stop"},
    ]


@pytest.mark.parametrize("name", RECORDED)
def test_each_event_is_named_after_its_payload_because_the_sdks_skip_nameless_ones(name: str) -> None:
    for data, event in SseParser().feed(split(RECORDED[name][1])):
        assert event == json.loads(data)["type"].encode()


@pytest.mark.parametrize("name", RECORDED)
def test_a_replay_is_the_same_message_to_us_and_to_the_sdk(name: str) -> None:
    message = RECORDED[name][1]
    stream = split(message, max_piece_chars=3)
    assert merge(payloads(stream)) == message
    assert accumulated(stream) == filled(message)


def test_signatures_and_citations_travel_in_one_piece_whatever_their_length() -> None:
    signature = "EqQB+/=" * 100
    thinking = {"type": "thinking", "thinking": "abc", "signature": signature}
    told = deltas(split({**TOOL_MESSAGE, "content": [thinking]}, max_piece_chars=2))
    assert told == [
        {"type": "thinking_delta", "thinking": "ab"},
        {"type": "thinking_delta", "thinking": "c"},
        {"type": "signature_delta", "signature": signature},
    ]
    text = SEARCH_MESSAGE["content"][2]
    told = deltas(split({**SEARCH_MESSAGE, "content": [text]}, max_piece_chars=20))
    assert told == [
        {"type": "text_delta", "text": text["text"]},
        {"type": "citations_delta", "citation": text["citations"][0]},
    ]


def test_the_pieces_of_a_tools_input_are_json_only_together() -> None:
    tool = {"type": "tool_use", "id": "a", "name": "f", "input": {"path": "杭州", "n": 1.0, "m": 1}}
    told = deltas(split({**TOOL_MESSAGE, "content": [tool]}, max_piece_chars=5))
    assert told[0] == {"type": "input_json_delta", "partial_json": ""}
    joined = "".join(delta["partial_json"] for delta in told)
    assert joined == '{"path":"杭州","n":1.0,"m":1}'
    empty = {**tool, "input": {}}
    told = deltas(split({**TOOL_MESSAGE, "content": [empty]}))
    assert "".join(delta["partial_json"] for delta in told) == "{}"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        SEARCH_MESSAGE["content"][1],
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "compaction", "content": None},
        {"type": "tool_use", "id": "a", "name": "f", "input": "odd"},
        {"type": "block_of_next_year", "text": "a", "content": [1.0]},
    ],
)
def test_a_block_without_deltas_stands_whole_in_its_start(block: dict[str, Any]) -> None:
    stream = split({**MESSAGE, "content": [block]})
    assert deltas(stream) == []
    assert events(stream)[1]["content_block"] == block
    assert merge(payloads(stream))["content"] == [block]


def test_what_is_known_at_the_end_only_is_not_told_at_the_start() -> None:
    container = {"id": "container_1", "expires_at": "2026-07-23T16:16:14Z"}
    usage = {"input_tokens": 1, "output_tokens": 2, "server_tool_use": {"web_search_requests": 1}}
    details = {"type": "refusal", "category": None, "explanation": None}
    message = {**BETA_MESSAGE, "container": container, "usage": usage, "stop_details": details}
    stream = events(split(message))
    start, end = stream[0]["message"], stream[-2]
    for name in ("container", "stop_reason", "stop_sequence", "stop_details", "context_management"):
        assert start[name] is None
    assert start["usage"] == {"input_tokens": 1, "output_tokens": 0}
    assert end["delta"]["container"] == container
    assert end["delta"]["stop_details"] == details
    assert end["context_management"] == BETA_MESSAGE["context_management"]
    assert end["usage"] == usage
    assert merge(payloads(split(message))) == message


def test_fields_that_a_message_does_not_have_are_not_made_up() -> None:
    bare = {name: value for name, value in MESSAGE.items() if name not in ("stop_sequence", "id", "model")}
    bare["usage"] = {"output_tokens": 4}
    assert merge(payloads(split(bare))) == bare


@pytest.mark.parametrize(
    "change",
    [
        {"type": "error"},
        {"type": None},
        {"role": "user"},
        {"content": None},
        {"content": "Hello"},
        {"content": ["Hello"]},
        {"content": [{"text": "Hello"}]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "text", "text": None}]},
        {"content": [{"type": "text", "text": "a", "citations": {}}]},
        {"content": [{"type": "thinking", "thinking": 5}]},
        {"stop_reason": 5},
        {"usage": None},
        {"usage": {"output_tokens": None}},
        {"usage": {"output_tokens": True}},
        {"usage": {"output_tokens": 1.0}},
    ],
)
def test_what_cannot_be_a_stream_is_refused(change: dict[str, Any]) -> None:
    reply = {**MESSAGE, **change}
    assert shape_fault(reply) is not None
    with pytest.raises(ValueError, match="cannot be replayed"):
        MessagesDialect().split(reply, Request("m"))


def test_a_count_of_tokens_is_never_a_stream() -> None:
    with pytest.raises(ValueError, match="count of tokens"):
        CountTokensDialect().split({"input_tokens": 3}, Request("m"))
