"""What we want OpenClaw's config to say. Pure: from a wish to settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices
from openclaw_cache.types import Json

NAME: Final = "openclaw-cache"
"""Our provider and our plugin, in OpenClaw's words."""
PLACEHOLDER_KEY: Final = "openclaw-cache"
"""Stands where OpenClaw wants a key and our server asks for none. No secret."""

MIN_WINDOW: Final = 16_384
"""OpenClaw's first prompt alone has 9,000 to 15,000 tokens."""
COMFORTABLE_WINDOW: Final = 32_768
"""Below it OpenClaw compacts after few turns."""
MAX_REPLY: Final = 8192
"""What OpenClaw takes where nobody says anything."""

PROVIDER: Final = ("models", "providers", NAME)
ENTRY: Final = ("plugins", "entries", NAME)
LOAD_PATHS: Final = ("plugins", "load", "paths")
ALLOWED: Final = ("plugins", "allow")
MEMORY_SLOT: Final = ("plugins", "slots", "memory")
CONTEXT_SLOT: Final = ("plugins", "slots", "contextEngine")
DEFAULT_MODEL: Final = ("agents", "defaults", "model")
COMPAT: Final = ("supportsPromptCacheKey", "sendSessionIdHeader", "sendSessionAffinityHeaders")
"""With them OpenClaw tells which session a request belongs to."""
HOOKS: Final = ("allowConversationAccess", "allowPromptInjection")
"""Without them OpenClaw keeps the conversation from a plugin that is not its own."""

_ENV_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]*")

ApiKind = Literal["openai-completions", "openai-responses", "anthropic-messages"]


@dataclass(frozen=True, slots=True)
class Model:
    """A model of our server, as OpenClaw wants to know it."""

    id: str
    window: int

    @property
    def max_tokens(self) -> int:
        """The longest reply: it must leave room for the prompt."""
        return min(MAX_REPLY, self.window // 4)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to connect."""

    url: str
    """Of our server, without /v1."""
    models: tuple[Model, ...]
    api: ApiKind = "openai-completions"
    key_env: str | None = None
    """The variable in which OpenClaw finds our server's key; None = the server asks for none."""
    plugin: str | None = None
    """The directory of our plugin; None = the provider alone."""
    default: str | None = None
    """The model that OpenClaw is to use from now on; None = as it is."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that the config is to say: that `path` is `value`, or that the array there holds it."""

    path: tuple[str, ...]
    value: Json
    is_item: bool = False

    @property
    def owner(self) -> tuple[str, ...] | None:
        """The object of our name that it is a part of, which is ours as a whole."""
        return next((o for o in (PROVIDER, ENTRY) if self.path[: len(o)] == o), None)


def settings(wish: Wish, prices: Prices, now: dict[str, Json]) -> list[Setting]:
    """The settings of a wish, given what the config says now.

    Raises:
        ConfigError: the config forbids what we need, or the wish cannot be put into words of OpenClaw.
    """
    if wish.key_env is not None and not _ENV_NAME.fullmatch(wish.key_env):
        raise ConfigError(
            f"--key-env {wish.key_env}: OpenClaw reads only variables in capitals: A-Z, 0-9 and _"
        )
    wanted = [
        Setting((*PROVIDER, "baseUrl"), base_url(wish.url, wish.api)),
        Setting((*PROVIDER, "api"), wish.api),
        Setting((*PROVIDER, "apiKey"), f"${{{wish.key_env}}}" if wish.key_env else PLACEHOLDER_KEY),
        Setting((*PROVIDER, "models"), [_described(model, prices) for model in wish.models]),
    ]
    if wish.plugin is not None:
        wanted += _plugin_settings(wish, wish.plugin, now)
    if wish.default is not None:
        # A model stands there alone, or with others to fall back on.
        model = _at(now, DEFAULT_MODEL)
        path = DEFAULT_MODEL if isinstance(model, str) else (*DEFAULT_MODEL, "primary")
        wanted.append(Setting(path, f"{NAME}/{wish.default}"))
    return wanted


def base_url(url: str, api: ApiKind) -> str:
    """What OpenClaw puts its paths behind."""
    return url if api == "anthropic-messages" else f"{url}/v1"


def default_model(now: dict[str, Json]) -> str | None:
    """The model that agents use where they name none."""
    model = _at(now, DEFAULT_MODEL)
    found = model.get("primary") if isinstance(model, dict) else model
    return found if isinstance(found, str) else None


def _plugin_settings(wish: Wish, plugin: str, now: dict[str, Json]) -> list[Setting]:
    if _at(now, ("plugins", "enabled")) is False:
        raise ConfigError(
            "OpenClaw's config switches all plugins off (plugins.enabled: false): switch them on, or connect "
            "with --no-plugin, without memory and Context Engine"
        )
    if NAME in _strings(_at(now, ("plugins", "deny"))):
        raise ConfigError(f"OpenClaw's config forbids our plugin: take {NAME} out of plugins.deny")
    wanted = [Setting(LOAD_PATHS, plugin, is_item=True)]
    allowed = _at(now, ALLOWED)
    if isinstance(allowed, list) and allowed:  # an empty or missing list allows all
        wanted.append(Setting(ALLOWED, NAME, is_item=True))
    key: list[Setting] = [Setting((*ENTRY, "config", "apiKeyEnv"), wish.key_env)] if wish.key_env else []
    return [
        *wanted,
        Setting((*ENTRY, "enabled"), True),
        *(Setting((*ENTRY, "hooks", hook), True) for hook in HOOKS),
        Setting((*ENTRY, "config", "url"), wish.url),
        *key,
        Setting(MEMORY_SLOT, NAME),
        Setting(CONTEXT_SLOT, NAME),
    ]


def _described(model: Model, prices: Prices) -> Json:
    price = prices.of(model.id)
    # Both write dollars for a million tokens; we count a millionth of a dollar as a million picodollars.
    cost = {"input": 0.0, "output": 0.0, "cacheRead": 0.0, "cacheWrite": 0.0}
    if price is not None:
        rates = price.rates
        paid = (rates.input, rates.output, rates.cached_input, rates.cache_write)
        cost = {name: rate / 10**6 for name, rate in zip(cost, paid, strict=True)}
    return {
        "id": model.id,
        "name": model.id,
        "input": ["text"],
        "cost": {name: int(rate) if rate == int(rate) else rate for name, rate in cost.items()},
        "contextWindow": model.window,
        "maxTokens": model.max_tokens,
        "compat": dict.fromkeys(COMPAT, True),
    }


def _strings(value: Json) -> Sequence[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _at(value: Json, path: Sequence[str]) -> Json:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
