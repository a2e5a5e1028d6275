"""What room costs, and what a token that is not computed is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GB: Final = 10**9
_GB_OF_GIB: Final = 2**30 / GB
MONTH_S: Final = 730 * 3600.0


@dataclass(frozen=True, slots=True)
class RoomPrice:
    """US dollars for a GB (10^9 bytes) in a month."""

    dollars: float
    source: str


ROOM_PRICES: Final = {
    "host": RoomPrice(
        round(0.004237 * 730 / _GB_OF_GIB, 3),
        "memory of Google Compute Engine N2, Iowa, on demand: $0.004237 for a GiB in an hour; as of 2026-11-30",
    ),
    "disk": RoomPrice(
        round(0.17 / _GB_OF_GIB, 3),
        "SSD persistent disk of Google Compute Engine, Iowa: $0.17 for a GiB in a month; as of 2026-11-30",
    ),
}
"""Where nobody says otherwise. What a GPU's memory costs depends on the GPU, and it is there anyway: no price."""


@dataclass(frozen=True, slots=True)
class Worth:
    """What computing prompt tokens costs. None: not known."""

    dollars_per_token: float | None = None
    tokens_per_s: float | None = None

    def dollars(self, num_tokens: float) -> float | None:
        """For so many tokens."""
        return None if self.dollars_per_token is None else num_tokens * self.dollars_per_token

    def seconds(self, num_tokens: float) -> float | None:
        """Of prefill, for so many tokens."""
        return None if not self.tokens_per_s else num_tokens / self.tokens_per_s


def monthly(num_tokens: float, span_s: float) -> float | None:
    """Tokens in a month of such traffic, by what came in `span_s` seconds; None where no time passed."""
    return num_tokens * MONTH_S / span_s if span_s > 0 else None
