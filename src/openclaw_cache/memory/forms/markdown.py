"""Memory files in Markdown, such as OpenClaw's MEMORY.md, USER.md and memory/2026-11-03.md: what each notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from openclaw_cache.memory.capture.sameness import normal

MOST_CHARS: Final = 4_000
"""A longer note is cut into several, where a line ends if it can be."""
_CONTEXT_CHARS: Final = 60
_TAG_CHARS: Final = 64

_FRONT_MATTER: Final = re.compile(
    r"\A\ufeff?---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*$\n?", re.DOTALL | re.MULTILINE
)
_COMMENT: Final = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)\Z")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-{2,})[ \t]*\Z")
_RULE: Final = re.compile(r" {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})\Z")
_BULLET: Final = re.compile(
    r"(?P<indent>[ \t]*)(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[(?P<done>[ xX])\][ \t]+)?(?P<text>.*)\Z"
)
_TABLE: Final = re.compile(r"[ \t]*\|.*\|[ \t]*\Z")
_TABLE_RULE: Final = re.compile(r"[ \t|:-]+\Z")
_STRONG: Final = re.compile(r"(\*\*|__)(?=\S)(.{1,500}?)(?<=\S)\1")
"""Bounded, as one that is never closed would be looked for to the end of its line, from each mark."""
_DATE: Final = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_OBSERVED: Final = re.compile(r"\bobserved:\s*(\d{4}-\d{2}-\d{2})")
_SUPERSEDED: Final = re.compile(r"\bstatus:\s*superseded\b")
_PROJECT: Final = re.compile(r"\bproject:\s*(\S+)")
_HOOK_LINE: Final = re.compile(r"(?:Session Key|Session ID|Source):\s")
"""What OpenClaw's own hook writes above a saved conversation."""
_NOON_S: Final = 43_200.0


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that a file notes: a bullet, a paragraph, a table's row, or a block of code with the line above it.

    `text` says it without its Markdown; where it stands under a heading or a short bullet, that goes before it, so
    that it can be found and understood alone. `at` is the date (its noon, UTC) that the file's name, a heading or a
    comment gives it.
    """

    text: str
    kind: str
    tags: tuple[str, ...]
    line: int
    at: float | None


def read_markdown(text: str, path: str) -> list[Note]:
    """What a memory file notes, in its order; a text that it has twice (`sameness.normal`) comes once.

    Front matter, comments, rules and superseded directives are no notes. Cost: linear.

    Args:
        text: The file's.
        path: Its place in the agent's workspace; its name says what kind of notes it has, and of which day.
    """
    reader = _Reader(_kind(path), _date(path))
    body = _without_front_matter(text.replace("\r\n", "\n").replace("\r", "\n"))
    for number, line in enumerate(body.split("\n"), 1):
        reader.take(number, line)
    reader.close()
    notes: dict[str, Note] = {}
    for note in reader.notes:
        notes.setdefault(normal(note.text), note)
    return list(notes.values())


@dataclass(slots=True)
class _Open:
    """A note that is being read."""

    line: int
    lines: list[str]
    indent: int = -1  # of its bullet; -1 for a paragraph
    kind: str | None = None
    tags: tuple[str, ...] = ()
    is_code: bool = False


@dataclass(slots=True)
class _Reader:
    kind: str
    at: float | None
    notes: list[Note] = field(default_factory=list)
    _headings: list[tuple[int, str]] = field(default_factory=list)
    _bullets: list[tuple[int, str]] = field(default_factory=list)
    _open: _Open | None = None
    _fence: str = ""
    _columns: list[str] | None = None
    _comment: str | None = None
    _observed: float | None = None
    _is_superseded: bool = False
    _has_directive: bool = False

    def take(self, number: int, line: str) -> None:
        """Read the next line."""
        if self._fence:
            self._take_code(line)
            return
        if self._comment is None and (fence := _FENCE.match(line)):
            self._begin_code(number, fence[1])
            return
        had_text = bool(line.strip())
        line, tags = self._without_comments(line)
        if not line.strip():
            if not had_text:
                self.close()
            return
        if self._take_frame(line):
            return
        if _TABLE.match(line):
            self._take_row(number, line)
        elif bullet := _BULLET.match(line):
            self._begin_bullet(number, bullet, tags)
        elif self._open and not self._open.is_code:
            self._open.lines.append(line.strip().removeprefix("> ").rstrip())
            self._open.tags += tags
        else:
            self.close()
            self._open = _Open(number, [line.strip().removeprefix(">").strip()], tags=tags)

    def close(self) -> None:
        """End the note that is being read, if there is one."""
        done, self._open = self._open, None
        self._columns = None
        if done is None:
            return
        text = ("\n" if done.is_code else " ").join(filter(None, done.lines)) if done.lines else ""
        if done.indent < 0 and not done.is_code:
            self._bullets.clear()
        self._add(done, text)

    def _add(self, done: _Open, text: str) -> None:
        bare = text if done.is_code else _plain(text)
        if not bare or (done.indent >= 0 and _HOOK_LINE.match(bare)) or self._is_superseded:
            self._has_directive |= bool(bare)
            return
        self._has_directive = True
        said = ": ".join([*self._context(done), bare])
        at = self._observed if self._observed is not None else self.at
        tags = (
            *dict.fromkeys((*(heading[:_TAG_CHARS] for _, heading in self._headings[1:] or ()), *done.tags)),
        )
        for start, piece in _pieces(said):
            self.notes.append(Note(piece, done.kind or self.kind, tags, done.line + start, at))

    def _context(self, done: _Open) -> Iterator[str]:
        """What a note stands under, as far as it is short: the last heading, and bullets above its own."""
        if (
            len(self._headings) > 1
            and len(self._headings[-1][1]) <= _CONTEXT_CHARS
            and not _DATE.match(self._headings[-1][1])
        ):
            yield self._headings[-1][1].rstrip(":：")
        for indent, text in self._bullets:
            if indent < done.indent and len(text) <= _CONTEXT_CHARS:
                yield text.rstrip(":：")

    def _begin_bullet(self, number: int, bullet: re.Match[str], tags: tuple[str, ...]) -> None:
        self.close()
        indent = len(bullet["indent"].expandtabs(4))
        while self._bullets and self._bullets[-1][0] >= indent:
            self._bullets.pop()
        text, done = bullet["text"].strip(), bullet["done"]
        self._open = _Open(number, [text], indent, tags=tags)
        if done is not None:
            self._open.kind = "task"
            self._open.tags += ("done",) if done in "xX" else ()
        self._bullets.append((indent, _plain(text)))

    def _begin_code(self, number: int, fence: str) -> None:
        above = self._open
        if above is None or not above.lines or not above.lines[-1].endswith((":", "：")):
            self.close()
            above = _Open(number, [])
        above.is_code = True
        self._open, self._fence = above, fence

    def _take_code(self, line: str) -> None:
        closes = _FENCE.match(line)
        if closes and closes[1].startswith(self._fence) and not line.strip().strip(self._fence[0]):
            self._fence = ""
            self.close()
        elif self._open:
            self._open.lines.append(line.rstrip())

    def _take_row(self, number: int, line: str) -> None:
        cells = [_plain(cell) for cell in line.strip().strip("|").split("|")]
        if self._columns is None:
            self.close()
            self._columns = cells
        elif not _TABLE_RULE.match(line):
            named = zip(self._columns, cells, strict=False)
            text = "; ".join(f"{column}: {cell}" if column else cell for column, cell in named if cell)
            self._add(_Open(number, []), text)

    def _take_frame(self, line: str) -> bool:
        """Read a heading or a rule; returns whether it was one."""
        if heading := _HEADING.match(line):
            self.close()
            self._enter(len(heading[1]), heading[2].rstrip(" \t#"))
        elif (
            self._open
            and self._open.indent < 0
            and len(self._open.lines) == 1
            and (under := _UNDERLINE.match(line))
        ):
            title, self._open = self._open.lines[0], None
            self._enter(1 if under[1][0] == "=" else 2, title)
        elif _RULE.match(line):
            self.close()
        else:
            return False
        return True

    def _enter(self, level: int, title: str) -> None:
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        if not self._headings and level > 1:
            self._headings.append((1, ""))
        self._headings.append((level, _plain(title)))
        self._bullets.clear()
        self._observed, self._is_superseded = _date(title), False

    def _without_comments(self, line: str) -> tuple[str, tuple[str, ...]]:
        """A line without its comments, which may begin before it or end after it, and the tags that they give."""
        if self._comment is not None:
            inside, end, line = line.partition("-->")
            self._comment += inside
            if not end:
                return "", ()
            self._told(self._comment, alone=not line.strip())
            self._comment = None
        alone = not _COMMENT.sub("", line).strip()
        tags: list[str] = []
        for comment in _COMMENT.finditer(line):
            if not comment[0].endswith("-->"):
                self._comment = comment[1]
            else:
                tags += self._told(comment[1], alone=alone)
        return _COMMENT.sub("", line).rstrip(), tuple(tags)

    def _told(self, comment: str, *, alone: bool) -> list[str]:
        """Follow what OpenClaw writes in comments: a directive's date and status on a line of their own, a project."""
        if alone and ("observed:" in comment or "status:" in comment):
            self.close()
            observed = _OBSERVED.search(comment)
            self._observed = _date(observed[1]) if observed else None
            self._is_superseded = _SUPERSEDED.search(comment) is not None
        return [f"project:{name}"[:_TAG_CHARS] for name in _PROJECT.findall(comment)]


def _without_front_matter(text: str) -> str:
    """The text with empty lines in place of its front matter."""
    front = _FRONT_MATTER.match(text)
    return "\n" * front[0].count("\n") + text[front.end() :] if front else text.removeprefix("\ufeff")


def _plain(text: str) -> str:
    return _STRONG.sub(r"\2", text).strip()


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """A text in pieces of at most `MOST_CHARS`, each with the number of lines before it."""
    start = 0
    while start < len(text):
        end = start + MOST_CHARS
        if end < len(text):
            cut = max(text.rfind("\n", start, end), text.rfind(" ", start, end))
            end = cut + 1 if cut > start else end
        yield text.count("\n", 0, start), text[start:end].strip()
        start = end


def _kind(path: str) -> str:
    name = path.rsplit("/", 1)[-1].casefold()
    return {"memory.md": "fact", "user.md": "preference"}.get(name, "note")


def _date(text: str) -> float | None:
    """The first date in a text, at noon UTC: the same day nearly everywhere."""
    for year, month, day in _DATE.findall(text):
        try:
            return datetime(int(year), int(month), int(day), tzinfo=UTC).timestamp() + _NOON_S
        except ValueError:
            continue
    return None
