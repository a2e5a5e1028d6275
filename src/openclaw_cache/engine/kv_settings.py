"""The engine's part of the `kv_cache` settings, as its parent hands them over."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

import orjson
from pydantic import ValidationError

from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import KvCacheSettings

if TYPE_CHECKING:
    from openclaw_cache.kv.codec import Kind
    from openclaw_cache.kv.lower import Write

_NAMES = {"device_bytes": "device", "host_bytes": "host", "disk_bytes": "disk", "io_timeout_s": "io_timeout"}
_MOST_AUTO_BYTES = 2 * 10**9


@dataclass(frozen=True, slots=True)
class KvSettings:
    """See `kv_cache` in docs/configuration.md. Sizes in bytes, 0 is off; `device_bytes` None: the engine chooses."""

    enabled: bool = True
    block_tokens: int = 16
    chunk_size: int = 512
    compression: Kind = "fp16"
    preallocation: float = 0.8
    reserve: float = 0.2
    max_concurrent: int = 32
    device_bytes: int | None = None
    host_bytes: int = 2 * 10**9
    disk_bytes: int = 20 * 10**9
    write: Write = "through"
    eviction: Literal["lru", "s3fifo", "lfu", "agent"] = "agent"
    io_timeout_s: float = 5.0

    @classmethod
    def parse(cls, text: str) -> KvSettings:
        """From one JSON object; fields that are not given have their defaults.

        Raises:
            ConfigError: it is no object, or has a field that is unknown or out of its bounds.
        """
        try:
            given = orjson.loads(text)
        except orjson.JSONDecodeError as exc:
            raise ConfigError(f"--kv is not JSON: {exc}") from None
        known = {field.name for field in fields(cls)}
        if not isinstance(given, dict) or not given.keys() <= known:
            raise ConfigError(f"--kv takes an object with {', '.join(sorted(known))}")
        named = {_NAMES.get(name, name): value for name, value in given.items() if value is not None}
        try:
            KvCacheSettings.model_validate(named)
        except ValidationError as exc:
            faults = "; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in exc.errors())
            raise ConfigError(f"--kv: {faults}") from None
        return cls(**given)

    def num_device_blocks(self, block_bytes: int, window: int) -> int:
        """Blocks of the device tier on the CPU.

        By default an eighth of the machine's memory, at most 2 GB, or more if one whole window and the reserve
        need it, up to a quarter of the memory.

        Raises:
            ConfigError: what was set has no room for two chunks.
        """
        chunk_blocks = self.chunk_size // self.block_tokens
        if self.device_bytes is not None:
            num_blocks = self.device_bytes // block_bytes
            if num_blocks < 2 * chunk_blocks:
                raise ConfigError(
                    f"kv_cache.device: {self.device_bytes} bytes are {num_blocks} blocks of {block_bytes} bytes; "
                    f"there must be room for two chunks: set at least {2 * chunk_blocks * block_bytes} bytes"
                )
            return num_blocks
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        one_window = int(-(-window // self.block_tokens) * block_bytes / (1 - self.reserve))
        chosen = max(min(memory // 8, _MOST_AUTO_BYTES), min(one_window, memory // 4))
        return max(2 * chunk_blocks, chosen // block_bytes)
