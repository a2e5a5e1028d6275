"""Breaks of one kind together: how many, what they cost, the worst of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.prefix.comparison import Comparison
from openclaw_cache.request_logs.logged_request import LoggedRequest

Scope = Literal["session", "between sessions"]


@dataclass(frozen=True, slots=True)
class Break:
    """One prompt that left the one before it."""

    earlier: LoggedRequest
    later: LoggedRequest
    comparison: Comparison
    kept_tokens: int
    reachable_tokens: int
    lost_tokens: int
    tree_lost_tokens: int
    """Lost even by a cache that keeps all earlier prompts of the session."""
    lost_usd: float | None
    mended_tokens: dict[str, int]
    """By level of the canonicaliser."""

    def as_json(self, *, with_text: bool) -> dict[str, Any]:
        """For programs."""
        told = self.comparison
        shown = {
            "request": self.later.place,
            "request_label": self.later.label,
            "after": self.earlier.place,
            "at": self.later.at,
            "session": self.later.session,
            "agent": self.later.agent,
            "model": self.later.model,
            "pointer": told.pointer,
            "offset": told.offset,
            "at_byte": told.kept_bytes,
            "kept_tokens": self.kept_tokens,
            "reachable_tokens": self.reachable_tokens,
            "lost_tokens": self.lost_tokens,
        }
        return shown | ({"before": told.before, "after_text": told.after} if with_text else {})


@dataclass(slots=True)
class Finding:
    """Breaks of the same cause and label."""

    scope: Scope
    cause: str
    label: str
    worst: Break
    num: int = 0
    lost_tokens: int = 0
    tree_lost_tokens: int = 0
    lost_usd: float | None = None
    mended_tokens: dict[str, int] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)

    def add(self, one: Break) -> None:
        """Take in a break."""
        self.num += 1
        self.lost_tokens += one.lost_tokens
        self.tree_lost_tokens += one.tree_lost_tokens
        if one.lost_usd is not None:
            self.lost_usd = (self.lost_usd or 0.0) + one.lost_usd
        for level, tokens in one.mended_tokens.items():
            self.mended_tokens[level] = self.mended_tokens.get(level, 0) + tokens
        if one.later.session is not None and len(self.sessions) < 1000:
            self.sessions.add(one.later.session)
        if one.lost_tokens > self.worst.lost_tokens:
            self.worst = one

    def as_json(self, *, with_text: bool) -> dict[str, Any]:
        """For programs."""
        cause = CAUSES.get(self.cause)
        return {
            "scope": self.scope,
            "cause": self.cause,
            "label": self.label,
            "means": cause.means if cause else "",
            "fix": self.worst.comparison.fix or (cause.fix if cause else ""),
            "num": self.num,
            "num_sessions": len(self.sessions),
            "lost_tokens": self.lost_tokens,
            "lost_tokens_with_tree": self.tree_lost_tokens,
            "lost_usd": None if self.lost_usd is None else round(self.lost_usd, 9),
            "canonical": self.mended_tokens,
            "worst": self.worst.as_json(with_text=with_text),
        }


class Findings:
    """All of them, the costliest first."""

    def __init__(self) -> None:
        self._by_kind: dict[tuple[Scope, str, str], Finding] = {}

    def add(self, scope: Scope, one: Break) -> None:
        """Take in a break."""
        key = (scope, one.comparison.cause, one.comparison.label)
        if (found := self._by_kind.get(key)) is None:
            found = self._by_kind[key] = Finding(scope, one.comparison.cause, one.comparison.label, one)
        found.add(one)

    def of(self, scope: Scope) -> list[Finding]:
        """In order of money, then of tokens."""
        found = [one for one in self._by_kind.values() if one.scope == scope]
        return sorted(found, key=lambda one: (-(one.lost_usd or 0.0), -one.lost_tokens, one.label))
