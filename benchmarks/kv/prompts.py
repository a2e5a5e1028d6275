"""What the benchmark asks: this repository's own documents as text, and random tokens where only time matters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.engine.model import LanguageModel

REPOSITORY = Path(__file__).resolve().parents[2]
FIRST_PLAIN, LAST_PLAIN = 1_000, 40_000  # token ids of ordinary text in SmolLM2's vocabulary


def random_tokens(num_tokens: int, seed: int) -> list[int]:
    """A prompt that shares no prefix with another seed's, but by a rare accident of one token."""
    return np.random.default_rng(seed).integers(FIRST_PLAIN, LAST_PLAIN, num_tokens).tolist()


def documents(model: LanguageModel) -> NDArray[np.int32]:
    """Tokens of English prose and tables: the documents of this repository, one after the other."""
    files = [REPOSITORY / "LICENSE", *sorted((REPOSITORY / "docs").rglob("*.md")), REPOSITORY / "README.md"]
    text = "\n\n".join(file.read_text() for file in files)
    return np.array(model.encode_text(text), np.int32)


QUESTIONS = (
    "Which part of this matters most for somebody who has never seen it?",
    "Say in one sentence what happens when the disk is full.",
    "What would you change first, and why?",
    "Name two words that are used here in an unusual way.",
    "Is anything said about time? Quote it.",
    "Now explain your last answer to a child.",
    "What is missing from this text?",
    "Give a short example.",
)


def question(agent: int, turn: int) -> str:
    """A user's message that no other agent sends in this turn."""
    return f"I am agent number {agent}. {QUESTIONS[(agent + turn) % len(QUESTIONS)]}"
