"""Which earlier prompt a request goes on from.

A session has several lines of prompts: user turns, heartbeats, sub-agents, a memory flush, a summariser. All that is
kept is bounded.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from openclaw_cache.observe.record import PrefixBreak
from openclaw_cache.prefix.comparison import Comparison, Meeting, compare, is_worth_an_alarm, meet
from openclaw_cache.prefix.outline import Outline, Part
from openclaw_cache.prefix.tokens import bytes_per_token

MAX_LINES: Final = 8
"""Lines of prompts that are remembered of a session."""
MAX_NEIGHBOURS: Final = 16
"""Other sessions that are asked where a session has nothing that a prompt goes on from."""
MAX_POINTER_CHARS: Final = 256
_PART_BYTES: Final = 120
"""What a part costs beside its text."""

Tag = TypeVar("Tag")
_Name = tuple[Hashable, Hashable]


@dataclass(frozen=True, slots=True)
class Match(Generic[Tag]):
    """A prompt against one earlier prompt."""

    comparison: Comparison
    tag: Tag
    """What was given with the earlier one."""


@dataclass(frozen=True, slots=True)
class Found(Generic[Tag]):
    """A prompt against those before it."""

    prompt: Outline
    previous: Match[Tag] | None
    """The one before in its session: what an engine with one slot for a session has. None for a session's first."""
    best: Match[Tag] | None
    """The one that it shares most with from the start, in its session; for a session's first, in other sessions of
    its scope."""
    is_of_another_session: bool
    """Whether `best` is."""
    kept_bytes: int
    """The longest beginning that any remembered prompt of the scope has: what a radix tree has."""

    @property
    def lost_bytes(self) -> int:
        """Behind that beginning, of what `best` and the prompt both have in the same order."""
        return max(0, self.best.comparison.reachable_bytes - self.kept_bytes) if self.best else 0

    def prefix_break(self, prompt_tokens: int | None = None) -> PrefixBreak | None:
        """The break that somebody should hear of; None for a prompt that goes on, and for another conversation.

        Args:
            prompt_tokens: what the provider counted for the prompt, where that is known.
        """
        if self.best is None:
            return None
        comparison = self.best.comparison
        if not comparison.cause or (self.is_of_another_session and not self._is_in_the_head()):
            return None
        scale = bytes_per_token(self.prompt, prompt_tokens)
        kept, lost = self.kept_bytes / scale, self.lost_bytes / scale
        if not is_worth_an_alarm(lost, kept + lost):
            return None
        return PrefixBreak(
            comparison.cause,
            comparison.label,
            _shown(comparison.pointer),
            comparison.kept_bytes,
            round(kept),
            round(lost),
        )

    def _is_in_the_head(self) -> bool:
        """Whether tools or system prompt differ: in the messages every other session does."""
        return self.best is not None and self.best.comparison.kept_bytes < _head_bytes(self.prompt)


@dataclass(slots=True, eq=False)
class _Line(Generic[Tag]):
    prompt: Outline
    tag: Tag


@dataclass(slots=True, eq=False)
class _Session(Generic[Tag]):
    lines: list[_Line[Tag]] = field(default_factory=list)
    """The one used last comes last."""
    previous: _Line[Tag] | None = None

    def prompts(self) -> Iterator[Outline]:
        for line in self.lines:
            yield line.prompt
        if self.previous is not None:
            yield self.previous.prompt


class Lineages(Generic[Tag]):
    """Remembers the prompts of sessions. Scopes share nothing; a scope is one namespace and model, for example."""

    def __init__(self, max_bytes: int = 32 * 2**20, max_sessions: int = 4096) -> None:
        self._sessions: OrderedDict[_Name, _Session[Tag]] = OrderedDict()
        self._by_scope: dict[Hashable, OrderedDict[_Name, None]] = {}
        self._texts: dict[int, list[int]] = {}
        self._max_bytes = max_bytes
        self._max_sessions = max_sessions
        self.num_bytes = 0
        """What is held; a text that prompts share counts once."""

    def __len__(self) -> int:
        return len(self._sessions)

    def add(
        self, scope: Hashable, session: Hashable, prompt: Outline, tag: Tag, *, is_told: bool = True
    ) -> Found[Tag]:
        """Compare a prompt with those before it, and remember it. One without parts is not remembered.

        Args:
            scope: whose prompts may be compared at all: a namespace and model, for example.
            session: its name in the scope.
            prompt: the prompt.
            tag: given back in `Match`, when a later prompt is compared with this one.
            is_told: whether the client names the session. Where it does not (or session is None), prompts of several
                may share the name, and another first message is another conversation.

        Cost: where it goes on from an earlier one, one comparison of its text, O(size). Where it broke, that for each
        remembered line of the session and for `MAX_NEIGHBOURS` others, and the search for what is lost.
        """
        if not prompt.parts:
            return Found(prompt, None, None, is_of_another_session=False, kept_bytes=0)
        name = (scope, session)
        known = self._sessions.get(name)
        found, base, met = self._found(name, known or _Session(), prompt, is_told and session is not None)
        self._remember(name, known or _Session(), _Line(_sharing(prompt, base, met), tag), found, base)
        return found

    def forget(self, scope: Hashable) -> None:
        """Drop all of a scope."""
        for name in list(self._by_scope.get(scope, ())):
            self._drop(name)

    def _found(
        self, name: _Name, session: _Session[Tag], prompt: Outline, is_told: bool
    ) -> tuple[Found[Tag], _Line[Tag] | None, Meeting | None]:
        best, met = _best(reversed(session.lines), prompt)
        kept = met.kept_bytes if met else 0
        is_other = False
        if met is None or not (met.is_continued or met.is_beginning):
            other, other_met = _best(self._neighbours(name), prompt)
            kept = max(kept, other_met.kept_bytes if other_met else 0)
            if best is None:
                best, met, is_other = other, other_met, other is not None
        match = Match(compare(best.prompt, prompt, met), best.tag) if best else None
        if (
            not is_told
            and met is not None
            and met.num_parts <= sum(part.kind != "message" for part in prompt.parts)
        ):
            is_other = True  # nobody says that both are of one session, and their history does not
        previous = session.previous
        if previous is None or previous is best:
            before = match if previous else None
        else:
            before = Match(compare(previous.prompt, prompt), previous.tag)
        return Found(prompt, before, match, is_other, kept), best, met

    def _neighbours(self, name: _Name) -> Iterator[_Line[Tag]]:
        names = (other for other in reversed(self._by_scope.get(name[0], OrderedDict())) if other != name)
        for other in islice(names, MAX_NEIGHBOURS):
            yield from reversed(self._sessions[other].lines)

    def _remember(
        self,
        name: _Name,
        session: _Session[Tag],
        line: _Line[Tag],
        found: Found[Tag],
        base: _Line[Tag] | None,
    ) -> None:
        self._hold(line.prompt, 2)
        if session.previous is not None:
            self._hold(session.previous.prompt, -1)
        session.previous = line
        if base is not None and found.best is not None and base in session.lines:
            if found.best.comparison.is_continued:
                self._hold(base.prompt, -1)
                session.lines.remove(base)
            elif not found.best.comparison.difference:  # its beginning: the longer one stays
                self._hold(line.prompt, -1)
                session.lines.remove(base)
                line = base
        session.lines.append(line)
        if len(session.lines) > MAX_LINES:
            self._hold(session.lines.pop(0).prompt, -1)
        self._sessions[name] = session
        self._sessions.move_to_end(name)
        scope = self._by_scope.setdefault(name[0], OrderedDict())
        scope[name] = None
        scope.move_to_end(name)
        while len(self._sessions) > 1 and (
            self.num_bytes > self._max_bytes or len(self._sessions) > self._max_sessions
        ):
            self._drop(next(iter(self._sessions)))
        if self.num_bytes > self._max_bytes:  # one session alone is too much
            self._drop(name)

    def _drop(self, name: _Name) -> None:
        session = self._sessions.pop(name)
        for prompt in session.prompts():
            self._hold(prompt, -1)
        scope = self._by_scope[name[0]]
        del scope[name]
        if not scope:
            del self._by_scope[name[0]]

    def _hold(self, prompt: Outline, num_holders: int) -> None:
        """Count who holds the texts of a prompt."""
        self.num_bytes += num_holders * _PART_BYTES * len(prompt.parts)
        for part in prompt.parts:
            held = self._texts.get(id(part.text))
            if held is None:
                held = self._texts[id(part.text)] = [0, sys.getsizeof(part.text)]
                self.num_bytes += held[1]
            held[0] += num_holders
            if not held[0]:
                self.num_bytes -= held[1]
                del self._texts[id(part.text)]


def _shown(pointer: str) -> str:
    """A pointer for operators' eyes: it ends before keys that are too long or not printable."""
    if len(pointer) > MAX_POINTER_CHARS:
        pointer = pointer[: MAX_POINTER_CHARS + 1].rpartition("/")[0]
    while not pointer.isprintable():
        pointer = pointer.rpartition("/")[0]
    return pointer


def _head_bytes(prompt: Outline) -> int:
    """Tools and system texts."""
    return sum(part.num_bytes for part in prompt.parts if part.kind != "message")


def _best(lines: Iterable[_Line[Tag]], prompt: Outline) -> tuple[_Line[Tag] | None, Meeting | None]:
    """The first of those that a prompt shares most with from the start."""
    best: _Line[Tag] | None = None
    best_met: Meeting | None = None
    half = prompt.num_bytes // 2
    for line in lines:
        met = meet(line.prompt, prompt)
        if best_met is None or met.kept_bytes > best_met.kept_bytes:
            best, best_met = line, met
        if (met.is_continued or met.is_beginning) and met.kept_bytes > half:
            break
    return best, best_met


def _sharing(prompt: Outline, base: _Line[Tag] | None, met: Meeting | None) -> Outline:
    """The same prompt with the texts of `base` where they are equal, so that they are held once."""
    if base is None or met is None:
        return prompt
    known = {part.text: part for part in base.prompt.parts[met.num_parts :]}
    parts: list[Part] = []
    for number, part in enumerate(prompt.parts):
        twin = base.prompt.parts[number] if number < met.num_parts else known.get(part.text)
        if twin is not None:
            is_same = twin.pointer == part.pointer and twin.name == part.name
            part = twin if is_same else msgspec.structs.replace(part, text=twin.text)  # noqa: PLW2901  (its twin)
        parts.append(part)
    return Outline(prompt.model, parts)
