"""The requests of a batch file: OpenAI's batch form, or bodies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs.api import api_of_body, api_of_path
from openclaw_cache.request_logs.logged_request import decoded
from openclaw_cache.request_logs.opening import READ_ERRORS, name, opened, why
from openclaw_cache.types import Json

_PATHS: Final = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One line."""

    line: int
    custom_id: str
    path: str
    """Of our own server: whatever host a line names, nothing goes there."""
    body: dict[str, Json]


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be sent: its result says why."""

    line: int
    custom_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchFile:
    """All lines in their order, and what names the file's content."""

    lines: list[BatchRequest | BadLine]
    fingerprint: str


def read_batch(file: str) -> BatchFile:
    """Read a batch file, or requests one in each line; packed as .gz or .xz too, `-` for the standard input.

    Memory: all of it, once. A line that cannot be read, or whose `custom_id` was there before, is a `BadLine`.

    Raises:
        ConfigError: it cannot be read, or there is no request in it.
    """
    digest = hashlib.sha256()
    lines: list[BatchRequest | BadLine] = []
    seen: set[str] = set()
    try:
        with opened(file) as (_, stream):
            for number, raw in enumerate(stream, 1):
                digest.update(raw)
                if not raw.strip():
                    continue
                line = _line(raw, number)
                if line.custom_id in seen:
                    line = BadLine(number, line.custom_id, f"custom_id {line.custom_id!r} is there twice")
                seen.add(line.custom_id)
                lines.append(line)
    except READ_ERRORS as e:
        raise ConfigError(f"cannot read {name(file)}: {why(e)}") from None
    if not any(isinstance(line, BatchRequest) for line in lines):
        first = next((line for line in lines if isinstance(line, BadLine)), None)
        fault = f" (line {first.line}: {first.reason})" if first else ""
        raise ConfigError(
            f'{name(file)}: no request is in it{fault}; each line is {{"custom_id", "method", "url", "body"}} as for '
            "OpenAI's batch API, or a body alone"
        )
    return BatchFile(lines, digest.hexdigest())


def _line(raw: bytes, number: int) -> BatchRequest | BadLine:
    custom_id = f"request-{number}"
    try:
        value = decoded(raw)
    except ValueError:
        return BadLine(number, custom_id, "not valid JSON")
    if not isinstance(value, dict):
        return BadLine(number, custom_id, "not a JSON object")
    if isinstance(told := value.get("custom_id"), str) and told:
        custom_id = told
    is_around = isinstance(value.get("body"), dict)
    body = value["body"] if is_around else value
    url = value.get("url") if is_around else None
    if is_around and value.get("method", "POST") != "POST":
        return BadLine(number, custom_id, f"method: {value['method']!r} is not POST")
    api = api_of_path(url) if isinstance(url, str) else api_of_body(body)
    if api is None:
        told_url = f"url: {url!r} is not a path that takes prompts" if isinstance(url, str) else None
        return BadLine(number, custom_id, told_url or "its body has no `messages`, `input` or `prompt`")
    if not is_around:
        body = {field: value for field, value in body.items() if field != "custom_id"}
    return BatchRequest(number, custom_id, _PATHS[api], whole(body))


def whole(body: dict[str, Json]) -> dict[str, Json]:
    """A body whose reply comes whole: results are no streams."""
    if body.get("stream") is not True:
        return body
    return {field: value for field, value in body.items() if field not in ("stream", "stream_options")}
