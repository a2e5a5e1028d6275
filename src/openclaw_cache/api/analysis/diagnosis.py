"""Five questions in their order, answered by what was counted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

from openclaw_cache.types import Json

Verdict = Literal["ok", "warn", "bad", "unknown"]

_LEAST_FALL: Final = 0.05
_SURE: Final = 3.29
"""Standard errors: a fall that chance alone shows once in a thousand times."""
_LEAST_LOOKUPS: Final = 50
_FULL: Final = 0.95
_CHANGED: Final = 0.5
_LEAST_REQUESTS: Final = 20
_WRONG_WORDS: Final = ("entry_corrupt", "entry_key_unknown")


def diagnosis(
    sections: Mapping[str, Json], status: Mapping[str, Json], shift: Mapping[str, Json]
) -> list[Json]:
    """The five steps, each with a verdict and what it saw.

    Args:
        sections: `hit_ratio`, `misses`, `memory`, `waste`, `requests`, `semantic` of an analysis.
        status: What `/admin/status` says.
        shift: How the load changed (`load_shift`).
    """
    return [
        _step(1, "Has the hit ratio fallen abnormally?", *_fallen(sections["hit_ratio"])),
        _step(2, "How is the cache's memory used?", *_memory(sections)),
        _step(3, "Is what is cached right?", *_right(sections, status)),
        _step(4, "Do versions fit together?", *_versions(sections, status)),
        _step(5, "Has the load changed?", *_load(shift)),
    ]


def load_shift(
    now: Mapping[str, int], before: Mapping[str, int], prompt: tuple[float, float]
) -> dict[str, Json]:
    """How requests changed from one time to the next.

    Args:
        now: How many requests, by agent and model, in words.
        before: The same of the time before.
        prompt: Mean prompt tokens of a request, now and before.
    """
    num_now, num_before = sum(now.values()), sum(before.values())
    kinds = now.keys() | before.keys()
    moved = 0.0
    if num_now and num_before:
        # Total variation: the share of requests that would have to be of another kind.
        moved = sum(abs(now.get(k, 0) / num_now - before.get(k, 0) / num_before) for k in kinds) / 2
    return {
        "num_requests": num_now,
        "num_requests_before": num_before,
        "moved_share": round(moved, 4),
        "new": sorted(now.keys() - before.keys())[:10],
        "prompt_tokens": round(prompt[0]),
        "prompt_tokens_before": round(prompt[1]),
    }


def is_fall(hits: int, lookups: int, ratio_before: float, lookups_before: int) -> bool:
    """Whether a hit ratio is lower than before by more than chance and more than a little (two-proportion z-test)."""
    if min(lookups, lookups_before) < _LEAST_LOOKUPS:
        return False
    ratio = hits / lookups
    pooled = (hits + ratio_before * lookups_before) / (lookups + lookups_before)
    error = math.sqrt(max(pooled * (1 - pooled), 1e-12) * (1 / lookups + 1 / lookups_before))
    return ratio_before - ratio > max(_LEAST_FALL, _SURE * error)


def _fallen(ratios: Mapping[str, Mapping[str, Json]]) -> tuple[Verdict, str]:
    said, verdict, known = [], "ok", 0
    for layer, row in ratios.items():
        if row["ratio"] is None:
            continue
        if row["before"] is None:
            said.append(f"{layer} {row['ratio']:.1%}, nothing to compare with")
            continue
        known += 1
        said.append(f"{layer} {row['ratio']:.1%}, before {row['before']:.1%}")
        if is_fall(row["num_hits"], row["num_lookups"], row["before"], row["num_lookups_before"]):
            verdict, said[-1] = "bad", said[-1] + ": fallen"
    if not said:
        return "unknown", "nothing was looked up"
    return (verdict if known else "unknown"), "; ".join(said)  # type: ignore[return-value]


def _memory(sections: Mapping[str, Json]) -> tuple[Verdict, str]:
    rows = sections["memory"]
    if not rows:
        return "unknown", "no figures of this time"
    said = [
        f"{row['layer']} {row['tier']} {row['used_ratio']:.0%} full"
        for row in rows
        if row["used_ratio"] is not None
    ]
    waste = sections["waste"]
    again = waste["num_evicted_asked_again"]
    num_misses = sum(row["num"] for row in sections["misses"])
    if again and again >= 0.1 * num_misses:
        return "warn", f"{'; '.join(said)}; {again:,} of {num_misses:,} misses had been evicted"
    full = [row for row in rows if (row["used_ratio"] or 0) >= _FULL]
    if full and sum(waste["evictions"].values()):
        said.append("full tiers evict, which costs little until evicted prompts are asked again")
    return "ok", "; ".join(said) or "no tier has a bound"


def _right(sections: Mapping[str, Json], status: Mapping[str, Json]) -> tuple[Verdict, str]:
    said: list[str] = []
    verdict: Verdict = "ok"
    for word in _WRONG_WORDS:
        if num := sections["waste"]["degraded"].get(word, 0):
            said.append(f"{num:,} stored replies could not be read ({word}); each was a miss")
            verdict = "warn"
    for row in (sections.get("semantic") or {}).get("domains") or ():
        estimate, most = row.get("wrong_ratio") or {}, row.get("max_wrong_ratio")
        low = estimate.get("low") if isinstance(estimate, Mapping) else None
        mean = estimate.get("mean") if isinstance(estimate, Mapping) else None
        if mean is not None and most is not None:
            said.append(f"by meaning, {row['domain']}: {mean:.1%} wrong, promised {most:.1%}")
            if low is not None and low > most:
                verdict = "bad"
    checked = [u for u in status.get("upstreams") or () if (u.get("kv") or {}).get("integrity")]
    if any(u["kv"]["integrity"].get("ok") for u in checked):
        said.append("the KV cache's books add up")
    return verdict, "; ".join(said) or "every stored reply that was read had its checksum"


def _versions(sections: Mapping[str, Json], status: Mapping[str, Json]) -> tuple[Verdict, str]:
    num = next((row["num"] for row in sections["misses"] if row["reason"] == "version"), 0)
    invalidated = sum(sections["invalidations"].values())
    fault = (status.get("store") or {}).get("fault")
    if fault:
        return "bad", str(fault)
    if num and not invalidated:
        return (
            "warn",
            f"{num:,} misses because the model's identity or epoch changed, and nobody invalidated it",
        )
    if num:
        return "ok", f"{num:,} misses after {invalidated:,} invalidations: they heal as replies come in"
    return "ok", "no miss is due to a version"


def _load(shift: Mapping[str, Json]) -> tuple[Verdict, str]:
    now, before = shift["num_requests"], shift["num_requests_before"]
    if before < _LEAST_REQUESTS or now < _LEAST_REQUESTS:
        return "unknown", f"{now:,} requests, {before:,} in the time before: too few to compare"
    said = [f"{now:,} requests, before {before:,}"]
    is_changed = not 1 - _CHANGED <= now / before <= 1 + _CHANGED
    if shift["moved_share"] >= 0.2:
        new = f" (new: {', '.join(shift['new'])})" if shift["new"] else ""
        said.append(f"{shift['moved_share']:.0%} of them of another agent or model{new}")
        is_changed = True
    tokens, tokens_before = shift["prompt_tokens"], shift["prompt_tokens_before"]
    if tokens_before and abs(tokens / tokens_before - 1) > _CHANGED:
        said.append(f"prompts of {tokens:,} tokens, before {tokens_before:,}")
        is_changed = True
    return ("warn" if is_changed else "ok"), "; ".join(said)


def _step(step: int, question: str, verdict: Verdict, text: str) -> Json:
    return {"step": step, "question": question, "verdict": verdict, "text": text}
