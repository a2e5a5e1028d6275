"""What the parts of the engine say to each other about one chat request. Plain values, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from openclaw_cache.types import Json


TOOL_CALL: Final = "<tool_call>"
"""What a call of a tool begins with in a reply's text."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the chat template sees it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens and when to stop.

    `max_tokens` 0 computes the prompt and says nothing, which warms the cache. `temperature` 0 means the
    likeliest token each time; `top_logprobs` None means no log probabilities at
    all. Choice i of n is drawn with `seed + i`.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    n: int = 1
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's text and natural log probability, with the likeliest tokens of its position."""

    text: str
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """One request as the engine computes it.

    `salt` names the namespace whose cached KV may be used and added to. `is_volatile` keeps this request's KV in
    memory (`Cache-Control: no-store`). `pin_s` keeps the prompt's KV from eviction for so many seconds.
    """

    prompt: Sequence[int]
    sampling: Sampling
    salt: bytes = b""
    is_volatile: bool = False
    pin_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Where the KV of a prompt's tokens came from, in tokens; whole blocks count for the tier they lay in.

    `copied` tokens are the beginning of a block that another prompt shares only in part. `written` is no source: so
    many tokens, in whole blocks, are in the cache now and were not before.
    """

    computed: int = 0
    device: int = 0
    host: int = 0
    disk: int = 0
    copied: int = 0
    written: int = 0

    @property
    def num_cached(self) -> int:
        """Tokens of whole cached blocks, as `usage.prompt_tokens_details.cached_tokens` counts them."""
        return self.device + self.host + self.disk


@dataclass(frozen=True, slots=True)
class Prefilled:
    """The prompt of `num_tokens` is computed. Comes once, before the first piece."""

    num_tokens: int
    reuse: Reuse


@dataclass(frozen=True, slots=True)
class Piece:
    """One more token of a choice. `text` is what may be shown now; it is empty while text is held back."""

    index: int
    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice is complete. `num_tokens` counts the tokens chosen, without the end-of-turn token."""

    index: int
    reason: Literal["stop", "length"]
    num_tokens: int


Event = Prefilled | Piece | Finished


class Ticket(Protocol):
    """One submitted piece of work; iterate over it once for its events, then `close` it."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events as they come; raises what the work raised."""
        ...

    def close(self) -> None:
        """Give up the place in the line or stop the work. Returns at once; harmless when all is done."""
        ...


class ChatEngine(Protocol):
    """A loaded model that answers."""

    fingerprint: str
    window: int
    """Most tokens that prompt and reply may have together."""

    def encode(self, messages: Sequence[Message], tools: Json = None) -> list[int]:
        """Token ids of the rendered chat template. Thread-safe; linear in the text's length.

        Raises:
            RequestError: The template refuses the messages.
        """
        ...

    def submit(self, work: Work) -> Ticket:
        """Join the line, from the event loop's thread.

        Raises:
            LineFullError: No place in the line.
        """
        ...

    def close(self) -> None:
        """Stop; open tickets just end."""
        ...
