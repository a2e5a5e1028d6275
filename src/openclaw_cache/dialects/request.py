"""What the gateway decides by, whatever the dialect that a request speaks."""

from __future__ import annotations

from dataclasses import dataclass

from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class Request:
    """What the gateway needs to know of a request. Small, so that it may be kept after its body is gone.

    `n`, `temperature`, `seed` and `limit` (the request's own bound on the tokens of its reply) are the client's own
    values, None where absent or null: the upstream judges them, we only compare.
    """

    model: str
    stream: bool = False
    include_usage: bool = True
    """Whether a stream of its reply must tell the usage. Only OpenAI's older dialects let a client choose."""
    has_tools: bool = False
    n: Json = None
    temperature: Json = None
    seed: Json = None
    limit: Json = None
    state: str = ""
    """The field by which the upstream is to keep something, or to look up what it kept: then no stored reply can
    answer, and the request is not safe to repeat. Empty where there is none."""
    num_messages: int = 0

    @property
    def wants_usage(self) -> bool:
        """Whether its reply must tell the usage: every whole one does, a stream where it was asked to."""
        return self.include_usage or not self.stream
