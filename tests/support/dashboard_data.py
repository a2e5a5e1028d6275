"""What `/admin/*` may say, in the shapes that the dashboard reads. Made by arithmetic: sums can be done by hand."""

from __future__ import annotations

import math
from typing import Any

from openclaw_cache.api import break_labels
from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.api.sentences import Sentence, all_shown, all_spoken, said

Json = Any
HOSTILE = (
    "<img src=x onerror=\"document.title='taken'\">",
    "</script><script>document.title='taken'</script>",
    "javascript:alert(1)",
    "${7*7}{{7*7}}",
    "'; DROP TABLE agents; --",
    "\u202eevil\u202c",
    "a" * 400,
    "#requests/x",
)
"""Names that agents and models may give themselves."""


def history(end_at: float, num_points: int = 60, span_s: float = 3600.0, scale: float = 1.0) -> Json:
    """A time with a wave of traffic, of the shape of `GET /admin/history`."""
    step_s = span_s / num_points
    points = [
        _point(end_at - span_s + i * step_s, scale * (8 + 6 * math.sin(i / 6) + (i % 5)))
        for i in range(num_points)
    ]
    return {
        "time_range": {"text": "last 1h", "start_at": end_at - span_s, "end_at": end_at},
        "step_s": step_s,
        "num_nodes": 1,
        "points": points,
        "total": _total(points),
        "by_agent": [
            line("main", 412, 1_904_113, 22_310, 0, 3.81),
            line("research", 171, 861_002, 120_331, 51_200, 1.92),
            line("unknown", 12, 1_022, 9_001, 0, None),
        ],
        "by_model": [
            line("smollm2-135m", 412, 1_904_113, 22_310, 0, None),
            line("gpt-4o-mini", 183, 862_024, 129_332, 51_200, 5.73),
        ],
        "by_namespace": [line("default", 595, 2_766_137, 151_642, 51_200, 5.73)],
    }


def line(name: str, num: int, saved: int, computed: int, cached: int, usd: float | None) -> Json:
    """One line of a table of `GET /admin/history`."""
    spent = None if usd is None else round(usd / 7, 6)
    return {
        "name": name,
        "num_requests": num,
        "saved_tokens": saved,
        "computed_tokens": computed,
        "upstream_cached_tokens": cached,
        "spent_usd": spent,
        "saved_usd": usd,
    }


def _point(at: float, load: float) -> Json:
    exact, semantic, collapsed = round(load * 0.5), round(load * 0.1), round(load * 0.08)
    miss, bypass, error = round(load * 0.3), round(load * 0.12), int(load > 16)
    lookups = exact + semantic + collapsed + miss
    return {
        "at": at,
        "requests": {
            "exact": exact,
            "semantic": semantic,
            "collapsed": collapsed,
            "miss": miss,
            "bypass": bypass,
            "error": error,
        },
        "hit_ratio": {
            "result": exact / lookups if lookups else None,
            "semantic": semantic / (semantic + miss) if semantic + miss else None,
            "kv": 0.82 + 0.1 * math.sin(at / 300) if miss else None,
        },
        "lookups": {"result": lookups, "semantic": semantic + miss, "kv": miss * 5000},
        "hits": {"result": exact, "semantic": semantic, "kv": miss * 4100},
        "prompt_tokens": {
            "computed": miss * 900,
            "device": miss * 3600,
            "host": miss * 400,
            "disk": miss * 100,
        },
        "saved_tokens": {
            "result": exact * 5200,
            "semantic": semantic * 300,
            "flight": collapsed * 5100,
            "kv": miss * 4100,
        },
        "ttft_s": {
            "result": {"p50": 0.0011, "p95": 0.0042, "num": exact},
            "semantic": {"p50": 0.014, "p95": 0.031, "num": semantic},
            "flight": {"p50": 0.21, "p95": 1.4, "num": collapsed},
            "device": {"p50": 0.34, "p95": 0.92, "num": miss},
            "computed": {"p50": 2.9, "p95": 11.2, "num": bypass},
        },
        "itl_s": {"p50": 0.021, "p95": 0.044, "num": miss * 100},
        "spent_usd": miss * 0.002,
        "saved_usd": exact * 0.01,
        "saved_s": exact * 2.5,
        "misses": {"new": miss - miss // 4, "expired": miss // 4},
        "bypasses": {"tools": bypass},
        "breaks": {},
        "canonical": {},
        "evictions": {},
    }


def _total(points: list[Json]) -> Json:
    total = {"at": points[0]["at"]}
    for field in ("requests", "lookups", "hits", "prompt_tokens", "saved_tokens", "misses", "bypasses"):
        total[field] = {name: sum(point[field][name] for point in points) for name in points[0][field]}
    total["hit_ratio"] = {
        layer: total["hits"][layer] / total["lookups"][layer] for layer in ("result", "semantic", "kv")
    }
    total["ttft_s"] = {
        source: found | {"num": sum(point["ttft_s"][source]["num"] for point in points)}
        for source, found in points[0]["ttft_s"].items()
    }
    total["itl_s"] = points[0]["itl_s"] | {"num": sum(point["itl_s"]["num"] for point in points)}
    for field in ("spent_usd", "saved_usd", "saved_s"):
        total[field] = round(sum(point[field] for point in points), 6)
    return total | {"breaks": {}, "canonical": {}, "evictions": {}}


def requests(at: float) -> Json:
    """Of the shape of `GET /admin/requests`."""
    rows = [
        ("req-1042", "exact", "", "", "main", "smollm2-135m", 0.0011, 0.0016, None),
        ("req-1041", "miss", "", "evicted", "main", "smollm2-135m", 0.342, 1.91, _break()),
        ("req-1040", "collapsed", "", "new", "research", "gpt-4o-mini", 0.21, 1.4, None),
        ("req-1039", "bypass", "tools", "", "main", "smollm2-135m", 2.91, 7.2, None),
        ("req-1038", "semantic", "", "", "faq", "gpt-4o-mini", 0.014, 0.015, None),
        ("req-1037", "error", "", "", "main", "smollm2-135m", None, 0.003, None),
    ]
    return {
        "requests": [
            {
                "request_id": id_,
                "at": at - 7 * i,
                "api": "chat",
                "outcome": outcome,
                "detail": detail,
                "miss": miss,
                "status": 502 if outcome == "error" else 200,
                "error": "upstream_unreachable" if outcome == "error" else "",
                "model": model,
                "upstream": "local",
                "namespace": "default",
                "agent": agent,
                "session": "s-1",
                "stream": True,
                "prompt_tokens": 5120,
                "completion_tokens": 88,
                "tokens_from": {"computed": 912, "device": 4208} if miss == "evicted" else {},
                "ttft_s": ttft,
                "duration_s": took,
                "saved_usd": 0.0112 if outcome == "exact" else 0.0,
                "spent_usd": 0.0021 if outcome == "miss" else 0.0,
                "prefix_break": found,
            }
            for i, (id_, outcome, detail, miss, agent, model, ttft, took, found) in enumerate(rows)
        ]
    }


def explained(at: float) -> Json:
    """Of the shape of `GET /admin/explain/req-1041`."""
    return {
        "request": requests(at)["requests"][1],
        "steps": [
            {"name": "door", "result": "in", "took_s": 0.00004},
            {"name": "read", "result": "new", "took_s": 0.00031},
            {"name": "plan", "result": "cacheable", "took_s": 0.00001},
            {"name": "result", "result": "miss (evicted)", "took_s": 0.00042},
            {"name": "semantic", "result": "miss (similarity)", "took_s": 0.011},
            {"name": "flight", "result": "leads", "took_s": 0.00001},
            {"name": "canonical", "result": "reported", "took_s": 0.0002},
            {"name": "upstream", "result": "200", "took_s": 1.88},
            {"name": "kv", "result": "4208 of 5120 tokens", "took_s": 0.0},
            {"name": "store", "result": "stored", "took_s": 0.00009},
        ],
        "prefix_break": _break(),
        "canonical": [{"rule": "billing_header", "num_places": 1, "num_bytes": 64, "applied": False}],
        "outcome": "similarity",
        "domain": "default",
        "cosine": 0.7833,
        "score": 0.3346,
        "learned": "unsure, by the model",
        "checks": [
            {"check": "numbers", "passes": True, "reason": "", "value": None, "limit": None},
            {"check": "similarity", "passes": False, "reason": "unlike", "value": 0.3346, "limit": 0.9},
        ],
    }


def _told(*sentences: Sentence, text: str = "text", as_data: str = "said") -> Json:
    return {text: all_spoken(sentences, ENGLISH), as_data: all_shown(sentences)}


def _labelled(label: str) -> Json:
    return {"label": label, "said": break_labels.shown(label)}


def _break() -> Json:
    return {
        "cause": "date",
        **_labelled('"Current time" in the system prompt'),
        "pointer": "/messages/0/content",
        "at_byte": 6121,
        "kept_tokens": 1530,
        "lost_tokens": 3590,
    }


def prefixes(at: float) -> Json:
    """Of the shape of `GET /admin/prefixes`."""
    found = [
        _break()
        | {
            "at": at - 60,
            "request_id": "req-1041",
            "agent": "main",
            "session": "s-1",
            "namespace": "default",
        },
        _break()
        | {
            "at": at - 300,
            "request_id": "req-0990",
            "agent": "research",
            "session": "s-2",
            "namespace": "default",
            "cause": "tool_missing",
            **_labelled('tool "openclaw" is missing'),
            "pointer": "/tools/3",
            "at_byte": 9034,
            "kept_tokens": 2258,
            "lost_tokens": 12_004,
        },
    ]
    return {
        "since_at": at - 7200,
        "num_compared": 412,
        "kept_tokens": 1_904_000,
        "reachable_tokens": 1_920_000,
        "breaks": found,
        "causes": {
            "date": {"num": 1, "lost_tokens": 3590},
            "tool_missing": {"num": 1, "lost_tokens": 12_004},
        },
    }


def analysis(at: float) -> Json:
    """Of the shape of `GET /admin/analyze`."""
    return {
        "time_range": {"text": "last 1h", "start_at": at - 3600, "end_at": at},
        "semantic": {"state": "off"},
        "findings": [
            {
                "id": "prefix_break",
                "about": "tool_missing",
                "severity": "warn",
                **_told(
                    said("finding.prefix_break", what=break_labels.read('tool "openclaw" is missing')),
                    said("finding.prefix_break_cost", n=1, lost_tokens=12_004),
                ),
                **_told(said("fix.tool_missing"), text="advice", as_data="advised"),
                "tokens": 12004,
                "usd": 0.036,
                "seconds": None,
            },
            {
                "id": "missed",
                "about": "evicted",
                "severity": "info",
                **_told(said("finding.missed", n=31, reason="evicted")),
                **_told(said("advice.missed.evicted"), text="advice", as_data="advised"),
                "tokens": 9000,
                "usd": None,
                "seconds": 28.1,
            },
        ],
        "diagnosis": [
            _step(1, "ok", said("seen.ratio", layer="result", ratio=0.512, before_ratio=0.498)),
            _step(2, "warn", said("seen.used", layer="result", tier="memory", used_ratio=0.97)),
            _step(3, "ok", said("seen.books")),
            _step(4, "ok", said("seen.no_version")),
            _step(5, "unknown", said("seen.too_few", n=31, num_before=0)),
        ],
    }


def _step(step: int, verdict: str, *seen: Sentence) -> Json:
    question = ENGLISH[f"diagnosis.{step}"]
    return {"step": step, "question": question, "verdict": verdict, **_told(*seen)}


def tree(num_nodes: int, at: float = 0.0, *, num_evicted: int = 0) -> Json:
    """Conversations of 20 turns below one system prompt, and some that were evicted."""
    rows: list[Json] = []
    for i in range(num_nodes):
        parent = None if i == 0 else 1 if i % 20 == 1 else i
        rows.append(
            {
                "id": i + 1,
                "parent": parent,
                "root": 0,
                "start": 0,
                "num_tokens": 4000 if i == 0 else 20 + (i * 37) % 400,
                "num_blocks": 250 if i == 0 else 1 + ((i * 37) % 400) // 16,
                "tiers": {"device": 1, "host": i % 2, "disk": 1},
                "state": "hit" if i % 3 else "new",
                "num_hits": i % 3,
                "last_used_at": at - i,
                "num_pins": int(i == 0),
                "cost_s": 0.1,
            }
        )
    rows += [
        {
            "id": num_nodes + i + 1,
            "parent": 1,
            "root": 0,
            "num_tokens": 64,
            "removed_at": at,
            "state": "evicted",
        }
        for i in range(num_evicted)
    ]
    return {
        "upstream": "local",
        "enabled": True,
        "roots": [{"root": 0, "namespace": "default"}],
        "rows": rows,
        "is_cut": False,
    }
