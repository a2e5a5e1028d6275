"""Which agents there are: an index over their stores that mends itself from them."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.sqlite.agent_index import AgentIndex
from openclaw_cache.memory.sqlite.database import files_of, size_on_disk
from openclaw_cache.memory.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from openclaw_cache.memory.record import Stats
    from openclaw_cache.memory.sqlite.agent_index import IndexedAgent
    from openclaw_cache.memory.store_files import StoreFiles

AGENT_LABEL = "agent"
NAMESPACE_LABEL = "namespace"
"""Every store says in its labels whose it is."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent that has a store."""

    namespace: str
    agent: str
    size_bytes: int
    last_used_at: float
    num_memories: int
    num_turns: int


class AgentList:
    """The list of agents, for any thread. It opens its index when it is first asked, and not where there is no store.

    The index is a convenience: agents that it lacks are read from their stores when it is opened, and counts that
    were not written down because the process was killed are read again when they are asked for.
    """

    def __init__(self, files: StoreFiles) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._index: AgentIndex | None = None
        self._open: set[str] = set()

    def agents(self, namespace: str | None) -> list[AgentRow]:
        """The agents of a namespace, or all. Cost: 10 ms for 1,000, and 3 ms more for each that is in use."""
        with self._lock:
            if self._index is None and next(self._files.names(), None) is None:
                return []
            index = self._opened_index()
            rows = (self._row(index, found) for found in index.agents(namespace))
            return [row for row in rows if row is not None]

    def note_open(self, name: str, namespace: str, agent: str, now: float) -> None:
        """List an agent whose store was just opened, if it is new. Raises MemoryStoreError."""
        with self._lock:
            index = self._opened_index()
            if not index.note_open(name, now):
                index.add(name, namespace, agent, now)
            self._open.add(name)

    def note_closed(self, name: str, stats: Stats, used_at: float) -> None:
        """Keep an agent's counts. A failure is passed over: they are read again when they are asked for."""
        with self._lock, contextlib.suppress(MemoryStoreError):
            self._open.discard(name)
            self._opened_index().note_closed(name, stats.num_memories, stats.num_turns, used_at)

    def remove(self, name: str) -> None:
        """Take an agent off the list. A failure is passed over: the file is not there when the list is mended."""
        with self._lock, contextlib.suppress(MemoryStoreError):
            self._opened_index().remove(name)

    def close(self) -> None:
        """Let go of the index. Idempotent."""
        with self._lock:
            if self._index is not None:
                self._index.close()
                self._index = None

    def _row(self, index: AgentIndex, found: IndexedAgent) -> AgentRow | None:
        size_bytes = size_on_disk(self._files.path(found.name))
        if not size_bytes:  # another process removed it
            return None
        num_memories, num_turns = found.num_memories, found.num_turns
        if found.is_open:
            # Our own connection: a store that is in use answers one caller at a time.
            with contextlib.suppress(MemoryStoreError), contextlib.closing(self._store(found.name)) as store:
                stats = store.stats(None)
                num_memories, num_turns = stats.num_memories, stats.num_turns
                if found.name not in self._open:  # it was when a process ended
                    index.note_closed(found.name, num_memories, num_turns, found.used_at)
        return AgentRow(found.namespace, found.agent, size_bytes, found.used_at, num_memories, num_turns)

    def _opened_index(self) -> AgentIndex:
        if self._index is None:
            index = self._readable_index()
            try:
                self._mend(index)
            except MemoryStoreError:
                index.close()
                raise
            self._index = index
        return self._index

    def _readable_index(self) -> AgentIndex:
        path, key = self._files.index_path, self._files.index_key
        try:
            return AgentIndex.open(path, key)
        except MemoryStoreError as error:
            # With a wrong key nothing is readable, and the index is not at fault.
            is_key_right = any(self._labels(name) is not None for name in self._files.names())
            if error.code not in {"damaged", "wrong_key"} or not is_key_right:
                raise
        for file in files_of(path):
            file.unlink(missing_ok=True)
        return AgentIndex.open(path, key)

    def _mend(self, index: AgentIndex) -> None:
        """Make the list that of the files that are there."""
        there, listed = set(self._files.names()), index.names()
        for name in listed - there:
            index.remove(name)
        for name in there - listed:
            labels = self._labels(name)
            if labels is not None:
                index.add(name, *labels, self._files.path(name).stat().st_mtime)

    def _labels(self, name: str) -> tuple[str, str] | None:
        """Whose store it is; None where it cannot be read, which is said when it is used."""
        with contextlib.suppress(MemoryStoreError), contextlib.closing(self._store(name)) as store:
            namespace, agent = store.label(NAMESPACE_LABEL), store.label(AGENT_LABEL)
            if namespace is not None and agent is not None:
                return namespace, agent
        return None

    def _store(self, name: str) -> SqliteStore:
        return SqliteStore.open(self._files.path(name), key=self._files.key(name))
