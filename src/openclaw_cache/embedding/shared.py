"""One embedder for all parts that name the same model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from openclaw_cache.embedding.choose import embedder_from

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Embedder, Vector


class Embedders:
    """Hands out shares of embedders: who names the same model and key gets a share of the same one.

    It has the patience of its most patient user; the others stop waiting by themselves.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str | None, str | None], _Whole] = {}

    def get(
        self,
        name: str,
        *,
        model: str | None,
        api_key: str | None,
        timeout_s: float,
        on_event: Callable[[str], None],
        section: str,
    ) -> Embedder:
        """A share; its arguments are those of `choose.embedder_from`. Raises ConfigError as that does.

        All shares are asked for before the first is started.
        """
        own = embedder_from(
            name, model=model, api_key=api_key, timeout_s=timeout_s, on_event=on_event, section=section
        )
        whole = self._known.setdefault((name, model, api_key), _Whole(own, timeout_s))
        if timeout_s > whole.timeout_s:
            whole.embedder, whole.timeout_s = own, timeout_s
        return _Share(whole)


class _Whole:
    """An embedder and how many have a share of it."""

    def __init__(self, embedder: Embedder, timeout_s: float) -> None:
        self.embedder = embedder
        self.timeout_s = timeout_s
        self.num_shares = 0
        self.starting = asyncio.Lock()


class _Share:
    """An embedder that is started by the first who needs it, and ended by the last who closes a share."""

    def __init__(self, whole: _Whole) -> None:
        self._whole = whole
        self._is_open = True
        whole.num_shares += 1

    @property
    def fingerprint(self) -> str:
        return self._whole.embedder.fingerprint

    @property
    def num_dims(self) -> int:
        return self._whole.embedder.num_dims

    @property
    def max_batch(self) -> int:
        return self._whole.embedder.max_batch

    async def start(self) -> None:
        async with self._whole.starting:
            await self._whole.embedder.start()

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        return await self._whole.embedder.embed(texts)

    async def aclose(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        self._whole.num_shares -= 1
        if self._whole.num_shares == 0:
            await self._whole.embedder.aclose()
