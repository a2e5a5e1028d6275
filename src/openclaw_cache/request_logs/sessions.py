"""Which session a request belongs to, where it does not say so: the one whose conversation it goes on with."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from openclaw_cache.prefix.turns import CARRIERS
from openclaw_cache.request_logs.logged_request import LoggedRequest, encoded
from openclaw_cache.types import Json

_MOST_REMEMBERED: Final = 200_000
"""Messages by their hashes: some 20 MB."""
_SYSTEM: Final = ("system", "developer")
_CARRIERS: Final = tuple(opening.encode() for opening, _ in CARRIERS)
_MOST_HEAD: Final = 200
"""Bytes of a message in which a carrier begins."""


class SessionFinder:
    """Names the sessions of requests that name none: `~1`, `~2` and so on.

    Those that name theirs are remembered too: a client may name it in a message that is cut away later. A request goes
    on with the session that it shares the longest beginning of messages with; else with the one that has sent most of
    its messages before, and at least half of them, as after a cut of the history. What is no message of the
    conversation (system prompt, tools, what clients put at the tail of all prompts) does not count: it may be what
    changes. Cost: O(size) for a request.
    """

    def __init__(self) -> None:
        self._by_beginning: OrderedDict[int, str] = OrderedDict()
        self._by_message: OrderedDict[int, str] = OrderedDict()
        self._num_sessions = 0

    def session_of(self, request: LoggedRequest) -> str:
        """The session of a request, as it tells or as it is found; remembers its messages."""
        # Who names no session names no agent either, or names it elsewhere: both are told in the same line.
        own = hash((request.model, None if request.session else request.agent))
        written = [encoded(message) for message in conversation(request.body)]
        messages = [hash((own, message)) for message in written if not _is_carrier(message)]
        beginnings, chained = [], own
        for message in messages:
            chained = hash((chained, message))
            beginnings.append(chained)
        session = request.session or self._longest(beginnings) or self._most(messages) or self._new()
        for remembered, hashes in ((self._by_beginning, beginnings), (self._by_message, messages)):
            for one in hashes:
                remembered[one] = session
                remembered.move_to_end(one)
            while len(remembered) > _MOST_REMEMBERED:
                remembered.popitem(last=False)
        return session

    def _longest(self, beginnings: list[int]) -> str | None:
        return next((found for one in reversed(beginnings) if (found := self._by_beginning.get(one))), None)

    def _most(self, messages: list[int]) -> str | None:
        if len(messages) < 2:
            return None
        counts: dict[str, int] = {}
        for one in messages:
            if (session := self._by_message.get(one)) is not None:
                counts[session] = counts.get(session, 0) + 1
        best = max(counts, key=lambda session: counts[session], default=None)
        return best if best is not None and 2 * counts[best] >= len(messages) else None

    def _new(self) -> str:
        self._num_sessions += 1
        return f"~{self._num_sessions}"


def _is_carrier(message: bytes) -> bool:
    """Whether it is what a client puts at the tail of every prompt, of all of its sessions."""
    return any(opening in message[:_MOST_HEAD] for opening in _CARRIERS)


def conversation(body: dict[str, Json]) -> list[Json]:
    """The messages of a body without its leading system messages; of a text, the text in pieces of a few lines."""
    messages = body.get("messages", body.get("input"))
    if isinstance(messages, list):
        return [m for m in messages if not (isinstance(m, dict) and m.get("role") in _SYSTEM)]
    prompt = messages if messages is not None else body.get("prompt")
    if isinstance(prompt, str):
        return [piece for piece in prompt.split("\n\n") if piece]
    return prompt if isinstance(prompt, list) else []
