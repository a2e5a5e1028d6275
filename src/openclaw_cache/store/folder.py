"""The embedded server's folder: configuration, log, socket, locks and append-only files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import time
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

_MAX_SOCKET_PATH: Final = 100  # sun_path holds 108 bytes on Linux, 104 on macOS, with the closing NUL
_MAX_LOG_BYTES: Final = 1 << 20

_STAMP: Final = re.compile(r"^\d+:\S+ \d+ \w+ \d+ [\d:.]+ . ")  # process, date, level

_CONFIG: Final = """\
# Written by openclaw-cache at each start of the server; changes are lost.
port 0
unixsocket {socket}
unixsocketperm 700
protected-mode yes
enable-debug-command no
enable-module-command no
dir {folder}
pidfile {pid_file}
logfile ""
save ""
appendonly yes
appendfsync everysec
aof-load-truncated yes
maxmemory {max_bytes}
maxmemory-policy {eviction}
"""


class ServerFolder:
    """`<data_dir>/valkey`, mode 0700. Nothing here talks to the server."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir.expanduser().absolute() / "valkey"
        self.config_file = self.path / "valkey.conf"
        self.log_file = self.path / "valkey.log"
        self.pid_file = self.path / "valkey.pid"
        self.append_only = self.path / "appendonlydir"
        self.gateway_lock = self.path / "gateway.lock"
        self.server_lock = self.path / "server.lock"

    def create(self) -> None:
        """Make the folder.

        Raises:
            ConfigError: it cannot be made or written.
        """
        _quoted(self.path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"server.data_dir: cannot make {self.path}: {error.strerror}") from error
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise ConfigError(f"server.data_dir: cannot write in {self.path}")

    def pick_socket(self) -> Path:
        """Where a new server listens: in the folder, or at a short private path when ours is too long.

        Raises:
            ConfigError: the short path's folder belongs to somebody else.
        """
        socket = self.path / "valkey.sock"
        if len(os.fsencode(socket)) <= _MAX_SOCKET_PATH:
            return socket
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16] + ".sock"
        for parent in (os.environ.get("XDG_RUNTIME_DIR"), "/tmp"):  # noqa: S108 - a private folder within, checked below
            if parent and Path(parent).is_dir():
                socket = Path(parent) / f"openclaw-cache-{os.getuid()}" / name
                if len(os.fsencode(socket)) <= _MAX_SOCKET_PATH:
                    _make_private(socket.parent)
                    return socket
        raise ConfigError(f"server.data_dir: the path is too long for a socket: {self.path}")

    def write_config(self, socket: Path, *, max_bytes: int, eviction: str) -> None:
        """Write the server's configuration, whole or not at all."""
        text = _CONFIG.format(
            socket=_quoted(socket),
            folder=_quoted(self.path),
            pid_file=_quoted(self.pid_file),
            max_bytes=max_bytes,
            eviction=eviction,
        )
        draft = self.config_file.with_suffix(".new")
        draft.write_text(text, encoding="utf-8", errors="surrogateescape")
        draft.replace(self.config_file)

    def last_socket(self) -> Path | None:
        """The socket of the server that was started last, from its configuration."""
        with contextlib.suppress(FileNotFoundError):
            for line in self.config_file.read_text("utf-8", errors="surrogateescape").splitlines():
                if line.startswith("unixsocket "):
                    return Path(_unquoted(line.removeprefix("unixsocket ")))
        return None

    def server_pid(self) -> int | None:
        """The process id that the server wrote. Meaningful only while `server_lock` is held."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(self.pid_file.read_bytes())
        return None

    def open_log(self) -> int:
        """Open the log for appending, keeping one older file of about a megabyte."""
        with contextlib.suppress(FileNotFoundError):
            if self.log_file.stat().st_size > _MAX_LOG_BYTES:
                self.log_file.replace(self.log_file.with_suffix(".log.1"))
        return os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def last_words(self) -> str:
        """The last two lines that the server logged."""
        with contextlib.suppress(FileNotFoundError), self.log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            lines = log.read().decode("utf-8", "replace").splitlines()
            return " / ".join([_STAMP.sub("", line) for line in lines if line.strip()][-2:])
        return ""

    def set_aside(self) -> Path | None:
        """Rename the append-only files out of the way; return their new place, None when there are none."""
        if not self.append_only.exists():
            return None
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = self.append_only.with_name(f"unreadable-{stamp}-{os.urandom(2).hex()}")
        self.append_only.rename(aside)
        return aside

    def put_back(self, aside: Path) -> None:
        """Undo `set_aside`, dropping what a server that did not start has left."""
        shutil.rmtree(self.append_only, ignore_errors=True)
        aside.rename(self.append_only)


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise ConfigError(f"server.data_dir: its path is too long for a socket, and {folder} is not ours")
    folder.chmod(0o700)


def _quoted(path: Path) -> str:
    text = str(path)
    if "\n" in text or "\r" in text:
        raise ConfigError("server.data_dir: a line break in the path is not supported")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _unquoted(text: str) -> str:
    return text.strip()[1:-1].replace('\\"', '"').replace("\\\\", "\\")
