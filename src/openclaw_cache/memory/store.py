"""What keeps one agent's memories and turns, wherever it does so.

Three narrow protocols, one implementation each time: `MemoryStore` is all three. They block, so callers run them in a
thread; one caller at a time per store. `openclaw_cache.testing.MemoryStoreContract` is what every implementation does.
A failure raises `MemoryStoreError`; then nothing of the call was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    import numpy as np
    import numpy.typing as npt

    from openclaw_cache.embedding.embedder import Vector
    from openclaw_cache.memory.record import Filter, Memory, Message, Passage, Recall, Stats, Turn
    from openclaw_cache.memory.terms import TextQuery


class Memories(Protocol):
    """Memories with their versions."""

    def put(self, memories: Sequence[Memory]) -> None:
        """Store new memories, or new versions of known ones, all or none; each is findable by text at once.

        The version that was current is kept as it was. A memory that names others in `supersedes` marks them.

        Raises:
            VersionConflictError: a memory is not the next version of the one that is stored.
        """
        ...

    def get(self, ids: Sequence[str]) -> list[Memory | None]:
        """The current version of each, in order; None for an unknown id."""
        ...

    def versions(self, memory_id: str) -> list[Memory]:
        """All versions of a memory, oldest first."""
        ...

    def page(self, after: str, limit: int, within: Filter) -> list[Memory]:
        """The next memories after the id `after` ("" = from the beginning), in the order of their ids."""
        ...

    def holders(self, slot: str) -> list[Memory]:
        """The current memories of a slot, oldest first: those that no other supersedes."""
        ...

    def with_text(self, texts: Sequence[str]) -> list[Memory | None]:
        """For each text the current memory, superseded by none, that says exactly this; of several the first by id."""
        ...

    def forget(self, ids: Sequence[str]) -> list[Memory]:
        """Remove memories, all their versions, passages and vectors; returns every version that was removed.

        Nothing of them is left on the disk, in the full text index either. What they superseded stays superseded:
        that a newer statement is forgotten does not make the older one true again.
        """
        ...


class Turns(Protocol):
    """The lossless log of turns, and what was recalled before them."""

    def append(self, turn: Turn) -> bool:
        """Store a turn unless its session has one with its `key`: returns whether it was stored.

        Messages that the session has already (by id) stay where they are and are not stored twice.
        """
        ...

    def turn(self, turn_id: str) -> Turn | None:
        """One turn with its messages."""
        ...

    def turns(self, session: str | None, after: str, limit: int) -> list[Turn]:
        """The next turns after the id `after` ("" = from the beginning), in the order in which they were stored.

        None where `after` is unknown.
        """
        ...

    def around(self, message_id: str, before: int, after: int) -> list[Message]:
        """A message with so many of its session before and after it, as they were stored; empty where it is unknown.

        Where several sessions have it, in the one that had it first.
        """
        ...

    def turn_ids(self, message_ids: Sequence[str]) -> list[str | None]:
        """The id of the turn that each message stands in, of several the first; None for an unknown message."""
        ...

    def sessions(self) -> list[str]:
        """All sessions that have turns or recalls, in the order in which they were first heard of."""
        ...

    def missing(self, session: str, ids: Sequence[str]) -> list[str]:
        """Those of the message ids that the session does not have, in order."""
        ...

    def redact(self, texts: Sequence[str], mark: str) -> int:
        """Write `mark` in place of every occurrence of the texts in messages, passages and recalls.

        A text within a longer word is one too. A recall's line that is of a changed message goes as a whole, and a
        recall without lines with it: a line need not have the message's very words. Returns how many messages and
        recalls were changed; nothing of the texts is left of those on the disk. Cost: reads every message once.
        """
        ...

    def put_recall(self, recall: Recall) -> Recall:
        """Keep a recall; where one is kept for the same session and `after`, that one stays, and is returned.

        One with an empty text is kept too: that nothing was recalled is to be the same again.
        """
        ...

    def recalls(self, session: str) -> list[Recall]:
        """All recalls of a session, oldest first."""
        ...

    def replace_recalls(self, recalls: Sequence[Recall]) -> None:
        """Write text, items and size of recalls anew, by id; one whose text is empty is removed.

        Recalls that are unknown meanwhile are passed over.
        """
        ...

    def recalls_with(self, owner: str) -> list[Recall]:
        """The recalls that have a line of this memory or message."""
        ...

    def fork(self, parent: str, child: str) -> None:
        """Give a new session its parent's recalls (under new ids): it begins with the same history.

        Where the child has one for the same `after` already, that one stays.
        """
        ...

    def drop_session(self, session: str) -> int:
        """Remove a session's turns, messages and recalls, and its lines in others'; returns how many turns went."""
        ...

    def session_of(self, session_key: str) -> str | None:
        """The session of the newest turn, by its time, that was stored under a host's session key."""
        ...


class Passages(Protocol):
    """What search asks."""

    def match(self, query: TextQuery, limit: int, within: Filter) -> list[tuple[int, float]]:
        """Passages by full text, best first: number and score, more is better (BM25)."""
        ...

    def recent(self, limit: int, within: Filter) -> list[int]:
        """Passages by time, newest first."""
        ...

    def admitted(self, numbers: Sequence[int], within: Filter) -> list[Passage]:
        """Those of the passages that the filter lets through, in the given order."""
        ...

    def without_vector(self, fingerprint: str, limit: int) -> list[Passage]:
        """Passages that have no vector of this embedder yet, newest first.

        Memories are embedded, and what user and assistant said; what tools gave back, what the host put in and
        heartbeats are found by full text only.
        """
        ...

    def put_vectors(self, fingerprint: str, vectors: Sequence[tuple[int, Vector | None]]) -> None:
        """Store vectors (as float16); None for a text that has none. Passages that went meanwhile are passed over.

        A passage has one vector: that of another embedder is replaced.
        """
        ...

    def vectors_of(
        self, fingerprint: str, numbers: Sequence[int]
    ) -> tuple[list[int], npt.NDArray[np.float16]]:
        """Those of the passages that have a vector of this embedder, by number, and their vectors, one a line."""
        ...

    def numbers_of(self, owners: Sequence[str]) -> list[int]:
        """The numbers of the passages of memories and messages, by their ids."""
        ...

    def vectors(self, fingerprint: str) -> Iterator[tuple[list[int], npt.NDArray[np.float16]]]:
        """All vectors of this embedder, in batches: passage numbers, and their vectors, one a line.

        Other calls may come between two batches.
        """
        ...


class MemoryStore(Memories, Turns, Passages, Protocol):
    """One agent's store."""

    def stats(self, fingerprint: str | None) -> Stats:
        """What it holds; with an embedder's fingerprint also how many passages wait for a vector of it."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Make one of all calls inside: all of them are done or, where it raises, none.

        A call inside that raises, and is caught, undoes itself alone.
        """
        ...

    def set_label(self, name: str, value: str) -> None:
        """Keep a small text, such as the agent's own name."""
        ...

    def label(self, name: str) -> str | None:
        """A text kept by `set_label`."""
        ...

    def close(self) -> None:
        """Let go of the file. Idempotent; nothing else may be called after it."""
        ...
