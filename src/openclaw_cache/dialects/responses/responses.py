"""OpenAI's Responses API, as the gateway sees a dialect (`dialects.dialect.Dialect`)."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.openai.failure import error_body
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.responses import failure, request, usage
from openclaw_cache.dialects.responses.admission import refusal_to_store
from openclaw_cache.dialects.responses.answer import answer_text
from openclaw_cache.dialects.responses.merge import merge
from openclaw_cache.dialects.responses.progress import ResponsesProgress
from openclaw_cache.dialects.responses.question import question
from openclaw_cache.dialects.responses.split import split
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json


class ResponsesDialect:
    """`POST /v1/responses`."""

    name: str = "responses"
    vendor: Vendor = "openai"
    final_event = b""

    def parse(self, body: Json) -> Request:
        """Read a decoded body."""
        return request.parse(body)

    def messages(self, body: dict[str, Json]) -> Sequence[Json]:
        """The instructions and the input items that have a role."""
        return request.messages(body)

    def prompt_text(self, body: dict[str, Json]) -> str:
        """All text of the instructions and the input."""
        return request.prompt_text(body)

    def question(self, body: dict[str, Json]) -> Question | None:
        """The input, or its last user message's one text."""
        return question(body)

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """The text of the one message."""
        return answer_text(reply)

    def progress(self) -> ResponsesProgress:
        """A follower for a new stream."""
        return ResponsesProgress()

    def merge(self, events: Sequence[bytes]) -> dict[str, Json]:
        """The response in the last event, checked against those before."""
        return merge(events)

    def split(self, reply: dict[str, Json], request: Request) -> bytes:
        """A response as events; its usage is always among them."""
        return split(reply)

    def refusal_to_store(self, reply: Json, request: Request) -> str | None:
        """None where a response may be stored."""
        return refusal_to_store(reply, request)

    def usage(self, reply: dict[str, Json]) -> Usage | None:
        """What a response's `usage` says."""
        return usage.usage_of(reply)

    def stream_usage(self, events: Sequence[bytes]) -> Usage | None:
        """The usage in the last event."""
        return usage.stream_usage(events)

    def ask_usage(self, raw: bytes, body: dict[str, Json]) -> bytes:
        """The request as it is: every stream ends with its usage."""
        return raw

    def is_usage_event(self, data: bytes) -> bool:
        """Never: nobody has to ask."""
        return False

    def error_body(self, error: RequestError) -> bytes:
        """OpenAI's error object."""
        return error_body(error)

    def error_event(self, error: RequestError) -> bytes:
        """The `error` event."""
        return failure.error_event(error)
