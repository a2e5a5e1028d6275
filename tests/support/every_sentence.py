"""Findings and steps of the diagnosis that say, together, every sentence that an analysis has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openclaw_cache.api import break_labels
from openclaw_cache.api.analysis.diagnosis import diagnosis, load_shift
from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.api.analysis.findings import findings
from openclaw_cache.api.analysis.worth import Worth
from openclaw_cache.api.sentences import said, spoken
from openclaw_cache.history.lines import Line
from openclaw_cache.observe.metrics import DEGRADED
from openclaw_cache.prefix.causes import CAUSES

Json = Any
WORTH = Worth(usd_per_token=2e-6, usd_by_model={"m": 3e-6}, s_per_token=0.001)
READABLE = 'tool "openclaw" is missing, and first differs the schema of tool "exec" (heartbeat)'
CUT = 'tools "research_papers_by_author", "res…'


def every_finding() -> list[Json]:
    """At least one for each code."""
    return [row for case in _finding_cases() for row in _found(**case)]


def every_step() -> list[Json]:
    """At least one for each code."""
    return [step for case in _step_cases() for step in _steps(**case)]


def every_label() -> Iterator[tuple[str, Json]]:
    """Labels of breaks, and what they are as data: one for each template."""
    for code in break_labels.LABELS:
        if not code.startswith(("label.role.", "label.turn.", "label.names")):
            sentence = said(code.removesuffix(".one"), **_values(code))
            yield spoken(sentence, break_labels.LABELS), [sentence.shown()]


def every_code(value: Json) -> Iterator[str]:
    """The codes in an answer, `.one` where an `n` of one has a template of its own."""
    if isinstance(value, dict):
        if set(value) == {"code", "values"}:
            one = f"{value['code']}.one"
            yield one if value["values"].get("n") == 1 and one in ENGLISH else value["code"]
        for part in value.values():
            yield from every_code(part)
    elif isinstance(value, list):
        for part in value:
            yield from every_code(part)


def _values(code: str) -> dict[str, Any]:
    names = said("label.names_more", names=["exec", "read", "write"], num_more=1204)
    few = said("label.names", names=["exec"])
    return {
        "n": 1 if code.endswith(".one") else 1204,
        "names": few if code.endswith(".one") else names,
        "name": "MEMORY.md",
        "line": 1204,
        "number": 7,
        "role": said("label.role.tool"),
        "turn": said("label.turn.announcement"),
        "what": said("label.heading", name="Current time"),
        "first": said("label.tool_schema", name="exec"),
        "other": said("label.tools_added", n=1, names=few),
    }


def _found(status: Json | None = None, **changed: Any) -> list[Json]:
    whole = {
        "requests": {"num": 100, "outcomes": {}, "bypasses": {}, "errors": {}, "failed_with": {}},
        "misses": [],
        "prefixes": {"causes": []},
        "top_prompts": [],
        "waste": {"degraded": {}},
        "semantic": {"state": "off"},
        "lines": {},
        **changed,
    }
    return findings(whole, status or {}, WORTH, prices_known=True)


def _finding_cases() -> Iterator[dict[str, Any]]:
    yield {"status": {"store": {"up": False, "reason": "127.0.0.1:6379: Connection refused"}}}
    yield {"status": {"store": {"up": False}}}
    yield {"status": {"store": {"up": True, "fault": "127.0.0.1:6379: Connection refused"}}}
    for told in ({"reason": "127.0.0.1:9: Connection refused"}, {"state": "starting"}, {"is_up": False}):
        yield {"status": {"upstreams": [{"name": "pods", "kind": "openai", **told}]}}
    for num in (1, 1204):
        yield {"waste": {"degraded": dict.fromkeys((*DEGRADED, "other"), num)}}
        yield _broke("tool_missing", READABLE, num)
    yield from (_broke(cause, READABLE, 2) for cause in CAUSES)
    yield _broke("other", "other", 2)
    yield _broke("tool_missing", CUT, 2)
    failed = {"failed_with": {"500": 1204, "429": 3}, "errors": {"invalid_request_error": 1}}
    yield {"requests": {"num": 1300, "outcomes": {"error": 1207}, "bypasses": {}, **failed}}
    yield {
        "misses": [
            {"reason": reason, "num": 1204, "share": 0.5, "computed_tokens": 5_000, "spent_usd": 0.05}
            for reason in _advised("missed")
        ]
    }
    yield {
        "requests": {
            "num": 9000, "outcomes": {}, "errors": {}, "failed_with": {},
            "bypasses": dict.fromkeys(_advised("bypassed"), 1204),
        }
    }  # fmt: skip
    for num in (1, 11):
        row = {"prompt_id": "3a0dc4d87579bbc8", "model": "m", "tokens": 2200, "num_computed": 11}
        yield {"top_prompts": [{**row, "num_asked": num, "num_asked_most": 11}]}
    yield {"semantic": {"suggestions": [{"saved_tokens_estimate": 12}] * 2}}
    status = {"upstreams": [{"name": "claude", "kind": "anthropic", "is_up": True}]}
    yield {"status": status, "lines": {"claude": Line(computed_tokens=19_000, upstream_cached_tokens=1_000)}}


def _broke(cause: str, label: str, num: int) -> dict[str, Any]:
    row = {"cause": cause, "label": label, "num": num, "lost_tokens": 24_000, "lost_usd": 0.012, "advice": ""}
    return {"prefixes": {"causes": [row]}}


def _advised(finding: str) -> list[str]:
    begin = f"advice.{finding}."
    return [code.removeprefix(begin) for code in ENGLISH if code.startswith(begin)]


def _steps(status: Json | None = None, shift: Json | None = None, **changed: Any) -> list[Json]:
    whole = {
        "hit_ratio": {"result": _ratio(0.5125, 0.498)},
        "misses": [],
        "memory": [],
        "waste": {"num_evicted_asked_again": 0, "degraded": {}, "evictions": {}},
        "invalidations": {},
        "semantic": {"state": "off"},
        **changed,
    }
    return diagnosis(whole, status or {}, shift or load_shift({}, {}, (0, 0)))


def _ratio(now: float | None, before: float | None) -> Json:
    return {
        "ratio": now, "num_hits": round(1000 * (now or 0)), "num_lookups": 1000,
        "before": before, "num_lookups_before": 1000, "change": None,
    }  # fmt: skip


def _step_cases() -> Iterator[dict[str, Any]]:
    ratios = {"result": _ratio(0.2, 0.5), "semantic": _ratio(0.3, None), "kv": _ratio(0.97, 0.5)}
    yield {"hit_ratio": ratios}
    yield {"hit_ratio": {"result": _ratio(None, None)}}
    full = [{"layer": "result", "tier": "memory", "used_ratio": 0.97}]
    full += [{"layer": "kv", "tier": tier, "used_ratio": 0.5} for tier in ("device", "host", "disk")]
    waste = {"num_evicted_asked_again": 1204, "degraded": {"entry_corrupt": 2}, "evictions": {"result": 9}}
    evicted = [{"reason": "evicted", "num": 1204}, {"reason": "version", "num": 1204}]
    yield {"memory": full, "waste": waste, "misses": evicted}
    yield {
        "memory": full,
        "waste": {**waste, "num_evicted_asked_again": 0, "degraded": {"entry_key_unknown": 1204}},
        "misses": evicted,
        "invalidations": {"model": 2},
    }
    yield {"memory": [{"layer": "memory", "tier": "memory", "used_ratio": None}]}
    domain = {"wrong_ratio": {"mean": 0.2, "low": 0.1, "high": 0.3}, "max_wrong_ratio": 0.03}
    engine = {"name": "local", "kv": {"integrity": {"ok": True}}}
    yield {
        "semantic": {"domains": [{"domain": "default", **domain}, {"domain": "faq", **domain}]},
        "status": {"store": {"fault": "127.0.0.1:6379: Connection refused"}, "upstreams": [engine]},
    }
    before = {("main", "m"): 1204}
    yield {"shift": load_shift(before | {("faq", "m"): 2000}, before, (1600.0, 500.0))}
    yield {"shift": load_shift({("main", "m"): 100}, {("main", "m"): 100, ("faq", "m"): 100}, (1, 1))}
