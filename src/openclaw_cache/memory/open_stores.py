"""The stores of all agents, few of them open at a time."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import MemoryStoreError
from openclaw_cache.memory.agent_list import AGENT_LABEL, NAMESPACE_LABEL, AgentList, AgentRow
from openclaw_cache.memory.sqlite.database import CACHE_BYTES, files_of
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.store_files import StoreFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from openclaw_cache.memory.store import MemoryStore

__all__ = ["AgentRow", "OpenStore", "OpenStores", "StoreFiles"]

STORE_BYTES: Final = CACHE_BYTES + (1 << 20)
"""Most memory that an open store takes: its pages, its statements, and what it is about to write."""


@dataclass(eq=False, slots=True)
class OpenStore:
    """An agent's store while it is open. `companion` is its user's own, and goes when the store is closed."""

    store: MemoryStore
    namespace: str
    agent: str
    companion: object | None = None
    extra_bytes: int = 0
    """Memory that the companion takes: counted to the bound."""


@dataclass(eq=False, slots=True)
class _Slot:
    """The place of one agent's store. `lock` is held while it is opened, closed or removed."""

    name: str
    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: OpenStore | None = None
    num_users: int = 0
    is_gone: bool = False
    used_at: float = 0.0


class OpenStores:
    """Opens stores as they are asked for, and closes those that nobody uses, the longest unused first.

    For any thread; calls block. One agent has one store, however many ask for it, and a store in use is not closed:
    where more are in use than the bounds allow, they are closed as soon as they are released.

    Args:
        files: where they are.
        max_open: most stores that stay open.
        max_bytes: most memory that stays in use for them.
        clock: Unix time.
    """

    def __init__(
        self, files: StoreFiles, *, max_open: int = 64, max_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._files = files
        self._max_open = max_open
        self._max_bytes = max_bytes
        self._clock = clock
        self._list = AgentList(files)
        self._lock = threading.Lock()
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._is_closed = False

    @property
    def num_open(self) -> int:
        """How many stores are open."""
        with self._lock:
            return sum(slot.opened is not None for slot in self._slots.values())

    @property
    def memory_bytes(self) -> int:
        """Most memory that the open stores and their companions take."""
        with self._lock:
            return self._memory_bytes()

    def acquire(self, namespace: str, agent: str, *, create: bool) -> OpenStore | None:
        """An agent's store, to be given back to `release`; None where there is none and none is to be created.

        Raises:
            MemoryStoreError: it cannot be opened, or belongs to another agent.
        """
        name = self._files.name(namespace, agent)
        while True:
            slot = self._enter(name)
            with slot.lock:
                if slot.is_gone:  # removed while we waited
                    continue
                try:
                    if slot.opened is None and (create or self._files.is_there(name)):
                        slot.opened = self._open(name, namespace, agent)
                finally:
                    opened = slot.opened
                    if opened is None:
                        self._leave(slot)
            if opened is not None:
                slot.used_at = self._clock()
                self._close_surplus()
            return opened

    def blank(self, namespace: str, agent: str) -> OpenStore:
        """An empty store in memory: what an agent that has none looks like. Of no bound, on no list."""
        return OpenStore(SqliteStore.open(None, key=None), namespace, agent)

    def release(self, opened: OpenStore) -> None:
        """Give a store back. It stays open while there is room for it."""
        with self._lock:
            slot = self._slots.get(self._files.name(opened.namespace, opened.agent))
        if slot is None or slot.opened is not opened:  # it was removed, or is a blank one
            opened.store.close()
            return
        slot.used_at = self._clock()
        self._leave(slot)
        self._close_surplus()

    def agents(self, namespace: str | None) -> list[AgentRow]:
        """The agents of a namespace that have a store, or all agents. See `AgentList.agents` for what it costs.

        Raises:
            MemoryStoreError: none of them can be read.
        """
        with self._lock:
            used_at = {slot.name: slot.used_at for slot in self._slots.values()}
        rows = self._list.agents(namespace)
        names = (self._files.name(row.namespace, row.agent) for row in rows)
        return [
            replace(row, last_used_at=max(row.last_used_at, used_at.get(name, 0.0)))
            for row, name in zip(rows, names, strict=True)
        ]

    def remove(self, namespace: str, agent: str) -> bool:
        """Remove an agent's store from the disk, whoever uses it; returns whether there was one.

        Calls on an `OpenStore` of it raise MemoryStoreError from then on.
        """
        name = self._files.name(namespace, agent)
        slot = self._enter(name)
        with slot.lock:
            if slot.is_gone:
                return False
            try:
                if slot.opened is not None:
                    with contextlib.suppress(MemoryStoreError):  # what cannot be closed can be removed
                        slot.opened.store.close()
                was_there = _unlink(self._files.path(name))
                if was_there:
                    self._list.remove(name)
            finally:
                slot.opened, slot.is_gone = None, True
                with self._lock:
                    del self._slots[name]
        return was_there

    def close(self) -> None:
        """Close all stores, whoever uses them. Idempotent; nothing can be acquired afterwards."""
        with self._lock:
            self._is_closed = True
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            with slot.lock:
                slot.is_gone = True
                self._close(slot)
        self._list.close()

    def _enter(self, name: str) -> _Slot:
        with self._lock:
            if self._is_closed:
                raise MemoryStoreError("the memory stores are closed: the server is stopping")
            slot = self._slots.setdefault(name, _Slot(name))
            slot.num_users += 1
            self._slots.move_to_end(name)
            return slot

    def _leave(self, slot: _Slot) -> None:
        with self._lock:
            slot.num_users -= 1
            if slot.num_users == 0 and slot.opened is None and self._slots.get(slot.name) is slot:
                del self._slots[slot.name]

    def _open(self, name: str, namespace: str, agent: str) -> OpenStore:
        path = self._files.path(name)
        labels = {NAMESPACE_LABEL: namespace, AGENT_LABEL: agent}
        store = SqliteStore.open(path, key=self._files.key(name), labels=labels)
        try:
            _check_owner(store, labels, path)
            self._list.note_open(name, namespace, agent, self._clock())
        except MemoryStoreError:
            store.close()
            raise
        return OpenStore(store, namespace, agent)

    def _close_surplus(self) -> None:
        while (slot := self._surplus()) is not None:
            with slot.lock:
                with self._lock:
                    is_wanted = slot.num_users > 1  # somebody came between
                if not is_wanted:
                    self._close(slot)
            self._leave(slot)

    def _surplus(self) -> _Slot | None:
        """A store to be closed, entered so that nobody else closes it."""
        with self._lock:
            num_open = sum(slot.opened is not None for slot in self._slots.values())
            if num_open <= self._max_open and self._memory_bytes() <= self._max_bytes:
                return None
            for slot in self._slots.values():
                if slot.num_users == 0 and slot.opened is not None:
                    slot.num_users += 1
                    return slot
        return None

    def _close(self, slot: _Slot) -> None:
        """Close a slot's store. What fails is passed over: all that it was given is on the disk already."""
        if slot.opened is None:
            return
        store = slot.opened.store
        with contextlib.suppress(MemoryStoreError):
            self._list.note_closed(slot.name, store.stats(None), slot.used_at)
        with contextlib.suppress(MemoryStoreError):
            store.close()
        slot.opened = None

    def _memory_bytes(self) -> int:
        opened = [slot.opened for slot in self._slots.values() if slot.opened is not None]
        return sum(STORE_BYTES + one.extra_bytes for one in opened)


def _check_owner(store: MemoryStore, labels: dict[str, str], path: Path) -> None:
    if any(store.label(name) != value for name, value in labels.items()):
        raise MemoryStoreError(
            f"memory store {path} is of another agent: was it moved or copied here? Move it back",
            code="damaged",
        )


def _unlink(path: Path) -> bool:
    """Remove a store's files; returns whether there was one."""
    was_there = path.exists()
    try:
        # The log first: a log without its file is nothing, a file without its log would be an older state of it.
        for file in reversed(files_of(path)):
            file.unlink(missing_ok=True)
        if was_there:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise MemoryStoreError(
            f"memory store {path} cannot be removed: {error.strerror}", code="read_only"
        ) from None
    return was_there
