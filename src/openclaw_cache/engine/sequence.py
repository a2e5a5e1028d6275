"""What runs in the engine: sequences of tokens, and the request that one or more of them answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.engine.chat import TOOL_CALL, Finished, Reuse
from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.rhythm import Hint

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from openclaw_cache.engine.chat import Event, Work
    from openclaw_cache.engine.choice import Choice
    from openclaw_cache.engine.ticket import WorkTicket
    from openclaw_cache.kv.hold import Hold


@dataclass(eq=False, slots=True)
class Request:
    """One submitted request and its choices.

    `reuse` is None until its prompt is computed; a prompt that has to be computed again later (its blocks were
    needed elsewhere) does not change it.
    """

    ticket: WorkTicket
    seed: int
    began_at: float
    num_open: int
    reuse: Reuse | None = None
    sequences: list[Sequence] = field(default_factory=list)

    @property
    def work(self) -> Work:
        """What was asked for."""
        return self.ticket.work


class Sequence:
    """Prompt and reply of one choice: its tokens, and how many of them have their KV.

    Whatever a sequence still has to compute is `num_left` tokens: a whole prompt, a piece of one, or the one
    token chosen last. So prefill, decode, and starting again after its blocks were needed elsewhere are the same.

    `hint` is what its end says of the conversation's next call.
    """

    __slots__ = ("_tokens", "choice", "hint", "hold", "num_computed", "num_tokens", "request")

    def __init__(self, request: Request, choice: Choice) -> None:
        prompt = request.work.prompt
        self.request = request
        self.choice = choice
        self._tokens = np.empty(len(prompt) + request.work.sampling.max_tokens, np.int32)
        self._tokens[: len(prompt)] = prompt
        self.num_tokens = len(prompt)
        self.num_computed = 0
        self.hold: Hold | None = None
        self.hint = Hint.NONE

    @property
    def tokens(self) -> NDArray[np.int32]:
        """All tokens so far; a view."""
        return self._tokens[: self.num_tokens]

    @property
    def computed(self) -> NDArray[np.int32]:
        """The tokens whose KV is computed; a view."""
        return self._tokens[: self.num_computed]

    @property
    def num_left(self) -> int:
        """Tokens that must be computed before the next one can be chosen."""
        return self.num_tokens - self.num_computed

    @property
    def is_warm_up(self) -> bool:
        """Whether only the prompt is to be computed."""
        return self.request.work.sampling.max_tokens == 0

    @property
    def most_cached(self) -> int:
        """How many tokens may come from the cache: the last is computed, since its logits choose the next."""
        return self.num_tokens - (not self.is_warm_up)

    def append(self, token: int) -> None:
        """Add the token chosen last."""
        self._tokens[self.num_tokens] = token
        self.num_tokens += 1

    def foretell(self, events: list[Event], decode: Callable[[list[int]], str]) -> None:
        """Take the hint from its last events. Cost: O(reply)."""
        end = events[-1]
        if isinstance(end, Finished) and end.reason == "stop":
            text = decode(self.tokens[len(self.request.work.prompt) :].tolist())
            self.hint = Hint.TOOL if TOOL_CALL in text else Hint.IDLE

    def reuse(self, block_tokens: int) -> Reuse:
        """Where the KV of its tokens came from, as long as they are the prompt."""
        assert self.hold is not None  # noqa: S101 - a computed prompt holds blocks
        num_by_tier = {tier: self.hold.num_from(tier) * block_tokens for tier in Tier}
        return Reuse(
            computed=self.num_tokens - self.hold.num_cached,
            device=num_by_tier[Tier.DEVICE],
            host=num_by_tier[Tier.HOST],
            disk=num_by_tier[Tier.DISK],
            copied=self.hold.num_cached - sum(num_by_tier.values()),
            written=self.hold.num_new * block_tokens,
        )
