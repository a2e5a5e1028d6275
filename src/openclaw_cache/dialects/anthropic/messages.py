"""Anthropic's Messages, as the gateway sees a dialect (`dialects.dialect.Dialect`)."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_cache.dialects.anthropic import failure, request, usage
from openclaw_cache.dialects.anthropic.admission import refusal_to_store
from openclaw_cache.dialects.anthropic.answer import answer_text
from openclaw_cache.dialects.anthropic.merge import merge
from openclaw_cache.dialects.anthropic.progress import StreamProgress
from openclaw_cache.dialects.anthropic.question import question
from openclaw_cache.dialects.anthropic.split import split
from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json


class MessagesDialect:
    """`POST /v1/messages`."""

    name: str = "messages"
    vendor: Vendor = "anthropic"
    final_event: bytes = b""

    def parse(self, body: Json) -> Request:
        """Read a decoded body."""
        return request.parse(body)

    def messages(self, body: dict[str, Json]) -> Sequence[Json]:
        """The system prompt, then the messages as they stand."""
        return request.messages(body)

    def prompt_text(self, body: dict[str, Json]) -> str:
        """All text of the system prompt and the messages."""
        return request.prompt_text(body)

    def question(self, body: dict[str, Json]) -> Question | None:
        """The last user message's one text."""
        return question(body)

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """The text blocks, joined."""
        return answer_text(reply)

    def progress(self) -> StreamProgress:
        """A follower for a new stream."""
        return StreamProgress()

    def merge(self, events: Sequence[bytes]) -> dict[str, Json]:
        """The message that the events add up to."""
        return merge(events)

    def split(self, reply: dict[str, Json], request: Request) -> bytes:
        """A message as events: they do not depend on the request."""
        return split(reply)

    def refusal_to_store(self, reply: Json, request: Request) -> str | None:
        """None where a message may be stored."""
        return refusal_to_store(reply, request)

    def usage(self, reply: dict[str, Json]) -> Usage | None:
        """What a message's `usage` says."""
        return usage.usage_of(reply.get("usage"))

    def stream_usage(self, events: Sequence[bytes]) -> Usage | None:
        """The usage in message_start and the last message_delta."""
        return usage.stream_usage(events)

    def ask_usage(self, raw: bytes, body: dict[str, Json]) -> bytes:
        """The request as it is: every stream tells its usage."""
        return raw

    def is_usage_event(self, data: bytes) -> bool:
        """No event is there for the usage alone."""
        return False

    def error_body(self, error: RequestError) -> bytes:
        """Anthropic's error object."""
        return failure.error_body(error)

    def error_event(self, error: RequestError) -> bytes:
        """An `error` event."""
        return failure.error_event(error)
