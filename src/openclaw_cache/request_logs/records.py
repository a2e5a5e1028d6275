"""What one JSON value of a log says of a request, whatever form it has."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from openclaw_cache.gateway.identity import identify, labels
from openclaw_cache.request_logs import api as apis
from openclaw_cache.request_logs.logged_request import LoggedRequest, decoded
from openclaw_cache.request_logs.moments import moment
from openclaw_cache.types import Headers, Identity, Json

_SESSION_FIELDS: Final = ("session", "session_id", "sessionId", "conversation_id", "thread_id")
_LABEL_FIELDS: Final = ("label", "custom_id", "request_id", "id", "name")
_MOST_LABEL_CHARS: Final = 100
NO_PROMPT: Final = "not a request with a prompt"


class NoRequestError(Exception):
    """A value holds no request that has a prompt; the message says why."""


def requests_in(value: Json, file: str, line: int) -> Iterator[LoggedRequest]:
    """The requests that one value of a log holds: a capture and a HAR hold several.

    Raises:
        NoRequestError: none.
    """
    match value:
        case {"requests": list(entries)} | {"log": {"entries": list(entries)}}:
            found = 0
            for number, entry in enumerate(entries, 1):
                try:
                    request = request_in(entry, file, number)
                except NoRequestError:
                    continue
                found += 1
                yield request
            if not found:
                raise NoRequestError("a capture without a request that has a prompt")
        case _:
            yield request_in(value, file, line)


def request_in(value: Json, file: str, line: int) -> LoggedRequest:
    """The request that one value of a log holds.

    Raises:
        NoRequestError: none.
    """
    if not isinstance(value, dict):
        raise NoRequestError("not a JSON object")
    if _is_har_entry(value):
        return _of_har(value, file, line)
    if _is_text_trace(value):
        return _of_text(value, file, line)
    return _of_record(value, file, line)


def _is_har_entry(value: dict[str, Json]) -> bool:
    request = value.get("request")
    return isinstance(request, dict) and "url" in request and "method" in request and "body" not in request


def _of_har(entry: dict[str, Json], file: str, line: int) -> LoggedRequest:
    request = entry["request"]
    url, api = str(request["url"]), apis.api_of_path(str(request["url"]))
    if request["method"] != "POST" or api is None:
        raise NoRequestError(NO_PROMPT)
    body = _body(_har_text(request.get("postData")))
    response = entry.get("response")
    reply = _har_text(response.get("content")) if isinstance(response, dict) else None
    return _request(body, entry, url, request.get("headers"), reply, file, line)


def _har_text(content: Json) -> str | None:
    """The text of a HAR's `postData` or `content`, which may be in base64."""
    text = content.get("text") if isinstance(content, dict) else None
    if not isinstance(text, str):
        return None
    if content.get("encoding", content.get("_encoding")) == "base64":
        try:
            return base64.b64decode(text, validate=False).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return None
    return text


def _is_text_trace(value: dict[str, Json]) -> bool:
    return (
        isinstance(value.get("input"), str)
        and "model" not in value
        and ("output" in value or "session_id" in value or "timestamp" in value)
    )


def _of_text(value: dict[str, Json], file: str, line: int) -> LoggedRequest:
    session = _named(value, _SESSION_FIELDS)
    return LoggedRequest(
        body={"prompt": value["input"]},
        api="text",
        at=moment(value),
        headers=[],
        session=session,
        agent=None,
        file=file,
        line=line,
        label=_named(value, ("label",)) or "",
    )


def _of_record(value: dict[str, Json], file: str, line: int) -> LoggedRequest:
    """A body, or an object around one: `body`, `request`, or a `request` that has a `body`."""
    inner = value.get("request")
    around = inner if isinstance(inner, dict) and "body" in inner else value
    body = around.get("body") if "body" in around else inner if inner is not None else value
    url = around.get("url") or around.get("path") or value.get("url") or value.get("path") or ""
    if body is value and "response" in value and not apis.api_of_body(value):
        raise NoRequestError("a reply without its request")
    reply = next((value[name] for name in ("response", "usage", "reply") if value.get(name)), None)
    headers = around.get("headers") or value.get("headers")
    return _request(_body(body), value, str(url), headers, reply, file, line)


def _body(body: Json) -> dict[str, Json]:
    if isinstance(body, str):
        try:
            body = decoded(body)
        except ValueError:
            raise NoRequestError("its body is no JSON") from None
    if not isinstance(body, dict):
        raise NoRequestError("it has no body")
    return body


def _request(
    body: dict[str, Json],
    record: dict[str, Json],
    url: str,
    headers: Json,
    reply: Json,
    file: str,
    line: int,
) -> LoggedRequest:
    api = apis.api_of_body(body)
    if apis.is_other_path(url) or api is None:
        raise NoRequestError(NO_PROMPT)
    api = apis.api_of_path(url) or api
    listed = _headers(headers)
    who = _identity(listed, body)
    model = body.get("model")
    is_around = record is not body
    return LoggedRequest(
        body=body,
        api=api,
        at=moment(record),
        headers=listed,
        session=(_named(record, _SESSION_FIELDS) if is_around else None) or who.session,
        agent=(_named(record, ("agent", "agent_id")) if is_around else None) or who.agent,
        model=model if isinstance(model, str) else "",
        usage=apis.usage_of(api, reply),
        label=(_named(record, _LABEL_FIELDS) if is_around else None) or "",
        file=file,
        line=line,
    )


def _identity(headers: Headers, body: dict[str, Json]) -> Identity:
    return identify(headers, labels(body))


def _headers(headers: Json) -> Headers:
    """Headers from an object, a list of pairs, or HAR's list of `name` and `value`."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(headers, dict):
        pairs = list(headers.items())
    elif isinstance(headers, list):
        for header in headers:
            match header:
                case {"name": name, "value": value} | [name, value]:
                    pairs.append((name, value))
    return [
        (name.lower().encode("latin-1", "replace"), value.encode("utf-8", "replace"))
        for name, value in pairs
        if isinstance(name, str) and isinstance(value, str)
    ]


def _named(record: dict[str, Json], fields: tuple[str, ...]) -> str | None:
    """The first of these fields that is a short printable text, or a number."""
    for field in fields:
        value = record.get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)[:_MOST_LABEL_CHARS]
        if isinstance(value, str) and value.strip() and value.isprintable():
            return value.strip()[:_MOST_LABEL_CHARS]
    return None
