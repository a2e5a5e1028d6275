"""One wire dialect, as the gateway sees it. Dialects never translate into each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

Vendor = Literal["openai", "anthropic"]


class Progress(Protocol):
    """Follows one live event stream, event by event, at a fraction of what parsing it would cost."""

    @property
    def has_end(self) -> bool:
        """Whether the event has come that ends every whole stream."""
        ...

    @property
    def has_error(self) -> bool:
        """Whether the upstream has told its client of a failure: the stream is no reply."""
        ...

    @property
    def num_pieces(self) -> int:
        """Events so far that brought something of the reply: text, thoughts, arguments of a tool."""
        ...

    def add(self, data: bytes, event: bytes | None = None) -> None:
        """Take note of one event's payload and type."""
        ...


class Dialect(Protocol):
    """Reads requests, merges and replays replies, writes errors. Pure: no I/O, no clock.

    Rule: `merge(events of split(reply)) == reply` for every reply that `refusal_to_store` lets in.
    """

    name: str
    """Label of the API in logs and metrics: `chat`, `completions`, `responses`, `messages`, `count_tokens`."""
    vendor: Vendor
    """Whose API it is: only upstreams of this kind are asked."""
    final_event: bytes
    """What is sent after an upstream's own error event, where the stream needs it to end; else empty."""

    def parse(self, body: Json) -> Request:
        """Read a decoded body. Raises RequestError (400, with `param`) for what we cannot go on without."""
        ...

    def messages(self, body: dict[str, Json]) -> Sequence[Json]:
        """The conversation as a list of `{role, content}`, system texts first as messages of role `system`.

        Content is a string, or a list of parts of which those with a `text` string count. O(number of messages).
        """
        ...

    def prompt_text(self, body: dict[str, Json]) -> str:
        """All text of the prompt, joined by LF: what eviction patterns and screens are matched against."""
        ...

    def question(self, body: dict[str, Json]) -> Question | None:
        """The last user text apart from the rest; None where a request does not end in exactly one question.

        O(number of messages). The body stays as it is; what is unchanged is shared with it.
        """
        ...

    def answer_text(self, reply: dict[str, Json]) -> str | None:
        """The text of a whole reply that is one plain answer; None where it is cut, refused, blank, or more than text.

        Thoughts may stand beside the text and are no part of it.
        """
        ...

    def progress(self) -> Progress:
        """A follower for a new stream."""
        ...

    def merge(self, events: Sequence[bytes]) -> dict[str, Json]:
        """The whole reply that a stream's payloads add up to. Raises MergeError where they do not."""
        ...

    def split(self, reply: dict[str, Json], request: Request) -> bytes:
        """A whole reply as the event stream that this request wants. Raises ValueError where it cannot be one."""
        ...

    def refusal_to_store(self, reply: Json, request: Request) -> str | None:
        """None where a reply may be stored, else one word that says why not."""
        ...

    def usage(self, reply: dict[str, Json]) -> Usage | None:
        """What a whole reply says of its tokens; None where it says nothing."""
        ...

    def stream_usage(self, events: Sequence[bytes]) -> Usage | None:
        """The same of a stream's payloads that nobody merges; looks at a few of them only."""
        ...

    def ask_usage(self, raw: bytes, body: dict[str, Json]) -> bytes:
        """The request's bytes, changed so that a stream tells its usage; as they are where it always does."""
        ...

    def is_usage_event(self, data: bytes) -> bool:
        """Whether a payload is there only because of `ask_usage`: a client that did not ask must not see it."""
        ...

    def error_body(self, error: RequestError) -> bytes:
        """The dialect's error object."""
        ...

    def error_event(self, error: RequestError) -> bytes:
        """The events that end a stream which failed after it had begun."""
        ...
