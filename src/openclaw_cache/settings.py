"""Everything that can be set: one frozen model per section of the configuration, with its defaults and checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from openclaw_cache.units import parse_duration, parse_ratio, parse_size, parse_size_or_auto

Size = Annotated[int, BeforeValidator(parse_size)]
_MOST_BYTES = 2**60
_MOST_BUDGET = 2**60  # `status` shows 64 bits
_MOST_TTL_S = 100 * 365 * 86_400.0  # a store counts milliseconds in 64 bits, and refuses what does not fit
SizeOrAuto = Annotated[int | Literal["auto"], BeforeValidator(parse_size_or_auto)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
Ratio = Annotated[float, BeforeValidator(parse_ratio)]
MOST_RESERVE_RATIO = 0.9
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


def _expanded(path: Path | None) -> Path | None:
    if path is not None and "\0" in str(path):
        raise ValueError("a path cannot have a NUL character in it")
    try:
        return path.expanduser().absolute() if path is not None else None
    except RuntimeError:  # a user without an entry in passwd, as in many containers, and HOME unset
        raise ValueError("there is no home directory here: set HOME, or write an absolute path") from None


class Budgets(_Section):
    """How much one key may use, counted over sliding windows; None = without bound.

    Tokens are those that an upstream was asked for: what the cache answers costs none.
    """

    requests_per_minute: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    tokens_per_minute: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    tokens_per_day: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    max_concurrent: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)


class ApiKey(_Section):
    """One client key and what it may use. Exactly one of `key`, `key_sha256`, `key_env` is set."""

    key: str | None = Field(None, repr=False, min_length=1)
    key_sha256: str | None = Field(None, repr=False)
    key_env: str | None = None
    namespace: str = Field("default", pattern=NAME_PATTERN)
    agents: list[str] = ["*"]
    models: list[str] = ["*"]
    cache: list[Literal["read", "write"]] = ["read", "write"]
    budgets: Budgets = Budgets()

    @field_validator("key_sha256")
    @classmethod
    def _is_a_hash(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise ValueError('must be the 64 hex digits that printf %s "$KEY" | sha256sum prints')
        return value

    @model_validator(mode="after")
    def _exactly_one_source(self) -> ApiKey:
        if sum(v is not None for v in (self.key, self.key_sha256, self.key_env)) != 1:
            raise ValueError("give exactly one of key, key_sha256, key_env")
        return self


class Server(_Section):
    """Where the gateway listens, whom it serves, and its limits."""

    host: str = "127.0.0.1"
    port: int = Field(8800, ge=0, le=65535)
    data_dir: Path = Path("~/.openclaw-cache")
    secret_file: Path | None = None
    admin_key_env: str | None = None
    keys: list[ApiKey] = []
    keys_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    max_body: Size = Field(64 * 10**6, gt=0)
    max_messages: int = Field(20_000, gt=0)
    max_inflight: Size = Field(10**9, gt=0)
    namespace_concurrency: int = Field(4096, gt=0)
    body_timeout: Duration = Field(30.0, gt=0)
    request_timeout: Duration = Field(1800.0, gt=0)
    ping_interval: Duration = Field(1.0, gt=0)
    drain_timeout: Duration = 60.0
    write_timeout: Duration = Field(60.0, gt=0)

    @field_validator("data_dir", "secret_file", "keys_file", "tls_cert", "tls_key")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return _expanded(value)

    @model_validator(mode="after")
    def _tls_has_both_files(self) -> Server:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both, or neither")
        return self


class StoreSettings(_Section):
    """The shared byte store behind the memory tier."""

    url: str = Field("embedded", repr=False)  # it may have a password
    timeout: Duration = Field(0.05, gt=0)
    max_memory: Size = Field(10**9, gt=0)
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None

    @field_validator("ca_file", "cert_file", "key_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return _expanded(value)


class UpstreamUrl(_Section):
    """One pod of an upstream, and its share of the requests relative to the others."""

    url: str
    weight: int = Field(1, ge=1, le=1000)

    @model_serializer
    def _as_written(self) -> str | dict[str, str | int]:
        return self.url if self.weight == 1 else {"url": self.url, "weight": self.weight}


class UpstreamSettings(_Section):
    """One upstream: a pod that we start (`embedded`), or an endpoint of OpenAI's or Anthropic's API."""

    name: str = Field(pattern=NAME_PATTERN)
    kind: Literal["embedded", "openai", "anthropic"]
    model: str | None = Field(None, min_length=1)
    threads: int | None = Field(None, ge=1)
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    max_waiting: int = Field(32, ge=0)
    urls: list[UpstreamUrl] = []
    models: list[str] = ["*"]
    relay: list[str] = []
    cache_hints: Literal["off", "auto"] = "off"
    ca_file: Path | None = None
    probe_path: str = Field("/health", pattern=r"^/[!-~]*$")
    probe_interval: Duration = Field(5.0, gt=0)
    api_key_env: str | None = None
    connect_timeout: Duration = Field(5.0, gt=0)
    idle_timeout: Duration = Field(600.0, gt=0)
    retries: int = Field(1, ge=0, le=5)
    ask_usage: bool = True

    @field_validator("urls", mode="before")
    @classmethod
    def _plain_urls(cls, value: object) -> object:
        if not isinstance(value, list):
            return value
        return [{"url": url} if isinstance(url, str) else url for url in value]

    @field_validator("cache_hints", mode="before")
    @classmethod
    def _off_is_no_boolean(cls, value: object) -> object:
        return "off" if value is False else value  # YAML reads a bare `off` as false

    @field_validator("ca_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return _expanded(value)

    @field_validator("relay")
    @classmethod
    def _relays_paths(cls, value: list[str]) -> list[str]:
        for i, glob in enumerate(value):
            if not glob.startswith("/"):
                raise ValueError(f"relay.{i}: a path begins with /, for example /v1/audio/*")
        return value

    @model_validator(mode="after")
    def _fits_its_kind(self) -> UpstreamSettings:
        if self.kind == "embedded":
            if self.model is None:
                raise ValueError("kind: embedded needs `model`, for example smollm2-135m")
            if self.urls:
                raise ValueError("kind: embedded takes no `urls`: we start that pod ourselves")
        elif not self.urls:
            raise ValueError(f"kind: {self.kind} needs `urls`, for example [http://10.0.0.11:8000]")
        if self.kind == "embedded" and (self.relay or self.ca_file or self.cache_hints != "off"):
            raise ValueError("kind: embedded takes no relay, ca_file or cache_hints")
        for i, url in enumerate(u.url for u in self.urls):
            # Not repeated: what does not belong into a URL is most often a key.
            if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
                raise ValueError(f"urls.{i}: write http(s)://host:port/path, without user, query or fragment")
            try:
                port = urlsplit(url).port
            except ValueError:
                port = 0
            if port == 0:
                raise ValueError(
                    f"urls.{i}: its host or port is none: write for example http://10.0.0.11:8000"
                )
        return self


class ScreenRule(_Section):
    """What is looked for in a prompt and its reply before they are stored, and what then."""

    find: Literal["secrets", "personal"]
    action: Literal["skip", "encrypt"] = "skip"


class ResultCacheSettings(_Section):
    """The exact result cache and what may enter it."""

    enabled: bool = True
    max_memory: Size = Field(256 * 10**6, ge=0)
    ttl: Duration = Field(86400.0, gt=0, le=_MOST_TTL_S)
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


class SavingsSettings(_Section):
    """What a token costs, for the record of what was saved."""

    prices_file: Path | None = None

    @field_validator("prices_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return _expanded(value)


class KvCacheSettings(_Section):
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
    host: Size = Field(2 * 10**9, ge=0, le=_MOST_BYTES)
    disk: Size = Field(20 * 10**9, ge=0, le=_MOST_BYTES)
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
        if isinstance(value, int) and value > _MOST_BYTES:
            raise ValueError(f"at most {_MOST_BYTES} bytes")
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


class Settings(_Section):
    """Everything that can be set."""

    server: Server = Field(default_factory=Server)  # not before it is needed: its default asks for HOME
    store: StoreSettings = StoreSettings()
    upstreams: list[UpstreamSettings] = [
        UpstreamSettings(name="local", kind="embedded", model="smollm2-135m")
    ]
    result_cache: ResultCacheSettings = ResultCacheSettings()
    kv_cache: KvCacheSettings = KvCacheSettings()
    savings: SavingsSettings = SavingsSettings()

    @field_validator("upstreams")
    @classmethod
    def _upstream_names_differ(cls, value: list[UpstreamSettings]) -> list[UpstreamSettings]:
        names = [u.name for u in value]
        if not names:
            raise ValueError("name at least one upstream")
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"the name {min(twice)!r} is used twice")
        return value
