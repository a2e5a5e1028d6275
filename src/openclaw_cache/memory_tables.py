"""What the command `memory` prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from openclaw_cache.console import new_table, out, plural, printable, size, when

_SHOWN_CHARS = 300


def print_memories(memories: Iterable[Mapping[str, Any]], scores: Iterable[float] | None = None) -> None:
    """One line for each memory."""
    rows = list(memories)
    if not rows:
        out.print("nothing is remembered that fits; `openclaw-cache memory agents` lists who remembers")
        return
    shown_scores = None if scores is None else list(scores)
    headers = ["id", "time", "kind", "text"] + ([] if shown_scores is None else ["score"])
    table = new_table(*headers, box=None)
    for i, memory in enumerate(rows):
        mark = " (superseded)" if memory["superseded_by"] else ""
        cells = [memory["id"], _day(memory["time"]), printable(memory["kind"]), _text(memory["text"]) + mark]
        table.add_row(*cells, *([] if shown_scores is None else [f"{shown_scores[i]:.4f}"]))
    out.print(table)


def print_found(reply: Mapping[str, Any], *, explain: bool) -> None:
    """The results of a search, and what was left out of it."""
    results = reply["results"]
    print_memories((r["memory"] for r in results), (r["score"] for r in results))
    if explain:
        for result in results:
            out.print(f"{result['memory']['id']}: {_why(result['why'])}")
    if asked := reply.get("range"):
        out.print(f"time asked for: {asked['since'] or '…'} to {asked['until'] or '…'}")
    if degraded := reply.get("degraded"):
        out.print(f"without: {', '.join(degraded)}")


def print_memory(reply: Mapping[str, Any]) -> None:
    """One memory with all that is known of it, and its versions where they were asked for."""
    memory = reply["memory"]
    for name in ("id", "time", "kind", "tags", "source", "slot", "version", "supersedes", "superseded_by"):
        if (value := memory[name]) not in (None, []):
            shown = ", ".join(value) if isinstance(value, list) else str(value)
            out.print(f"{name}: {printable(shown)}")
    if provenance := memory["provenance"]:
        out.print("from: " + printable(", ".join(f"{name} {value}" for name, value in provenance.items())))
    out.print(f"stored: {when(memory['created_at'])}, changed: {when(memory['updated_at'])}")
    out.print(printable(memory["text"]))
    for version in reply.get("versions", ()):
        out.print(f"version {version['version']}, {when(version['updated_at'])}: {_text(version['text'])}")


def print_agents(agents: Iterable[Mapping[str, Any]]) -> None:
    """One line for each agent."""
    rows = list(agents)
    if not rows:
        out.print("no agent remembers anything yet")
        return
    table = new_table("agent", "memories", "turns", "size", "last used", box=None)
    for row in rows:
        table.add_row(
            printable(row["id"]),
            f"{row['num_memories']:,}",
            f"{row['num_turns']:,}",
            size(row["size_bytes"]),
            when(row["last_used_at"]),
        )
    out.print(table)


def print_stats(stats: Mapping[str, Any]) -> None:
    """What one agent's store holds."""
    waiting = stats["num_without_vector"]
    out.print(
        f"{printable(stats['id'])}: {plural(stats['num_memories'], 'memory', 'memories')} "
        f"({stats['num_superseded']:,} superseded), {plural(stats['num_turns'], 'turn')}, "
        f"{plural(stats['num_messages'], 'message')} in {plural(stats['num_sessions'], 'session')}, "
        f"{plural(stats['num_recalls'], 'recall')}, {size(stats['size_bytes'])}"
    )
    told = "" if not waiting else f", {plural(waiting, 'passage')} wait for their vector"
    out.print(f"embedder: {stats['embedder']}, {plural(stats['num_passages'], 'passage')}{told}")


def print_turns(turns: Iterable[Mapping[str, Any]]) -> None:
    """Turns with the beginning of each message."""
    rows = list(turns)
    if not rows:
        out.print("no turn is logged that fits")
    for turn in rows:
        beat = ", heartbeat" if turn["is_heartbeat"] else ""
        out.print(f"{turn['id']}, {turn['time']}, session {printable(turn['session_id'])}{beat}")
        for message in turn["messages"]:
            content = message["content"]
            parts = content if isinstance(content, list) else [{"text": content}]
            text = " ".join(_part(part) for part in parts if isinstance(part, dict))
            out.print(f"  {message['role']}: {_text(text)}")


def print_imported(path: str, report: Mapping[str, Any]) -> None:
    """What became of one file."""
    out.print(
        f"{printable(path)}: {report['added']:,} added, {report['updated']:,} updated, "
        f"{report['unchanged']:,} unchanged, {len(report['skipped']):,} skipped"
    )
    for skipped in report["skipped"][:20]:
        out.print(f"  line {skipped['line']}: {printable(str(skipped['reason']))}")


def print_evicted(report: Mapping[str, Any], verb: str) -> None:
    """What `evict --type memory` did."""
    out.print(f"{plural(report['num_matched'], 'memory', 'memories')} {verb}")
    if report["num_by_agent"]:
        table = new_table("namespace", "agent", "memories", box=None)
        for row in report["num_by_agent"]:
            table.add_row(printable(row["namespace"]), printable(row["agent"]), f"{row['num_matched']:,}")
        out.print(table)
    if report["num_redacted"]:
        out.print(
            f"taken out of {plural(report['num_redacted'], 'message or recall', 'messages and recalls')}"
        )
    for row in report["failed"]:
        out.print(
            f"could not be searched to the end: {printable(row['namespace'])}, {printable(row['agent'])}"
        )


def status_rows(memory: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """For `status`."""
    if not memory["enabled"]:
        return
    embedder, indexing = memory["embedder"], memory["indexing"]
    how = embedder["state"] + (f" ({embedder['reason']})" if embedder["reason"] else "")
    waiting = indexing["num_agents_waiting"]
    told = f", {plural(waiting, 'agent')} being indexed" if waiting else ""
    yield (
        "memory",
        f"{plural(memory['num_open'], 'agent')} open, {size(memory['memory_bytes'])}, embedder: {how}"
        + (", paused" if indexing["is_paused"] else told),
    )


def _part(part: Mapping[str, Any]) -> str:
    return str(part.get("text") or f"[{part.get('type')}]")


def _why(why: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{name} {place['value']:g}" + (f" (rank {place['rank']})" if place["rank"] else "")
        for name, place in why.items()
    )


def _text(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _SHOWN_CHARS else shown[: _SHOWN_CHARS - 1] + "…"


def _day(time: str) -> str:
    return time[:10]
