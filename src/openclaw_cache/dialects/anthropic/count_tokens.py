"""Anthropic's token counting, as the gateway sees a dialect: one small reply, never a stream."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_cache.dialects.anthropic.messages import MessagesDialect
from openclaw_cache.dialects.anthropic.request import parse_count
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage, count
from openclaw_cache.errors import MergeError
from openclaw_cache.types import Json


class CountTokensDialect(MessagesDialect):
    """`POST /v1/messages/count_tokens`: prompts and errors as in Messages, another reply."""

    name: str = "count_tokens"

    def parse(self, body: Json) -> Request:
        """Read a decoded body. Raises RequestError for one that wants a stream, too."""
        return parse_count(body)

    def question(self, body: dict[str, Json]) -> Question | None:
        """None: another wording has another number of tokens."""
        return None

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """None: a count is no text."""
        return None

    def merge(self, events: Sequence[bytes]) -> dict[str, Json]:
        """Raise MergeError: there is no stream to merge."""
        raise MergeError("tokens are not counted in a stream")

    def split(self, reply: dict[str, Json], request: Request) -> bytes:
        """Raise ValueError: there is no stream to write."""
        raise ValueError("a count of tokens cannot be replayed as a stream")

    def refusal_to_store(self, reply: Json, request: Request) -> str | None:
        """None where the reply is a count."""
        if not isinstance(reply, dict):
            return "shape"
        if reply.get("error") or reply.get("type") == "error":
            return "error"
        return "shape" if count(reply.get("input_tokens")) is None else None

    def usage(self, reply: dict[str, Json]) -> Usage | None:
        """None: no model was asked, the count is the answer and not a cost."""
        return None

    def stream_usage(self, events: Sequence[bytes]) -> Usage | None:
        """None, as for a whole reply."""
        return None
