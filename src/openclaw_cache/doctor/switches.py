"""Sessions that change their model: no cache shares anything between models."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.prefix.comparison import Comparison, compare, is_worth_an_alarm
from openclaw_cache.prefix.lineage import Match
from openclaw_cache.prefix.outline import Outline
from openclaw_cache.prefix.text_change import safe_name
from openclaw_cache.prefix.tokens import bytes_per_token
from openclaw_cache.prefix.turns import is_carrier
from openclaw_cache.request_logs.logged_request import LoggedRequest

_MOST_SESSIONS: Final = 256
"""Of which the last prompt is remembered."""


class Switches:
    """The last prompt of each session, whatever its model."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[LoggedRequest, Outline]] = OrderedDict()

    def add(self, request: LoggedRequest, prompt: Outline, *, is_first: bool) -> Match[LoggedRequest] | None:
        """What a session's first prompt for a model could have kept of its last one for another; None for nothing.

        Args:
            request: the request.
            prompt: its prompt.
            is_first: whether its session had no prompt for this model before.
        """
        session = request.session or ""
        before = self._last.pop(session, None)
        self._last[session] = request, prompt
        if len(self._last) > _MOST_SESSIONS:
            self._last.popitem(last=False)
        if before is None or not is_first or before[0].model == request.model:
            return None
        if not _goes_on(before[1], prompt):
            return None
        told = _switched(before[0].model, request.model, compare(before[1], prompt), bytes_per_token(prompt))
        return None if told is None else Match(told, before[0])


def _goes_on(earlier: Outline, later: Outline) -> bool:
    """Whether it is the same conversation: a side task of a session may well have a model of its own."""
    ours = [part.text for part in earlier.parts if part.kind == "message" and not is_carrier(part)]
    theirs = {part.text for part in later.parts if part.kind == "message"}
    return bool(ours) and 2 * sum(text in theirs for text in ours) >= len(ours)


def _switched(old: str, new: str, told: Comparison, scale: float) -> Comparison | None:
    tokens = told.reachable_bytes / scale
    if not is_worth_an_alarm(tokens, tokens):
        return None
    return replace(
        told,
        kept_bytes=0,
        cause="identity",
        difference="identity",
        label=f'the model "{safe_name(old)}" is now "{safe_name(new)}"',
        pointer="/model",
        offset=0,
        before=old,
        after=new,
        fix=CAUSES["identity"].fix,
    )
