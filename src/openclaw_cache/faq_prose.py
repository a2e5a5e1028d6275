"""Questions and answers in Markdown or plain text.

Either paragraphs that begin with `Q:` and `A:` (`问：` and `答：`; also in bold, in a list, numbered or as a heading),
or headings with their answers below them. Of the levels of headings the questions are on one: the one with most
question marks, or else with most headings, the deeper of two. What lies above is a title, what lies below belongs to
the answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_BEFORE: Final = r"[ \t]*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d{1,4}[.)、][ \t]*)?(?P<mark>\*\*|__)?"
_AFTER: Final = r"[ \t]*\d{0,4}(?:\*\*|__)?[ \t]*[:：](?(mark)(?:\*\*|__)?)[ \t]*(?P<text>.*)"
_ASKED: Final = re.compile(rf"{_BEFORE}(?:Q|Question|问题|问){_AFTER}", re.IGNORECASE)
_ANSWERED: Final = re.compile(rf"{_BEFORE}(?:A|Answer|回答|答案|答){_AFTER}", re.IGNORECASE)
_NUMBER: Final = re.compile(r"(?:\d{1,3}[.)、:：]|[(（]\d{1,3}[)）])(?!\d)[ \t]*(?=\S)")
_ANCHOR: Final = re.compile(r"[ \t]*\{#[\w-]+\}$")
_MARKS: Final = ("?", "？")


@dataclass(slots=True)
class _Line:
    """One line, and what it can be."""

    number: int
    text: str
    is_code: bool
    level: int = 0
    """Of a heading; 0 where it is none."""
    title: str = ""

    def told(self, pattern: re.Pattern[str]) -> str | None:
        """The text after a `Q:` or `A:`; None where there is none such."""
        found = None if self.is_code else pattern.fullmatch(self.text)
        return None if found is None else _bare(found["text"], found["mark"] or "")


@dataclass(slots=True)
class _Question:
    number: int
    asked: list[str]
    answer: list[_Line] = field(default_factory=list)


def read_prose(path: Path, text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each question with its place, and its answer where there is one. Raises ConfigError, naming file and line."""
    lines = _lines(path, text)
    num_asked = sum(line.told(_ASKED) is not None for line in lines)
    level, num_headings = _level_of_questions(lines)
    by_marks = (
        num_asked > 0 and num_asked >= num_headings
    )  # a few "问题：" may stand in the answers below headings
    for found in _by_marks(lines) if by_marks else _by_headings(lines, level):
        answer = "\n".join(line.text for line in found.answer).strip("\n").rstrip()
        question = " ".join(part.strip() for part in found.asked if part.strip())
        pair = {"question": question} if question else {}
        yield f"{path}, line {found.number}", pair | ({"answer": answer} if answer.strip() else {})


def _lines(path: Path, text: str) -> list[_Line]:
    """All lines, with what is code told apart."""
    lines: list[_Line] = []
    fence, opened_at = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        found = _FENCE.fullmatch(line)
        if fence:
            lines.append(_Line(number, line, is_code=True))
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence, opened_at = found[1], number
            lines.append(_Line(number, line, is_code=True))
        else:
            heading = _HEADING.fullmatch(line)
            level, title = (len(heading[1]), _title(heading[2])) if heading else (0, "")
            lines.append(_Line(number, line, is_code=False, level=level, title=title))
    if fence:
        raise ConfigError(f"{path}, line {opened_at}: the code block that begins here has no end")
    return lines


def _level_of_questions(lines: Sequence[_Line]) -> tuple[int, int]:
    """The level of headings that questions are on, and how many headings it has."""
    headings = [line for line in lines if line.level and line.title]
    counts = Counter(line.level for line in headings)
    marked = Counter(line.level for line in headings if line.title.endswith(_MARKS))
    level = max(counts, key=lambda level: (marked[level], counts[level], level), default=0)
    return level, counts[level]


def _by_headings(lines: Sequence[_Line], level: int) -> Iterator[_Question]:
    question: _Question | None = None
    for line in lines:
        if 0 < line.level <= level:
            if question is not None:
                yield question
            question = _Question(line.number, [line.title]) if line.level == level and line.title else None
        elif question is not None:
            question.answer.append(line)
    if question is not None:
        yield question


def _by_marks(lines: Sequence[_Line]) -> Iterator[_Question]:
    question: _Question | None = None
    is_answered = False
    for line in lines:
        asked = line.told(_ASKED)
        if asked is not None:
            if question is not None:
                yield _without_title(question)
            question, is_answered = _Question(line.number, [asked]), False
        elif question is not None:
            answered = None if is_answered else line.told(_ANSWERED)
            if answered is not None:
                # What stood between is the rest of a question of several lines.
                question.asked += [before.text for before in question.answer]
                question.answer, is_answered = [_Line(line.number, answered, is_code=False)], True
            else:
                question.answer.append(line)
    if question is not None:
        yield _without_title(question)


def _without_title(question: _Question) -> _Question:
    """Without the headings at the end of the answer: they are of what comes next."""
    answer = question.answer
    while answer and (answer[-1].level or not answer[-1].text.strip()):
        answer.pop()
    return question


def _title(text: str) -> str:
    """A heading's text, without its number, which no one asks for."""
    text = _bare(_ANCHOR.sub("", text), "")
    return _bare(_NUMBER.sub("", text, count=1) if _NUMBER.match(text) else text, "")


def _bare(text: str, mark: str) -> str:
    """A text without the marks of bold type around it; of `mark` only the end may be left."""
    text = text.strip()
    for bold in ("**", "__"):
        if mark == bold and text.count(bold) % 2:
            text = text.removesuffix(bold).rstrip()
        elif len(text) > 4 and text.startswith(bold) and text.endswith(bold) and text.count(bold) == 2:
            text = text[2:-2].strip()
    return text
