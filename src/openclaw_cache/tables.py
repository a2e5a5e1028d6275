"""What the command line prints: tables for people, JSON for programs."""

from __future__ import annotations

from typing import Any

from openclaw_cache import kv_tables, memory_tables, semantic_tables
from openclaw_cache.config import Provenance, describe, values
from openclaw_cache.console import new_table, out, plural, print_json, printable, size, span, when

_REKEYED = {"result": ("entry", "entries"), "history": ("value of history", "values of history")}


def print_config(loaded: Provenance, *, as_json: bool) -> None:
    """Print every setting, its value and where it came from; in JSON with its own type."""
    rows = describe(loaded)
    if as_json:
        typed = values(loaded)
        print_json(
            {
                field: {"value": typed[field], "shown": shown, "source": source}
                for field, shown, source in rows
            }
        )
        return
    table = new_table("setting", "value", "from")
    for row in rows:
        table.add_row(*map(printable, row))
    out.print(table)


def print_status(shown: dict[str, Any]) -> None:
    """Print the answer of `/admin/status`."""
    ratio, store = shown["hit_ratio"], shown["store"]
    memory = shown["result_cache"]["memory"]
    title = f"openclaw-cache {shown['version']} at {shown['url']}, up {span(shown['uptime_s'])}"
    table = new_table("", "", title=title, show_header=False)
    for upstream in shown["upstreams"]:
        table.add_row(f"upstream {upstream['name']}", printable(_upstream(upstream)))
    requests = ", ".join(f"{count:,} {outcome}" for outcome, count in shown["requests"].items() if count)
    table.add_row("requests", requests or "none yet")
    hits = f"{ratio['num_hits']:,} of {ratio['num_lookups']:,}"
    table.add_row("hit ratio, 15 min", f"{ratio['ratio']:.3f} ({hits})" if ratio["num_lookups"] else "–")
    table.add_row("tokens not computed", _saved(shown["saved_tokens"]))
    if num_cached := shown["savings"]["total"].get("upstream_cached_tokens"):
        table.add_row("cached by upstreams", f"{num_cached:,} prompt tokens")
    if money := _money(shown["savings"]["total"]):
        table.add_row("money", money)
    if shown["keys"]["keyed"]:
        table.add_row("keys", printable(_keys(shown["keys"])))
    used, allowed = size(memory["memory_bytes"]), size(memory["capacity_bytes"])
    table.add_row(
        "result cache, memory", f"{plural(memory['num_entries'], 'entry', 'entries')}, {used} of {allowed}"
    )
    for name, value in semantic_tables.status_rows(shown["semantic_cache"]):
        table.add_row(printable(name), printable(value))
    for upstream in shown["upstreams"]:
        for name, value in kv_tables.status_rows(upstream.get("kv")):
            table.add_row(f"kv {printable(upstream['name'])}{name}", printable(value))
    for name, value in memory_tables.status_rows(shown["memory"]):
        table.add_row(printable(name), printable(value))
    kept = [("encrypted", "is_encrypted"), ("screened", "is_screened")]
    how = "".join(f", {word}" for word, field in kept if shown["result_cache"][field])
    table.add_row("store", printable(_store(store) + how))
    degraded = ", ".join(f"{what} {count:,}" for what, count in shown["degraded"].items() if count)
    table.add_row("degraded", degraded or "never")
    out.print(table)


def print_evicted(report: dict[str, Any], pattern: str, *, pinned: bool = False) -> None:
    """Print the answer of `/admin/evict`; `pinned` is whether pins were to end too."""
    verb = "would go" if report["dry_run"] else "removed"
    if report.get("type") == "memory":
        memory_tables.print_evicted(report, verb)
    elif "num_matched" in report:
        _print_evicted_replies(report, verb)
    if "kv" in report:
        out.print(kv_tables.evicted_line(report["kv"], verb, pinned=pinned))
    if not (report.get("num_matched") or report.get("kv", {}).get("num_blocks")) and "*" not in pattern:
        out.print(
            f'note: a pattern must match the whole text; for a part of it write "*{printable(pattern)}*"'
        )


def _print_evicted_replies(report: dict[str, Any], verb: str) -> None:
    num_matched = report["num_matched"]
    if report.get("type") == "semantic":
        out.print(semantic_tables.evicted_line(num_matched, verb))
    else:
        out.print(f"{plural(num_matched, 'entry', 'entries')} {verb}")
    if num_matched:
        table = new_table("model", "namespace", "created", "bytes")
        for row in report["sample"]:
            created, num_bytes = when(row["created_at"]), f"{row['size_bytes']:,}"
            table.add_row(printable(row["model"]), printable(row["namespace"]), created, num_bytes)
        hidden = num_matched - len(report["sample"])
        if hidden > 0:
            table.add_row("…", "", "", f"and {hidden:,} more")
        out.print(table)
    if report["num_corrupt"]:
        corrupt = plural(report["num_corrupt"], "unreadable entry", "unreadable entries")
        out.print(f"{corrupt} {verb} too")


def print_rekeyed(report: dict[str, Any]) -> None:
    """Print the answer of `/admin/rekey`."""
    for kind, done in report.get("by_kind", {"result": report}).items():  # of an older server: replies only
        one, many = _REKEYED.get(kind, (kind, kind))
        out.print(
            f"{plural(done['num_rewritten'], one, many)} rewritten, {done['num_current']:,} were current"
        )
        if done["num_unreadable"]:
            unreadable = plural(done["num_unreadable"], one, many)
            out.print(f"{unreadable} could not be read: corrupt, or under a key that this node does not have")


def print_invalidated(done: dict[str, Any]) -> None:
    """Print the answer of `/admin/invalidate`."""
    model = printable(done["model"])
    if done["served"]:
        out.print(f"invalidated: no reply of '{model}' from before now will be served")
    else:
        out.print(
            f"note: no upstream serves '{model}' now; see `openclaw-cache status` for the names that are"
        )
        out.print("whatever was stored under this name is invalidated")
    if not done["durable"]:
        out.print("note: the store keeps no append-only file; if it loses its data, everything is recomputed")


def _saved(by_layer: dict[str, int]) -> str:
    """Tokens that no model had to compute, in all and by the cache that had them."""
    names = {
        "result": "result cache",
        "semantic": "semantic cache",
        "flight": "shared replies",
        "kv": "kv cache",
    }
    shown = {layer: n for layer, n in by_layer.items() if n or layer not in ("flight", "semantic")}
    parts = ", ".join(f"{names.get(layer, layer)} {num_tokens:,}" for layer, num_tokens in shown.items())
    return f"{sum(by_layer.values()):,} ({parts})"


def _money(total: dict[str, Any]) -> str:
    """What upstreams asked for and what was saved; empty where no price is known."""
    if not total["num_priced"]:
        return ""
    known = f"{total['num_priced']:,} of {plural(total['num_requests'], 'request')} with a known price"
    return f"${total['spent_usd']:,.4f} spent, ${total['saved_usd']:,.4f} saved ({known})"


def _keys(shown: dict[str, Any]) -> str:
    text = plural(shown["num_keys"], "key")
    file = shown.get("keys_file") or {}
    if file.get("reload_error"):
        text += f"; the key file was not reloaded: {file['reload_error']}"
    return text


def _upstream(shown: dict[str, Any]) -> str:
    models = ", ".join(shown["models"])
    if shown["kind"] != "embedded":
        pods = [
            pod["url"] + ("" if pod["state"] == "up" else f" ({pod['state'].upper()}: {pod['last_error']})")
            for pod in shown["pods"]
        ]
        return f"{shown['kind']} at {', '.join(pods)}: {models}"
    reason = f" ({shown['reason']})" if shown["state"] != "ready" and shown["reason"] else ""
    return f"embedded, {shown['state']}{reason}: {models}"


def _store(shown: dict[str, Any]) -> str:
    server = shown.get("server")
    if not server:
        return f"{shown['kind']}, DOWN: {shown.get('reason', 'unknown')}"
    bound = f" of {size(server['max_bytes'])}" if server["max_bytes"] else ""
    return f"{shown['kind']}, up, {plural(server['num_keys'], 'key')}, {size(server['used_bytes'])}{bound}"
