"""How age raises a limit, by hand, and when it ends all."""

from __future__ import annotations

import pytest

from openclaw_cache.semantic.decay import Decay, Volatility
from openclaw_cache.semantic.reading import read
from openclaw_cache.semantic.validity import Pair

HOUR, DAY = 3600.0, 86_400.0
DECAY = Decay(7 * DAY, {"prices": Volatility(half_life_s=HOUR), "news": Volatility(max_age_s=DAY)})


def pair(domain: str, age_s: float) -> Pair:
    return Pair(read("a"), read("a"), 1.0, domain, age_s)


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(0, 0.90), (HOUR, 0.95), (2 * HOUR, 0.975), (3 * HOUR, 0.9875), (HOUR / 2, 0.929289)],
)
def test_what_may_be_missing_from_full_likeness_halves_with_each_half_life(
    age_s: float, expected: float
) -> None:
    assert DECAY.raised(0.90, "prices", age_s) == pytest.approx(expected, abs=1e-6)


def test_a_domain_without_a_half_life_does_not_decay() -> None:
    assert DECAY.raised(0.9, "faq", 6 * DAY) == DECAY.raised(0.9, "news", DAY) == 0.9


def test_a_clock_that_went_back_lowers_nothing() -> None:
    assert DECAY.raised(0.9, "prices", -5 * HOUR) == 0.9
    assert DECAY.verdict(pair("prices", -5)).passes


def test_very_old_replies_ask_for_full_likeness_and_no_more() -> None:
    assert DECAY.raised(0.9, "prices", 1e12) == 1.0
    assert DECAY.raised(1.0, "prices", HOUR) == 1.0


@pytest.mark.parametrize(("domain", "most"), [("faq", 7 * DAY), ("prices", 7 * DAY), ("news", DAY)])
def test_past_its_maximum_age_nothing_answers(domain: str, most: float) -> None:
    assert DECAY.most_age_s(domain) == most
    assert DECAY.verdict(pair(domain, most)).passes
    refused = DECAY.verdict(pair(domain, most + 1))
    assert (refused.check, refused.passes, refused.reason, refused.value, refused.limit) == (
        "age",
        False,
        "too_old",
        most + 1,
        most,
    )


def test_a_domains_own_maximum_age_can_only_be_shorter() -> None:
    assert Decay(DAY, {"archive": Volatility(max_age_s=30 * DAY)}).most_age_s("archive") == DAY


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_half_life_or_age_of_nothing_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        Volatility(half_life_s=seconds)
    with pytest.raises(ValueError, match="longer than 0"):
        Volatility(max_age_s=seconds)
