"""What the parts of the engine say to each other about one chat request. Plain values, no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the chat template sees it."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose tokens and when to stop.

    `temperature` 0 means the likeliest token each time; `top_logprobs` None means no log probabilities at
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
class Prefilled:
    """`num_tokens` of the prompt are computed so far."""

    num_tokens: int


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


class ChatModel(Protocol):
    """A loaded model."""

    fingerprint: str
    window: int
    """Most tokens that prompt and reply may have together."""

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the rendered chat template. Thread-safe; linear in the text's length.

        Raises:
            RequestError: The template refuses the messages.
        """
        ...

    def generate(self, prompt: Sequence[int], sampling: Sampling) -> Iterator[Event]:
        """Compute the reply; not for two threads at once.

        Yields at least once per prefill step and once per token, so that closing the iterator stops the work
        within one such step.
        """
        ...
