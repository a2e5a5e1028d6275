"""What is brought up from the tiers below, and whether that is worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from openclaw_cache.kv.block import NOWHERE, Tier
from openclaw_cache.kv.speed import worth_loading

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from openclaw_cache.kv.codec import Codec
    from openclaw_cache.kv.jobs import Load
    from openclaw_cache.kv.movement import Movement
    from openclaw_cache.kv.node import Int32s

_AVOID_S: Final = 60.0


class Loading:
    """Decides by what was measured, and begins the transfers.

    Args:
        movement: does the copying, and has measured the tiers.
        codec: gives the sizes.
    """

    def __init__(self, movement: Movement, codec: Codec) -> None:
        self._movement = movement
        self._codec = codec
        self._avoided_until: dict[Tier, float] = {}

    def avoid(self, tier: Tier, now: float) -> None:
        """A load took too long: use the tier no more for a minute, or the next try would end in the same way."""
        self._avoided_until[tier] = now + _AVOID_S

    def usable(self, slots: Int32s, prefill_s_per_token: float, now: float) -> NDArray[np.int8]:
        """Tier of each leading block that is worth having: the fastest that has it, up to the first that is not.

        Args:
            slots: int32 [3, n], as the tree gives them.
            prefill_s_per_token: what computing costs; 0 if that is not known.
            now: the engine's time.
        """
        tiers: NDArray[np.int8] = (slots != NOWHERE).argmax(axis=0).astype(np.int8)
        for start, end in _runs(tiers):
            tier = Tier(int(tiers[start]))
            if tier is not Tier.DEVICE and not self.is_worth(tier, end - start, prefill_s_per_token, now):
                return tiers[:start]
        return tiers

    def is_worth(self, tier: Tier, num_blocks: int, prefill_s_per_token: float, now: float) -> bool:
        """Whether so many blocks come faster from a lower tier than they can be computed."""
        if now < self._avoided_until.get(tier, now) or not self._movement.is_alive(tier):
            return False
        return not prefill_s_per_token or worth_loading(
            num_blocks,
            self._codec.block_bytes,
            self._movement.seconds_per_byte(tier),
            self._movement.latency_s(tier),
            prefill_s_per_token,
            self._codec.layout.block_tokens,
        )

    def start(self, table: Int32s, slots: Int32s, tiers: NDArray[np.int8]) -> list[tuple[int, Load]]:
        """Begin to fill device blocks (`table`), one transfer for each run of one tier, with its first place."""
        loads = []
        for start, end in _runs(tiers):
            tier = Tier(int(tiers[start]))
            if tier is not Tier.DEVICE:
                job = self._movement.load(tier, slots[tier, start:end], table[start:end].copy())
                loads.append((start, job))
        return loads


def _runs(tiers: NDArray[np.int8]) -> list[tuple[int, int]]:
    """Where each run of equal tiers begins and ends."""
    if not len(tiers):
        return []
    starts = [0, *(np.flatnonzero(np.diff(tiers)) + 1).tolist()]
    return list(zip(starts, [*starts[1:], len(tiers)], strict=True))
