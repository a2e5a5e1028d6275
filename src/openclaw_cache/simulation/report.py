"""What a study says, as the values that are printed, drawn, or written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from openclaw_cache.simulation.advice import knee, pays_up_to, steps
from openclaw_cache.simulation.costs import GB, RoomPrice, Worth, monthly
from openclaw_cache.simulation.study import FEW_BLOCKS, LRU, Study
from openclaw_cache.simulation.tiers import Found, Tier, Write, found, reaches

_MOST_REPLAYED: Final = 7
_SHARES: Final = (0.05, 0.99)
_LEAST_RISE: Final = 0.005
_STEPS: Final = (10**3, 10**6, GB, 1000 * GB)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the report is to be about."""

    policies: Sequence[str]
    tiers: Sequence[Tier]
    write: Write
    bytes_per_token: float
    """For capacities that belong to no tier."""
    room_prices: Mapping[str, RoomPrice]
    worth: Worth


def report(
    study: Study, asked: Asked, told: Callable[[int], None] = lambda num_replays: None
) -> dict[str, Any]:
    """All figures. Replays the trace for each other policy than LRU and each capacity.

    Args:
        study: of the trace.
        asked: what it is to be about.
        told: called after each replay.
    """
    rows = _rows(study, asked, told)
    tiers = _tiers(study, asked, told)
    curve = study.curve
    best_bytes = curve.num_blocks * _block_bytes(study, asked)
    return {
        "num_requests": curve.num_requests,
        "num_prompt_tokens": curve.num_tokens,
        "block_tokens": study.block_tokens,
        "num_blocks": curve.num_blocks,
        "span_s": study.span_s,
        "bytes_per_token": asked.bytes_per_token,
        "sample": {
            "rate": curve.rate,
            "num_blocks": study.num_sampled_blocks,
            "is_small": curve.rate < 1 and study.num_sampled_blocks < FEW_BLOCKS,
            "replay_rate": None if study.trace is None else study.trace.rate,
            "replay_num_blocks": None if study.trace is None else study.trace.num_blocks,
        },
        "infinite": {
            "hit_ratio": curve.best_ratio,
            "num_blocks": curve.num_blocks,
            "num_bytes": round(best_bytes),
        },
        "policies": list(asked.policies),
        "capacities": rows,
        "write": asked.write,
        "tiers": [_tier_row(one, study, asked, policies) for one, policies in tiers],
        "room_prices": {
            name: {"dollars_per_gb_month": price.dollars, "source": price.source}
            for name, price in asked.room_prices.items()
        },
        "advice": _advice(study, asked, rows, [one for one, _ in tiers]),
    }


def num_replays(study: Study, asked: Asked) -> int:
    """How many replays `report` will do."""
    replayed = sum(policy != LRU for policy in asked.policies)
    return replayed * (len(_replayed(_sizes(study, asked))) + len(asked.tiers))


def curve_points(study: Study, asked: Asked, num: int = 400) -> list[tuple[float, float]]:
    """(bytes, hit ratio) under LRU, close enough to be drawn as a line."""
    sizes = _sizes(study, asked)
    least, most, unit = sizes[0], sizes[-1], _block_bytes(study, asked)
    points = (least * (most / least) ** (i / num) for i in range(num + 1))
    return [(size, study.curve.hit_ratio(int(size / unit))) for size in points]


def _block_bytes(study: Study, asked: Asked) -> float:
    return study.block_tokens * asked.bytes_per_token


def _sizes(study: Study, asked: Asked) -> list[int]:
    curve, unit = study.curve, _block_bytes(study, asked)
    few, nearly_all = (curve.needed(share * curve.best_ratio) for share in _SHARES)
    # Less than a prompt takes is no cache: an engine has to hold the one that it computes.
    a_prompt = curve.num_tokens / max(1, curve.num_requests) / study.block_tokens
    least = min(max(few, a_prompt), nearly_all) * unit
    most = nearly_all * unit
    return _risen(study, unit, steps(least, most))


def _replayed(sizes: Sequence[int]) -> set[int]:
    """Of all sizes those that are replayed, as each takes a while: at most seven, of more not the largest."""
    stride = -(-len(sizes) // _MOST_REPLAYED)
    return set(list(reversed(sizes))[stride - 1 :: stride] or sizes)


def _rows(study: Study, asked: Asked, told: Callable[[int], None]) -> list[dict[str, Any]]:
    unit, sizes = _block_bytes(study, asked), _sizes(study, asked)
    replayed = _replayed(sizes)
    rows = []
    for size in sizes:
        num_blocks = int(size / unit)
        ratios: dict[str, float | None] = {}
        for policy in asked.policies:
            is_done = policy == LRU or size in replayed
            ratios[policy] = study.hit_ratio(policy, num_blocks) if is_done else None
            if is_done and policy != LRU:
                told(1)
        lru = study.curve.hit_ratio(num_blocks)
        step = _step(size)
        rows.append(
            {
                "num_bytes": size,
                "num_blocks": num_blocks,
                "hit_ratio": ratios,
                "miss_ratio": {name: None if value is None else 1 - value for name, value in ratios.items()},
                "next": {
                    "num_bytes": step,
                    "hit_ratio": study.curve.hit_ratio(int((size + step) / unit)) - lru,
                },
            }
        )
    return rows


def _risen(study: Study, unit: float, sizes: Sequence[int]) -> list[int]:
    """Without the sizes that find no more than the one before them, except the last."""
    kept = [sizes[0]]
    for size in sizes[1:]:
        rise = study.curve.hit_ratio(int(size / unit)) - study.curve.hit_ratio(int(kept[-1] / unit))
        if rise >= _LEAST_RISE * study.curve.best_ratio or size == sizes[-1]:
            kept.append(size)
    return kept


def _step(num_bytes: float) -> int:
    """What more room is counted in: a GB, from a GB on; less of less."""
    return max((step for step in _STEPS if step <= min(num_bytes, GB)), default=1)


def _tiers(study: Study, asked: Asked, told: Callable[[int], None]) -> list[tuple[Found, dict[str, float]]]:
    """What each tier adds under the first policy, and what is found up to it under each."""
    by_policy: dict[str, list[float]] = {}
    for policy in asked.policies:
        ratios = []
        for num_blocks in reaches(asked.tiers, asked.write, study.block_tokens):
            ratios.append(study.hit_ratio(policy, num_blocks))
            if policy != LRU:
                told(1)
        by_policy[policy] = ratios
    first = iter(by_policy[asked.policies[0]])
    rows = found(asked.tiers, asked.write, study.block_tokens, lambda _: next(first))
    return [(row, {policy: ratios[i] for policy, ratios in by_policy.items()}) for i, row in enumerate(rows)]


def _tier_row(one: Found, study: Study, asked: Asked, policies: Mapping[str, float]) -> dict[str, Any]:
    price = asked.room_prices.get(one.tier.name)
    tokens = one.hit_ratio * study.curve.num_tokens
    a_month = monthly(tokens, study.span_s)
    return {
        "name": one.tier.name,
        "num_bytes": one.tier.num_bytes,
        "bytes_per_token": one.tier.bytes_per_token,
        "num_blocks": one.num_blocks,
        "reach_blocks": one.reach_blocks,
        "hit_ratio": one.hit_ratio,
        "total_ratio": one.total_ratio,
        "total_ratio_by_policy": dict(policies),
        "room_dollars_a_month": None if price is None else price.dollars * one.tier.num_bytes / GB,
        "num_tokens_found": round(tokens),
        "saved_s": asked.worth.seconds(tokens),
        "saved_dollars": asked.worth.dollars(tokens),
        "saved_dollars_a_month": None if a_month is None else asked.worth.dollars(a_month),
    }


def _advice(
    study: Study, asked: Asked, rows: Sequence[Mapping[str, Any]], tiers: Sequence[Found]
) -> list[dict[str, Any]]:
    curve, unit = study.curve, _block_bytes(study, asked)
    if not curve.best_ratio:
        return [{"id": "nothing", "hit_ratio": 0.0}]
    found_95, at_knee = curve.needed(0.95 * curve.best_ratio), knee(curve)
    advice: list[dict[str, Any]] = [
        {
            "id": "best",
            "hit_ratio": curve.best_ratio,
            "nearly_ratio": curve.hit_ratio(found_95),
            "num_bytes": found_95 * unit,
        },
        {
            "id": "knee",
            "num_bytes": at_knee * unit,
            "hit_ratio": curve.hit_ratio(at_knee),
            "step_bytes": _step(at_knee * unit),
            "before": curve.hit_ratio(at_knee) / (at_knee * unit) * _step(at_knee * unit),
            "behind": max(0.0, curve.best_ratio - curve.hit_ratio(at_knee))
            / max(unit, (curve.num_blocks - at_knee) * unit)
            * _step(at_knee * unit),
        },
    ]
    advice += [_next_of_tier(one, study, asked, tiers[i + 1 :]) for i, one in enumerate(tiers)]
    advice += _pays(study, asked)
    advice += _better_policy(asked, rows)
    return advice


def _next_of_tier(one: Found, study: Study, asked: Asked, below: Sequence[Found]) -> dict[str, Any]:
    """What a little more of a tier would bring: found there, and found at all (not where a larger one lies below)."""
    step = _step(one.tier.num_bytes)
    num_blocks = step / (one.tier.bytes_per_token * study.block_tokens)
    reach = one.num_blocks + num_blocks if asked.write == "through" else one.reach_blocks + num_blocks
    more = max(0.0, study.curve.hit_ratio(int(reach)) - study.curve.hit_ratio(one.reach_blocks))
    price = asked.room_prices.get(one.tier.name)
    tokens = monthly(more * study.curve.num_tokens, study.span_s)
    return {
        "id": "next",
        "tier": one.tier.name,
        "step_bytes": step,
        "hit_ratio": more,
        "adds_nothing": one.hit_ratio <= 0,
        "is_found_below": any(lower.total_ratio >= one.total_ratio + more for lower in below),
        "room_dollars_a_month": None if price is None else price.dollars * step / GB,
        "saved_dollars_a_month": None if tokens is None else asked.worth.dollars(tokens),
    }


def _pays(study: Study, asked: Asked) -> list[dict[str, Any]]:
    """Up to which size a tier's room costs less than the tokens that it saves."""
    all_tokens = monthly(study.curve.num_tokens, study.span_s)
    dollars = None if all_tokens is None else asked.worth.dollars(all_tokens)
    if not dollars:
        return []
    result = []
    for tier in asked.tiers:
        price = asked.room_prices.get(tier.name)
        if price is not None:
            unit = tier.bytes_per_token * study.block_tokens
            num_blocks = pays_up_to(study.curve, price.dollars * unit / GB, dollars)
            result.append(
                {
                    "id": "pays",
                    "tier": tier.name,
                    "num_bytes": None if num_blocks is None else num_blocks * unit,
                    "hit_ratio": None if num_blocks is None else study.curve.hit_ratio(num_blocks),
                }
            )
    return result


def _better_policy(asked: Asked, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Where another policy is furthest from LRU."""
    result = []
    for policy in asked.policies:
        done = [row for row in rows if row["hit_ratio"].get(LRU) is not None]
        done = [row for row in done if row["hit_ratio"][policy] is not None]
        if policy != LRU and done:
            row = max(done, key=lambda row: row["hit_ratio"][policy] - row["hit_ratio"][LRU])
            result.append(
                {
                    "id": "policy",
                    "policy": policy,
                    "num_bytes": row["num_bytes"],
                    "hit_ratio": row["hit_ratio"][policy],
                    "lru_ratio": row["hit_ratio"][LRU],
                }
            )
    return result
