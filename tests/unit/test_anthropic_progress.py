import pytest

from openclaw_cache.dialects.anthropic import MessagesDialect
from openclaw_cache.dialects.dialect import Progress
from openclaw_cache.dialects.sse import SseParser
from support.anthropic_replies import RECORDED


def follow(*events: tuple[bytes, bytes | None]) -> Progress:
    progress = MessagesDialect().progress()
    for data, event in events:
        progress.add(data, event)
    return progress


def delta(text: bytes) -> bytes:
    return b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"' + text + b'"}}'


@pytest.mark.parametrize("name", RECORDED)
def test_a_whole_stream_ends_with_message_stop_and_not_before(name: str) -> None:
    events = SseParser().feed(RECORDED[name][0])
    assert follow(*events).has_end
    assert not follow(*events).has_error
    assert not follow(*events[:-1]).has_end


@pytest.mark.parametrize("event", [None, b"message_stop"])
@pytest.mark.parametrize(
    "data",
    [b'{"type":"message_stop"}', b'{"type": "message_stop"   }', b'{\n"type" : "message_stop" , "x":1}'],
)
def test_the_end_is_known_in_any_spacing(data: bytes, event: bytes | None) -> None:
    assert follow((data, event)).has_end


@pytest.mark.parametrize(
    ("data", "event"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', b"error"),
        (b'{"type": "error", "error": {}}', None),
        (b'{"type":"error"}', b"message"),
        (b"upstream died", b"error"),
        (b'{"type":"content_block_delta","index":0}', b"error"),
        (b'{"error":{"message":"no type"}}', None),
    ],
)
def test_an_error_is_known_by_its_event_or_its_payload(data: bytes, event: bytes | None) -> None:
    assert follow((data, event)).has_error
    assert not follow((data, event)).has_end


@pytest.mark.parametrize("text", [b"message_stop", b"error", rb"\"message_stop\"", rb"{\"type\":\"error\"}"])
def test_the_words_inside_a_text_mean_nothing(text: bytes) -> None:
    progress = follow((delta(text), b"content_block_delta"))
    assert not progress.has_end
    assert not progress.has_error


def test_a_payload_that_is_no_object_says_nothing() -> None:
    progress = follow((b'"error"', None), (b'["message_stop"]', None), (b'{"type":"message_stop"', None))
    assert not progress.has_end
    assert not progress.has_error
