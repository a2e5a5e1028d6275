"""Which semantic hits are verified: the model answers again in the background, and the two answers are compared. Pure.

Every hit of a domain has the same chance, whatever its score: only so is the share of wrong ones among the verified
that among all. While the bounds are reached nothing is verified, which makes the sample smaller, not another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

MOST_IN_AIR: Final = 4
_HOUR_S: Final = 3600.0


@dataclass(slots=True)
class Sampler:
    """Draws hits, and keeps the bounds on what verification may cost.

    Args:
        first_hits: So many hits of a new domain are verified with `first_ratio`.
        first_ratio: A share, 0 to 1.
        ratio: The share of later ones.
        per_hour: Verifications begun in any hour, of all domains.
        most_in_air: Verifications at a time.
        paid: Whether an upstream that costs money may be asked too.
    """

    first_hits: int = 300
    first_ratio: float = 0.2
    ratio: float = 0.01
    per_hour: int = 60
    most_in_air: int = MOST_IN_AIR
    paid: bool = False
    num_in_air: int = 0
    num_bounded: int = 0
    """Hits that were drawn, and left alone because of a bound."""
    _begun_at: deque[float] = field(default_factory=deque)

    def chance(self, num_hits: int) -> float:
        """Of the next hit of a domain that has had `num_hits` before it."""
        return self.first_ratio if num_hits < self.first_hits else self.ratio

    def begin(self, num_hits: int, draw: float, now: float, *, is_paid: bool) -> bool:
        """Whether this hit is to be verified. If so it is in the air until `end` is called, once.

        Args:
            num_hits: The domain's hits before this one.
            draw: A random number in [0, 1): the same gives the same answer.
            now: Seconds on a clock that does not go back.
            is_paid: Whether the upstream that would be asked costs money.
        """
        if draw >= self.chance(num_hits) or (is_paid and not self.paid):
            return False
        while self._begun_at and now - self._begun_at[0] >= _HOUR_S:
            self._begun_at.popleft()
        if self.num_in_air >= self.most_in_air or len(self._begun_at) >= self.per_hour:
            self.num_bounded += 1
            return False
        self._begun_at.append(now)
        self.num_in_air += 1
        return True

    def end(self) -> None:
        """A verification that was begun is over, however it went.

        Raises:
            RuntimeError: none is in the air.
        """
        if not self.num_in_air:
            raise RuntimeError("a verification ended that was not begun")
        self.num_in_air -= 1
