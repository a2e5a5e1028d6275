"""The exact result cache, the KV cache, and what a token costs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from openclaw_cache.settings.fields import (
    MOST_BYTES,
    MOST_TTL_S,
    Duration,
    Ratio,
    Section,
    Size,
    SizeOrAuto,
    expanded,
)

MOST_RESERVE_RATIO = 0.9


class ScreenRule(Section):
    """What is looked for in a prompt and its reply before they are stored, and what then."""

    find: Literal["secrets", "personal"]
    action: Literal["skip", "encrypt"] = "skip"


class ResultCacheSettings(Section):
    """The exact result cache and what may enter it."""

    enabled: bool = True
    max_memory: Size = Field(256 * 10**6, ge=0)
    ttl: Duration = Field(86400.0, gt=0, le=MOST_TTL_S)
    negative_ttl: Duration = Field(5.0, ge=0, le=60)
    sampled: Literal["cache", "bypass"] = "cache"
    tools: Literal["bypass", "cache"] = "bypass"
    ignore: list[Literal["user", "metadata"]] = []
    encryption_key_env: str | None = None
    screen: list[ScreenRule] = []

    @field_validator("screen", mode="before")
    @classmethod
    def _plain_rules(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"find": rule} if isinstance(rule, str) else rule for rule in value]

    @model_validator(mode="after")
    def _can_encrypt(self) -> ResultCacheSettings:
        if self.encryption_key_env is None and any(rule.action == "encrypt" for rule in self.screen):
            raise ValueError("screen: action encrypt needs encryption_key_env")
        return self


class SavingsSettings(Section):
    """What a token costs, for the record of what was saved."""

    prices_file: Path | None = None

    @field_validator("prices_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return expanded(value)


class KvCacheSettings(Section):
    """The prefix/KV cache of each embedded engine. Two embedded upstreams each get the whole of it.

    `device`, `host` and `disk` are the sizes of the tiers; 0 turns `host` or `disk` off. `preallocation` is the
    share of `device` and `host` that is taken at start, `reserve` the share of `device` kept for running requests.
    """

    enabled: bool = True
    block_tokens: int = Field(16, ge=1, le=512)
    chunk_size: int = Field(512, gt=0, le=2**20)
    compression: Literal["fp32", "fp16", "bf16", "int8"] = "fp16"
    preallocation: Ratio = 0.8
    max_concurrent: int = Field(32, ge=1, le=4096)
    reserve: Ratio = 0.2
    device: SizeOrAuto = "auto"
    host: Size = Field(2 * 10**9, ge=0, le=MOST_BYTES)
    disk: Size = Field(20 * 10**9, ge=0, le=MOST_BYTES)
    write: Literal["through", "back"] = "through"
    eviction: Literal["lru", "s3fifo", "lfu", "agent"] = "agent"
    io_timeout: Duration = Field(5.0, gt=0)

    @field_validator("chunk_size")
    @classmethod
    def _holds_whole_blocks(cls, value: int, info: ValidationInfo) -> int:
        block = info.data.get("block_tokens")
        if block is not None and value % block:
            below = value // block * block
            remedy = f"{below} or {below + block}" if below else str(block)
            raise ValueError(
                f"{value} tokens are no whole number of blocks of block_tokens ({block}): write chunk_size: {remedy}"
            )
        return value

    @field_validator("reserve")
    @classmethod
    def _leaves_something_to_cache_in(cls, value: float) -> float:
        if value > MOST_RESERVE_RATIO:
            raise ValueError("at most 90% may be kept for running requests: the rest is what the cache has")
        return value

    @field_validator("device")
    @classmethod
    def _has_a_device_tier(cls, value: int | str) -> int | str:
        if value == 0:
            raise ValueError("the engine computes in this tier: write a size, or enabled: false")
        if isinstance(value, int) and value > MOST_BYTES:
            raise ValueError(f"at most {MOST_BYTES} bytes")
        return value

    @field_validator("disk", mode="before")
    @classmethod
    def _is_no_share_of_memory(cls, value: object) -> object:
        if isinstance(value, str) and value.rstrip().endswith("%"):
            raise ValueError(f"{value!r} would be a share of memory: write a size, for example 20GB")
        return value

    def for_engine(self) -> dict[str, bool | int | float | str | None]:
        """The section as the engine's process takes it (`--kv`): sizes in bytes, None where it is to choose."""
        return {
            "enabled": self.enabled,
            "block_tokens": self.block_tokens,
            "chunk_size": self.chunk_size,
            "compression": self.compression,
            "preallocation": self.preallocation,
            "reserve": self.reserve,
            "max_concurrent": self.max_concurrent,
            "device_bytes": None if self.device == "auto" else self.device,
            "host_bytes": self.host,
            "disk_bytes": self.disk,
            "write": self.write,
            "eviction": self.eviction,
            "io_timeout_s": self.io_timeout,
        }
