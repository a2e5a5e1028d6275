"""A byte store in a dict, for what a real server cannot be made to do on cue: fail, lose, hold a call back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from openclaw_cache.errors import StoreFullError, StoreUnavailableError
from openclaw_cache.store.store import StoreInfo


class DictStore:
    """Keeps everything; `down` and `full` make calls fail, `gates` hold calls of a name back until set."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}
        self.ttls: dict[bytes, float | None] = {}
        self.down = False
        self.full = False
        self.durable = True
        self.calls: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}

    @property
    def up(self) -> bool:
        return not self.down

    async def _call(self, name: str) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)
        if name in self.gates:
            await self.gates[name].wait()
        if self.down:
            raise StoreUnavailableError("the store is down")
        if self.full and name in ("put", "add"):
            raise StoreFullError("the store is full")

    async def get(self, key: bytes) -> bytes | None:
        value = self.data.get(key)
        await self._call("get")
        return value if "get" in self.gates else self.data.get(key)

    async def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        await self._call("get_many")
        return [self.data.get(key) for key in keys]

    async def put(self, key: bytes, value: bytes, ttl_s: float | None = None) -> None:
        await self._call("put")
        self.data[key], self.ttls[key] = value, ttl_s

    async def add(self, key: bytes, value: bytes) -> bytes:
        read_before = self.data.get(key)
        await self._call("add")
        if read_before is not None and "add" in self.gates:
            return read_before  # a reply that was on its way when the value changed
        return self.data.setdefault(key, value)

    async def delete(self, *keys: bytes) -> int:
        await self._call("delete")
        return sum(self.data.pop(key, None) is not None for key in keys)

    async def scan(self, prefix: bytes) -> AsyncIterator[bytes]:
        await self._call("scan")
        for key in list(self.data):
            if key.startswith(prefix):
                yield key

    async def make_durable(self) -> bool:
        await self._call("make_durable")
        return self.durable

    async def info(self) -> StoreInfo:
        await self._call("info")
        return StoreInfo("0", 0.0, 0, None, len(self.data), 0, self.durable)
