"""How long an upstream takes for a request, learnt from our own misses: what a hit spared its client. Pure.

For each upstream and model, least squares without negative parts: seconds = a + b · computed prompt tokens + c · reply
tokens. Where several of these parts alone explain the misses equally well (one miss explains nothing but itself), the
least estimate counts, so that no more is claimed than was seen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

import msgspec

from openclaw_cache.observe.record import RequestRecord

NUM_PAIRS: Final = 256
_MOST_SAMPLES: Final = 512.0
_TIE: Final = 1e-6
_SINGULAR: Final = 1e-9
_NEVER_S: Final = 1e12

Weights = tuple[float, float, float]


class Fit(msgspec.Struct, array_like=True):
    """Sums over the misses of one upstream and model; the older half counts half after each 256 of them."""

    gram: list[float]
    """Of x = (1, prompt, reply): 11, 1p, 1r, pp, pr, rr."""
    moments: list[float]
    """Of x times seconds."""
    squares: float

    def add(self, prompt_tokens: int, reply_tokens: int, seconds: float) -> None:
        """Learn from one miss. Cost: O(1)."""
        if self.gram[0] >= _MOST_SAMPLES:
            self.gram = [each / 2 for each in self.gram]
            self.moments = [each / 2 for each in self.moments]
            self.squares /= 2
        p, r = float(prompt_tokens), float(reply_tokens)
        for i, product in enumerate((1.0, p, r, p * p, p * r, r * r)):
            self.gram[i] += product
        for i, each in enumerate((1.0, p, r)):
            self.moments[i] += each * seconds
        self.squares += seconds * seconds

    def weights(self) -> Sequence[Weights]:
        """The best fits: one, or several that explain the misses equally well. Cost: 50 µs."""
        found = list(self._candidates())
        if not found:
            return ()
        least = min(error for error, _ in found)
        return [weights for error, weights in found if error <= least + _TIE * self.squares]

    def _candidates(self) -> Iterator[tuple[float, Weights]]:
        """(sum of squared errors, fit) for each choice of parts that needs no negative one."""
        a, b, c, d, e, f = self.gram
        rows = ((a, b, c), (b, d, e), (c, e, f))
        for size in (1, 2, 3):
            for chosen in combinations(range(3), size):
                matrix = [[rows[i][j] for j in chosen] for i in chosen]
                solved = _solved(matrix, [self.moments[i] for i in chosen])
                if solved is None or min(solved) < 0:
                    continue
                full = [0.0, 0.0, 0.0]
                for i, weight in zip(chosen, solved, strict=True):
                    full[i] = weight
                explained = sum(weight * self.moments[i] for i, weight in enumerate(full))
                yield max(0.0, self.squares - explained), (full[0], full[1], full[2])


class Durations:
    """What was learnt, for the upstreams and models that were used last.

    Args:
        num_pairs: How many.
    """

    def __init__(self, num_pairs: int = NUM_PAIRS) -> None:
        self._num_pairs = num_pairs
        self._fits: OrderedDict[tuple[str, str], Fit] = OrderedDict()
        self._weights: dict[tuple[str, str], Sequence[Weights]] = {}
        self.is_changed = False
        """Whether something was learnt since it was last packed."""

    def learn(self, record: RequestRecord) -> None:
        """Take in a request that is over; counts where an upstream computed it to its end. Cost: 2 µs."""
        if record.outcome not in ("miss", "bypass") or record.status != 200 or record.prompt_tokens is None:
            return
        pair = record.upstream, record.model
        fit = self._fits.get(pair)
        if fit is None:
            fit = self._fits[pair] = Fit([0.0] * 6, [0.0] * 3, 0.0)
            if len(self._fits) > self._num_pairs:
                oldest, _ = self._fits.popitem(last=False)
                self._weights.pop(oldest, None)
        self._fits.move_to_end(pair)
        self._weights.pop(pair, None)
        self.is_changed = True
        fit.add(record.savings.computed_tokens, record.completion_tokens or 0, record.duration_s)

    def saved_s(
        self, upstream: str, model: str, *, prompt_tokens: int, completion_tokens: int, took_s: float
    ) -> float:
        """How much sooner we answered than the upstream would have, estimated; 0 where nothing is known of it.

        Cost: 1 µs; after a miss of the same upstream and model 50 µs.

        Args:
            upstream: Who would have been asked.
            model: For what.
            prompt_tokens: That would have been computed: without those that the provider would have had cached.
            completion_tokens: Of the reply.
            took_s: How long it took us.
        """
        pair = upstream, model
        fit = self._fits.get(pair)
        if fit is None or not prompt_tokens + completion_tokens:
            return 0.0
        weights = self._weights.get(pair)
        if weights is None:
            weights = self._weights[pair] = fit.weights()
        least_s = _NEVER_S
        for a, b, c in weights:
            estimate = a + b * prompt_tokens + c * completion_tokens
            least_s = min(least_s, estimate)
        return least_s - took_s if took_s < least_s < _NEVER_S else 0.0

    def packed(self) -> bytes:
        """All of it, to outlive a restart."""
        self.is_changed = False
        return msgspec.msgpack.encode([(*pair, fit) for pair, fit in self._fits.items()])

    def restore(self, packed: bytes) -> None:
        """Take in what `packed` gave, where nothing is known better. Raises msgspec.MsgspecError."""
        for upstream, model, fit in msgspec.msgpack.decode(packed, type=list[tuple[str, str, Fit]]):
            if len(self._fits) < self._num_pairs and len(fit.gram) == 6 and len(fit.moments) == 3:
                self._fits.setdefault((upstream, model), fit)
        self._weights.clear()


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """The solution of a symmetric system by elimination; None where it has none, or more than one."""
    size = len(right)
    # Tokens of prompts and replies differ by orders of magnitude: each part is brought to the same size first.
    scales = [matrix[i][i] ** 0.5 for i in range(size)]
    if min(scales) <= 0:
        return None
    rows = [
        [matrix[i][j] / scales[i] / scales[j] for j in range(size)] + [right[i] / scales[i]]
        for i in range(size)
    ]
    for i in range(size):
        pivot = rows[i][i]
        if pivot < _SINGULAR:
            return None
        for k in range(i + 1, size):
            factor = rows[k][i] / pivot
            rows[k] = [lower - factor * upper for lower, upper in zip(rows[k], rows[i], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][j] * found[j] for j in range(i + 1, size))
        found[i] = (rows[i][size] - rest) / rows[i][i]
    return [weight / scale for weight, scale in zip(found, scales, strict=True)]
