"""What `simulate` prints for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from openclaw_cache.console import new_table, out, plural, printable, size, span

_BOUNDS: Final = {"belady": "belady (bound)", "held": "held (bound)"}


def print_simulation(shown: Mapping[str, Any]) -> None:
    """Print a report."""
    _print_head(shown)
    _print_capacities(shown)
    if shown["tiers"]:
        _print_tiers(shown)
    for advice in shown["advice"]:
        out.print(_sentence(advice))
    for note in shown["notes"]:
        out.print(f"note: {printable(note)}")


def _print_head(shown: Mapping[str, Any]) -> None:
    blocks = f"{plural(shown['num_blocks'], 'block')} of {shown['block_tokens']}"
    out.print(
        f"{printable(shown['file'])} ({shown['form']}): {plural(shown['num_requests'], 'request')} in "
        f"{span(shown['span_s'])}, {shown['num_prompt_tokens']:,} prompt tokens, {blocks}, "
        f"{shown['bytes_per_token']:,.0f} bytes of KV a token"
    )
    sample = shown["sample"]
    how = "exact, one pass" if sample["rate"] >= 1 else f"from {_rate(sample['rate'])} of the blocks"
    rate = sample["replay_rate"]
    replays = (
        "" if rate is None else f"; others: replays of {'all' if rate >= 1 else _rate(rate)} of the blocks"
    )
    out.print(f"lru: {how}{replays}")


def _rate(rate: float) -> str:
    return f"{rate:.3%}".rstrip("0%").rstrip(".") + " %"


def _print_capacities(shown: Mapping[str, Any]) -> None:
    policies = shown["policies"]
    table = new_table(
        "room", "blocks", *(_BOUNDS.get(name, name) for name in policies), "more room brings (lru)"
    )
    for row in shown["capacities"]:
        following = row["next"]
        brings = f"{size(following['num_bytes'])}: {following['hit_ratio']:+.4f}"
        ratios = (_ratio(row["hit_ratio"][name]) for name in policies)
        table.add_row(size(row["num_bytes"]), f"{row['num_blocks']:,}", *ratios, brings)
    best = shown["infinite"]
    everything = [_ratio(best["hit_ratio"]) for _ in policies]
    table.add_row(f"all, {size(best['num_bytes'])}", f"{best['num_blocks']:,}", *everything, "")
    out.print(table)


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _print_tiers(shown: Mapping[str, Any]) -> None:
    first, *others = shown["policies"]
    has_s = any(row["saved_s"] is not None for row in shown["tiers"])
    has_dollars = any(row["saved_dollars_a_month"] is not None for row in shown["tiers"])
    headers = ["tier", "room", "blocks", f"found in it ({first})", "up to here"]
    headers += [f"up to here ({name})" for name in others] + ["room, $/month"]
    headers += ["prefill saved"] * has_s + ["saves, $/month"] * has_dollars
    table = new_table(*headers, title=f"tiers, write: {shown['write']}")
    for row in shown["tiers"]:
        cells = [row["name"], size(row["num_bytes"]), f"{row['num_blocks']:,}"]
        cells += [f"{row['hit_ratio']:.3f}", f"{row['total_ratio']:.3f}"]
        cells += [f"{row['total_ratio_by_policy'][name]:.3f}" for name in others]
        cells += [_dollars(row["room_dollars_a_month"])]
        cells += [span(row["saved_s"])] * has_s if row["saved_s"] is not None else []
        cells += [_dollars(row["saved_dollars_a_month"])] * has_dollars
        table.add_row(*cells)
    out.print(table)


def _dollars(value: float | None) -> str:
    return "" if value is None else f"{value:,.2f}"


def _sentence(advice: Mapping[str, Any]) -> str:
    match advice["id"]:
        case "nothing":
            return "no prompt begins as an earlier one does for a whole block: no cache of prefixes would find anything"
        case "best":
            return (
                f"{advice['hit_ratio']:.3f} of the prompt tokens can be found at all; the others come for the first "
                f"time. {advice['nearly_ratio']:.3f} needs {size(advice['num_bytes'])} under lru."
            )
        case "knee":
            step = size(advice["step_bytes"])
            return (
                f"The curve bends at {size(advice['num_bytes'])} ({advice['hit_ratio']:.3f}): up to there {step} "
                f"brings {advice['before']:.5f} on average, behind it {advice['behind']:.5f}."
            )
        case "next":
            return _next(advice)
        case "pays":
            return _pays(advice)
    return (
        f"{advice['policy']}: at {size(advice['num_bytes'])} it finds {advice['hit_ratio']:.3f} where lru finds "
        f"{advice['lru_ratio']:.3f}; there it is furthest ahead."
    )


def _next(advice: Mapping[str, Any]) -> str:
    if advice["adds_nothing"]:
        return (
            f"{advice['tier']}: it adds nothing. What is written through stands in all tiers, so each has to be "
            "larger than the one above it, and the curve must still rise there."
        )
    more = f"{advice['hit_ratio']:+.4f}"
    text = f"{advice['tier']}: {size(advice['step_bytes'])} more would bring {more}"
    if advice["is_found_below"]:
        text = f"{advice['tier']}: {size(advice['step_bytes'])} more would have {more} here that lower tiers have now"
    if (cost := advice["room_dollars_a_month"]) is not None:
        text += f", for ${cost:,.2f} a month"
    if (saved := advice["saved_dollars_a_month"]) is not None and not advice["is_found_below"]:
        text += f", and save ${saved:,.2f} a month"
    return text + "."


def _pays(advice: Mapping[str, Any]) -> str:
    if advice["num_bytes"] is None:
        return f"{advice['tier']}: no size of it saves as much as it costs."
    return (
        f"{advice['tier']}: alone, {size(advice['num_bytes'])} of it save most over what they cost "
        f"({advice['hit_ratio']:.3f} found)."
    )
