"""Whether a running server has set TCP_NODELAY, read from its very sockets (Linux ≥ 5.6)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
from dataclasses import dataclass
from pathlib import Path

_PIDFD_GETFD = 438
"""The number of this system call on every architecture of Linux."""


@dataclass(frozen=True, slots=True)
class NoDelay:
    """Open connections of a server, and how many of them send small writes at once."""

    num_accepted: int
    num_accepted_nodelay: int
    num_upstream: int
    num_upstream_nodelay: int

    @property
    def both(self) -> bool:
        """Whether every connection of both sides does; False where a side has none."""
        return 0 < self.num_accepted == self.num_accepted_nodelay and (
            0 < self.num_upstream == self.num_upstream_nodelay
        )


def nodelay(pids: list[int], port: int, upstream_port: int) -> NoDelay:
    """Look at all TCP connections of some processes: those accepted on `port`, those made to `upstream_port`.

    Raises OSError where we may not look into them (they must be our children or we root).
    """
    accepted: list[bool] = []
    upstream: list[bool] = []
    for pid in pids:
        for sock in _connections(pid):
            with sock:
                is_set = bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                if sock.getsockname()[1] == port:
                    accepted.append(is_set)
                elif sock.getpeername()[1] == upstream_port:
                    upstream.append(is_set)
    return NoDelay(len(accepted), sum(accepted), len(upstream), sum(upstream))


def _connections(pid: int) -> list[socket.socket]:
    """Copies of a process's connected TCP sockets."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    found = []
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if not os.readlink(link).startswith("socket:"):
                    continue
            except FileNotFoundError:  # closed since
                continue
            copy = libc.syscall(_PIDFD_GETFD, process, int(link.name), 0)
            if copy < 0:
                number = ctypes.get_errno()
                if number == 9:  # EBADF: closed since
                    continue
                raise OSError(number, os.strerror(number))
            sock = socket.socket(fileno=copy)
            with contextlib.suppress(OSError):
                if sock.family in (socket.AF_INET, socket.AF_INET6) and sock.getpeername():
                    found.append(sock)
                    continue
            sock.close()
    finally:
        os.close(process)
    return found
