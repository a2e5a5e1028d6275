"""What the command line prints of the engines' KV caches. Fields that an engine does not tell are left out."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from rich.tree import Tree

from openclaw_cache.console import is_terminal, out, plural, printable, size, when

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
    if eviction := kv.get("eviction"):
        yield ", eviction", _eviction(eviction)
    yield ", requests", f"{kv.get('running') or 0} running, {kv.get('waiting') or 0} waiting"
    yield ", pins", _pins(kv.get("pins") or [])
    integrity = kv.get("integrity") or {}
    if integrity.get("ok") is False:
        checked_at = integrity.get("checked_at")
        yield ", integrity", f"BROKEN, found {when(checked_at)}" if checked_at else "BROKEN"


def evicted_line(kv: Mapping[str, Any], verb: str, *, pinned: bool = False) -> str:
    """What `/admin/evict` says of KV; `pinned` is whether pins were to end too."""
    line = f"{plural(kv['num_blocks'], 'KV block')} ({plural(kv['num_tokens'], 'token')}) {verb}"
    num_pinned = kv.get("num_pinned_blocks")
    if not num_pinned:
        return line
    return f"{line}; {plural(num_pinned, 'pinned block')} kept{'' if pinned else ' (--pinned ends pins too)'}"


def print_tree(shown: Mapping[str, Any]) -> None:
    """Print the answer of `/admin/tree`: green new, blue hit, red evicted."""
    upstream, rows = printable(str(shown["upstream"])), shown["rows"]
    if not shown.get("enabled", True):
        out.print(f"upstream {upstream}: its KV cache is off (kv_cache.enabled: false)")
        return
    top = Tree(Text(f"upstream {upstream}"))
    names = {root["root"]: root["namespace"] for root in shown.get("roots") or []}
    branches = _root_branches(top, rows, names)
    below = _by_parent(rows)
    pending = deque((branches[root], row) for root in branches for row in below.get((root, None), ()))
    while pending:
        above, row = pending.popleft()
        branch = above.add(_node(row))
        pending.extend((branch, child) for child in below.get((row.get("root"), row.get("id")), ()))
    out.print(top, soft_wrap=False)
    if any(branches[root] is not top and root is not None and names.get(root) is None for root in branches):
        out.print(
            "namespace #N: neither `default` nor one of server.keys; of others the engine knows a salt only"
        )
    if not rows:
        out.print("nothing is cached yet")
    if shown["is_cut"]:
        out.print("… and more: see --limit")


def warm_progress(
    lines: Iterable[Mapping[str, Any]], num_prompts: int, *, as_json: bool
) -> list[Mapping[str, Any]]:
    """Read all lines of a warm-up, with a bar on a terminal while they come, else (but for JSON) a line for each."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    columns = (TextColumn("warming"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    has_bar = is_terminal(sys.stderr) and (as_json or is_terminal(sys.stdout))
    taken: list[Mapping[str, Any]] = []
    with Progress(*columns, console=console, transient=True, disable=not has_bar) as progress:
        task = progress.add_task("warming", total=num_prompts)
        for line in lines:
            taken.append(line)
            if "index" in line:
                progress.advance(task)
                if not (as_json or has_bar):
                    out.print(_warmed(line, num_prompts))
                elif not as_json and line.get("error"):
                    console.print(_warmed(line, num_prompts))
    return taken


def _warmed(line: Mapping[str, Any], num_prompts: int) -> str:
    """What became of one prompt."""
    which = f"prompt {line['index'] + 1:,} of {num_prompts:,}"
    if line.get("error"):
        return f"{which} failed: {printable(str(line['error']))}"
    num_computed = line.get("num_computed_tokens") or 0
    return f"{which}: {plural(line.get('num_tokens') or 0, 'token')}, {num_computed:,} computed"


def warm_summary(
    lines: Iterable[Mapping[str, Any]], num_prompts: int, namespace: str | None
) -> dict[str, Any]:
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
        "namespace": namespace or "default",
        "num_prompts": num_prompts,
        "num_warm": len(warm),
        "num_tokens": sum(line.get("num_tokens") or 0 for line in warm),
        "num_cached_tokens": sum(line.get("num_cached_tokens") or 0 for line in warm),
        "num_computed_tokens": sum(line.get("num_computed_tokens") or 0 for line in warm),
        "failed": [line for line in by_index.values() if line.get("error")],
        "pins": done.get("pins") or [],
        "error": done.get("error"),
    }


def print_warmed(summary: Mapping[str, Any], *, with_pins: bool) -> None:
    """Print what a warm-up came to; `with_pins` all pins that there are now."""
    if summary["error"]:
        out.print(printable(f"broken off: {summary['error']}"))
    num_warm = f"{summary['num_warm']:,} of {plural(summary['num_prompts'], 'prompt')} warm"
    computed = f"{plural(summary['num_computed_tokens'], 'token')} computed"
    num_there = summary["num_cached_tokens"]
    there = f"{num_there:,} {'was' if num_there == 1 else 'were'} there already"
    out.print(f"{num_warm} for namespace {printable(summary['namespace'])}: {computed}, {there}")
    if with_pins:
        out.print(f"pins now: {_pins(summary['pins'])}")


def _root_branches(
    top: Tree, rows: Iterable[Mapping[str, Any]], names: Mapping[Any, str | None]
) -> dict[Any, Tree]:
    """A branch for each namespace; none of its own for the only one if its name is not known."""
    roots = sorted({row.get("root") for row in rows}, key=lambda root: (root is None, root))
    if len(roots) == 1 and names.get(roots[0]) is None:
        return {roots[0]: top}
    return {root: top.add(Text(_namespace(root, names))) for root in roots}


def _namespace(root: Any, names: Mapping[Any, str | None]) -> str:
    if root is None:
        return "namespaces with nothing left in the cache"
    name = names.get(root)
    return f"namespace #{root}" if name is None else f"namespace {printable(name)}"


def _by_parent(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[Any, Any], list[Mapping[str, Any]]]:
    """(root, parent's id) → rows below it in their order; None for the parent where it is not among the rows.

    An evicted parent may come after its children: they were evicted before it.
    """
    known = {(row.get("root"), row.get("id")) for row in rows}
    below: dict[tuple[Any, Any], list[Mapping[str, Any]]] = {}
    for row in rows:
        root, parent = row.get("root"), row.get("parent")
        below.setdefault((root, parent if (root, parent) in known else None), []).append(row)
    return below


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


def _eviction(shown: Mapping[str, Any]) -> str:
    """The policy; of `agent` which side leads in each tier, with the shares of calls foretold, and why nodes went."""
    policy = printable(str(shown.get("policy", "unknown")))
    tiers = shown.get("tiers") or {}
    lines = []
    for tier, duel in tiers.items():
        score, gone = duel.get("score") or {}, duel.get("num_gone") or {}
        scores = ", ".join(f"{side} {value:.2f}" for side, value in score.items())
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in gone.items() if count)
        lines.append(f"{tier} by {duel.get('side')} ({scores}); went: {reasons or 'none'}")
    return f"{policy}: {' · '.join(lines)}" if lines else policy


def _pins(pins: list[Mapping[str, Any]]) -> str:
    shown = [
        f"{pin.get('id')} ({plural(pin.get('num_tokens') or 0, 'token')}"
        + (f", until {when(pin['expires_at'])})" if pin.get("expires_at") else ")")
        for pin in pins[:_MOST_PINS]
    ]
    if len(pins) > _MOST_PINS:
        shown.append(f"and {len(pins) - _MOST_PINS:,} more")
    return "; ".join(shown) or "none"
