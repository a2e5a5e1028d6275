"""What has to go from turns and recalls when memories are forgotten."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from openclaw_cache.memory.record import Memory, Turn
from openclaw_cache.types import Json

REDACTED: Final = "[forgotten]"
"""Stands where a forgotten text was."""

_FEWEST_CHARS: Final = 4
_WORD_CHARS: Final = 8
"""A single plain word that is shorter is too common to be taken out of all that was ever said."""
_PLAIN_WORD: Final = re.compile(r"[^\W\d_]+")
_HAN: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def texts_to_redact(removed: Sequence[Memory]) -> list[str]:
    """The texts to take out of turns, messages and recalls for these memories: every version's, longest first.

    Longest first, so that one that holds another goes as a whole. Too short ones stay, as they would take out what
    others said: fewer than four characters, and single words of fewer than eight letters.
    """
    texts = {memory.text.strip() for memory in removed}
    return sorted(filter(_tells, texts), key=lambda text: (-len(text), text))


def _tells(text: str) -> bool:
    if len(text) < _FEWEST_CHARS:
        return False
    is_word = _PLAIN_WORD.fullmatch(text) is not None and _HAN.search(text) is None
    return not is_word or len(text) >= _WORD_CHARS


def forms_of(text: str) -> tuple[str, str]:
    """A text, and the same within JSON that is itself a text, such as a tool call's arguments."""
    return text, json.dumps(text, ensure_ascii=False)[1:-1]


def pattern_of(texts: Sequence[str]) -> re.Pattern[str]:
    """What finds these texts, at least one and none empty; of two that overlap the longer one."""
    forms = {form for text in texts if text for form in forms_of(text)}
    return re.compile(
        "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
    )


def replaced(value: Json, pattern: re.Pattern[str], mark: str) -> Json:
    """A content with `mark` in place of whatever the pattern finds in its texts and names."""
    if isinstance(value, str):
        return pattern.sub(lambda _: mark, value)
    if isinstance(value, list):
        return [replaced(part, pattern, mark) for part in value]
    if isinstance(value, dict):
        return {replaced(name, pattern, mark): replaced(part, pattern, mark) for name, part in value.items()}
    return value


class LatelyForgotten:
    """What was forgotten since the process began, so that a turn that was under way does not bring it back.

    A model forgets with a tool, in the middle of a turn. That turn is committed afterwards, with the words that are to
    be forgotten in the question, in what a search found, and in the reply. Kept in memory only; the oldest go first.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[str, str, float, tuple[str, ...]]] = deque(maxlen=1000)

    def note(self, namespace: str, agent: str, at: float, texts: Sequence[str]) -> None:
        """Remember that an agent forgot these texts (`texts_to_redact`)."""
        if texts:
            self._kept.append((namespace, agent, at, tuple(texts)))

    def cleaned(self, namespace: str, agent: str, turn: Turn) -> Turn:
        """A turn that is about to be kept, without what was forgotten since it began."""
        began = min((message.at for message in turn.messages), default=turn.at)
        texts = [
            text
            for its_namespace, its_agent, at, some in list(self._kept)
            if (its_namespace, its_agent) == (namespace, agent) and began <= at
            for text in some
        ]
        if not texts:
            return turn
        pattern = pattern_of(texts)
        return msgspec.structs.replace(
            turn,
            messages=tuple(
                msgspec.structs.replace(m, content=replaced(m.content, pattern, REDACTED))
                for m in turn.messages
            ),
        )
