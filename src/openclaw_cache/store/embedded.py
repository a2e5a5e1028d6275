"""The embedded Valkey: started, found again, restarted and stopped by the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from openclaw_cache.errors import ConfigError, StoreError
from openclaw_cache.store.address import Address
from openclaw_cache.store.dial import dial
from openclaw_cache.store.folder import ServerFolder
from openclaw_cache.store.lock import FileLock
from openclaw_cache.store.pipeline import encode
from openclaw_cache.store.process import ServerProcess, find_binary

if TYPE_CHECKING:
    from collections.abc import Callable

_PROBE_S: Final = 1.0
_FIND_S: Final = 2.0  # a server that a killed gateway had only just started gets this long
_MAX_BACKOFF_S: Final = 2.0


class EmbeddedValkey:
    """A Valkey server under `<data_dir>/valkey`, on a unix socket, with an append-only file.

    Entries carry an expiry and may be evicted; keys without one (epochs) are never evicted, hence a
    `volatile-*` policy. Frequency rather than recency: the gateway's own memory tier takes the recent
    hits, and what reaches a second-level cache is better told apart by frequency (Zhou, Philbin, Li:
    The Multi-Queue Replacement Algorithm for Second Level Buffer Caches, USENIX ATC 2001).

    One gateway per data dir. The server outlives a gateway that is killed, and the next start takes it
    over. When it dies it is started again, 0.1 s later at first, up to 2 s when it keeps dying. Append-only
    files that it cannot read are set aside (never deleted) and it starts empty.

    Args:
        data_dir: `server.data_dir`.
        max_bytes: the server's memory bound (`maxmemory`).
        eviction: a Valkey `maxmemory-policy`.
        on_event: called with one sentence whenever something happened that an operator should know.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        max_bytes: int = 1 << 30,
        eviction: str = "volatile-lfu",
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        self._folder = ServerFolder(data_dir)
        self._max_bytes = max_bytes
        self._eviction = eviction
        self._on_event = on_event
        self._gateway_lock = FileLock(self._folder.gateway_lock)
        self._server_lock = FileLock(self._folder.server_lock)
        self._binary = Path()
        self._socket = Path()
        self._process: ServerProcess | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._verdict = asyncio.Event()
        self._last_event = ""
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The server's process id, None when it does not run."""
        return self._process.pid if self._process is not None and self._process.alive() else None

    @property
    def url(self) -> str:
        """The server's `unix://` URL; only after `start`."""
        return f"unix://{quote(os.fsencode(self._socket))}?db=0"

    async def start(self, *, ready_timeout_s: float = 10.0) -> str:
        """Start the server or take over the one that runs; return its URL.

        Waits until it answers, has failed once, or `ready_timeout_s` has passed (a large append-only
        file takes seconds to load). A server that fails is reported through `on_event` and tried again
        in the background: a broken cache does not keep the gateway from starting. Called while
        started, it changes nothing.

        Raises:
            ConfigError: another gateway uses the data dir, or there is no binary for this platform.
        """
        if self._keeper is not None:
            return self.url
        self._folder.create()
        if not self._gateway_lock.try_acquire():
            raise ConfigError(
                f"server.data_dir: {self._folder.path.parent} is in use by another gateway "
                f"(process {self._gateway_lock.holder() or 'unknown'}); stop it or set another data_dir"
            )
        self._gateway_lock.name_holder(os.getpid())
        try:
            self._binary = find_binary()
            await self._find_running()
            if self._process is None:
                self._socket = self._folder.pick_socket()
        except BaseException:  # cancellation too: the lock must not outlive the try
            self._let_go()
            raise
        self._verdict.clear()
        self._keeper = asyncio.create_task(self._keep_running(), name="embedded-valkey")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ready_timeout_s):
                await self._verdict.wait()
        return self.url

    async def stop(self) -> None:
        """Stop the server (its append-only file is fsynced) and free the data dir. Idempotent."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
            self._keeper = None
        if self._process is not None:
            await self._process.end()
            self._process = None
        self._let_go()

    def _let_go(self) -> None:
        self._server_lock.let_go()
        self._gateway_lock.let_go()

    def _tell(self, event: str) -> None:
        if self._on_event is not None and event != self._last_event:
            self._on_event(event)
        self._last_event = event

    # take over

    async def _find_running(self) -> None:
        """Take over a server that still runs in the folder; end it when it does not answer as ours.

        On return we hold the server lock, or `_process` is set.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + _FIND_S
        while not self._server_lock.try_acquire():
            socket = self._folder.last_socket()
            pid = self._folder.server_pid()
            if socket is not None and pid is not None and await self._take_over(socket):
                self._socket = socket
                self._process = ServerProcess(pid, self._server_lock)
                self._tell(f"took over the embedded Valkey that was running (process {pid})")
                return
            if loop.time() >= give_up_at:
                if pid is None:
                    raise ConfigError(f"server.data_dir: an unknown process holds {self._folder.server_lock}")
                self._tell(f"the embedded Valkey (process {pid}) does not answer; stopping it")
                await ServerProcess(pid, self._server_lock).end()
                return
            await asyncio.sleep(0.1)

    async def _take_over(self, socket: Path) -> bool:
        """Check that the server at the socket works in our folder, and give it today's settings."""
        try:
            link = await dial(Address(path=str(socket)), timeout_s=_PROBE_S)
        except StoreError:
            return False
        try:
            _, folder = await link.send(encode(b"CONFIG", b"GET", b"dir"))
            if not _is_same(Path(os.fsdecode(folder)), self._folder.path):
                return False
            await link.send(encode(b"CONFIG", b"SET", b"maxmemory-policy", self._eviction.encode()))
            await link.send(encode(b"CONFIG", b"SET", b"maxmemory", b"%d" % self._max_bytes))
        except StoreError:
            return False
        finally:
            link.close()
        return True

    # keep running

    async def _keep_running(self) -> None:
        """Start the server whenever it does not run."""
        backoff_s = 0.1
        while True:
            try:
                ready = self._process is not None or await self._launch()
            except OSError as error:  # no space, no permission, no memory to fork
                ready = False
                self._tell(f"the embedded Valkey cannot be started: {error}")
            self._verdict.set()
            if ready and self._process is not None:
                backoff_s = 0.1
                pid = self._process.pid
                await self._process.ended()
                self._tell(f"the embedded Valkey (process {pid}) ended: {self._folder.last_words()}")
            self._process = None
            self.restarts += 1
            await asyncio.sleep(backoff_s)
            backoff_s = min(_MAX_BACKOFF_S, backoff_s * 2)

    async def _launch(self) -> bool:
        """Start the server; True once it answers, False when it ended instead (the lock is then ours)."""
        self._process = self._spawn()
        if await self._answers(self._process):
            return True
        if self._process.exit_signal in {signal.SIGKILL, signal.SIGTERM}:  # not its own decision
            self._tell("the embedded Valkey was killed while it started")
            return False
        aside = self._folder.set_aside()
        if aside is not None:
            reason = self._folder.last_words()
            self._process = self._spawn()
            if await self._answers(self._process):
                self._tell(
                    f"the embedded Valkey could not load its data ({reason}); kept as {aside}, starting empty"
                )
                return True
            self._folder.put_back(aside)  # the data was not to blame
        self._tell(f"the embedded Valkey does not start: {self._folder.last_words()}")
        return False

    def _spawn(self) -> ServerProcess:
        self._folder.write_config(self._socket, max_bytes=self._max_bytes, eviction=self._eviction)
        return ServerProcess.spawn(self._binary, self._folder, self._server_lock)

    async def _answers(self, process: ServerProcess) -> bool:
        """Wait until it answers PING (loading included) or has ended."""
        while process.alive():
            with contextlib.suppress(StoreError):
                link = await dial(Address(path=str(self._socket)), timeout_s=_PROBE_S)
                link.close()
                return True
            await asyncio.sleep(0.01)
        await process.ended()
        return False


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
