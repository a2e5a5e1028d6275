"""OpenAI's chat completions, as the gateway sees a dialect (`dialects.dialect.Dialect`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.openai import failure, progress, request
from openclaw_cache.dialects.openai.admission import refusal_to_store
from openclaw_cache.dialects.openai.answer import answer_text
from openclaw_cache.dialects.openai.merge import merge
from openclaw_cache.dialects.openai.question import question
from openclaw_cache.dialects.openai.split import split
from openclaw_cache.dialects.openai.usage import usage_of
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_NUM_LAST_EVENTS: Final = 4
"""Usage stands in one of the last events of a stream."""


class ChatDialect:
    """`POST /v1/chat/completions`."""

    name: str = "chat"
    vendor: Vendor = "openai"
    final_event = b"data: " + progress.DONE + b"\n\n"

    def parse(self, body: Json) -> Request:
        """Read a decoded body."""
        return request.parse(body)

    def messages(self, body: dict[str, Json]) -> Sequence[Json]:
        """The messages, as they stand."""
        messages: list[Json] = body["messages"]
        return messages

    def prompt_text(self, body: dict[str, Json]) -> str:
        """All text of the messages."""
        return request.prompt_text(body)

    def question(self, body: dict[str, Json]) -> Question | None:
        """The last user message's one text."""
        return question(body)

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """The content of the one choice."""
        return answer_text(reply)

    def progress(self) -> progress.StreamProgress:
        """A follower for a new stream."""
        return progress.StreamProgress()

    def merge(self, events: Sequence[bytes]) -> dict[str, Json]:
        """The reply that the chunks add up to."""
        return merge(events)

    def split(self, reply: dict[str, Json], request: Request) -> bytes:
        """A reply as chunks."""
        return split(reply, include_usage=request.include_usage)

    def refusal_to_store(self, reply: Json, request: Request) -> str | None:
        """None where a reply may be stored."""
        return refusal_to_store(reply, request)

    def usage(self, reply: dict[str, Json]) -> Usage | None:
        """What a reply's `usage` says; Moonshot streams it in the choice, Groq under a name of its own."""
        choices = reply.get("choices")
        places = [reply, reply.get("x_groq"), *(choices[:1] if isinstance(choices, list) else ())]
        for place in places:
            usage = place.get("usage") if isinstance(place, dict) else None
            if isinstance(usage, dict):
                return usage_of(usage)
        return None

    def stream_usage(self, events: Sequence[bytes]) -> Usage | None:
        """The usage in one of the last chunks."""
        for event in reversed(events[-_NUM_LAST_EVENTS:]):
            if b'"usage":' not in event:
                continue
            try:
                chunk = orjson.loads(event)
            except orjson.JSONDecodeError:
                continue
            if isinstance(chunk, dict) and (usage := self.usage(chunk)) is not None:
                return usage
        return None

    def ask_usage(self, raw: bytes, body: dict[str, Json]) -> bytes:
        """The request with `stream_options.include_usage`."""
        return request.ask_usage(raw, body)

    def is_usage_event(self, data: bytes) -> bool:
        """Whether a chunk has the usage, and no choice."""
        return progress.is_usage_event(data)

    def error_body(self, error: RequestError) -> bytes:
        """OpenAI's error object."""
        return failure.error_body(error)

    def error_event(self, error: RequestError) -> bytes:
        """The error object, then `[DONE]`."""
        return failure.error_event(error)
