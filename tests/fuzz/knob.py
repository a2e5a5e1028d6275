"""How long a fuzzer runs, and from which seed. Every case can be made again from the seed and its number alone.

OPENCLAW_CACHE_TEST_FUZZ_SECONDS=600    how long (default: what the test says)
OPENCLAW_CACHE_TEST_FUZZ_SEED=abc       the seed (default: a new one, which is printed)
OPENCLAW_CACHE_TEST_FUZZ_CASE=17        only this case of it
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Iterator


class Knob:
    """One run of a fuzzer.

    Args:
        name: of the fuzzer: two of them make different cases of one seed.
        default_s: how long it runs where nobody says otherwise.
    """

    def __init__(self, name: str, default_s: float) -> None:
        self.name = name
        self.seed = os.environ.get("OPENCLAW_CACHE_TEST_FUZZ_SEED") or secrets.token_hex(4)
        self.seconds = seconds(default_s)
        only = os.environ.get("OPENCLAW_CACHE_TEST_FUZZ_CASE")
        self.only = None if only is None else int(only)
        self.num_cases = 0
        print(f"{name}: {self.seconds:g} s, OPENCLAW_CACHE_TEST_FUZZ_SEED={self.seed}")

    def numbers(self) -> Iterator[int]:
        """The numbers of the cases, until the time is over."""
        if self.only is not None:
            self.num_cases = 1
            yield self.only
            return
        ends_at = time.monotonic() + self.seconds
        while time.monotonic() < ends_at:
            self.num_cases += 1
            yield self.num_cases - 1

    def random(self, number: int) -> random.Random:
        """The chance of one case."""
        return random.Random(f"{self.name}:{self.seed}:{number}")

    def how_to_repeat(self, number: int) -> str:
        """For a failure's message."""
        return f"OPENCLAW_CACHE_TEST_FUZZ_SEED={self.seed} OPENCLAW_CACHE_TEST_FUZZ_CASE={number}"


def seconds(default_s: float) -> float:
    """How long a fuzzer runs."""
    return float(os.environ.get("OPENCLAW_CACHE_TEST_FUZZ_SECONDS", default_s))
