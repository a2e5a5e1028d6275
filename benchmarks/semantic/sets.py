"""The question sets: labelled pairs, conversations, and questions with intents. Halves share no pair.

The data folder's README names their sources and licences. A half is decided by each pair's id alone, so a set may
grow and keep its halves.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Half = Literal["tune", "report", "whole"]
LANGUAGES = ("en", "zh", "en-zh")


@dataclass(frozen=True, slots=True)
class Labelled:
    """Two questions, and whether one answer serves both."""

    id: str
    a: str
    b: str
    same_answer: bool
    category: str
    lang: str


@dataclass(frozen=True, slots=True)
class Conversations:
    """Two conversations: their messages, oldest first, and whether one answer serves both last ones."""

    id: str
    a: list[dict[str, str]]
    b: list[dict[str, str]]
    same_answer: bool
    category: str


@dataclass(frozen=True, slots=True)
class Intents:
    """Questions, each with the intent that it was written for."""

    name: str
    texts: list[str]
    intents: list[str]


def data_folder() -> Path:
    """Where the sets are: $OPENCLAW_CACHE_QUESTIONS, or a checkout's sibling `shared/data/semantic`."""
    given = os.environ.get("OPENCLAW_CACHE_QUESTIONS")
    return Path(given) if given else Path(__file__).resolve().parents[3] / "shared/data/semantic"


def half_of(id_: str) -> Half:
    """Which half a pair belongs to: half of all ids each, whatever their order."""
    return "tune" if int(hashlib.sha256(id_.encode()).hexdigest(), 16) % 2 == 0 else "report"


def pairs(folder: Path, half: Half) -> list[Labelled]:
    """English, Chinese, and cross-language pairs of a half."""
    found = [*_pairs_in(folder / "fow_pairs.jsonl"), *_pairs_in(folder / "zh_pairs.jsonl")]
    return [pair for pair in found if half in ("whole", half_of(pair.id))]


def conversations(folder: Path, half: Half) -> list[Conversations]:
    """Pairs of conversations of a half."""
    found = [
        Conversations(row["id"], row["a"], row["b"], row["same_answer"], row["subtype"])
        for path in sorted((folder / "fow_conversations").glob("*.jsonl"))
        for row in _rows(path)
    ]
    return [pair for pair in found if half in ("whole", half_of(pair.id))]


def intents(folder: Path) -> list[Intents]:
    """The two sets of questions by intent; of the larger one its test part."""
    with (folder / "banking77_test.csv").open(encoding="utf-8", newline="") as lines:
        banking = list(csv.DictReader(lines))
    clinc = json.loads((folder / "clinc150_data_full.json").read_text(encoding="utf-8"))["test"]
    return [
        Intents("banking77", [row["text"] for row in banking], [row["category"] for row in banking]),
        Intents("clinc150", [text for text, _ in clinc], [intent for _, intent in clinc]),
    ]


def _pairs_in(path: Path) -> Iterable[Labelled]:
    for row in _rows(path):
        yield Labelled(
            row["id"], row["a"], row["b"], row["same_answer"], row["category"], row.get("lang", "en")
        )


def _rows(path: Path) -> Iterable[dict]:  # type: ignore[type-arg]
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)
