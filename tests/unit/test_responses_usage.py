from typing import Any

import pytest

from openclaw_cache.dialects.responses import stream_usage, usage_of
from openclaw_cache.dialects.usage import Usage
from support.responses_replies import events, message, response, text


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        # OpenAI's own, with a prompt cache hit
        (
            {
                "input_tokens": 2006,
                "input_tokens_details": {"cached_tokens": 1920},
                "output_tokens": 300,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 2306,
            },
            Usage(2006, 300, 1920, 0),
        ),
        (
            {
                "input_tokens": 2006,
                "input_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 900},
                "output_tokens": 1,
            },
            Usage(2006, 1, 1024, 900),
        ),
        ({"input_tokens": 5, "output_tokens": 0}, Usage(5, 0)),
        ({"input_tokens": 5, "input_tokens_details": None, "output_tokens": None}, Usage(5, None)),
        ({"output_tokens": 7}, Usage(None, 7)),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}, Usage(5, None, 5, 0)),
        (
            {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 9}},
            Usage(5, None, 3, 2),
        ),
        ({"input_tokens": -1, "output_tokens": True}, None),
        ({"input_tokens": "5"}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_counts_are_read_and_never_exceed_the_prompt(usage: Any, told: Usage | None) -> None:
    assert usage_of({"usage": usage}) == told


def test_a_streams_usage_is_that_of_its_last_event() -> None:
    begun = response(usage=None)
    reply = response(message(text("a")), usage={"input_tokens": 11, "output_tokens": 2})
    stream = events(("created", {"response": begun}), ("completed", {"response": reply}))
    assert stream_usage(stream) == Usage(11, 2)
    assert stream_usage([*stream, b"[DONE]"]) == Usage(11, 2)
    assert stream_usage(stream[:1]) is None
    assert stream_usage([]) is None


@pytest.mark.parametrize(
    "event", [b'{"input_tokens"', b'["input_tokens"]', b'{"response":{"input_tokens":1}}']
)
def test_what_is_no_response_has_no_usage(event: bytes) -> None:
    assert stream_usage([event]) is None
