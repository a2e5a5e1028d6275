"""Five questions in their order, answered by what was counted. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.api.sentences import Sentence, all_shown, all_spoken, said
from openclaw_cache.types import Json

Verdict = Literal["ok", "warn", "bad", "unknown"]
Kind = tuple[str, str]
"""An agent and a model."""
Seen = tuple[Verdict, Sequence[Sentence]]

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
        _step(1, *_fallen(sections["hit_ratio"])),
        _step(2, *_memory(sections)),
        _step(3, *_right(sections, status)),
        _step(4, *_versions(sections, status)),
        _step(5, *_load(shift)),
    ]


def load_shift(
    now: Mapping[Kind, int], before: Mapping[Kind, int], prompt: tuple[float, float]
) -> dict[str, Json]:
    """How requests changed from one time to the next.

    Args:
        now: How many requests, by agent and model.
        before: The same of the time before.
        prompt: Mean prompt tokens of a request, now and before.
    """
    num_now, num_before = sum(now.values()), sum(before.values())
    kinds = now.keys() | before.keys()
    moved = 0.0
    if num_now and num_before:
        # Total variation: the share of requests that would have to be of another kind.
        moved = sum(abs(now.get(k, 0) / num_now - before.get(k, 0) / num_before) for k in kinds) / 2
    new = sorted(now.keys() - before.keys())[:10]
    return {
        "num_requests": num_now,
        "num_requests_before": num_before,
        "moved_share": round(moved, 4),
        "new": [f"{agent} with {model}" for agent, model in new],
        "new_kinds": [{"agent": agent, "model": model} for agent, model in new],
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


def _fallen(ratios: Mapping[str, Mapping[str, Json]]) -> Seen:
    seen: list[Sentence] = []
    verdict: Verdict = "unknown"
    for layer, row in ratios.items():
        ratio, before = row["ratio"], row["before"]
        if ratio is None:
            continue
        if before is None:
            seen.append(said("seen.ratio_alone", layer=layer, ratio=round(ratio, 3)))
            continue
        is_lower = is_fall(row["num_hits"], row["num_lookups"], before, row["num_lookups_before"])
        verdict = "bad" if is_lower or verdict == "bad" else "ok"
        code = "seen.ratio_fallen" if is_lower else "seen.ratio"
        seen.append(said(code, layer=layer, ratio=round(ratio, 3), before_ratio=round(before, 3)))
    return verdict, seen or [said("seen.no_lookup")]


def _memory(sections: Mapping[str, Json]) -> Seen:
    rows = sections["memory"]
    if not rows:
        return "unknown", [said("seen.no_figures")]
    seen = [
        said("seen.used", layer=row["layer"], tier=row["tier"], used_ratio=round(row["used_ratio"], 2))
        for row in rows
        if row["used_ratio"] is not None
    ]
    waste = sections["waste"]
    again = waste["num_evicted_asked_again"]
    num_misses = sum(row["num"] for row in sections["misses"])
    if again and again >= 0.1 * num_misses:
        return "warn", [*seen, said("seen.evicted_asked_again", num_evicted=again, n=num_misses)]
    full = [row for row in rows if (row["used_ratio"] or 0) >= _FULL]
    if full and sum(waste["evictions"].values()):
        seen.append(said("seen.full_tiers_evict"))
    return "ok", seen or [said("seen.no_bound")]


def _right(sections: Mapping[str, Json], status: Mapping[str, Json]) -> Seen:
    seen: list[Sentence] = []
    verdict: Verdict = "ok"
    for word in _WRONG_WORDS:
        if num := sections["waste"]["degraded"].get(word, 0):
            seen.append(said("seen.unreadable", n=num, word=word))
            verdict = "warn"
    for row in (sections.get("semantic") or {}).get("domains") or ():
        estimate, most = row.get("wrong_ratio") or {}, row.get("max_wrong_ratio")
        low = estimate.get("low") if isinstance(estimate, Mapping) else None
        mean = estimate.get("mean") if isinstance(estimate, Mapping) else None
        if mean is not None and most is not None:
            ratios = {"wrong_ratio": round(mean, 3), "max_wrong_ratio": round(most, 3)}
            seen.append(said("seen.wrong_ratio", domain=row["domain"], **ratios))
            if low is not None and low > most:
                verdict = "bad"
    checked = [u for u in status.get("upstreams") or () if (u.get("kv") or {}).get("integrity")]
    if any(u["kv"]["integrity"].get("ok") for u in checked):
        seen.append(said("seen.books"))
    return verdict, seen or [said("seen.checksums")]


def _versions(sections: Mapping[str, Json], status: Mapping[str, Json]) -> Seen:
    num = next((row["num"] for row in sections["misses"] if row["reason"] == "version"), 0)
    invalidated = sum(sections["invalidations"].values())
    fault = (status.get("store") or {}).get("fault")
    if fault:
        return "bad", [said("seen.store_fault", fault=str(fault))]
    if num and not invalidated:
        return "warn", [said("seen.version_alone", n=num)]
    if num:
        return "ok", [said("seen.version", n=num, num_invalidations=invalidated)]
    return "ok", [said("seen.no_version")]


def _load(shift: Mapping[str, Json]) -> Seen:
    now, before = shift["num_requests"], shift["num_requests_before"]
    if before < _LEAST_REQUESTS or now < _LEAST_REQUESTS:
        return "unknown", [said("seen.too_few", n=now, num_before=before)]
    seen = [said("seen.requests", n=now, num_before=before)]
    is_changed = not 1 - _CHANGED <= now / before <= 1 + _CHANGED
    if shift["moved_share"] >= 0.2:
        seen.append(_moved(round(shift["moved_share"], 2), shift["new_kinds"]))
        is_changed = True
    tokens, tokens_before = shift["prompt_tokens"], shift["prompt_tokens_before"]
    if tokens_before and abs(tokens / tokens_before - 1) > _CHANGED:
        seen.append(said("seen.prompts", n=tokens, before_tokens=tokens_before))
        is_changed = True
    return ("warn" if is_changed else "ok"), seen


def _moved(ratio: float, new: Sequence[Mapping[str, str]]) -> Sentence:
    if not new:
        return said("seen.moved", moved_ratio=ratio)
    return said("seen.moved_new", moved_ratio=ratio, kinds=[said("seen.kind", **kind) for kind in new])


def _step(step: int, verdict: Verdict, seen: Sequence[Sentence]) -> Json:
    return {
        "step": step,
        "question": ENGLISH[f"diagnosis.{step}"],
        "verdict": verdict,
        "text": all_spoken(seen, ENGLISH),
        "said": all_shown(seen),
    }
