"""History and the savings ledger of a gateway: put together, started and stopped."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Final

import structlog
from blake3 import blake3

from openclaw_cache.api.history import HistoryAdmin
from openclaw_cache.api.savings import SavingsAdmin
from openclaw_cache.history.archive import Archive
from openclaw_cache.history.coding import Cipher, Codec
from openclaw_cache.history.durations import Durations
from openclaw_cache.history.figures import Figures
from openclaw_cache.history.history import History
from openclaw_cache.history.keeping import Keeping
from openclaw_cache.history.rekeying import StoredHistory
from openclaw_cache.history.shelf import Shelf
from openclaw_cache.history.sweeping import Sweeper
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.record import RequestRecord
from openclaw_cache.result.encryption import ENCRYPTED_MAGIC
from openclaw_cache.result.rekey import RekeyReport, rewrite
from openclaw_cache.store.lock import FileLock
from openclaw_cache.store.store import Store

NODE_FILE: Final = "node"
"""Under the data dir: what this gateway is called among those that share a store."""

_NODE: Final = re.compile(r"[0-9a-f]{16}")
_log = structlog.get_logger()


class HistoryPart:
    """What happened over time. `add` takes each request's record; `start` after the store, `aclose` before it.

    Args:
        data_dir: Where this gateway's name is kept.
        store: Where the sums are kept.
        secret: The fleet's.
        cipher: Encrypts what is kept, where entries are encrypted.
        metrics: What no request's record tells.
        own_engines: Names of the upstreams that are embedded engines.
        is_kept: `observe.history`.
        may_use_store: Whether the store is known to be our fleet's.
        on_degraded: Told, in a word, of failures.
    """

    def __init__(
        self,
        data_dir: Path,
        store: Store,
        secret: bytes,
        cipher: Cipher | None,
        metrics: Metrics,
        own_engines: Collection[str],
        *,
        is_kept: bool,
        may_use_store: Callable[[], bool],
        on_degraded: Callable[[str], None],
    ) -> None:
        self.durations = Durations()
        self.history: History | None = None
        self._keeping: Keeping | None = None
        self._store = store
        self._codec = codec = Codec(secret, cipher)
        self._lock = FileLock(data_dir / f"{NODE_FILE}.lock")
        if is_kept:
            node = _node(data_dir / NODE_FILE, self._lock)
            shelf = Shelf(node, written_as(node, cipher))
            archive = Archive(store, codec, shelf, may_use=may_use_store)
            self.history = History(shelf, archive, own_engines, on_degraded=on_degraded)
            self._keeping = Keeping(
                self.history,
                archive,
                Sweeper(store, archive.nodes),
                Figures(metrics),
                self.durations,
                store,
                codec,
                node,
                on_degraded=on_degraded,
            )
        self.admin = HistoryAdmin(self.history, self.refresh)
        self.savings = SavingsAdmin(self.history)

    def add(self, record: RequestRecord) -> None:
        """Count a request that is over, and learn from it how long its upstream takes. O(1), no I/O, never raises."""
        if self.history is not None:
            self.history.add(record)
        self.durations.learn(record)

    def start(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """Begin to keep, behind the requests. `refresh` brings the metrics up to date (`Admin.refresh_gauges`)."""
        if self._keeping is not None:
            self._keeping.start(refresh)

    async def refresh(self) -> None:
        """Take in what the metrics know now; at most once a second."""
        if self._keeping is not None:
            await self._keeping.refresh()

    async def flush(self) -> None:
        """Write what came so far, now."""
        if self._keeping is not None:
            await self._keeping.flush()

    async def rekey(self) -> RekeyReport:
        """Rewrite what is stored of it in the current form, of all gateways, also where none is kept any more.

        Raises StoreError: it was not read to its end, or refused a write; what was done stays done.
        """
        return await rewrite(self._store, StoredHistory(self._codec))

    async def aclose(self) -> None:
        """Keep what came last, and end. Idempotent."""
        if self._keeping is not None:
            await self._keeping.aclose()
        self._lock.let_go()


def written_as(node: str, cipher: Cipher | None) -> str:
    """The name by which a gateway's sums lie in the store: another one for each key that it encrypts with.

    So what lies under another key has no writer any more. A rekey may rewrite it, and a gateway that cannot read it
    leaves it as it is.
    """
    if cipher is None:
        return node
    sealed, id_at = cipher.seal(b"", b""), len(ENCRYPTED_MAGIC) + 1
    key_id = sealed[id_at : id_at + sealed[id_at - 1]]
    named = blake3(b"%b:%b" % (node.encode(), key_id), derive_key_context="openclaw-cache history node v1")
    return named.hexdigest(8)


def _node(file: Path, lock: FileLock) -> str:
    """This gateway's name: random, and the same after a restart.

    A second gateway on the same data dir, or one that cannot write there, gets a name for this run only: two that
    wrote under one name would overwrite each other's sums.
    """
    fresh = secrets.token_hex(8)
    try:
        if not lock.try_acquire():
            return fresh
        if file.exists() and _NODE.fullmatch(name := file.read_text("ascii").strip()):
            return name
        file.write_text(f"{fresh}\n", "ascii")
    except (OSError, UnicodeDecodeError) as e:
        _log.warning("history: this gateway's name cannot be kept", file=str(file), reason=str(e))
    return fresh
