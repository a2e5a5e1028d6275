"""All sections together."""

from __future__ import annotations

from pydantic import Field, field_validator

from openclaw_cache.settings.caches import KvCacheSettings, ResultCacheSettings, SavingsSettings
from openclaw_cache.settings.fields import Section
from openclaw_cache.settings.memory import MemorySettings
from openclaw_cache.settings.observe import ObserveSettings
from openclaw_cache.settings.semantic import SemanticCacheSettings
from openclaw_cache.settings.server import Server, StoreSettings
from openclaw_cache.settings.upstream import UpstreamSettings


class Settings(Section):
    """Everything that can be set."""

    server: Server = Field(default_factory=Server)  # not before it is needed: its default asks for HOME
    store: StoreSettings = StoreSettings()
    upstreams: list[UpstreamSettings] = [
        UpstreamSettings(name="local", kind="embedded", model="smollm2-135m")
    ]
    result_cache: ResultCacheSettings = ResultCacheSettings()
    semantic_cache: SemanticCacheSettings = SemanticCacheSettings()
    kv_cache: KvCacheSettings = KvCacheSettings()
    memory: MemorySettings = MemorySettings()
    savings: SavingsSettings = SavingsSettings()
    observe: ObserveSettings = ObserveSettings()

    @field_validator("upstreams")
    @classmethod
    def _upstream_names_differ(cls, value: list[UpstreamSettings]) -> list[UpstreamSettings]:
        names = [u.name for u in value]
        if not names:
            raise ValueError("name at least one upstream")
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"the name {min(twice)!r} is used twice")
        return value
