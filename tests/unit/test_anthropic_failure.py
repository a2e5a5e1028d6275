import json

import anthropic
import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.errors import RequestError
from support.anthropic_replies import BASIC_STREAM, client

KINDS = {
    400: (anthropic.BadRequestError, "invalid_request_error"),
    401: (anthropic.AuthenticationError, "authentication_error"),
    403: (anthropic.PermissionDeniedError, "permission_error"),
    404: (anthropic.NotFoundError, "not_found_error"),
    405: (anthropic.APIStatusError, "invalid_request_error"),
    408: (anthropic.APIStatusError, "timeout_error"),
    409: (anthropic.ConflictError, "conflict_error"),
    413: (anthropic.APIStatusError, "request_too_large"),
    422: (anthropic.UnprocessableEntityError, "invalid_request_error"),
    429: (anthropic.RateLimitError, "rate_limit_error"),
    500: (anthropic.InternalServerError, "api_error"),
    502: (anthropic.InternalServerError, "api_error"),
    503: (anthropic.InternalServerError, "overloaded_error"),
    504: (anthropic.InternalServerError, "timeout_error"),
    529: (anthropic.InternalServerError, "overloaded_error"),
}


@pytest.mark.parametrize("status", KINDS)
@pytest.mark.parametrize("dialect", [MessagesDialect(), CountTokensDialect()])
def test_the_sdk_raises_the_error_of_each_status(dialect: MessagesDialect, status: int) -> None:
    body = dialect.error_body(RequestError(status, 'no such "thing"', param="model", code="x"))
    with pytest.raises(KINDS[status][0]) as raised:
        client(status, body).messages.create(model="m", max_tokens=9, messages=[])
    assert json.loads(body) == {
        "type": "error",
        "error": {"type": KINDS[status][1], "message": 'no such "thing"'},
    }
    assert raised.value.status_code == status
    assert raised.value.body == json.loads(body)


def test_the_sdk_raises_on_an_error_that_ends_a_stream() -> None:
    begun = BASIC_STREAM[: BASIC_STREAM.index(b"event: content_block_stop")]
    event = MessagesDialect().error_event(RequestError(502, "the upstream\nclosed the stream"))
    assert event == (
        b'event: error\ndata: {"type":"error","error":'
        b'{"type":"api_error","message":"the upstream\\nclosed the stream"}}\n\n'
    )
    sdk = client(200, begun + event, "text/event-stream")
    told: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError, match="closed the stream"),
        sdk.messages.stream(model="m", max_tokens=9, messages=[]) as stream,
    ):
        told += stream.text_stream
    assert told == ["Good", " day!"]  # what came before it was read


def test_nothing_follows_an_error_that_the_upstream_sent_itself() -> None:
    assert MessagesDialect().final_event == b""
