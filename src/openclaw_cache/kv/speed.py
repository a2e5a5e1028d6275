"""How fast a tier gives its blocks back, and whether that beats computing them again. Pure."""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.8
"""What the loads before the last one weigh against it."""
_VALID_S: Final = 60.0


class Speed:
    """Measured speed of one tier's loads.

    Loads weigh by their bytes, the recent ones most. A tier that was found too slow is not loaded from, so
    nothing new would ever be learnt of it: a measurement is believed for a minute after the last load, then the
    value from the start counts again.

    Args:
        seconds_per_byte: believed before the first load.
    """

    def __init__(self, seconds_per_byte: float) -> None:
        self._start = seconds_per_byte
        self._busy_s = 0.0
        self._num_bytes = 0.0
        self._wait_s = 0.0
        self._measured_at = float("-inf")

    def measure(self, num_bytes: int, busy_s: float, wait_s: float, now: float) -> None:
        """A load of `num_bytes` took `busy_s`, after `wait_s` in the queue."""
        if now - self._measured_at > _VALID_S:
            self._busy_s, self._num_bytes, self._wait_s = 0.0, 0.0, wait_s
        self._busy_s = _WEIGHT * self._busy_s + busy_s
        self._num_bytes = _WEIGHT * self._num_bytes + num_bytes
        self._wait_s = _WEIGHT * self._wait_s + (1 - _WEIGHT) * wait_s
        self._measured_at = now

    def seconds_per_byte(self, now: float) -> float:
        """Expected time of a load per byte of payload."""
        return self._busy_s / self._num_bytes if self._is_valid(now) else self._start

    def latency_s(self, now: float) -> float:
        """Expected time before a load begins."""
        return self._wait_s if self._is_valid(now) else 0.0

    def _is_valid(self, now: float) -> bool:
        return self._num_bytes > 0 and now - self._measured_at <= _VALID_S


def worth_loading(
    num_blocks: int,
    block_bytes: int,
    seconds_per_byte: float,
    latency_s: float,
    prefill_s_per_token: float,
    block_tokens: int,
) -> bool:
    """Whether loading these blocks is faster than computing their tokens; no block is never worth it."""
    load_s = latency_s + num_blocks * block_bytes * seconds_per_byte
    return load_s < num_blocks * block_tokens * prefill_s_per_token
