"""Why a reply that was looked up was not there: what is remembered of prompts that were asked before.

For operators only: a client is never told, since that another namespace has asked the same is nobody's business. So
the same steps are taken whether one has or not: a clock shall not tell it either. What is kept are keyed hashes and
times; they tell nothing without the key, and live in memory only.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from blake3 import blake3

from openclaw_cache.types import Headers, Namespace

if TYPE_CHECKING:
    from openclaw_cache.gateway.keys import MakeKey

MOST_BODIES: Final = 100_000
"""Prompts that are remembered, at 240 bytes each and 16 more for each further way in which one was asked: 24 to 29 MB,
taken as prompts come."""

_MOST_WAYS: Final = 4
"""Of one prompt in one namespace: versions and headers that it came with. The newest count."""

_MOST_NAMESPACES: Final = 4096
_WAY: Final = Struct("<4s4sd")
_PENDING: Final = 0.0
_UNSTORED: Final = -1.0
_NEARNESS: Final = ("new", "unstored", "headers", "version")


class Way(NamedTuple):
    """How a prompt was asked, beside its body: hashes of all else that makes its key. Equal ways have equal keys."""

    namespace: bytes
    version: bytes
    headers: bytes


class Misses:
    """Remembers how prompts were asked, and what became of their replies.

    The oldest half is forgotten when there are too many; then, and after a restart, an old prompt counts as new.

    Args:
        most: Prompts to remember.
    """

    def __init__(self, most: int = MOST_BODIES) -> None:
        self._ways = _Recent(max(1, most // 2))
        """By namespace and prompt, how it was asked there."""
        self._askers = _Recent(max(1, most // 2))
        """By prompt, the namespace that asked it last."""
        self._namespaces: dict[Namespace, bytes] = {}
        self._key = secrets.token_bytes(32)

    def __len__(self) -> int:
        return len(self._ways)

    def way(
        self, namespace: Namespace, version: Iterable[bytes], headers: Headers, query: bytes = b""
    ) -> Way:
        """How a prompt is asked. About 5 µs.

        Args:
            namespace: Who shares replies.
            version: The upstream, its model as exactly as it is known, and the epoch.
            headers: Those that can change a reply.
            query: Of the URL; it counts among them.
        """
        fields = [part for name, value in headers for part in (name, value)]
        known = self._namespaces.get(namespace)
        if known is None:  # one object for all prompts of a namespace
            if len(self._namespaces) >= _MOST_NAMESPACES:
                self._namespaces.clear()
            known = self._namespaces[namespace] = self._id((namespace.encode(),))
        return Way(known, self._id(version), self._id((query, *fields)))

    def way_of(self, make_key: MakeKey) -> Way:
        """How a request is asked whose keys are made so."""
        return self.way(make_key.namespace, make_key.version, make_key.headers, make_key.query)

    def why(self, prompt_id: str, way: Way, now: float) -> str:
        """Why no stored reply answers a prompt that is asked this way: one of `MISSES`. About 3 µs; changes nothing.

        What is nearest counts: first whether it was asked in just this way, then whether another version has the reply,
        then other headers, then another namespace.
        """
        ways, asker = self._ways.get(self._own(prompt_id, way)), self._askers.get(bytes.fromhex(prompt_id))
        found = "namespace" if asker and not ways and asker != way.namespace else "new"
        for version, headers, until in _WAY.iter_unpack(ways):
            if (version, headers) == way[1:]:
                return _fate(until, now)
            said = "headers" if headers != way.headers else "version" if until > _PENDING else "unstored"
            found = max(found, said, key=_NEARNESS.index)
        return found

    def asked(self, prompt_id: str, way: Way) -> None:
        """An upstream is asked for its reply."""
        self._note(prompt_id, way, _PENDING)

    def stored(self, prompt_id: str, way: Way, expires_at: float) -> None:
        """Its reply is stored until then (unix seconds)."""
        self._note(prompt_id, way, expires_at)

    def unstored(self, prompt_id: str, way: Way) -> None:
        """Its reply came to nothing, or was not fit to be stored. One that is stored already stays."""
        is_stored = any(
            (version, headers) == way[1:] and until > _PENDING
            for version, headers, until in _WAY.iter_unpack(self._ways.get(self._own(prompt_id, way)))
        )
        if not is_stored:
            self._note(prompt_id, way, _UNSTORED)

    def _note(self, prompt_id: str, way: Way, until: float) -> None:
        """Write a way in front of the others."""
        own, start = self._own(prompt_id, way), way.version + way.headers
        ways = self._ways.get(own)
        others = [
            ways[i : i + _WAY.size] for i in range(0, len(ways), _WAY.size) if not ways.startswith(start, i)
        ]
        newest = _WAY.pack(way.version, way.headers, until)
        self._ways.put(own, b"".join((newest, *others[: _MOST_WAYS - 1])))
        self._askers.put(bytes.fromhex(prompt_id), way.namespace)

    def _own(self, prompt_id: str, way: Way) -> bytes:
        """What a prompt is called in one namespace."""
        return self._id((way.namespace, bytes.fromhex(prompt_id)), 8)

    def _id(self, fields: Iterable[bytes], num_bytes: int = 4) -> bytes:
        hasher = blake3(key=self._key)
        for one in fields:
            hasher.update(b"%d:" % len(one)).update(one)
        return hasher.digest(num_bytes)


class _Recent:
    """What was put last, at least half of `2 * half`. One look is two steps, whatever is there."""

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, half: int) -> None:
        # Two generations: of one dict, first keys would have to go one by one, and finding them takes ever longer.
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._half = half

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, name: bytes) -> bytes:
        young, old = self._young.get(name, b""), self._old.get(name, b"")
        return young or old

    def put(self, name: bytes, value: bytes) -> None:
        self._old.pop(name, None)
        self._young[name] = value
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}


def _fate(until: float, now: float) -> str:
    """What became of the reply to a prompt that was asked in just this way."""
    if until == _PENDING:
        return "new"  # its first reply is still on its way
    if until == _UNSTORED:
        return "unstored"
    return "expired" if until <= now else "evicted"
