"""What the command line prints of an analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from openclaw_cache import semantic_tables
from openclaw_cache.console import new_table, out, plural, printable, size, when
from openclaw_cache.units import human_duration

_VERDICTS: Final = {"ok": "ok", "warn": "look", "bad": "BAD", "unknown": "?"}
_NUM_PROMPTS: Final = 5
_NUM_CAUSES: Final = 8


def print_analysis(shown: Mapping[str, Any]) -> None:
    """Print the answer of `/admin/analyze`: findings first, then what they rest on."""
    span = shown["time_range"]
    out.print(f"from {when(span['start_at'])} to {when(span['end_at'])}")
    if "requests" in shown:
        _print_requests(shown)
        _print_findings(shown["findings"])
        _print_diagnosis(shown["diagnosis"])
        _print_ratios(shown["hit_ratio"])
        _print_misses(shown)
        _print_prefixes(shown["prefixes"])
        _print_prompts(shown["top_prompts"])
        _print_memory(shown["memory"])
        _print_latencies(shown["latency"])
    else:
        out.print("no history is kept (observe.history: false): only the semantic cache can look back")
    semantic_tables.print_analysis(shown)


def _print_requests(shown: Mapping[str, Any]) -> None:
    requests, before = shown["requests"], shown["compared_with"]
    outcomes = ", ".join(f"{name} {num:,}" for name, num in requests["outcomes"].items())
    nodes = "" if shown["num_nodes"] <= 1 else f", of {shown['num_nodes']} gateways"
    out.print(f"{plural(requests['num'], 'request')}{nodes}" + (f": {outcomes}" if outcomes else ""))
    out.print(f"in the time before (from {when(before['start_at'])}): {requests['before']:,}")
    saved = shown["saved"]
    tokens = ", ".join(f"{layer} {num:,}" for layer, num in saved["tokens"].items() if num)
    if tokens:
        kv_seconds = saved["kv_seconds"]
        prefill = f"; prefill not needed: {human_duration(kv_seconds)}" if kv_seconds else ""
        money = f", ${saved['usd']:,.4f} (spent: ${saved['spent_usd']:,.4f})" if saved["num_priced"] else ""
        out.print(
            f"not computed: {tokens} tokens; not waited: about {human_duration(saved['seconds'])}{money}{prefill}"
        )


def _print_findings(findings: Sequence[Mapping[str, Any]]) -> None:
    if not findings:
        out.print("nothing stands out")
        return
    table = new_table("finding", "worth", "what to do")
    for finding in findings:
        mark = "! " if finding["severity"] == "bad" else ""
        table.add_row(mark + printable(finding["text"]), _worth(finding), printable(finding["advice"]))
    out.print(table)


def _worth(finding: Mapping[str, Any]) -> str:
    if not finding["tokens"]:
        return "–"
    said = [f"{finding['tokens']:,} tokens"]
    if finding["usd"]:
        said.append(f"${finding['usd']:,.4f}")
    if finding["seconds"]:
        said.append(human_duration(finding["seconds"]))
    return ", ".join(said)


def _print_diagnosis(steps: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("step", "question", "", "what was seen")
    for step in steps:
        table.add_row(
            str(step["step"]), step["question"], _VERDICTS.get(step["verdict"], "?"), printable(step["text"])
        )
    out.print(table)


def _print_ratios(ratios: Mapping[str, Mapping[str, Any]]) -> None:
    known = {layer: row for layer, row in ratios.items() if row["num_lookups"] or row["num_lookups_before"]}
    if not known:
        return
    table = new_table("layer", "hit ratio", "before", "change", "hits", "look-ups")
    for layer, row in known.items():
        change = "–" if row["change"] is None else f"{row['change']:+.3f}"
        numbers = f"{row['num_hits']:,}", f"{row['num_lookups']:,}"
        table.add_row(layer, _ratio(row["ratio"]), _ratio(row["before"]), change, *numbers)
    out.print(table)


def _print_misses(shown: Mapping[str, Any]) -> None:
    if shown["misses"]:
        reasons = (f"{row['reason']} {row['num']:,} ({row['share']:.0%})" for row in shown["misses"])
        out.print("missed: " + ", ".join(reasons))
    if bypasses := shown["requests"]["bypasses"]:
        out.print("bypassed: " + ", ".join(f"{printable(why)} {num:,}" for why, num in bypasses.items()))
    waste = shown["waste"]
    if waste["tokens_computed_again"] or waste["tokens_lost_to_prefix_breaks"]:
        out.print(
            f"computed although it had been there: {waste['tokens_computed_again']:,} tokens of replies given up, "
            f"{waste['tokens_lost_to_prefix_breaks']:,} of prefixes that broke"
        )


def _print_prefixes(prefixes: Mapping[str, Any]) -> None:
    if prefixes["causes"]:
        table = new_table("prefix broke at", "cause", "first at token", "times", "tokens lost")
        for row in prefixes["causes"][:_NUM_CAUSES]:
            table.add_row(
                printable(row["label"]),
                printable(row["cause"]),
                *(f"{row[field]:,}" for field in ("first_token", "num", "lost_tokens")),
            )
        out.print(table)
    for row in prefixes["canonical"]:
        done = "applied" if row["num_applied"] else "would apply"
        requests = plural(row["num_applied"] or row["num_requests"], "request")
        saved = f", {row['saved_tokens']:,} tokens not computed" if row["num_applied"] else ""
        out.print(
            f"canonical {printable(row['rule'])}: {done} in {requests}, {size(row['num_bytes'])}{saved}"
        )


def _print_prompts(prompts: Sequence[Mapping[str, Any]]) -> None:
    repeated = [row for row in prompts if row["num_asked_most"] > 1]
    if not repeated:
        return
    table = new_table("prompt", "model", "agent", "asked", "computed", "tokens", "last time")
    for row in repeated[:_NUM_PROMPTS]:
        last = row["last_outcome"] + (f" ({row['last_miss']})" if row["last_miss"] else "")
        least, most = row["num_asked"], row["num_asked_most"]
        asked = f"{most:,}" if least == most else f"{least:,}–{most:,}"
        table.add_row(
            row["prompt_id"],
            printable(row["model"]),
            printable(row["agent"] or "–"),
            asked,
            f"{row['num_computed']:,}",
            f"{row['tokens']:,}",
            last,
        )
    out.print(table)


def _print_memory(rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    table = new_table("layer", "tier", "in use", "of", "tokens saved (layer)", "bytes per saved token")
    for row in rows:
        share = "" if row["used_ratio"] is None else f" ({row['used_ratio']:.0%})"
        per_token = row["layer_bytes_per_saved_token"]
        table.add_row(
            row["layer"],
            row["tier"],
            size(row["bytes"]) + share,
            size(row["capacity_bytes"]) if row["capacity_bytes"] else "–",
            f"{row['layer_saved_tokens']:,}",
            "–" if per_token is None else f"{per_token:,.1f}",
        )
    out.print(table)


def _print_latencies(latency: Mapping[str, Any]) -> None:
    rows = list(_rows(latency))
    if not rows:
        return
    table = new_table("time of", "p50", "p95", "measured")
    for name, row in rows:
        table.add_row(name, _time(row["p50"]), _time(row["p95"]), f"{row['num']:,}")
    out.print(table)


def _rows(latency: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for what, found in latency.items():
        if "p50" in found:
            yield what, found
        else:
            for name, row in found.items():
                yield f"{what}, {name}", row


def _time(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
