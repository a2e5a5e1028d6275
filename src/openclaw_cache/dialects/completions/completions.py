"""OpenAI's text completions, as the gateway sees a dialect (`dialects.dialect.Dialect`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from openclaw_cache.dialects.completions import request
from openclaw_cache.dialects.completions.admission import refusal_to_store
from openclaw_cache.dialects.completions.answer import answer_text
from openclaw_cache.dialects.completions.merge import merge
from openclaw_cache.dialects.completions.question import question
from openclaw_cache.dialects.completions.split import split
from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.openai import failure, progress
from openclaw_cache.dialects.openai.request import ask_usage
from openclaw_cache.dialects.openai.usage import usage_of
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

_NUM_LAST_EVENTS: Final = 4
"""Usage stands in one of the last events of a stream."""


class CompletionsDialect:
    """`POST /v1/completions`."""

    name: str = "completions"
    vendor: Vendor = "openai"
    final_event = b"data: " + progress.DONE + b"\n\n"

    def parse(self, body: Json) -> Request:
        """Read a decoded body."""
        return request.parse(body)

    def messages(self, body: dict[str, Json]) -> Sequence[Json]:
        """A user message for each prompt that is text."""
        return request.messages(body)

    def prompt_text(self, body: dict[str, Json]) -> str:
        """All text of the prompts."""
        return request.prompt_text(body)

    def question(self, body: dict[str, Json]) -> Question | None:
        """The prompt, where it is one text."""
        return question(body)

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """The text of the one choice."""
        return answer_text(reply)

    def progress(self) -> progress.StreamProgress:
        """A follower for a new stream: the same as for chat completions."""
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
        """What a reply's `usage` says."""
        usage = reply.get("usage")
        return usage_of(usage) if isinstance(usage, dict) else None

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
        return ask_usage(raw, body)

    def is_usage_event(self, data: bytes) -> bool:
        """Whether a chunk has the usage, and no choice."""
        return progress.is_usage_event(data)

    def error_body(self, error: RequestError) -> bytes:
        """OpenAI's error object."""
        return failure.error_body(error)

    def error_event(self, error: RequestError) -> bytes:
        """The error object, then `[DONE]`."""
        return failure.error_event(error)
