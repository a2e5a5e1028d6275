import json
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.dialects.usage import Usage
from support.anthropic_replies import BASIC_STREAM, RECORDED, SEARCH_STREAM

DIALECT = MessagesDialect()


def payloads(stream: bytes) -> list[bytes]:
    return [event.data for event in SseParser().feed(stream)]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 11, "output_tokens": 6}, Usage(11, 6)),
        (
            {
                "input_tokens": 21,
                "cache_creation_input_tokens": 188086,
                "cache_read_input_tokens": 7,
                "output_tokens": 393,
            },
            Usage(188114, 393, 7, 188086),  # 21 + 188086 + 7
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 100,
                    "ephemeral_1h_input_tokens": 50,
                    "note": 3,
                },
            },
            Usage(151, None, 0, 150),
        ),
        (
            {
                "input_tokens": 1,
                "cache_creation_input_tokens": 150,
                "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 50},
            },
            Usage(151, None, 0, 150),
        ),
        ({"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": None}, Usage(0, 0)),
        ({"output_tokens": 5, "cache_read_input_tokens": 4}, Usage(None, 5, 4)),
        ({"input_tokens": "9", "output_tokens": -1}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_a_prompt_is_what_was_read_from_the_cache_written_to_it_and_the_rest(
    usage: Any, expected: Usage | None
) -> None:
    assert DIALECT.usage({"usage": usage}) == expected


@pytest.mark.parametrize("name", RECORDED)
def test_a_stream_tells_the_usage_of_its_message(name: str) -> None:
    stream, message = RECORDED[name]
    assert DIALECT.stream_usage(payloads(stream)) == DIALECT.usage(message) is not None


def test_pings_and_a_foreign_end_do_not_hide_the_usage() -> None:
    ping = b'{"type": "ping"}'
    events = [ping, *payloads(SEARCH_STREAM), ping, b"[DONE]"]
    assert DIALECT.stream_usage(events) == Usage(10694, 510, 7, 5)  # 10682 + 7 + 5


def test_only_the_ends_of_a_stream_are_looked_at() -> None:
    first, *middle, delta, stop = payloads(BASIC_STREAM)
    broken = [b'{"usage" broken'] * 10_000
    assert DIALECT.stream_usage([first, *middle, *broken, delta, stop]) == Usage(11, 6)
    assert DIALECT.stream_usage([*broken, delta, *broken]) is None


def test_a_cut_stream_tells_what_its_start_said() -> None:
    assert DIALECT.stream_usage(payloads(BASIC_STREAM)[:3]) == Usage(11, 1)
    assert DIALECT.stream_usage([]) is None
    assert (
        DIALECT.stream_usage([b"[]", b'"usage"', b'{"type":"message_start","message":{"usage":5}}']) is None
    )


def test_usage_in_a_text_or_in_another_event_is_none() -> None:
    other = {"type": "content_block_start", "index": 0, "usage": {"input_tokens": 5}, "content_block": {}}
    assert DIALECT.stream_usage([json.dumps(other).encode()]) is None


def test_counting_tokens_costs_no_model_tokens() -> None:
    assert CountTokensDialect().usage({"input_tokens": 5, "usage": {"input_tokens": 5}}) is None
    assert CountTokensDialect().stream_usage(payloads(BASIC_STREAM)) is None
