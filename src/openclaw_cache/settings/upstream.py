"""Where requests go."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_serializer, model_validator

from openclaw_cache.settings.fields import NAME_PATTERN, Duration, Section, expanded


class UpstreamUrl(Section):
    """One pod of an upstream, and its share of the requests relative to the others."""

    url: str
    weight: int = Field(1, ge=1, le=1000)

    @model_serializer
    def _as_written(self) -> str | dict[str, str | int]:
        return self.url if self.weight == 1 else {"url": self.url, "weight": self.weight}


class UpstreamSettings(Section):
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
    canonical: Literal["off", "report", "safe", "full"] = "report"
    canonical_without: list[str] = []
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

    @field_validator("cache_hints", "canonical", mode="before")
    @classmethod
    def _off_is_no_boolean(cls, value: object) -> object:
        return "off" if value is False else value  # YAML reads a bare `off` as false

    @field_validator("ca_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return expanded(value)

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
