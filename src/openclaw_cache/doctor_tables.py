"""What the command line prints of a diagnosis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from openclaw_cache.console import new_table, out, plural, printable, when

_MOST_SKIPPED: Final = 5
_MOST_EXCERPT: Final = 200


def print_diagnosis(shown: Mapping[str, Any]) -> None:
    """Print what was found in a log."""
    _print_head(shown)
    if shown["num_compared"]:
        _print_kept(shown)
    if not shown["findings"]:
        _print_stable(shown)
    else:
        lost, num = shown["lost_tokens"], plural(shown["num_breaks"], "break")
        out.print(f"\n{num} within sessions, {lost:,} tokens lost:")
        _print_findings(shown["findings"], shown["num_findings"])
    if shown["between_sessions"]:
        out.print("\nWhat sessions could share with others, and do not:")
        _print_findings(shown["between_sessions"], shown["num_between_sessions"])
    _print_rules(shown)
    for line in _remarks(shown):
        out.print(line)
    _print_skipped(shown)


def print_live(shown: Mapping[str, Any], *, limit: int) -> None:
    """Print the answer of `/admin/prefixes`."""
    if not shown["num_compared"]:
        out.print(f"no prompt has followed another in its session since {when(shown['since_at'])}")
        return
    compared = plural(shown["num_compared"], "prompt")
    out.print(
        f"{compared} compared since {when(shown['since_at'])}: kept {shown['kept_tokens']:,} of "
        f"{shown['reachable_tokens']:,} tokens within reach{_percent(shown['kept_tokens'], shown['reachable_tokens'])}"
    )
    causes = sorted(shown["causes"].items(), key=lambda one: -one[1]["lost_tokens"])
    if not causes:
        out.print("no break: prefixes are stable")
        return
    table = new_table("cause", "breaks", "tokens lost")
    for cause, row in causes:
        table.add_row(printable(cause), f"{row['num']:,}", f"{row['lost_tokens']:,}")
    out.print(table)
    table = new_table("when", "session", "what", "where", "kept", "lost")
    for row in shown["breaks"][:limit]:
        who = printable(str(row.get("session") or row.get("agent") or "–"))
        where = f"{printable(row['pointer'])}, byte {row['at_byte']:,} of the prompt"
        tokens = f"{row['kept_tokens']:,}", f"{row['lost_tokens']:,}"
        table.add_row(when(row["at"]), who, printable(row["label"] or row["cause"]), where, *tokens)
    out.print(table)


def _print_head(shown: Mapping[str, Any]) -> None:
    models = ", ".join(printable(model) for model in shown["models"][:5] if model) or "no model named"
    sessions = plural(shown["num_sessions"], "session")
    lineages = plural(shown["num_lineages"], "line of prompts", "lines of prompts")
    out.print(f"{plural(shown['num_requests'], 'request')}, {sessions}, {lineages}; {models}")
    if shown["num_partial"]:
        out.print(
            "note: transcripts leave out the system prompt and the tools; what changes there is not seen, and token "
            "counts are those of the messages"
        )
    elif shown["num_estimated"]:
        out.print("note: token counts are estimates from bytes where the log has no usage")


def _print_kept(shown: Mapping[str, Any]) -> None:
    table = new_table("of what each prompt could have shared with the one before", "kept", show_edge=False)
    canonical = shown["kept_ratio_canonical"]
    rows = [
        ("as sent, one prompt remembered for each session", shown["kept_ratio"]),
        ("as sent, all lines of prompts remembered (a radix tree)", shown["kept_ratio_with_tree"]),
        ("with this server's `canonical: safe`, one prompt remembered", canonical["safe"]),
        ("with `canonical: full`, one prompt remembered", canonical["full"]),
    ]
    for what, ratio in rows if shown["num_breaks"] else rows[:1]:
        table.add_row(what, f"{ratio:.2%}")
    out.print(table)


def _print_stable(shown: Mapping[str, Any]) -> None:
    if shown["num_compared"]:
        out.print("\nno break: within sessions each prompt goes on with the one before")
    else:
        out.print("\nno session has two requests: there is nothing to compare")


def _print_findings(findings: Sequence[Mapping[str, Any]], num_all: int) -> None:
    for number, one in enumerate(findings, 1):
        usd = "" if one["lost_usd"] is None else f", ${one['lost_usd']:,.4f}"
        times = plural(one["num"], "time")
        out.print(f"\n{number}. {printable(one['label'] or one['cause'])} [{one['cause']}]")
        out.print(f"   {times}, {one['lost_tokens']:,} tokens computed again{usd}")
        if one["lost_tokens_with_tree"] < one["lost_tokens"]:
            out.print(
                f"   a radix tree, which keeps other lines of prompts too, loses {one['lost_tokens_with_tree']:,}"
            )
        for line in _worst(one["worst"]):
            out.print(f"   {line}")
        out.print(f"   fix: {one['fix']}")
        mends = [f"{level}: {tokens:,} tokens" for level, tokens in one["canonical"].items() if tokens]
        if mends:
            out.print(f"   the canonicaliser would keep, {', '.join(mends)}")
        elif one["canonical"] and "canonical" in one["fix"]:
            out.print("   (tried on these prompts, the canonicaliser keeps no more of them)")
    if num_all > len(findings):
        out.print(f"\n… and {num_all - len(findings):,} more (--limit)")


def _worst(worst: Mapping[str, Any]) -> Iterator[str]:
    label = f" ({printable(worst['request_label'])})" if worst["request_label"] else ""
    yield (
        f"worst: {printable(worst['request'])}{label} after {printable(worst['after'])}, session "
        f"{printable(str(worst['session']))}"
    )
    yield (
        f"at {printable(worst['pointer']) or '/'} byte {worst['offset']:,}, byte {worst['at_byte']:,} of the prompt: "
        f"{worst['kept_tokens']:,} of {worst['reachable_tokens']:,} tokens kept"
    )
    if "before" in worst:
        yield f"- {_excerpt(worst['before'])}"
        yield f"+ {_excerpt(worst['after_text'])}"


def _excerpt(text: str) -> str:
    return printable(text if len(text) <= _MOST_EXCERPT else text[:_MOST_EXCERPT] + "…")


def _print_rules(shown: Mapping[str, Any]) -> None:
    if not shown["cache_rules"]:
        return
    table = new_table(
        "what caches have of the kept prefixes",
        "shortest",
        "steps of",
        "below it",
        "rounded off",
        show_edge=False,
    )
    for row in shown["cache_rules"]:
        least = (
            f"{row['min_tokens']:,}"
            if row["min_tokens"]
            else "by model"
            if row["cache"] == "Anthropic"
            else "–"
        )
        below = f"{row['num_below_minimum']:,} of {row['num_prefixes']:,}"
        rounded = f"{row['rounded_off_tokens']:,}{_percent(row['rounded_off_tokens'], row['kept_tokens'])}"
        table.add_row(row["cache"], least, str(row["step_tokens"]), below, rounded)
    out.print()
    out.print(table)


def _remarks(shown: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about what is no break, and costs all the same."""
    kept = max(shown["kept_tokens"], 1)
    if shown["num_compared"] and shown["one_slot_kept_tokens"] < 0.9 * kept:
        yield (
            f"one slot for all sessions (llama.cpp with --parallel 1) would keep {shown['one_slot_kept_tokens']:,} of "
            f"the {shown['kept_tokens']:,} tokens that sessions keep: {shown['num_lineages']:,} lines of prompts take "
            "turns"
        )
    several = shown["num_sessions_with_several_lineages"]
    if several and shown["kept_ratio_with_tree"] > shown["kept_ratio"] + 0.01:
        yield (
            f"{plural(several, 'session')} with more than one line of prompts: an engine with one slot for a session "
            "computes each anew when they take turns"
        )
    if bare := shown["num_without_cache_control"]:
        yield (
            f"{bare:,} of {plural(shown['num_anthropic'], 'request')} to Anthropic's API without `cache_control`: "
            "nothing of them is cached there (this server's `cache_hints: auto` adds the marks)"
        )
    for row in shown["pauses"]["pauses"]:
        if row["num"]:
            yield (
                f"{plural(row['num'], 'pause')} of more than {row['longer_than']} in a session: a provider that keeps "
                f"prefixes no longer computes {row['kept_tokens']:,} kept tokens again"
            )
    measured = shown["measured"]
    if measured["num_told"]:
        yield (
            f"measured by the providers, in {plural(measured['num_told'], 'reply', 'replies')}: "
            f"{measured['cached_tokens']:,} of {measured['prompt_tokens']:,} prompt tokens from their caches; "
            f"{measured['kept_tokens']:,} were shared with an earlier prompt"
        )


def _print_skipped(shown: Mapping[str, Any]) -> None:
    if shown["num_other"]:
        out.print(f"{plural(shown['num_other'], 'request')} without a prompt left out")
    if shown["num_skipped"]:
        out.print(f"{plural(shown['num_skipped'], 'line')} could not be read:")
        for one in shown["skipped"][:_MOST_SKIPPED]:
            out.print(f"  {printable(one['file'])}, line {one['line']}: {printable(one['reason'])}")


def _percent(part: int, whole: int) -> str:
    return f" ({part / whole:.1%})" if whole else ""
