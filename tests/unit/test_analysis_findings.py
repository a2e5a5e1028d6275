"""Findings come with advice, what fails first, then in order of what they cost."""

from __future__ import annotations

from typing import Any

from openclaw_cache.api.analysis.findings import findings
from openclaw_cache.api.analysis.worth import Worth
from openclaw_cache.history.lines import Line

WORTH = Worth(usd_per_token=2e-6, usd_by_model={"m": 3e-6}, s_per_token=0.001)


def sections(**changed: Any) -> dict[str, Any]:
    return {
        "requests": {"num": 100, "outcomes": {"miss": 100}, "bypasses": {}, "errors": {}, "failed_with": {}},
        "misses": [],
        "prefixes": {"causes": []},
        "top_prompts": [],
        "waste": {"degraded": {}},
        "semantic": {"state": "off"},
        "lines": {},
        **changed,
    }


def found(status: dict[str, Any] | None = None, **changed: Any) -> list[dict[str, Any]]:
    return findings(sections(**changed), status or {}, WORTH, prices_known=True)


def test_nothing_wrong_is_nothing_found() -> None:
    assert found(misses=[{"reason": "new", "num": 100, "share": 1.0}]) == []


def test_findings_are_priced_and_in_order_of_money() -> None:
    causes = [
        {"cause": "tool_missing", "label": 'tool "openclaw" is missing', "num": 2, "lost_tokens": 24_000,
         "lost_usd": 0.012, "advice": "a"},
        {"cause": "date", "label": "date", "num": 9, "lost_tokens": 900, "lost_usd": 0.09, "advice": "b"},
        {"cause": "id", "label": "an id", "num": 9, "lost_tokens": 70_000, "lost_usd": None, "advice": "c"},
    ]  # fmt: skip
    evicted = {"reason": "evicted", "num": 5, "share": 0.05, "computed_tokens": 5_000, "spent_usd": 0.05}
    rows = found(prefixes={"causes": causes}, misses=[evicted])
    # A dear model's few tokens go before a cheap one's many; those that have no price come behind.
    assert [(row["id"], row["about"], row["tokens"], row["usd"]) for row in rows] == [
        ("prefix_break", "date", 900, 0.09),
        ("missed", "evicted", 5_000, 0.05),
        ("prefix_break", "tool_missing", 24_000, 0.012),
        ("prefix_break", "id", 70_000, None),
    ]
    assert rows[2]["seconds"] == 24.0  # at a millisecond each
    assert (
        rows[2]["text"] == 'prompts broke: tool "openclaw" is missing; 2 times, 24,000 tokens computed again'
    )
    assert all(row["advice"] for row in rows)


def test_only_misses_of_what_had_been_there_are_worth_something() -> None:
    rows = found(
        misses=[
            {"reason": reason, "num": 5, "share": 0.5, "computed_tokens": 5_000, "spent_usd": 0.05}
            for reason in ("control", "expired")
        ]
    )
    assert [(row["about"], row["tokens"], row["usd"]) for row in rows] == [
        ("expired", 5_000, 0.05),
        ("control", 0, None),
    ]


def test_a_store_that_may_be_another_fleets_is_told() -> None:
    (row,) = found({"store": {"up": True, "fault": "it may be another fleet's"}})
    assert (row["id"], row["severity"]) == ("store_down", "bad")


def test_what_fails_comes_before_what_costs() -> None:
    status = {
        "store": {"up": False, "reason": "connection refused"},
        "upstreams": [{"name": "pods", "kind": "openai", "is_up": False}],
    }
    causes = [
        {"cause": "date", "label": "date", "num": 1, "lost_tokens": 10**6, "lost_usd": 9.0, "advice": "b"}
    ]
    rows = found(status, prefixes={"causes": causes}, waste={"degraded": {"kv_disk": 4}})
    assert [row["id"] for row in rows] == ["degraded", "store_down", "upstream_down", "prefix_break"]
    assert {row["severity"] for row in rows[:3]} == {"bad"}


def test_errors_count_where_they_are_more_than_a_few() -> None:
    def errors(num: int) -> list[str]:
        requests = {
            "num": 100,
            "outcomes": {"error": num},
            "bypasses": {},
            "errors": {"upstream_broken": num},
            "failed_with": {"502": num},
        }
        return [row["id"] for row in found(requests=requests)]

    assert errors(5) == []
    assert errors(6) == ["errors"]


def test_a_prompt_that_is_asked_again_and_again_is_worth_all_but_the_first() -> None:
    prompt = {
        "prompt_id": "ab", "model": "m", "num_asked": 11, "num_asked_most": 11, "num_computed": 11,
        "tokens": 2_200, "last_outcome": "bypass",
    }  # fmt: skip
    (row,) = found(top_prompts=[prompt])
    assert (row["id"], row["tokens"]) == ("asked_again", 2_000)
    assert row["usd"] == 0.006  # at what that model's tokens cost


def test_a_prompt_that_was_answered_here_is_worth_only_what_was_computed_again() -> None:
    prompt = {
        "prompt_id": "ab", "model": "m", "num_asked": 11, "num_asked_most": 11, "num_computed": 3,
        "tokens": 2_200, "last_outcome": "bypass",
    }  # fmt: skip
    (row,) = found(top_prompts=[prompt])
    assert row["tokens"] == 400  # the first time had to be
    assert row["text"] == "prompt ab of m was asked 11 times, and 3 times a model computed the answer"
    assert found(top_prompts=[{**prompt, "num_computed": 2}]) == []


def test_failures_are_told_by_the_status_that_clients_got() -> None:
    requests = {
        "num": 44, "outcomes": {"error": 8}, "bypasses": {}, "errors": {"invalid_request_error": 1},
        "failed_with": {"500": 4, "429": 3, "400": 1},
    }  # fmt: skip
    (row,) = found(requests=requests)
    assert row["text"] == (
        "8 of 44 requests failed: 4 with 500, 3 with 429, 1 with 400; invalid_request_error: 1"
    )
    assert row["about"] == "500"


def test_figures_that_wait_in_memory_are_no_misses_and_come_last() -> None:
    rows = found(waste={"degraded": {"history": 1, "kv_disk": 2}})
    assert [(row["about"], row["severity"]) for row in rows] == [("kv_disk", "bad"), ("history", "info")]
    assert rows[0]["text"] == "kv_disk: failed 2 times; each became a miss"
    assert rows[1]["text"] == "history: failed once; figures stay in memory until the store takes them"


def test_places_that_share_a_row_are_told_as_that() -> None:
    cause = {"cause": "other", "label": "other", "num": 2, "lost_tokens": 500, "lost_usd": None, "advice": ""}
    (row,) = found(prefixes={"causes": [cause]})
    assert row["text"] == "prompts broke: other places; 2 times, 500 tokens computed again"
    assert "doctor --live" in row["advice"]


def test_a_paid_upstream_whose_cache_reads_little_gets_hints() -> None:
    status = {"upstreams": [{"name": "claude", "kind": "anthropic", "is_up": True}]}
    lines = {"claude": Line(computed_tokens=19_000, upstream_cached_tokens=1_000)}
    (row,) = found(status, lines=lines)
    assert (row["id"], row["about"]) == ("provider_cache", "claude")
    assert "5%" in row["text"]
    assert found(status, lines={"claude": Line(computed_tokens=15_000, upstream_cached_tokens=5_000)}) == []


def test_without_a_price_tokens_and_seconds_still_tell() -> None:
    local = Worth(usd_per_token=None, usd_by_model={}, s_per_token=0.002)
    causes = [
        {"cause": "date", "label": "date", "num": 1, "lost_tokens": 500, "lost_usd": None, "advice": "b"}
    ]
    (row,) = findings(sections(prefixes={"causes": causes}), {}, local, prices_known=False)
    assert (row["tokens"], row["usd"], row["seconds"]) == (500, None, 1.0)
