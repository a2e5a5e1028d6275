"""What the command line prints of the engines' KV caches. Fields that an engine does not tell are left out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from rich.tree import Tree

from openclaw_cache.console import out, plural, printable, size, when

_COLOURS = {"new": "green", "hit": "blue", "evicted": "red"}
"""The classic picture of RadixAttention."""

_MOST_PINS = 5


def status_rows(kv: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Rows (what, value) of one engine's status; none for an upstream that has no KV cache of ours."""
    if kv is None:
        return
    if "tiers" not in kv:
        yield "", f"unknown: {kv.get('reason', 'its engine does not tell')}"
        return
    if kv.get("enabled") is False:
        yield "", "off (kv_cache.enabled: false)"
        return
    for row in kv["tiers"]:
        yield f", {row.get('tier')}", _tier(row, (kv.get("blocks") or {}).get(row.get("tier")) or {})
    yield ", hit ratio", _hit_ratio(kv)
    yield ", prefill saved", f"{kv.get('saved_prefill_s') or 0:,.1f} s"
    yield ", requests", f"{kv.get('running') or 0} running, {kv.get('waiting') or 0} waiting"
    yield ", pins", _pins(kv.get("pins") or [])
    integrity = kv.get("integrity") or {}
    if integrity.get("ok") is False:
        yield ", integrity", f"BROKEN, found {when(integrity.get('checked_at') or 0)}"


def evicted_line(kv: Mapping[str, Any], verb: str) -> str:
    """What `/admin/evict` says of KV."""
    line = f"{plural(kv['num_blocks'], 'KV block')} ({plural(kv['num_tokens'], 'token')}) {verb}"
    num_pinned = kv.get("num_pinned_blocks")
    return f"{line}; {plural(num_pinned, 'pinned block')} kept" if num_pinned else line


def print_tree(shown: Mapping[str, Any]) -> None:
    """Print the answer of `/admin/tree`: green new, blue hit, red evicted."""
    top = Tree(Text(f"upstream {printable(str(shown['upstream']))}"))
    branches: dict[Any, Tree] = {}
    roots = dict.fromkeys({row.get("root") for row in shown["rows"]}, top)
    if len(roots) > 1:  # one for each namespace, which nothing but its number is known of here
        roots = {root: top.add(Text(f"namespace {root}")) for root in sorted(roots, key=str)}
    for row in shown["rows"]:
        above = branches.get(row.get("parent"), roots[row.get("root")])
        branches[row.get("id")] = above.add(_node(row))
    out.print(top)
    if not shown["rows"]:
        out.print("nothing is cached yet")
    if shown["is_cut"]:
        out.print("… and more: see --limit")


def warm_progress(lines: Iterable[Mapping[str, Any]], num_prompts: int) -> list[Mapping[str, Any]]:
    """Read all lines of a warm-up, with a bar on a terminal while they come."""
    console = Console(stderr=True)
    columns = (TextColumn("warming"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    taken: list[Mapping[str, Any]] = []
    with Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("warming", total=num_prompts)
        for line in lines:
            taken.append(line)
            if "index" in line:
                progress.advance(task)
    return taken


def warm_summary(lines: Iterable[Mapping[str, Any]], num_prompts: int) -> dict[str, Any]:
    """What a warm-up came to, from its lines. A prompt that no line tells of is not warm."""
    done: Mapping[str, Any] = {"error": "the server ended its answer too early"}
    by_index: dict[int, Mapping[str, Any]] = {}
    for line in lines:
        if "index" in line:
            by_index[line["index"]] = line
        else:
            done = line
    warm = [line for line in by_index.values() if not line.get("error")]
    return {
        "num_prompts": num_prompts,
        "num_warm": len(warm),
        "num_tokens": sum(line.get("num_tokens") or 0 for line in warm),
        "num_cached_tokens": sum(line.get("num_cached_tokens") or 0 for line in warm),
        "num_computed_tokens": sum(line.get("num_computed_tokens") or 0 for line in warm),
        "failed": [line for line in by_index.values() if line.get("error")],
        "pins": done.get("pins") or [],
        "error": done.get("error"),
    }


def print_warmed(summary: Mapping[str, Any]) -> None:
    """Print what a warm-up came to."""
    for failed in summary["failed"]:
        out.print(printable(f"prompt {failed['index'] + 1} failed: {failed['error']}"))
    if summary["error"]:
        out.print(printable(f"broken off: {summary['error']}"))
    num_warm = f"{summary['num_warm']:,} of {plural(summary['num_prompts'], 'prompt')} warm"
    tokens = (
        f"{summary['num_computed_tokens']:,} tokens computed, {summary['num_cached_tokens']:,} were cached"
    )
    out.print(f"{num_warm}: {tokens}")
    if summary["pins"]:
        out.print(f"pinned: {_pins(summary['pins'])}")


def _node(row: Mapping[str, Any]) -> Text:
    state = str(row.get("state", ""))
    line = Text(plural(row.get("num_tokens") or 0, "token"), style=_COLOURS.get(state, ""))
    line.append(f" {state}")
    if row.get("num_hits"):
        line.append(f", {plural(row['num_hits'], 'hit')}")
    if held := ", ".join(f"{tier} {count}" for tier, count in (row.get("tiers") or {}).items() if count):
        line.append(f", blocks: {held}")
    if row.get("num_pins"):
        line.append(", pinned")
    if row.get("text"):
        line.append(f"  {printable(str(row['text']))}", style="dim")
    return line


def _tier(row: Mapping[str, Any], blocks: Mapping[str, Any]) -> str:
    state, reason = row.get("state", "ok"), row.get("reason")
    if state == "off":
        return "off"
    used = f"{row.get('num_blocks') or 0:,} of {plural(row.get('capacity_blocks') or 0, 'block')}"
    line = f"{used}, {size(row.get('num_bytes') or 0)} of {size(row.get('capacity_bytes') or 0)}"
    if held := ", ".join(f"{count:,} {name}" for name, count in blocks.items() if count):
        line += f" ({held})"
    return line if state == "ok" else f"{state.upper()}{f': {reason}' if reason else ''}; {line}"


def _hit_ratio(kv: Mapping[str, Any]) -> str:
    num_lookups = kv.get("num_lookups_tokens") or 0
    if not num_lookups:
        return "–"
    by_tier = {row.get("tier"): row.get("num_hits_tokens") or 0 for row in kv["tiers"]}
    parts = ", ".join(f"{tier} {num_hits / num_lookups:.3f}" for tier, num_hits in by_tier.items())
    return f"{sum(by_tier.values()) / num_lookups:.3f} of {plural(num_lookups, 'token')} ({parts})"


def _pins(pins: list[Mapping[str, Any]]) -> str:
    shown = [
        f"{pin.get('id')} ({plural(pin.get('num_tokens') or 0, 'token')}, "
        + (f"until {when(pin['expires_at'])})" if pin.get("expires_at") else "for good)")
        for pin in pins[:_MOST_PINS]
    ]
    if len(pins) > _MOST_PINS:
        shown.append(f"and {len(pins) - _MOST_PINS:,} more")
    return "; ".join(shown) or "none"
