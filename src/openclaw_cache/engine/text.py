"""From tokens to the text that may be shown: whole characters only, nothing of a stop sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openclaw_cache.engine.chat import TokenLogprob


class StopMatcher:
    """Passes text on up to the first stop sequence, however the text is cut into pieces.

    Of several matches the one that ends first counts, and of those that end together the longest; so the
    result does not depend on the cuts. Text that may be the beginning of a stop sequence is held back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Take more text and return what may be shown now; nothing more once `stopped` is true."""
        if self.stopped or not self._stops:
            return "" if self.stopped else text
        seen = self._held + text
        found = ((at + len(stop), at) for stop in self._stops if (at := seen.find(stop)) >= 0)
        match = min(found, default=None)
        if match is not None:
            self.stopped, self._held = True, ""
            return seen[: match[1]]
        num_held = self._num_open(seen)
        cut = len(seen) - num_held
        self._held = seen[cut:]
        return seen[:cut]

    def flush(self) -> str:
        """Return what was held back: the text has ended and no stop sequence was completed."""
        held, self._held = self._held, ""
        return held

    def _num_open(self, seen: str) -> int:
        """Length of the longest end of `seen` that begins a stop sequence."""
        longest = max(len(stop) for stop in self._stops) - 1
        for length in range(min(longest, len(seen)), 0, -1):
            if any(stop.startswith(seen[-length:]) for stop in self._stops):
                return length
        return 0


class TextStream:
    """Text and log probabilities of one choice as its tokens come.

    A log probability is shown together with the text that its token completes; those of tokens that lie
    wholly inside a stop sequence are never shown.
    """

    def __init__(self, decode_step: Callable[[int], str | None], stops: Sequence[str]) -> None:
        self._decode_step = decode_step
        self._matcher = StopMatcher(stops)
        self._num_decoded = 0
        self._num_shown = 0
        self._waiting: list[
            tuple[int, TokenLogprob]
        ] = []  # with the offset in the text where the token begins

    @property
    def stopped(self) -> bool:
        """Whether a stop sequence has been completed."""
        return self._matcher.stopped

    def add(self, token: int, logprob: TokenLogprob | None) -> tuple[str, tuple[TokenLogprob, ...]]:
        """Take the next token; return the text and log probabilities that may be shown now."""
        if logprob is not None:
            self._waiting.append((self._num_decoded, logprob))
        text = self._decode_step(token) or ""
        self._num_decoded += len(text)
        return self._show(self._matcher.feed(text))

    def flush(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        """Return what was held back at the end; the bytes of an unfinished character are dropped."""
        text, shown = self._show(self._matcher.flush())
        rest, self._waiting = self._waiting, []
        return text, shown + tuple(logprob for _, logprob in rest)

    def _show(self, text: str) -> tuple[str, tuple[TokenLogprob, ...]]:
        self._num_shown += len(text)
        shown = tuple(logprob for start, logprob in self._waiting if start < self._num_shown)
        self._waiting = [] if self.stopped else [item for item in self._waiting if item[0] >= self._num_shown]
        return text, shown
