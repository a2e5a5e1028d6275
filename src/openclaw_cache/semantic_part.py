"""The semantic cache of a gateway: checked at once, loaded in the background, and not asked until it is there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import structlog

from openclaw_cache.api.key_rules import from_env
from openclaw_cache.embedding.shared import Embedders
from openclaw_cache.errors import ConfigError, EmbeddingError, StoreError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.settings import SemanticCacheSettings

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.step import SemanticStep
    from openclaw_cache.semantic_build import SemanticBuild

State = Literal["off", "loading", "ready", "failed"]

_AGAIN_S: Final = 30.0
_EVIDENCE: Final = "semantic-evidence"
_log = structlog.get_logger()


class SemanticPart:
    """The semantic cache and whether it is there.

    Args:
        settings: Its section.
        data_dir: Where what was learnt of hits is kept.
        env: Where keys are looked up.
        embedders: Where the embedder is had from.
        say: Told, line by line, what an operator should know of the start.

    Raises:
        ConfigError: a setting is wrong, or a package is missing.
    """

    def __init__(
        self,
        settings: SemanticCacheSettings,
        data_dir: Path,
        env: Mapping[str, str],
        embedders: Embedders,
        say: Callable[[str], None],
    ) -> None:
        self.state: State = "loading" if settings.enabled else "off"
        self.reason = ""
        self.step: SemanticStep | None = None
        self._file = data_dir / _EVIDENCE
        self._task: asyncio.Task[None] | None = None
        self._build: SemanticBuild | None = None
        if settings.enabled:
            api_key = from_env(env, "semantic_cache.embedder_key_env", settings.embedder_key_env)
            self._build = _build(settings, api_key, embedders, say)

    def start(self, gateway: Gateway) -> None:
        """Load the model in the background; then the gateway asks the cache, and the cache follows its replies."""
        if self._build is not None:
            self._task = asyncio.get_running_loop().create_task(
                self._run(self._build, gateway), name="semantic-start"
            )

    async def aclose(self) -> None:
        """End what was started. Idempotent."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.step is not None:
            await self.step.verifier.aclose()
            await self.step.cache.embedder.aclose()
            self._keep(self.step.cache.learning.book.packed())
        if self._build is not None:
            await self._build.embedder.aclose()

    async def _run(self, build: SemanticBuild, gateway: Gateway) -> None:
        while True:
            try:
                await build.embedder.start()
                break
            except (EmbeddingError, ConfigError) as e:
                self.state, self.reason = "failed", str(e)
                _log.error("the semantic cache cannot load its model of sentences", reason=str(e))
                if isinstance(e, ConfigError):
                    return
                await asyncio.sleep(_AGAIN_S)
        self.step = build.step(gateway, await build.domains(), self._kept(), self._keep)
        gateway.semantic = self.step
        gateway.cache.follow(self.step.cache)
        self.state, self.reason = "ready", ""
        while True:
            try:
                known = await self.step.cache.rebuild(gateway.cache.stored())
            except StoreError:
                await asyncio.sleep(_AGAIN_S)
                continue
            if known:
                _log.info("semantic cache", num_questions=known)
            break
        await _renew(self.step, gateway)

    def _kept(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError:
            return b""

    def _keep(self, packed: bytes) -> None:
        """Write what was learnt: it is little, and seldom. Where that fails, it is learnt anew after a restart."""
        fresh = self._file.with_name(f"{self._file.name}.new")
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(packed)
            fresh.replace(self._file)
        except OSError as e:
            _log.warning("what the semantic cache learnt cannot be kept", reason=str(e))


async def _renew(step: SemanticStep, gateway: Gateway) -> None:
    """Embed anew what another embedder had embedded, behind the requests."""
    while step.cache.outdated:
        try:
            async for key, entry in step.cache.renewed():
                if gateway.wall() < entry.expires_at:
                    gateway.cache.put(key, entry)
        except EmbeddingError:
            await asyncio.sleep(_AGAIN_S)


def _build(
    settings: SemanticCacheSettings, api_key: str | None, embedders: Embedders, say: Callable[[str], None]
) -> SemanticBuild:
    """The builder, which needs numpy. Raises ConfigError where that is missing."""
    try:
        from openclaw_cache.semantic_build import SemanticBuild  # noqa: PLC0415 - comes with an extra
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"semantic_cache.enabled: the package {e.name} is missing: pip install 'openclaw-cache[semantic]'"
        ) from None
    return SemanticBuild(settings, api_key, embedders, say)
