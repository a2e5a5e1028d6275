"""One choice of a reply: from logits to tokens to the text that may be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch

from openclaw_cache.engine.chat import Finished, Piece, TokenLogprob
from openclaw_cache.engine.text import TextStream

if TYPE_CHECKING:
    from openclaw_cache.engine.chat import Event, Sampling
    from openclaw_cache.engine.model import LanguageModel


class Choice:
    """Chooses the tokens of one choice and knows when it ends.

    Args:
        index: Its number in the reply.
        sampling: How to choose.
        seed: Of its own random draws.
        model: Gives text and end tokens.
    """

    def __init__(self, index: int, sampling: Sampling, seed: int, model: LanguageModel) -> None:
        self.index = index
        self._sampling = sampling
        self._model = model
        self._text = TextStream(model.decode_steps(), sampling.stop)
        self._draw = torch.Generator().manual_seed((seed + index) % 2**64)
        self._num_tokens = 0

    def take(self, logits: torch.Tensor) -> tuple[int | None, list[Event]]:
        """Choose the next token from the logits [vocab] after the last one.

        Returns:
            The token to go on with, or None at the end; and what to tell.
        """
        token = pick(logits, self._sampling, self._draw)
        if token in self._model.ends:
            return None, self._end("stop")
        self._num_tokens += 1
        events: list[Event] = [Piece(self.index, *self._text.add(token, self._logprob(logits, token)))]
        if self._text.stopped:
            return None, events + self._end("stop")
        if self._num_tokens == self._sampling.max_tokens:
            return None, events + self._end("length")
        return token, events

    def _end(self, reason: Literal["stop", "length"]) -> list[Event]:
        return [Piece(self.index, *self._text.flush()), Finished(self.index, reason, self._num_tokens)]

    def _logprob(self, logits: torch.Tensor, token: int) -> TokenLogprob | None:
        """Log probabilities of the model itself, before temperature and top_p."""
        num_top = self._sampling.top_logprobs
        if num_top is None:
            return None
        logprobs = torch.log_softmax(logits, -1)
        top = torch.topk(logprobs, num_top)
        likeliest = tuple(
            TokenLogprob(self._model.decode([other]), value)
            for other, value in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        )
        return TokenLogprob(self._model.decode([token]), float(logprobs[token]), likeliest)


def pick(logits: torch.Tensor, sampling: Sampling, draw: torch.Generator) -> int:
    """Choose the next token: greedy, or from the nucleus (Holtzman et al., 2020, arXiv:1904.09751)."""
    if sampling.temperature == 0 or sampling.top_p == 0:
        return int(logits.argmax())
    weights = torch.softmax(logits / sampling.temperature, -1)
    if sampling.top_p < 1:
        ordered, order = weights.sort(descending=True)
        before = ordered.cumsum(-1) - ordered  # how much mass comes before each token: 0 for the likeliest
        ordered[before >= sampling.top_p] = 0
        return int(order[torch.multinomial(ordered, 1, generator=draw)])
    return int(torch.multinomial(weights, 1, generator=draw))
