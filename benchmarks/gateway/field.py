"""Who takes part, and how each is started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.gateway import servers
from benchmarks.gateway.servers import Server

PEERS = Path("~/.cache/openclaw-cache-bench").expanduser()
INSTALL = {"litellm": "litellm[proxy]", "sglang-router": "sglang-router==0.3.2"}
"""Each peer has a virtual environment of its own; what is installed there."""


def is_installed(peer: str) -> bool:
    return (PEERS / peer / "bin" / peer).exists()


def how_to_install(peer: str) -> str:
    return f"python3 -m venv {PEERS / peer} && {PEERS / peer}/bin/pip install '{INSTALL[peer]}'"


@dataclass(frozen=True, slots=True)
class Field:
    """Starts the servers under test, on their core.

    Args:
        peers: Which of `INSTALL` take part.
    """

    folder: Path
    server_core: int
    load_core: int
    stub: Server
    peers: tuple[str, ...]

    def starters(self) -> dict[str, Callable[[], AbstractContextManager[Server]]]:
        """How to start each, by name."""
        found: dict[str, Callable[[], AbstractContextManager[Server]]] = {
            "bare": lambda: self._bare("/hit"),
            "bare-relay": lambda: self._bare("/relay"),
            "ours": lambda: self._ours("ours", {}),
            "ours-valkey": lambda: self._ours("ours-valkey", {"max_memory": "0"}),
        }
        if "sglang-router" in self.peers:
            found["sglang-router"] = self._sglang_router
        if "litellm" in self.peers:
            found["litellm"] = lambda: self._litellm("litellm", {"type": "local"})
            found["litellm-redis"] = self._litellm_with_redis
        return found

    @contextlib.contextmanager
    def _bare(self, path: str) -> Iterator[Server]:
        with servers.baseline(self.folder, self.server_core, self.stub.url) as server:
            yield replace(server, path=path)

    def _ours(self, name: str, result_cache: dict[str, object]) -> AbstractContextManager[Server]:
        return servers.gateway(
            self.folder, self.server_core, self.stub.url, name, store={}, result_cache=result_cache
        )

    def _sglang_router(self) -> AbstractContextManager[Server]:
        return servers.sglang_router(self.folder, self.server_core, self.stub.url, PEERS / "sglang-router")

    def _litellm(self, name: str, cache: dict[str, object]) -> AbstractContextManager[Server]:
        return servers.litellm(self.folder, self.server_core, self.stub.url, PEERS / "litellm", name, cache)

    @contextlib.contextmanager
    def _litellm_with_redis(self) -> Iterator[Server]:
        with servers.valkey(self.folder, self.load_core) as port:
            cache: dict[str, object] = {"type": "redis", "host": "127.0.0.1", "port": port}
            with self._litellm("litellm-redis", cache) as server:
                yield server
