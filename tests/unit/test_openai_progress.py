import json
from typing import Any

import pytest

from openclaw_cache.dialects.openai import StreamProgress, is_usage_event

TEXT = 'she said "error" and {"error":{"x":1}} and "usage":{} [DONE]'


def chunk(**fields: Any) -> bytes:
    return json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": TEXT}}], **fields}).encode()


def progress(*events: bytes, kind: bytes | None = None) -> StreamProgress:
    told = StreamProgress()
    for event in events:
        told.add(event, kind)
    return told


def test_only_done_makes_a_stream_complete() -> None:
    assert not progress(chunk(finish_reason="stop")).has_end
    assert progress(chunk(), b"[DONE]").has_end


@pytest.mark.parametrize("error", [{"message": "x"}, "x"])
def test_error_object_spoils_the_stream_even_before_done(error: Any) -> None:
    told = progress(chunk(), json.dumps({"error": error}).encode(), b"[DONE]")
    assert (told.has_end, told.has_error) == (True, True)


def test_event_of_type_error_is_an_error_whatever_it_says() -> None:
    assert progress(b"overloaded", kind=b"error").has_error


def test_words_in_the_text_and_empty_error_fields_are_no_error() -> None:
    assert not progress(chunk(), chunk(error=None), b'{"error"').has_error


def test_usage_event_is_the_one_without_choices() -> None:
    usage = {"prompt_tokens": 0}
    assert is_usage_event(chunk(choices=[], usage=usage))
    assert is_usage_event(json.dumps({"choices": [], "usage": usage}, separators=(",", ":")).encode())
    assert not is_usage_event(chunk(usage=usage))
    assert not is_usage_event(chunk(choices=[], usage=None))
    assert not is_usage_event(b'{"choices":[],"usage":null}')
    assert not is_usage_event(chunk(choices=[], prompt_filter_results=[]))
    assert not is_usage_event(chunk())
    assert not is_usage_event(b'{"usage":')
