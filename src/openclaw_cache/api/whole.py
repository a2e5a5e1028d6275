"""A reply that came as one body, as its client gets it: a reply it can read, or a clear error."""

from __future__ import annotations

from typing import NamedTuple

import orjson

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.sse import SseParser
from openclaw_cache.errors import RequestError, StreamError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.flight import Flight, Source
from openclaw_cache.types import Headers, Json


class WholeReply(NamedTuple):
    """Status, headers and body, without framing."""

    status: int
    headers: Headers
    body: bytes


def readable(source: Source, body: bytes, flight: Flight, dialect: Dialect) -> WholeReply:
    """What the client gets for an upstream's body.

    - a reply, or an error object, as it came;
    - an error object that came with a good status, with the status of an error;
    - an error without a JSON object (a proxy's HTML page, nothing at all) as the dialect's own error object, with the
      upstream's status and its other headers.

    Raises:
        RequestError: 502 where a good status came with something else than a JSON object.
    """
    headers = header_rules.returned(source.headers)
    came = WholeReply(source.status, headers, body)
    if source.is_encoded or (source.is_ok and flight.oversize):
        return came
    return checked(came, flight.recorder.reply or json_object(body), dialect)


def checked(came: WholeReply, value: dict[str, Json] | None, dialect: Dialect) -> WholeReply:
    """The same for a body that is here: `value` is the object in it, None where it is none."""
    status, headers, body = came
    if 200 <= status < 300:
        if value is None:
            raise RequestError(
                502,
                f"the upstream answered {status} with something else than a JSON object "
                f"({_kind(headers)}): is its url that of an API?",
                kind="api_error",
                code="upstream_broken",
            )
        return WholeReply(_status_of(value) or status, headers, body)
    told = body if value is not None else _error_in_events(body, headers)
    if told is body:
        return came
    error = RequestError(
        status,
        f"the upstream answered with status {status} and no error object ({_kind(headers)})",
        kind="api_error",
        code="upstream_error",
    )
    told = told or dialect.error_body(error)
    kept = [(n, v) for n, v in headers if n not in (b"content-type", b"content-language", b"etag")]
    return WholeReply(status, [*kept, (b"content-type", b"application/json")], told)


def _error_in_events(body: bytes, headers: Headers) -> bytes | None:
    """The error object that some servers send as an event under the status of an error; None where there is none."""
    if _kind(headers) != "text/event-stream":
        return None
    try:
        events = SseParser().feed(body + b"\n\n")
    except StreamError:
        return None
    return next((event.data for event in events if (json_object(event.data) or {}).get("error")), None)


def failure(whole: WholeReply) -> RequestError:
    """A body that is no reply as an error that can be told inside a stream: the upstream's own, if it has one."""
    error = (json_object(whole.body) or {}).get("error")
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        what = (
            f"answered with status {whole.status}"
            if whole.status >= 300
            else "sent a reply that cannot be streamed"
        )
        return RequestError(502, f"the upstream {what}", kind="api_error", code="upstream_error")
    code, param = error.get("code"), error.get("param")
    return RequestError(
        whole.status if whole.status >= 400 else 502,
        str(error.get("message") or "the upstream failed"),
        kind=str(error.get("type") or "api_error"),
        code=None if code is None else str(code),
        param=param if isinstance(param, str) else None,
    )


def _status_of(reply: dict[str, Json]) -> int | None:
    """The status that an error object under a good status should have had; None where it is no error."""
    error = reply.get("error")
    if not error or any(name in reply for name in ("choices", "output", "content", "data")):
        return None  # a reply that tells of a failure beside what there is of it
    code = error.get("code") if isinstance(error, dict) else None  # OpenRouter writes the status there
    return code if isinstance(code, int) and 400 <= code <= 599 else 502


def json_object(body: bytes) -> dict[str, Json] | None:
    """The JSON object that a body is; None where it is none."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _kind(headers: Headers) -> str:
    """The content type of a reply, for a message: its first letters, if they are any."""
    value = next((v for n, v in headers if n == b"content-type"), b"").partition(b";")[0].strip()
    shown = value[:64].decode("latin-1")
    return shown if shown.isprintable() and shown else "of no type"
