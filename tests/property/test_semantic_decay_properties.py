"""A limit never falls with age, and rises no slower where things change faster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.semantic.decay import Decay, Volatility

limits = st.floats(0, 1)
ages = st.floats(0, 1e9)
half_lives = st.floats(0.001, 1e8)


@given(limits, ages, ages, half_lives)
def test_an_older_reply_asks_for_no_less(limit: float, age: float, more: float, half_life: float) -> None:
    decay = Decay(1e9, {"d": Volatility(half_life)})
    younger, older = decay.raised(limit, "d", age), decay.raised(limit, "d", age + more)
    assert limit <= younger <= older <= 1


@given(limits, ages, half_lives, half_lives)
def test_a_more_volatile_domain_asks_for_no_less(limit: float, age: float, one: float, other: float) -> None:
    fast, slow = sorted((one, other))
    decay = Decay(1e9, {"fast": Volatility(fast), "slow": Volatility(slow)})
    assert decay.raised(limit, "fast", age) >= decay.raised(limit, "slow", age)


@given(limits, limits, ages, half_lives)
def test_a_stricter_limit_stays_the_stricter_one(
    one: float, other: float, age: float, half_life: float
) -> None:
    low, high = sorted((one, other))
    decay = Decay(1e9, {"d": Volatility(half_life)})
    assert decay.raised(low, "d", age) <= decay.raised(high, "d", age)
