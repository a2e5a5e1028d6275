"""The pairs that shipped calibrations are made of: questions written for it, and the tune half of the sets."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.semantic import sets
from benchmarks.semantic.sets import Labelled
from benchmarks.semantic.vectors import Vectors

_QUESTIONS = Path(__file__).parent / "questions.txt"
_CHINESE = re.compile(r"[一-鿿]")
_OPENINGS = ("hi, ", "hello! ", "um ", "so ", "please tell me: ", "quick question: ", "ok ", "hey, ")
_OPENINGS_ZH = ("你好，", "请问", "想问一下，", "麻烦问下，", "那个，")
_CLOSINGS = (" thanks", " please", " ?", "??", " thank you!", "...")
_CLOSINGS_ZH = ("谢谢", "，谢谢！", "？", "呢", "呀")


def written(seed: int = 7) -> list[Labelled]:
    """All pairs of the questions file: within a block, and repeats of its questions as people type them."""
    found: list[Labelled] = []
    for number, (same, other) in enumerate(_blocks()):
        randomly = random.Random(f"{seed}-{number}")
        pairs = [
            *(_labelled(a, b, True, "paraphrase") for a, b in itertools.combinations(same, 2)),
            *(_labelled(text, _retyped(text, randomly), True, "near_repeat") for text in same),
            *_traps(same, other),
        ]
        found += [_named(pair, f"w{number:03}-{order:02}") for order, pair in enumerate(pairs)]
    return found


def material(folder: Path) -> list[Labelled]:
    """All that shipped calibrations are made of. Of the written repeats one per block and language, so that they are
    a third of the pairs of one answer, as in the set of English pairs."""
    kept: list[Labelled] = []
    repeated: set[tuple[str, str]] = set()
    for pair in written():
        block = (pair.id.split("-")[0], pair.lang)
        if pair.category != "near_repeat" or block not in repeated:
            kept.append(pair)
        if pair.category == "near_repeat":
            repeated.add(block)
    return [*kept, *sets.pairs(folder, "tune")]


def by_intent(folder: Path, vectors: Vectors) -> list[Labelled]:
    """Questions of the tune half of the intent sets, each with its two nearest, one answer where the intent is one.

    An intent is not quite an answer, so these pairs teach weights and tell nothing of limits.
    """
    found: dict[frozenset[str], Labelled] = {}
    for questions in sets.intents(folder):
        own = [place for place, text in enumerate(questions.texts) if sets.half_of(text) == "tune"]
        rows = vectors.of(questions.texts[place] for place in own)
        cosines = rows @ rows.T
        np.fill_diagonal(cosines, -1)
        for one, nearest in zip(own, np.argsort(-cosines, axis=1)[:, :2], strict=True):
            for other in (own[near] for near in nearest):
                a, b = questions.texts[one], questions.texts[other]
                same = questions.intents[one] == questions.intents[other]
                if a != b:
                    found.setdefault(frozenset((a, b)), Labelled("", a, b, same, questions.name, "en"))
    return list(found.values())


def _traps(same: list[str], other: list[str]) -> Iterator[Labelled]:
    """Each trap with two questions of the block in its own language, and one of the other language."""
    for order, trap in enumerate(other):
        own = [text for text in same if _lang(text) == _lang(trap)]
        foreign = [text for text in same if _lang(text) != _lang(trap)]
        yield _labelled(own[0], trap, False, "trap")
        if len(own) > 1:
            yield _labelled(own[1 + order % (len(own) - 1)], trap, False, "trap")
        if foreign:
            yield _labelled(foreign[order % len(foreign)], trap, False, "trap")


def _blocks() -> Iterator[tuple[list[str], list[str]]]:
    text = _QUESTIONS.read_text(encoding="utf-8")
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        same = [line[2:] for line in lines if line.startswith("= ")]
        if same:
            yield same, [line[2:] for line in lines if line.startswith("! ")]


def _labelled(a: str, b: str, same_answer: bool, category: str) -> Labelled:
    languages = {_lang(a), _lang(b)}
    return Labelled("", a, b, same_answer, category, languages.pop() if len(languages) == 1 else "en-zh")


def _named(pair: Labelled, id_: str) -> Labelled:
    return Labelled(id_, pair.a, pair.b, pair.same_answer, pair.category, pair.lang)


def _lang(text: str) -> str:
    return "zh" if _CHINESE.search(text) else "en"


def _retyped(text: str, randomly: random.Random) -> str:
    """The text as someone else types it: slips, case, an opening, a closing."""
    if _lang(text) == "zh":
        return randomly.choice(("", *_OPENINGS_ZH)) + text.rstrip("？") + randomly.choice(_CLOSINGS_ZH)
    ways = randomly.sample(("case", "opening", "closing", "slip"), k=randomly.choice((1, 1, 2)))
    for way in ways:
        if way == "case":
            text = randomly.choice((str.lower, str.upper))(text)
        elif way == "opening":
            text = randomly.choice(_OPENINGS) + text
        elif way == "closing":
            text = text.rstrip("?") + randomly.choice(_CLOSINGS)
        else:
            text = _slipped(text, randomly)
    return text


def _slipped(text: str, randomly: random.Random) -> str:
    """One typing slip inside a word of plain lower-case letters, five at least."""
    spans = [match.span() for match in re.finditer(r"\b[a-z]{5,}\b", text)]
    if not spans:
        return text
    start, end = randomly.choice(spans)
    at = randomly.randrange(start + 1, end - 2)
    slip = randomly.choice(("drop", "double", "swap"))
    if slip == "drop":
        return text[:at] + text[at + 1 :]
    if slip == "double":
        return text[:at] + text[at] + text[at:]
    return text[:at] + text[at + 1] + text[at] + text[at + 2 :]
