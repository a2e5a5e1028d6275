"""The sums of a time as the sections of an analysis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from openclaw_cache.api import break_labels
from openclaw_cache.history.lines import Line
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.types import Json

LAYERS: Final = ("result", "semantic", "kv")
_NUM_SHOWN: Final = 20


def requests(now: Rollup, before: Rollup) -> Json:
    """How many, and what became of them. `failed_with`: failures by the status that clients got."""
    failed: dict[str, int] = {}
    for (_api, outcome, status), row in now.tables.get("requests", {}).items():
        if outcome == "error":
            failed[status] = failed.get(status, 0) + row[0]
    return {
        "num": now.num_requests,
        "before": before.num_requests,
        "outcomes": _most(now.sums("requests", word=1)),
        "bypasses": _most(now.sums("bypasses")),
        "errors": _most(now.sums("errors")),
        "failed_with": _most(failed),
    }


def hit_ratios(now: Rollup, before: Rollup) -> dict[str, Json]:
    """By layer: hits of look-ups (of kv: of prompt tokens), in this time and in the one before."""
    return {layer: _ratio(now, before, layer) for layer in LAYERS}


def misses(now: Rollup) -> list[Json]:
    """Why look-ups missed, the most frequent first; what those that went upstream computed, and cost."""
    found = _most(now.sums("misses"))
    total = sum(found.values())
    tokens, spent, priced = (now.sums("misses", column=column) for column in (1, 2, 3))
    return [
        {
            "reason": reason,
            "num": num,
            "share": round(num / total, 4),
            "computed_tokens": tokens.get(reason, 0),
            "spent_usd": _usd(spent.get(reason, 0), priced.get(reason, 0)),
        }
        for reason, num in found.items()
    ]


def prefixes(now: Rollup, advice: Callable[[str], str]) -> Json:
    """Where prompts left the ones before them, the dearest first; what the canonicaliser did, or would have done.

    `first_token` is the first one that differed, a mean where it happened more than once.
    """
    rows: list[dict[str, Json]] = [
        {
            "cause": cause,
            "label": label,
            "said": break_labels.shown(label),
            "num": row[0],
            "lost_tokens": row[1],
            "lost_usd": _usd(*(*row, 0, 0)[3:5]),
            "first_token": round(row[2] / row[0]),
            "advice": advice(cause),
        }
        for (cause, label), row in now.tables.get("breaks", {}).items()
    ]
    rows.sort(key=lambda row: (-(row["lost_usd"] or 0.0), -row["lost_tokens"], -row["num"], row["label"]))
    return {
        "num_breaks": sum(row["num"] for row in rows),
        "lost_tokens": sum(row["lost_tokens"] for row in rows),
        "causes": rows[:_NUM_SHOWN],
        "canonical": [
            {
                "rule": rule, "num_requests": row[0], "num_places": row[1], "num_bytes": row[2],
                "num_applied": row[3], "saved_tokens": row[4],
            }
            for (rule,), row in sorted(now.tables.get("canonical", {}).items(), key=lambda item: -item[1][2])
        ],
    }  # fmt: skip


def top_prompts(now: Rollup) -> list[Json]:
    """The prompts that were asked most, by name only: `GET /admin/requests` tells which requests had them."""
    rows = sorted(now.prompts.rows.items(), key=lambda item: (-item[1].count, item[0]))
    shown = []
    for prompt_id, row in rows[:_NUM_SHOWN]:
        ended_at, namespace, agent, model, outcome, miss = row.last
        shown.append(
            {
                "prompt_id": prompt_id,
                "num_asked": row.count - row.error,
                "num_asked_most": row.count,
                "num_computed": row.computed,
                "tokens": row.tokens,
                "model": model,
                "agent": agent or None,
                "namespace": namespace,
                "last_at": ended_at,
                "last_outcome": outcome,
                "last_miss": miss or None,
            }
        )
    return shown


def waste(now: Rollup) -> Json:
    """What was computed although it had been there: replies given up too early, failures, prefixes that broke."""
    reasons, tokens = now.sums("misses"), now.sums("misses", column=1)
    return {
        "num_evicted_asked_again": reasons.get("evicted", 0),
        "num_expired_asked_again": reasons.get("expired", 0),
        "tokens_computed_again": tokens.get("evicted", 0) + tokens.get("expired", 0),
        "tokens_lost_to_prefix_breaks": sum(row[1] for row in now.tables.get("breaks", {}).values()),
        "num_errors": sum(now.sums("errors").values()),
        "evictions": _most(now.sums("evictions")),
        "degraded": _most(now.sums("degraded")),
    }


def memory(now: Rollup) -> list[Json]:
    """Each layer's and tier's bytes, over all gateways, and what a saved token took of them.

    A layer's saved tokens are all its tiers' together, so its bytes are too where they are held against them.
    """
    held: dict[tuple[str, str], dict[str, int]] = {}
    for (_node, what, layer, tier), gauge in now.gauges.items():
        row = held.setdefault((layer, tier), {"bytes": 0, "capacity_bytes": 0, "most_bytes": 0})
        if what == "bytes":
            row["bytes"] += gauge.last
            row["most_bytes"] += gauge.most
        else:
            row["capacity_bytes"] += gauge.last
    saved = _saved_tokens(now.line())
    layer_bytes: dict[str, int] = {}
    for (layer, _tier), row in held.items():
        layer_bytes[layer] = layer_bytes.get(layer, 0) + row["bytes"]
    return [
        {
            "layer": layer,
            "tier": tier,
            **row,
            "used_ratio": round(row["bytes"] / row["capacity_bytes"], 4) if row["capacity_bytes"] else None,
            "layer_saved_tokens": saved.get(layer, 0),
            "layer_bytes_per_saved_token": round(layer_bytes[layer] / saved[layer], 2)
            if saved.get(layer)
            else None,
        }
        for (layer, tier), row in sorted(held.items())
        if row["bytes"] or row["capacity_bytes"]
    ]


def saved(now: Rollup) -> dict[str, Json]:
    """What was not computed, not waited for and not paid; what was paid. Nothing that a provider would have cached."""
    line = now.line()
    return {
        "tokens": _saved_tokens(line),
        "seconds": round(line.saved_us / 1e6, 3),
        "kv_seconds": round(sum(now.sums("kv_saved_us").values()) / 1e6, 3),
        "usd": line.saved / PICODOLLARS,
        "spent_usd": line.spent / PICODOLLARS,
        "num_priced": line.num_priced,
    }


def latencies(now: Rollup) -> dict[str, Json]:
    """Look-ups and updates by layer, first tokens by source, the pace of replies: p50 and p95 in seconds."""
    shown: dict[str, Json] = {}
    for name, histogram in sorted(now.histograms.items()):
        if histogram.num:
            row = {"p50": histogram.quantile(0.5), "p95": histogram.quantile(0.95), "num": histogram.num}
            if len(name) == 1:
                shown[name[0]] = row
            else:
                shown.setdefault(name[0], {})[name[1]] = row
    return shown


def _ratio(now: Rollup, before: Rollup, layer: str) -> Json:
    hits, lookups = _lookups(now, layer)
    ratio = hits / lookups if lookups else None
    hits_before, lookups_before = _lookups(before, layer)
    ratio_before = hits_before / lookups_before if lookups_before else None
    return {
        "ratio": _rounded(ratio),
        "num_hits": hits,
        "num_lookups": lookups,
        "before": _rounded(ratio_before),
        "num_lookups_before": lookups_before,
        "change": None if ratio is None or ratio_before is None else round(ratio - ratio_before, 4),
    }


def _saved_tokens(line: Line) -> dict[str, int]:
    return {
        "result": line.result_saved_tokens,
        "semantic": line.semantic_saved_tokens,
        "flight": line.flight_saved_tokens,
        "kv": line.kv_saved_tokens,
    }


def _lookups(rollup: Rollup, layer: str) -> tuple[int, int]:
    row = rollup.tables.get("lookups", {}).get((layer,), [0, 0])
    return row[1], row[0]


def _most(numbers: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(((name, num) for name, num in numbers.items() if num), key=lambda item: -item[1]))


def _usd(picodollars: int, num_priced: int) -> float | None:
    """None where nothing of it has a price."""
    return picodollars / PICODOLLARS if num_priced else None


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 4)
