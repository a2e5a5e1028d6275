"""What a rollup counts, by hand, and its bounds."""

from __future__ import annotations

import msgspec
import pytest

from openclaw_cache.gateway.policy import Reason
from openclaw_cache.history.lines import NUM_LINES, Line
from openclaw_cache.history.prompts import NUM_PROMPTS
from openclaw_cache.history.rollup import NUM_ROWS, Gauge, Rollup
from openclaw_cache.observe.record import CanonicalEffect, PrefixBreak, Step
from openclaw_cache.observe.savings import Savings
from support.records import answered, missed

MANY = 100_000


def rollup(*records: object, own: bool = False) -> Rollup:
    found = Rollup(0, 60)
    for record in records:
        found.add(record, is_own_engine=own)  # type: ignore[arg-type]
    return found


def test_a_miss_and_three_ways_to_be_answered_add_up() -> None:
    found = rollup(missed(), answered(), answered("semantic"), answered("collapsed", miss="new"))
    assert found.tables["requests"] == {
        ("chat", "miss", "200"): [1],
        ("chat", "exact", "200"): [1],
        ("chat", "semantic", "200"): [1],
        ("chat", "collapsed", "200"): [1],
    }
    # Looked up and missed: the miss and the one that then joined a flight.
    assert found.tables["lookups"] == {("result",): [3, 1], ("semantic",): [1, 1], ("flight",): [0, 1]}
    # Of the two, one went upstream: 90 tokens of prompt and 20 of reply, for 700 picodollars.
    assert found.tables["misses"] == {("new",): [2, 110, 700, 1]}
    assert found.tables["prompt_tokens"] == {("computed",): [90], ("device",): [10]}
    [(name, line)] = found.lines.items()
    assert name == ("default", "heron", "gpt-heron", "oa")
    # A hit saves 100 − 10 + 20 tokens, 500 picodollars and 1.5 s; the miss cost 700.
    assert line == Line(
        num_requests=4,
        num_answered=3,
        num_priced=4,
        computed_tokens=90,
        upstream_cached_tokens=10,
        kv_saved_tokens=0,
        completion_tokens=20,
        answered_prompt_tokens=300,
        answered_completion_tokens=60,
        would_be_cached_tokens=30,
        result_saved_tokens=110,
        semantic_saved_tokens=110,
        flight_saved_tokens=110,
        saved_us=4_500_000,
        spent=700,
        saved=1500,
    )
    assert found.num_requests == 4


def test_what_our_own_engine_had_is_the_kv_caches_and_no_providers() -> None:
    record = missed(tokens_from={"computed": 30, "device": 60, "host": 8, "disk": 2}, savings=Savings(30, 70))
    line = rollup(record, own=True).line()
    assert (line.computed_tokens, line.upstream_cached_tokens, line.kv_saved_tokens) == (30, 0, 70)
    assert rollup(record, own=True).tables["lookups"]["kv",] == [100, 70]
    line = rollup(record).line()
    assert (line.computed_tokens, line.upstream_cached_tokens, line.kv_saved_tokens) == (30, 70, 0)


def test_a_semantic_lookup_counts_where_stored_questions_were_searched() -> None:
    searched = missed(steps=[Step("result", "miss (new)", 1e-5), Step("semantic", "miss (none)", 1e-3)])
    passed_by = missed(steps=[Step("semantic", "bypass (tools)", 1e-6)])
    assert rollup(searched, passed_by, answered("semantic")).tables["lookups"]["semantic",] == [2, 1]


def test_a_bypass_an_error_a_break_and_the_rules_of_the_canonicaliser_are_counted_by_why() -> None:
    broken = PrefixBreak("time", '"Current time" in the system prompt', "/messages/0/content", 900, 200, 5000)
    effects = [CanonicalEffect("date", 2, 40, applied=False), CanonicalEffect("billing", 1, 90, applied=True)]
    found = rollup(
        missed(outcome="bypass", miss="", detail="tools", prefix_break=broken, lost=75, canonical=effects),
        missed(outcome="error", miss="", status=502, error="upstream_error", savings=Savings(), ttft_s=0.1),
    )
    assert found.tables["bypasses"] == {("tools",): [1]}
    assert found.tables["errors"] == {("upstream_error",): [1]}
    assert found.tables["breaks"] == {("time", '"Current time" in the system prompt'): [1, 5000, 200, 75, 1]}
    assert found.tables["canonical"] == {("date",): [1, 2, 40, 0, 0], ("billing",): [1, 1, 90, 1, 0]}
    assert found.sums("requests", word=2) == {"200": 1, "502": 1}
    assert sum(h.num for name, h in found.histograms.items() if name[0] == "ttft") == 1  # not the error's


def test_what_the_rules_of_the_canonicaliser_saved_is_shared_out_and_adds_up() -> None:
    rules = [CanonicalEffect(rule, 1, 10, applied=rule != "told") for rule in ("one", "two", "told")]
    found = rollup(
        missed(canonical=rules, canonical_saved_tokens=101),  # 51 and 50
        missed(canonical=rules[:1], canonical_saved_tokens=-20),  # moving may cost more than it brings
        missed(canonical=rules[:1]),  # not compared
    )
    assert {rule: row[4] for (rule,), row in found.tables["canonical"].items()} == {
        "one": 31,
        "two": 50,
        "told": 0,
    }


def test_a_reply_that_broke_off_for_one_who_had_joined_is_its_flights() -> None:
    line = rollup(answered(outcome="error", status=502, error="upstream_error")).line()
    assert (line.num_answered, line.flight_saved_tokens) == (1, 110)


def test_a_request_without_a_price_is_counted_in_tokens_not_in_money() -> None:
    line = rollup(missed(savings=Savings(90, 10)), answered()).line()
    assert (line.num_requests, line.num_priced, line.spent, line.saved) == (2, 1, 0, 500)


def test_a_hundred_thousand_names_take_no_more_room_than_the_bounds_and_lose_no_sum() -> None:
    found = Rollup(0, 60)
    for i in range(MANY):
        found.add(
            missed(
                agent=f"agent-{i}",
                model=f"model-{i}",
                prompt_id=f"{i:016x}",
                error=f"error-{i}",
                status=i,
                miss=f"miss-{i}",
                tokens_from={f"tier-{i}": 1},
                prefix_break=PrefixBreak(f"cause-{i}", f"label-{i}", "", 0, 1, 2),
                canonical=[CanonicalEffect(f"rule-{i}", 1, 1, applied=True)],
            )
        )
    assert len(found.lines) <= NUM_LINES + 1
    assert all(len(rows) <= NUM_ROWS + 1 for rows in found.tables.values())
    assert len(found.prompts.rows) == NUM_PROMPTS
    assert found.num_requests == MANY
    assert found.line().spent == 700 * MANY
    assert sum(found.sums("breaks", column=1).values()) == 2 * MANY
    assert found.lines_by(1)["other"].num_requests == MANY - NUM_LINES
    assert len(msgspec.msgpack.encode(found)) < 60_000


def test_a_name_that_is_too_long_shares_a_line_and_control_characters_are_written_out() -> None:
    found = rollup(missed(agent="x" * 129), missed(agent="鹭" * 43), missed(agent="a\x1b[2Jb"))
    assert sorted(name[1] for name in found.lines) == ["a\\x1b[2Jb", "other"]
    assert found.lines_by(1)["other"].num_requests == 2  # 129 bytes each


def test_trimming_keeps_the_largest_and_every_sum() -> None:
    found = Rollup(0, 60)
    for i in range(200):
        for _ in range(1 + i % 3):
            found.add(missed(agent=f"agent-{i}"))
    total = found.line()
    found.trim(10)
    assert len(found.lines) == 10
    assert found.line() == total
    # 200 agents of 1, 2, 3 requests in turn: the nine named ones are among the 66 with three.
    assert {line.num_requests for name, line in found.lines.items() if name[1] != "other"} == {3}


def test_a_gauge_is_what_it_was_last_and_the_most_that_it_was() -> None:
    name = ("n", "bytes", "kv", "host")
    early, late = Rollup(0, 60), Rollup(60, 60)
    early.gauges[name] = Gauge(30.0, 900, 900)
    late.gauges[name] = Gauge(90.0, 100, 400)
    assert Rollup(60, 60).absorb(late).absorb(early).gauges[name] == Gauge(90.0, 100, 900)
    assert Rollup(0, 60).absorb(early).absorb(late).gauges[name] == Gauge(90.0, 100, 900)


def test_the_most_frequent_prompt_is_found_among_very_many() -> None:
    found = Rollup(0, 60)
    for i in range(20_000):
        found.add(missed(prompt_id=f"{i:016x}", prompt_tokens=7, completion_tokens=1))
        if i % 50 == 0:
            found.add(answered(prompt_id="f" * 16, prompt_tokens=100, completion_tokens=20, at=1000.0 + i))
    best = max(found.prompts.rows, key=lambda prompt_id: found.prompts.rows[prompt_id].count)
    assert best == "f" * 16
    row = found.prompts.rows[best]
    assert row.count - row.error <= 400 <= row.count
    assert row.last[4] == "exact"
    # Space-Saving: nobody is overestimated by more than requests ÷ rows.
    assert row.error <= 20_400 / NUM_PROMPTS


def test_sums_beyond_64_bits_are_stored_as_the_largest_number_not_refused() -> None:
    found = rollup(missed(savings=Savings(2**70, 0, spent=2**70, saved=0)))
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(found.saturate()), type=Rollup)
    assert stored.line().spent == stored.line().computed_tokens == 2**63 - 1


def test_a_rollup_of_a_newer_version_with_more_columns_and_fields_is_read() -> None:
    old = rollup(missed())
    newer = msgspec.to_builtins(old)
    newer[2]["misses"][("new",)].append(55)
    newer.append("a field that we do not know")
    read = msgspec.msgpack.decode(msgspec.msgpack.encode(newer), type=Rollup)
    assert old.absorb(read).tables["misses"] == {("new",): [2, 220, 1400, 2, 55]}


def test_an_agent_that_calls_itself_other_is_bounded_like_all() -> None:
    found = rollup()
    for number in range(40):
        found.absorb(rollup(missed(agent="other", model=f"model {number}")))
    found.trim(num_lines=8)
    assert len(found.lines) == 8
    assert found.line().num_requests == 40


def test_the_default_of_one_rollup_is_not_shared_with_another() -> None:
    first = Rollup(0, 60)
    first.add(missed())
    assert Rollup(0, 60).tables == {}
    assert Rollup(0, 60).prompts.rows == {}


@pytest.mark.parametrize("outcome", ["exact", "semantic", "collapsed"])
def test_seconds_saved_are_never_negative(outcome: str) -> None:
    assert rollup(answered(outcome, saved_s=-3.0)).line().saved_us == 0


def test_a_reason_that_is_a_member_of_an_enumeration_becomes_its_plain_text() -> None:
    found = rollup(missed(outcome="bypass", miss="", detail=Reason.TOOLS))
    [reason] = found.sums("bypasses")
    assert type(reason) is str
    assert reason == "tools"


def test_a_long_label_loses_its_end_and_the_break_keeps_its_cause() -> None:
    label = 'tools "' + "é" * 200 + '" are missing'
    found = rollup(missed(prefix_break=PrefixBreak("tool_missing", label, "/tools", 9, 10, 64)))
    [(cause, shown)] = found.tables["breaks"]
    assert cause == "tool_missing"
    assert shown == 'tools "' + "é" * 59 + "…"  # 7 + 118 bytes; "…" takes three of 128


def test_of_a_prompt_it_is_known_how_often_a_model_was_asked() -> None:
    found = rollup(missed(prompt_id="p"), answered(prompt_id="p"), missed(prompt_id="p", outcome="bypass"))
    row = found.prompts.rows["p"]
    assert (row.count, row.computed) == (3, 2)
    found.absorb(msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Rollup))
    assert (found.prompts.rows["p"].count, found.prompts.rows["p"].computed) == (6, 4)
