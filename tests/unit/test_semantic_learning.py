"""Limits in force: calibration's, raised by evidence, age and caution, never lowered by a caller's domain name."""

from __future__ import annotations

import msgspec
import pytest

from openclaw_cache.semantic.agreement import Agreement
from openclaw_cache.semantic.calibration import Calibration, Outcomes
from openclaw_cache.semantic.decay import Decay, Volatility
from openclaw_cache.semantic.entry_evidence import Curve, EntryBook
from openclaw_cache.semantic.evidence import EvidenceBook
from openclaw_cache.semantic.learning import DomainRule, Learning
from openclaw_cache.semantic.reading import read
from openclaw_cache.semantic.validity import Pair
from openclaw_cache.types import CacheKey

KEY = CacheKey(b"k" * 32)
NEVER_WRONG = Outcomes(right=(0.9,) * 1000, wrong=(), num_right=1000, num_wrong=1000)
CALIBRATION = Calibration(
    embedder="test",
    fingerprint="",
    features=(),
    weights={},
    cosines={},
    scales={},
    outcomes={"default": {"all": NEVER_WRONG}},
    trap_share=0.5,
)


def learning(default: DomainRule | None = None, **rules: DomainRule) -> Learning:
    return Learning(
        calibration=CALIBRATION,
        rules=rules,
        default=default or DomainRule(0.01),
        decay=Decay(max_age_s=1000.0, domains={"prices": Volatility(half_life_s=100.0)}),
        book=EvidenceBook("c"),
        entries=EntryBook(Curve.through((0.90, 0.03), (0.95, 0.01))),
        save=kept.append,
    )


kept: list[bytes] = []


def pair(domain: str = "default", age_s: float = 0.0) -> Pair:
    question = read("How do I get a refund?")
    return Pair(question, question, 1.0, domain, age_s)


def passes(subject: Learning, score: float, *, is_strict: bool = False, **of: object) -> bool:
    return all(v.passes for v in subject.verdicts(pair(**of), KEY, score, is_strict=is_strict))  # type: ignore[arg-type]


def test_the_calibrated_limit_is_the_lowest_that_passes() -> None:
    subject = learning()
    assert subject.limit("default") == 0.9
    assert passes(subject, 0.9)
    assert not passes(subject, 0.8999)


def test_a_limit_that_the_operator_gave_goes_before() -> None:
    assert learning(DomainRule(0.01, limit=0.85)).limit("default") == 0.85


def test_a_strict_caller_halves_what_may_be_missing() -> None:
    subject = learning()
    assert not passes(subject, 0.949, is_strict=True)
    assert passes(subject, 0.95, is_strict=True)


def test_age_raises_the_limit_of_a_volatile_domain_only() -> None:
    subject = learning(prices=DomainRule(0.01))
    assert not passes(subject, 0.949, domain="prices", age_s=100.0)
    assert passes(subject, 0.95, domain="prices", age_s=100.0)
    assert passes(subject, 0.9, domain="default", age_s=100.0)


def test_nothing_older_than_the_maximum_age_passes() -> None:
    assert passes(learning(), 1.0, age_s=1000.0)
    assert not passes(learning(), 1.0, age_s=1000.1)


def test_a_domain_that_is_switched_off_in_the_settings_answers_nothing_and_says_so() -> None:
    subject = learning(secret=DomainRule(0.01, enabled=False))
    assert not passes(subject, 1.0, domain="secret")
    assert "settings" in subject.why_off("secret")


def test_wrong_hits_raise_the_limit_until_the_domain_is_off_and_another_domain_is_left_alone() -> None:
    subject = learning(a=DomainRule(0.01), b=DomainRule(0.01))
    for _ in range(30):
        subject.hit("a", 0.999)
        subject.verified("a", KEY, 0.999, Agreement.DISAGREE)
    assert subject.limit("a") is None
    assert "wrong" in subject.why_off("a")
    assert subject.limit("b") == 0.9
    subject.reset("a")
    assert subject.limit("a") == 0.9


def test_a_made_up_domain_does_not_escape_what_was_learnt() -> None:
    subject = learning()
    for _ in range(30):
        subject.hit("made-up-1", 0.999)
        subject.verified("made-up-1", KEY, 0.999, Agreement.DISAGREE)
    assert subject.limit("made-up-2") is None
    assert len(subject.book.domains) == 1


def test_what_cannot_be_told_moves_nothing() -> None:
    subject = learning()
    for _ in range(100):
        subject.hit("default", 0.95)
        subject.verified("default", KEY, 0.95, Agreement.UNSURE)
    assert subject.limit("default") == 0.9
    assert subject.status()[0]["num_unsure"] == 100


def test_a_bad_outcome_makes_its_entry_stricter_than_others() -> None:
    subject = learning()
    subject.hit("default", 0.93)
    subject.told("default", KEY, 0.93, is_good=False)
    mine = subject.verdicts(pair(), KEY, 0.93, is_strict=False)[-1]
    others = subject.verdicts(pair(), CacheKey(b"o" * 32), 0.93, is_strict=False)[-1]
    assert mine.limit is not None
    assert others.limit is not None
    assert mine.limit > others.limit


def test_what_is_learnt_is_handed_out_to_be_kept_and_taken_up_again() -> None:
    kept.clear()
    subject = learning()
    subject.hit("default", 0.93)
    subject.told("default", KEY, 0.93, is_good=False)
    again = EvidenceBook.unpacked(kept[-1], "c")
    assert again.of("default").num_hits == 1
    assert EvidenceBook.unpacked(kept[-1], "another calibration").domains == {}


@pytest.mark.parametrize("max_wrong_ratio", [0.0001])
def test_where_the_calibration_shows_no_limit_that_holds_nothing_passes(max_wrong_ratio: float) -> None:
    subject = learning(DomainRule(max_wrong_ratio))
    assert subject.limit("default") is None
    assert "calibration" in subject.why_off("default")
    assert not passes(subject, 1.0)


def test_what_is_expected_of_a_domain_is_in_the_mix_that_the_calibration_takes_for_granted() -> None:
    """Twice as many traps as right pairs were judged, half and half is taken for granted: a wrong one counts half."""
    outcomes = Outcomes(right=(0.9,) * 100, wrong=(0.9,) * 10, num_right=100, num_wrong=200)
    calibration = msgspec.structs.replace(CALIBRATION, outcomes={"default": {"all": outcomes}})
    assert calibration.expected(0.9) == (5.0, 100.0)
