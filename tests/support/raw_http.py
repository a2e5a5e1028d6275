"""Requests as plain bytes, without any SDK: what `curl` would send and see."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class RawReply:
    """Status, headers with lower-case names, and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON values of an event stream, without comments and `[DONE]`."""
        frames = [frame.splitlines() for frame in self.body.decode().split("\n\n")]
        data = [line.removeprefix("data: ") for frame in frames for line in frame if line.startswith("data:")]
        return [json.loads(text) for text in data if text != "[DONE]"]

    @property
    def chunks(self) -> list[dict[str, Any]]:
        """The JSON values of an event stream; its last event must be `[DONE]`, as OpenAI documents it."""
        events = [event for event in self.body.decode().split("\n\n") if event]
        data = [event.removeprefix("data: ") for event in events if not event.startswith(":")]
        assert data, "an empty event stream"
        assert data[-1] == "[DONE]", "the stream has no end"
        return [json.loads(text) for text in data[:-1]]

    @property
    def text(self) -> str:
        """The assistant's text, of a stream or a whole reply."""
        if "event-stream" in self.headers["content-type"]:
            deltas = [choice["delta"] for chunk in self.chunks for choice in chunk["choices"]]
            return "".join(delta.get("content") or "" for delta in deltas)
        return str(self.json()["choices"][0]["message"]["content"])

    @property
    def cache_status(self) -> str:
        """The `Cache-Status` header, which every chat reply has."""
        return self.headers["cache-status"]


def encoded(body: dict[str, Any]) -> bytes:
    """A body as JavaScript's and this project's captures write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def post_chat(
    url: str, body: bytes, headers: list[tuple[str, str]] | None = None, timeout_s: float = 120
) -> RawReply:
    """POST one chat request over a connection of its own; raises as `post` does."""
    return post(url, "/v1/chat/completions", body, headers, timeout_s)


def post(
    url: str, path: str, body: bytes, headers: list[tuple[str, str]] | None = None, timeout_s: float = 120
) -> RawReply:
    """POST one request over a connection of its own, with exactly these headers and its length.

    Raises:
        OSError, http.client.HTTPException: there was no complete reply.
    """
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout_s)
    try:
        connection.putrequest("POST", path, skip_accept_encoding=True)
        for name, value in headers or [("content-type", "application/json")]:
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        reply = connection.getresponse()
        return RawReply(reply.status, {n.lower(): v for n, v in reply.getheaders()}, reply.read())
    finally:
        connection.close()
