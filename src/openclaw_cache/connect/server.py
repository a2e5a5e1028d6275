"""Our server, as the one who connects another program to it sees it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

from openclaw_cache.admin_client import AdminClient, RefusedError
from openclaw_cache.types import Json

_WINDOW_NAMES: Final = (
    "max_model_len", "loaded_context_length", "context_length", "context_window", "max_context_length",
    "max_input_tokens",
)  # fmt: skip
"""What vLLM and we, LM Studio, OpenRouter, Groq, LM Studio again, and Anthropic call a model's window."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A model of `GET /v1/models`; `window` is None where the upstream does not say."""

    id: str
    window: int | None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the server has counted so far; None = it may not be asked for that."""

    num_requests: int | None
    num_turns: int | None
    newest_turn_at: float | None
    num_cached_tokens: int | None
    """Prompt tokens that an upstream had in its cache."""


@dataclass(frozen=True, slots=True)
class Server:
    """Asks a running server, as a client with `key` and as an administrator. Blocking."""

    admin: AdminClient
    key: str | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Where it listens, without /v1."""
        return self.admin.url

    def models(self) -> list[Listed]:
        """The models that this key may use. Raises UnreachableError, RefusedError."""
        shown = self._client().call("GET", "/v1/models")
        entries = shown.get("data") if isinstance(shown, dict) else None
        return [
            Listed(str(entry["id"]), window_of(entry))
            for entry in entries or []
            if isinstance(entry, dict) and entry.get("id")
        ]

    def seen(self, agent: str) -> Seen:
        """What it has counted; of the turns, those of `agent`. Raises UnreachableError."""
        status, stats = self._try_admin("/admin/status"), self.agent_stats(agent)
        requests, total = _at(status, "requests"), _at(status, "savings", "total")
        return Seen(
            sum(requests.values()) if isinstance(requests, dict) else None,
            _whole(_at(stats, "num_turns")),
            newest if isinstance(newest := _at(stats, "newest_at"), (int, float)) else None,
            _whole(_at(total, "upstream_cached_tokens")),
        )

    def agent_stats(self, agent: str) -> Json:
        """What the agent's store holds; None where the server keeps none, or this key may not ask."""
        try:
            return self._client().call("GET", f"/v1/agents/{quote(agent, safe='')}/stats")
        except RefusedError:
            return None

    def _try_admin(self, path: str) -> Json:
        try:
            return self.admin.call("GET", path)
        except RefusedError:
            return None

    def _client(self) -> AdminClient:
        return replace(self.admin, admin_key=self.key)


def window_of(entry: dict[str, Json]) -> int | None:
    """How many tokens a model of a list takes, by the names that servers give it."""
    meta = entry.get("meta")  # llama.cpp's
    places = [entry.get(name) for name in _WINDOW_NAMES]
    places += [meta.get(name) for name in ("n_ctx", "n_ctx_train")] if isinstance(meta, dict) else []
    return next((found for place in places if (found := _whole(place))), None)


def _whole(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _at(value: Json, *path: str) -> Json:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
