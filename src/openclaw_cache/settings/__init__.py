"""Everything that can be set: one frozen model per section of the configuration, with its defaults and checks."""

from openclaw_cache.settings.caches import (
    MOST_RESERVE_RATIO,
    KvCacheSettings,
    ResultCacheSettings,
    SavingsSettings,
    ScreenRule,
)
from openclaw_cache.settings.fields import NAME_PATTERN
from openclaw_cache.settings.memory import MemorySettings, RecallSettings, RerankSettings
from openclaw_cache.settings.observe import ObserveSettings
from openclaw_cache.settings.semantic import (
    DOMAIN_PATTERN,
    DomainSettings,
    SemanticCacheSettings,
    VerifySettings,
)
from openclaw_cache.settings.server import ApiKey, Budgets, Server, StoreSettings
from openclaw_cache.settings.settings import Settings
from openclaw_cache.settings.upstream import UpstreamSettings, UpstreamUrl

__all__ = [
    "DOMAIN_PATTERN",
    "MOST_RESERVE_RATIO",
    "NAME_PATTERN",
    "ApiKey",
    "Budgets",
    "DomainSettings",
    "KvCacheSettings",
    "MemorySettings",
    "ObserveSettings",
    "RecallSettings",
    "RerankSettings",
    "ResultCacheSettings",
    "SavingsSettings",
    "ScreenRule",
    "SemanticCacheSettings",
    "Server",
    "Settings",
    "StoreSettings",
    "UpstreamSettings",
    "UpstreamUrl",
    "VerifySettings",
]
