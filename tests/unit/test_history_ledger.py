"""The savings ledger and its forms: exact sums, and nothing a spreadsheet would run."""

from __future__ import annotations

import csv
import io
from decimal import Decimal

import pytest

from openclaw_cache.history.ledger import DIMENSIONS, NUM_ROWS, Ledger, day_of
from openclaw_cache.history.ledger_forms import as_csv, as_json
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.observe.savings import Savings
from support.records import NOON, answered, missed

DAY_S = 86_400


def ledger(by: list[str]) -> Ledger:
    """Two days: on the first a miss and a hit of one agent, on the second a hit of another."""
    first, second = Rollup(round(NOON), 60), Rollup(round(NOON) + DAY_S, 60)
    first.add(missed())
    first.add(answered())
    second.add(answered(agent="stork", saved_s=0.000001))
    found = Ledger(by)
    found.add(first)
    found.add(second)
    return found


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_rows_are_by_what_is_asked_and_every_choice_has_the_same_sum() -> None:
    for by in ([], ["day"], ["agent"], ["day", "agent"], list(DIMENSIONS)):
        found = ledger(by)
        assert sum(line.saved for _, line in found.rows()) == found.total.saved == 1000
        assert sum(line.num_requests for _, line in found.rows()) == 3
    assert [name for name, _ in ledger(["day", "agent"]).rows()] == [
        ("2026-11-30", "heron"),
        ("2026-12-01", "stork"),
    ]
    assert [name for name, _ in ledger([]).rows()] == [()]


def test_csv_has_every_digit_and_adds_up() -> None:
    rows = read(as_csv(ledger(["day", "agent"])))
    # 700 and 500 picodollars; 1.5 s and a millionth.
    assert [row["spent_usd"] for row in rows] == ["0.0000000007", "0"]
    assert sum(Decimal(row["saved_usd"]) for row in rows) == Decimal("0.000000001")
    assert [row["saved_s"] for row in rows] == ["1.5", "0.000001"]
    assert [row["result_saved_tokens"] for row in rows] == ["110", "110"]


def test_large_sums_are_exact_too() -> None:
    rollup = Rollup(0, 60)
    for _ in range(3):
        rollup.add(missed(savings=Savings(1, spent=123_456_789_012_345_678, saved=0)))
    found = Ledger(["model"])
    found.add(rollup)
    assert read(as_csv(found))[0]["spent_usd"] == "370370.367037037034"
    assert as_json(found)["total"]["spent_picodollars"] == 370_370_367_037_037_034


@pytest.mark.parametrize(
    "name", ["=1+1", "+1", "-1", "@SUM(A1)", "＝1+1", " =1+1", '=HYPERLINK("http://evil/","x")']
)
def test_no_name_is_a_formula_in_a_spreadsheet(name: str) -> None:
    rollup = Rollup(0, 60)
    rollup.add(missed(agent=name, model=name))
    found = Ledger(["agent", "model"])
    found.add(rollup)
    [row] = read(as_csv(found))
    assert row["agent"] == row["model"] == f"'{name}"
    assert as_json(found)["rows"][0]["agent"] == name


@pytest.mark.parametrize("name", ["工人,甲", 'says "hi"', "a;b", "\\x0aline"])
def test_any_other_name_comes_back_as_it_is(name: str) -> None:
    rollup = Rollup(0, 60)
    rollup.add(missed(agent=name))
    found = Ledger(["agent"])
    found.add(rollup)
    assert read(as_csv(found).encode().decode("utf-8"))[0]["agent"] == name


def test_lines_end_as_rfc_4180_has_them() -> None:
    text = as_csv(ledger(["day"]))
    assert text.count("\r\n") == text.count("\n") == 3


def test_the_kv_caches_saving_stands_apart_and_is_in_no_other_sum() -> None:
    rollup = Rollup(0, 60)
    told = {"computed": 30, "device": 60, "disk": 10}
    rollup.add(missed(savings=Savings(30, 70), tokens_from=told), is_own_engine=True)
    rollup.count("kv_saved_us", ("kv",), 2_500_000)
    found = Ledger([])
    found.add(rollup)
    total = as_json(found)["total"]
    assert (total["computed_tokens"], total["upstream_cached_tokens"], total["kv_saved_tokens"]) == (
        30,
        0,
        70,
    )
    assert (total["saved_s"], total["kv_saved_s"]) == (0.0, 2.5)
    assert total["result_saved_tokens"] == total["flight_saved_tokens"] == 0


def test_a_ledger_has_a_bounded_number_of_rows_and_loses_no_sum() -> None:
    found = Ledger(["day", "agent"])
    for day in range(60):
        rollup = Rollup(round(NOON) + day * DAY_S, 60)
        for number in range(200):
            rollup.add(answered(agent=f"agent {number}"))
        found.add(rollup)
    rows = found.rows()
    assert len(rows) == NUM_ROWS
    assert sum(line.num_requests for _, line in rows) == found.total.num_requests == 12_000
    assert dict(rows)["other", "other"].num_requests == 12_000 - (NUM_ROWS - 1)


def test_a_day_is_a_day_of_utc() -> None:
    assert day_of(NOON - 12 * 3600) == "2026-11-30"
    assert day_of(NOON - 12 * 3600 - 1) == "2026-11-29"
