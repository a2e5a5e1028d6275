"""An embedder that is loaded when it is first needed, and that a failure never takes along."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import structlog

from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from openclaw_cache.embedding.batching import BatchingEmbedder
    from openclaw_cache.embedding.embedder import Embedder, Vector
    from openclaw_cache.memory.retrieval.background.measure import Background

State = Literal["off", "idle", "loading", "ready", "failed"]

_AGAIN_S: Final = 30.0
_STANDS_BACK_S: Final = 2.0
"""The longest that a passage waits for questions: where they never end, it has its turn all the same."""
_MOST_REMEMBERED: Final = 1000
"""Vectors of questions: 1.6 MB with 384 dimensions."""
_log = structlog.get_logger()


class LazyEmbedder:
    """Vectors for questions and passages. Not loaded before `wake`; where it fails, it is tried again.

    Questions have an embedder of their own: a passage of 190 tokens takes the default one 0.3 s, and a question that
    came behind it would wait for so long.

    Args:
        questions: Computes for those who wait, not started; None = there are no vectors, because of `why_off`.
        passages: The same model, for stored texts; may be the same object.
        why_off: For `status`.
        timeout_s: The longest wait for a question's vector.
    """

    def __init__(
        self,
        questions: Embedder | None,
        passages: Embedder | None,
        *,
        why_off: str = "",
        timeout_s: float = 2.0,
    ) -> None:
        self.state: State = "off" if questions is None else "idle"
        self.reason = why_off
        self.on_loaded: Callable[[], None] = lambda: None
        self.background: Background | None = None
        """Texts that no question is about; 32 sentences, which take the default one 0.3 s, once it is ready."""
        self._inner = questions
        self._passages = passages
        self._timeout_s = timeout_s
        self._questions: BatchingEmbedder | None = None
        self._task: asyncio.Task[None] | None = None
        self._loaded = asyncio.Event()
        self._background_tried = asyncio.Event()
        self._loading_since = 0.0
        self._num_questions = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def fingerprint(self) -> str | None:
        """Names its vectors; None while it is not ready."""
        return self._inner.fingerprint if self._inner is not None and self.state == "ready" else None

    @property
    def num_dims(self) -> int:
        """Length of its vectors, once it is ready."""
        return 0 if self._inner is None else self._inner.num_dims

    @property
    def max_batch(self) -> int:
        """Most passages that are read together."""
        return 1 if self._passages is None else max(1, self._passages.max_batch)

    def wake(self) -> None:
        """Begin to load it in the background. Idempotent."""
        if self._inner is not None and self._passages is not None and self._task is None:
            self.state = "loading"
            self._loading_since = asyncio.get_running_loop().time()
            self._task = asyncio.get_running_loop().create_task(
                self._load(self._inner, self._passages), name="memory-embedder"
            )

    async def wait_ready(self, most_s: float | None = None) -> None:
        """Return once it is ready; with `most_s` it may have been loading for no longer than that.

        Raises:
            TimeoutError: it has been, and is not ready.
        """
        if most_s is None or self._loaded.is_set():
            await self._loaded.wait()
            return
        async with asyncio.timeout_at(self._loading_since + most_s):
            await self._loaded.wait()

    async def question(self, text: str, scope: bytes) -> Vector | None:
        """A question's vector; None for a text that has no one meaning. Remembered within `scope`.

        Raises:
            EmbeddingError: it is not ready, failed, or was too slow.
        """
        if self._questions is None:
            raise EmbeddingError(f"the embedder: {self.state}")
        self._num_questions += 1
        self._quiet.clear()
        try:
            return await self._questions.embed_one(text, scope)
        finally:
            self._num_questions -= 1
            if self._num_questions == 0:
                self._quiet.set()

    async def passages(self, texts: Sequence[str]) -> list[Vector | None]:
        """Vectors of stored texts, in order. Lets questions go first, for a while, and the background once.

        Raises:
            EmbeddingError.
        """
        if self._passages is None or self.state != "ready":
            raise EmbeddingError(f"the embedder: {self.state}")
        await self._background_tried.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_STANDS_BACK_S):
                await self._quiet.wait()
        return await self._passages.embed(texts)

    async def aclose(self) -> None:
        """End what was started. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._questions is not None:
            await self._questions.aclose()
        for embedder in (self._inner, self._passages):
            if embedder is not None:
                await embedder.aclose()

    async def _load(self, inner: Embedder, passages: Embedder) -> None:
        from openclaw_cache.embedding.batching import BatchingEmbedder  # noqa: PLC0415 - it needs numpy

        while True:
            try:
                await _start(inner, passages)
                break
            except (EmbeddingError, ConfigError) as e:
                self.state, self.reason = "failed", str(e).replace("semantic_cache.", "memory.")
                _log.error("the memory cannot load its model of sentences", reason=self.reason)
                if isinstance(e, ConfigError):
                    return
                await asyncio.sleep(_AGAIN_S)
        self._questions = BatchingEmbedder(inner, timeout_s=self._timeout_s, max_remembered=_MOST_REMEMBERED)
        self.state, self.reason = "ready", ""
        self._loaded.set()
        self.on_loaded()
        while self.background is None:
            try:
                self.background = await _background(passages)
                self._background_tried.set()
            except EmbeddingError as e:
                _log.warning("what is recalled is found by its words only", reason=str(e))
                self._background_tried.set()
                await asyncio.sleep(_AGAIN_S)


async def _start(questions: Embedder, passages: Embedder) -> None:
    await questions.start()
    await passages.start()
    if questions.fingerprint != passages.fingerprint:
        raise EmbeddingError("the model's files changed while it was loaded")


async def _background(embedder: Embedder) -> Background:
    from openclaw_cache.memory.retrieval.background.measure import (  # noqa: PLC0415 - only with an embedder
        LANGUAGES,
        Background,
        background_texts,
    )

    vectors = {language: await embedder.embed(background_texts(language)) for language in LANGUAGES}
    return Background(
        embedder.fingerprint,
        {language: [row for row in rows if row is not None] for language, rows in vectors.items()},
    )
