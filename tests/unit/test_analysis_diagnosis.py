"""Five questions, each with a verdict from what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.api.analysis.diagnosis import diagnosis, is_fall, load_shift


def ratio(now: float | None, before: float | None, num: int = 1000) -> dict[str, Any]:
    return {
        "ratio": now,
        "num_hits": 0 if now is None else round(now * num),
        "num_lookups": 0 if now is None else num,
        "before": before,
        "num_lookups_before": 0 if before is None else num,
        "change": None,
    }


def sections(**changed: Any) -> dict[str, Any]:
    return {
        "hit_ratio": {"result": ratio(0.5, 0.5)},
        "misses": [],
        "memory": [],
        "waste": {"num_evicted_asked_again": 0, "degraded": {}, "evictions": {}},
        "invalidations": {},
        "semantic": {"state": "off"},
        **changed,
    }


STEADY = load_shift({("main", "m"): 100}, {("main", "m"): 100}, (500.0, 500.0))


def verdicts(**changed: Any) -> list[str]:
    shift = changed.pop("shift", STEADY)
    status = changed.pop("status", {})
    return [step["verdict"] for step in diagnosis(sections(**changed), status, shift)]


@pytest.mark.parametrize(
    ("now", "before", "num", "fallen"),
    [
        # Pooled .45: the standard error is sqrt(.45 × .55 × 2/1000) = .0222, and 3.29 of them are .073.
        (0.40, 0.50, 1000, True),
        (0.43, 0.50, 1000, False),
        # With 100 each it is .0704, and 3.29 of them are .23.
        (0.40, 0.50, 100, False),
        (0.20, 0.50, 100, True),
        # Sure, but little: less than five points are nobody's alarm.
        (0.46, 0.50, 1_000_000, False),
        (0.44, 0.50, 1_000_000, True),
        # More is no fall, and a handful tells nothing.
        (0.90, 0.50, 1000, False),
        (0.00, 1.00, 49, False),
    ],
)
def test_a_hit_ratio_has_fallen_where_chance_does_not_explain_it(
    now: float, before: float, num: int, fallen: bool
) -> None:
    assert is_fall(round(now * num), num, before, num) is fallen


def test_a_quiet_time_is_well_in_all_five_steps() -> None:
    memory = [{"layer": "result", "tier": "memory", "used_ratio": 0.5}]
    assert verdicts(memory=memory) == ["ok"] * 5


def test_each_step_names_what_is_wrong() -> None:
    assert verdicts(hit_ratio={"result": ratio(0.2, 0.5), "kv": ratio(0.9, 0.9)})[0] == "bad"
    evicting = {"num_evicted_asked_again": 40, "degraded": {}, "evictions": {"result": 90}}
    memory = [{"layer": "result", "tier": "memory", "used_ratio": 1.0}]
    misses = [{"reason": "evicted", "num": 40}, {"reason": "new", "num": 60}]
    assert verdicts(waste=evicting, memory=memory, misses=misses)[1] == "warn"
    domain = {
        "domain": "default",
        "wrong_ratio": {"mean": 0.2, "low": 0.1, "high": 0.3},
        "max_wrong_ratio": 0.03,
    }
    assert verdicts(semantic={"domains": [domain]})[2] == "bad"
    assert verdicts(waste={**sections()["waste"], "degraded": {"entry_corrupt": 2}})[2] == "warn"
    assert verdicts(misses=[{"reason": "version", "num": 9}])[3] == "warn"
    assert verdicts(misses=[{"reason": "version", "num": 9}], invalidations={"model": 1})[3] == "ok"
    assert verdicts(shift=load_shift({("main", "m"): 400}, {("main", "m"): 100}, (1, 1)))[4] == "warn"


def test_answers_by_meaning_are_wrong_where_that_is_sure() -> None:
    """Five of a hundred with three promised may be chance: the lower bound has to be above the promise."""
    for low, verdict in ((0.01, "ok"), (0.031, "bad")):
        estimate = {"mean": 0.05, "low": low, "high": 0.1}
        domain = {"domain": "default", "wrong_ratio": estimate, "max_wrong_ratio": 0.03}
        assert verdicts(semantic={"domains": [domain]})[2] == verdict


def test_prompts_of_another_length_are_another_load_shorter_ones_too() -> None:
    same = {("main", "m"): 100}
    found = [verdicts(shift=load_shift(same, same, (now, 500.0)))[4] for now in (800.0, 600.0, 400.0, 200.0)]
    assert found == ["warn", "ok", "ok", "warn"]


def test_what_cannot_be_told_is_not_called_well() -> None:
    nothing = {"result": ratio(None, None)}
    few = load_shift({("main", "m"): 3}, {}, (1, 0))
    assert verdicts(hit_ratio=nothing, shift=few) == ["unknown", "unknown", "ok", "ok", "unknown"]
    assert verdicts(hit_ratio={"result": ratio(0.5, None)})[0] == "unknown"


def test_the_share_that_moved_is_half_of_all_differences() -> None:
    # a: 50 % → 20 %, b: 50 % → 50 %, c: 0 % → 30 %: three in ten requests would have to be of another kind.
    now = {("main", "a"): 20, ("main", "b"): 50, ("main", "c"): 30}
    before = {("main", "a"): 50, ("main", "b"): 50}
    shift = load_shift(now, before, (100.0, 50.0))
    assert shift["moved_share"] == 0.3
    assert shift["new"] == ["main with c"]
    assert shift["new_kinds"] == [{"agent": "main", "model": "c"}]
    assert (shift["prompt_tokens"], shift["prompt_tokens_before"]) == (100, 50)
