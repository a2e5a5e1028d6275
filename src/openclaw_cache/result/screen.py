"""What must not lie in a store: prompts and replies are looked through for it before they are kept."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Final, Literal

from openclaw_cache.result.personal import PersonalData
from openclaw_cache.result.secrets_in_text import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from openclaw_cache.settings import ScreenRule

Verdict = Literal["store", "skip", "encrypt"]
"""What becomes of a reply: kept, not kept, or kept because the store is encrypted."""

INLINE_CHARS: Final = 4096
"""Looking through this much takes half a millisecond: more must not hold up the event loop."""

MAX_CHARS: Final = 4_000_000
"""More than this is not looked through at all, but counts as having everything that is looked for."""

_PIECE_CHARS: Final = 8192
_OVERLAP_CHARS: Final = 512
_ESCAPE: Final = re.compile(r'(?<!\\)\\++(?:(["/nrt])|u([0-9a-fA-F]{4}))')
_ESCAPED: Final = {'"': '"', "/": "/", "n": "\n", "r": "\n", "t": "\t"}


class Screen:
    """Looks for secrets and personal data in texts. Says which kinds are there, never what or where.

    It finds what has a shape or a checksum (the modules of the two kinds list them): no names, no addresses, no
    password in the middle of a sentence. In a text of any size, what is longer than 512 characters may be missed
    where two pieces meet.

    Args:
        rules: what to look for, and what then.

    Raises:
        ConfigError: a library that this needs is not installed; the message has the command.
    """

    def __init__(self, rules: Sequence[ScreenRule]) -> None:
        self._actions: dict[str, str] = {rule.find: rule.action for rule in rules}
        if any(rule.action == "skip" for rule in rules):  # of two rules for one kind, the stricter one
            self._actions |= {rule.find: rule.action for rule in rules if rule.action == "skip"}
        finders: dict[str, Callable[[], Callable[[str], bool]]] = {
            "secrets": lambda: Secrets().are_in,
            "personal": lambda: PersonalData().is_in,
        }
        self._finders = {find: finders[find]() for find in self._actions}

    def find(self, texts: Sequence[str]) -> frozenset[str]:
        """The names of the rules that something in these texts falls under.

        The texts may be JSON or have JSON in them, escaped any number of times.
        Cost: O(size), for both kinds 0.1 ms per 1,000 characters (20 ms for 200,000 of an agent's prompt), 1 ms
        where someone made the text to be slow. Above `INLINE_CHARS` it belongs in a thread (see `look`); there it
        lets other threads in every millisecond.
        """
        if sum(map(len, texts)) > MAX_CHARS:
            return frozenset(self._finders)
        missing = dict(self._finders)
        for text in texts:
            for piece in _pieces(_unescaped(text)):
                for name in [name for name, is_in in missing.items() if is_in(piece)]:
                    del missing[name]
                if not missing:
                    return frozenset(self._finders)
                time.sleep(0)  # lets go of the interpreter, which a thread would else keep for 5 ms
        return frozenset(self._finders.keys() - missing.keys())

    async def look(self, texts: Sequence[str]) -> frozenset[str]:
        """`find`, in a thread where it would hold up the event loop."""
        if sum(map(len, texts)) <= INLINE_CHARS:
            return self.find(texts)
        return await asyncio.to_thread(self.find, texts)

    def verdict(self, found: frozenset[str]) -> Verdict:
        """What becomes of a reply in which `found` was found: `skip` before `encrypt` before `store`."""
        actions = {self._actions[name] for name in found}
        if "skip" in actions:
            return "skip"
        return "encrypt" if actions else "store"


def _unescaped(text: str) -> str:
    """The text with the escapes of JSON resolved, so that a secret in a tool's arguments has its own shape."""
    return _ESCAPE.sub(_resolved, text) if "\\" in text else text


def _resolved(escape: re.Match[str]) -> str:
    letter, code = escape.groups()
    return _ESCAPED[letter] if letter else chr(int(code, 16))


def _pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces that overlap, between words where there are any."""
    start = 0
    while len(text) - start > _PIECE_CHARS:
        end = _cut(text, start + _PIECE_CHARS)
        yield text[start:end]
        start = _cut(text, end - _OVERLAP_CHARS)
    yield text[start:]


def _cut(text: str, at: int) -> int:
    """The last place between two words in the 512 characters before `at`, or else `at`."""
    lowest = at - _OVERLAP_CHARS
    return max(text.rfind(" ", lowest, at), text.rfind("\n", lowest, at)) + 1 or at
