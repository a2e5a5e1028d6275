import pytest

from openclaw_cache.dialects.responses import ResponsesProgress


def follow(*events: tuple[bytes, bytes | None]) -> tuple[bool, bool]:
    progress = ResponsesProgress()
    for data, event in events:
        progress.add(data, event)
    return progress.has_end, progress.has_error


CREATED = b'{"type":"response.created","response":{"status":"in_progress","error":null,"output":[]}}'
DELTA = b'{"type":"response.output_text.delta","delta":"a \\"response.completed\\" and \\"error\\""}'


@pytest.mark.parametrize(
    ("kind", "ends", "fails"),
    [
        ("response.completed", True, False),
        ("response.incomplete", True, False),
        ("response.failed", True, True),
        ("error", False, True),
        ("response.output_text.done", False, False),
        ("response.queued", False, False),
    ],
)
@pytest.mark.parametrize("space", ["", " "])
def test_a_stream_ends_with_its_response_and_fails_by_an_error(
    kind: str, ends: bool, fails: bool, space: str
) -> None:
    data = f'{{"response":{space}{{"error":null}},"type":{space}"{kind}"}}'.encode()
    assert follow((data, None)) == (ends, fails)
    assert follow((data, b"message")) == (ends, fails)
    assert follow((data, kind.encode())) == (ends, fails)
    assert follow((CREATED, None), (DELTA, None), (data, None)) == (ends, fails)


def test_words_in_a_text_or_in_nested_objects_are_no_end() -> None:
    assert follow((DELTA, None), (DELTA, b"response.output_text.delta")) == (False, False)
    nested = b'{"type":"response.in_progress","response":{"moderation":{"input":{"type":"error"}}}}'
    assert follow((CREATED, None), (nested, None)) == (False, False)


@pytest.mark.parametrize("event", [None, b"message"])
def test_a_bare_error_object_is_an_error(event: bytes | None) -> None:
    assert follow((b'{"error": {"message": "out of memory", "code": 500}}', event)) == (False, True)
    assert follow((b'{"error": null}', event)) == (False, False)


def test_done_is_no_end_by_itself_and_harms_none() -> None:
    assert follow((CREATED, None), (b"[DONE]", None)) == (False, False)
    completed = b'{"type":"response.completed","response":{}}'
    assert follow((completed, b"response.completed"), (b"[DONE]", None)) == (True, False)


@pytest.mark.parametrize("data", [b'"error"', b'["error"]', b'{"type":3,"x":"error"}', b'{"error"', b""])
def test_what_is_no_event_says_nothing(data: bytes) -> None:
    assert follow((data, None)) == (False, False)
