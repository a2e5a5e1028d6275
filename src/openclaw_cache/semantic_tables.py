"""What the command line prints of the semantic cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from openclaw_cache.console import new_table, out, plural, printable, size, when
from openclaw_cache.progress import watch
from openclaw_cache.units import human_duration

_MOST_FAILURES: Final = 20
_WHY: Final = {
    "time": "its answer depends on the time, so that none is kept for others",
    "user": "its answer depends on who asks, so that none is kept for others",
    "place": "its answer depends on the place, so that none is kept for others",
    "conversation": "it refers to what was said before, so that no answer is kept for others",
    "too_long": "it is longer than the embedder reads",
    "sampled": "result_cache.sampled: bypass keeps no reply to such a request",
    "degraded": "the store does not answer",
}
"""The words that the gateway has for reasons, as sentences."""


def status_rows(semantic: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows (what, value) of `semantic_cache` in a status; one that says so where it is not there."""
    if "domains" not in semantic:
        yield "semantic cache", _state(semantic)
        return
    questions = plural(semantic.get("num_questions") or 0, "question")
    scope = f"{semantic.get('scope')}{'' if semantic.get('by_default', True) else ', for requests that ask for it'}"
    yield "semantic cache", f"{questions} known, {size(semantic.get('memory_bytes') or 0)}, {scope}"
    if embedder := semantic.get("embedder"):
        yield "semantic cache, embedder", f"{semantic.get('state', 'ready')}, {embedder}"
    for domain in semantic["domains"]:
        yield f"semantic cache, {domain.get('domain')}", _domain(domain)


def evicted_line(num_matched: int, verb: str) -> str:
    """What `/admin/evict` says of questions."""
    kept = (
        "its reply stays for the very same request"
        if num_matched == 1
        else "replies stay for the very same requests"
    )
    return f"{plural(num_matched, 'question')} {verb} from the semantic cache; {kept}"


def print_analysis(shown: Mapping[str, Any]) -> None:
    """Print what the answer of `/admin/analyze` says of the semantic cache."""
    span, semantic = shown["time_range"], shown["semantic"]
    if "num_lookups" not in semantic:
        out.print(f"the semantic cache: {printable(_state(semantic))}")
        return
    known_since_at = semantic.get("known_since_at")
    if known_since_at is not None and known_since_at > span["start_at"]:
        out.print(f"the semantic cache's record begins at {when(known_since_at)}")
    _print_look_ups(semantic)
    _print_domains(semantic.get("domains") or [])
    _print_suggestions(semantic.get("suggestions") or [])


def print_calibration(shown: Mapping[str, Any]) -> None:
    """Print what `calibrate` found."""
    left_out = shown["num_left_out"]
    out.print(
        f"{plural(shown['num_pairs'], 'pair')} under {printable(shown['embedder'])}"
        + (f"; {left_out:,} left out: longer than the embedder reads" if left_out else "")
    )
    table = new_table("wrong hits, at most", "limit", "pairs found", "wrong hits here (95 %)")
    for row in shown["limits"]:
        promised = _share(row["max_wrong_ratio"])
        if row["limit"] is None:
            table.add_row(promised, "none", "–", "the pairs show it of no limit: more of them may")
            continue
        wrong, num_hits = row["wrong_ratio"], row["num_right"] + row["num_wrong"]
        table.add_row(
            promised,
            f"{row['limit']:.3f}",
            "–" if row["hit_ratio"] is None else f"{row['hit_ratio'] * 100:.1f} % ({row['num_right']:,})",
            f"{row['num_wrong']:,} of {num_hits:,} ({wrong['low'] * 100:.1f}–{wrong['high'] * 100:.1f} %)",
        )
    out.print(table)
    out.print(f"written: {printable(shown['file'])}; name it in semantic_cache.calibration")


def warm_progress(
    lines: Iterable[Mapping[str, Any]], num_questions: int, *, as_json: bool
) -> list[Mapping[str, Any]]:
    """Read all lines of a warm-up, with a bar on a terminal while they come, else (but for JSON) a line for each."""
    return watch(lines, num_questions, lambda line: _warmed(line, num_questions), as_json=as_json)


def warm_summary(lines: Iterable[Mapping[str, Any]], questions: Sequence[str]) -> dict[str, Any]:
    """What a warm-up came to, from its lines. A question that no line tells of is not warm."""
    begin: Mapping[str, Any] = {}
    done: Mapping[str, Any] = {"error": "the server ended its answer too early"}
    by_index: dict[int, Mapping[str, Any]] = {}
    for line in lines:
        if "index" in line:
            by_index[line["index"]] = line
        elif "done" in line:
            done = line
        else:
            begin = line
    warm = [line for line in by_index.values() if not line.get("error")]
    failed = [line for line in by_index.values() if line.get("error")]
    return {
        "namespace": begin.get("namespace"),
        "model": begin.get("model"),
        "ttl_s": begin.get("ttl_s"),
        "num_questions": len(questions),
        "num_warm": len(warm),
        "num_given": sum(not line.get("asked") for line in warm),
        "num_asked": sum(bool(line.get("asked")) for line in warm),
        "failed": [
            {"index": line["index"], "question": questions[line["index"]], "error": line["error"]}
            for line in failed
        ],
        "error": done.get("error"),
    }


def print_warmed(summary: Mapping[str, Any]) -> None:
    """Print what a warm-up came to."""
    if summary["error"]:
        out.print(printable(f"broken off: {summary['error']}"))
    for failure in summary["failed"][:_MOST_FAILURES]:
        out.print(f"not warm: {printable(failure['question'])}: {printable(_why(failure['error']))}")
    if (num_hidden := len(summary["failed"]) - _MOST_FAILURES) > 0:
        out.print(f"… and {num_hidden:,} more")
    line = f"{summary['num_warm']:,} of {plural(summary['num_questions'], 'question')} warm"
    if summary["namespace"]:
        line += f" for model {printable(summary['model'])} in namespace {printable(summary['namespace'])}"
    line += f": {plural(summary['num_given'], 'answer')} of the file"
    if summary["num_given"] and summary["ttl_s"]:
        line += f" (kept for {human_duration(summary['ttl_s'])})"
    out.print(f"{line}, {summary['num_asked']:,} of the model")


def _warmed(line: Mapping[str, Any], num_questions: int) -> str:
    """What became of one question."""
    which = f"question {line['index'] + 1:,} of {num_questions:,}"
    if line.get("error"):
        return f"{which} failed: {printable(_why(line['error']))}"
    return f"{which}: answered by the model" if line.get("asked") else f"{which}: stored"


def _why(error: str) -> str:
    return _WHY.get(error, error)


def _state(shown: Mapping[str, Any]) -> str:
    """Of a cache that is not there."""
    state, reason = str(shown.get("state", "off")), shown.get("reason")
    if state == "off":
        return "off (semantic_cache.enabled: false)"
    return f"{state.upper() if reason else state}{f': {reason}' if reason else ''}"


def _domain(shown: Mapping[str, Any]) -> str:
    limit = shown.get("limit")
    promised = _share(shown.get("max_wrong_ratio"))
    if shown.get("off_because"):
        state = f"OFF: {shown['off_because']}"
    elif limit is None:
        state = "off"
    else:
        state = f"limit {limit:.3f}"
    wrong = f"wrong {_estimate(shown.get('wrong_ratio'))}, {promised} allowed"
    return f"{state}; {plural(shown.get('num_hits') or 0, 'hit')}; {wrong}; recall {_estimate(shown.get('recall'))}"


def _estimate(shown: Mapping[str, Any] | None) -> str:
    """`0.8 % (0.1–2.4 %, from 120 checked)`."""
    if not shown:
        return "–"
    bounds = f"{shown['low'] * 100:.1f}–{shown['high'] * 100:.1f} %"
    return f"{shown['mean'] * 100:.1f} % ({bounds}, {shown['num_seen']:,} checked)"


def _share(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio * 100:.3g} %"


def _print_look_ups(semantic: Mapping[str, Any]) -> None:
    num_lookups = semantic["num_lookups"]
    ratio = "–" if semantic["hit_ratio"] is None else f"{semantic['hit_ratio']:.3f}"
    out.print(
        f"semantic cache: {plural(num_lookups, 'look-up')}, {plural(semantic['num_hits'], 'hit')} (hit ratio {ratio}), "
        f"{plural(semantic['num_near_misses'], 'near miss', 'near misses')}"
    )
    for title, counts in (("by verdict", semantic["verdicts"]), ("not looked up", semantic["bypassed"])):
        if counts:
            told = ", ".join(f"{printable(name)} {count:,}" for name, count in counts.items())
            out.print(f"{title}: {told}")


def _print_domains(domains: Sequence[Mapping[str, Any]]) -> None:
    table = new_table("domain", "look-ups", "hits", "near misses", "limit", "wrong", "recall")
    for row in domains:
        limit = row.get("limit")
        state = "–" if limit is None else f"{limit:.3f}"
        if row.get("off_because"):
            state = f"OFF: {row['off_because']}"
        table.add_row(
            printable(row["domain"]),
            f"{row['num_lookups']:,}",
            f"{row['num_hits']:,}",
            f"{row['num_near_misses']:,}",
            printable(state),
            _estimate(row.get("wrong_ratio")),
            _estimate(row.get("recall")),
        )
    if domains:
        out.print(table)


def _print_suggestions(suggestions: Sequence[Mapping[str, Any]]) -> None:
    if not suggestions:
        out.print("nothing was asked twice without a stored answer")
        return
    out.print("worth adding to the FAQ (openclaw-cache warm --type semantic FILE):")
    table = new_table(
        "asked", "questions", "namespace", "domain", "nearest", "refused by", "tokens saved, about"
    )
    for row in suggestions:
        saved = row.get("saved_tokens_estimate")
        table.add_row(
            f"{row['num_asked']:,}",
            "\n".join(map(printable, row["questions"])),
            printable(row.get("namespace") or "–"),
            printable(row["domain"]),
            "–" if row["best_cosine"] is None else f"{row['best_cosine']:.3f}",
            printable(row["refusal"]),
            "–" if saved is None else f"{saved:,}",
        )
    out.print(table)
