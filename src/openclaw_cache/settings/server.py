"""Where the gateway listens, whom it serves, and the store behind it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from openclaw_cache.settings.fields import NAME_PATTERN, Duration, Section, Size, expanded

_MOST_BUDGET = 2**60  # `status` shows 64 bits


class Budgets(Section):
    """How much one key may use, counted over sliding windows; None = without bound.

    Tokens are those that an upstream was asked for: what the cache answers costs none.
    """

    requests_per_minute: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    tokens_per_minute: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    tokens_per_day: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)
    max_concurrent: int | None = Field(None, gt=0, le=_MOST_BUDGET, strict=True)


class ApiKey(Section):
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


class Server(Section):
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
        return expanded(value)

    @model_validator(mode="after")
    def _tls_has_both_files(self) -> Server:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both, or neither")
        return self


class StoreSettings(Section):
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
        return expanded(value)
