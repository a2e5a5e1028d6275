"""One text per caller, several per call: who waits for what, and who may not learn from it."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from openclaw_cache.embedding.batching import BatchingEmbedder
from openclaw_cache.errors import EmbeddingError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from openclaw_cache.embedding.embedder import Vector


class GatedEmbedder:
    """Gives each text the vector (cos, sin) of its length in degrees, once its gate is open."""

    fingerprint = "gated"
    num_dims = 2

    def __init__(self, max_batch: int = 32) -> None:
        self.max_batch = max_batch
        self.batches: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.answer: Callable[[str], Vector | None] = angle

    async def start(self) -> None: ...

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        self.batches.append(list(texts))
        await self.gate.wait()
        return [self.answer(text) for text in texts]

    async def aclose(self) -> None: ...


def angle(text: str) -> Vector:
    return np.array([np.cos(np.radians(len(text))), np.sin(np.radians(len(text)))], np.float32)


@pytest.fixture
async def inner() -> AsyncIterator[GatedEmbedder]:
    yield GatedEmbedder()
    gc.collect()  # an exception that nobody has seen would be reported now


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_each_text_gets_its_own_vector(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)

    vectors = await asyncio.gather(*(batching.embed_one("a" * num, b"t") for num in (1, 30, 60, 90)))

    assert [round(float(vector[1]), 4) for vector in vectors if vector is not None] == [
        0.0175,
        0.5,
        0.866,
        1.0,
    ]


async def test_what_comes_while_a_batch_runs_goes_together(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner, max_batch=3)
    inner.gate.clear()
    first = asyncio.create_task(batching.embed_one("a", b"t"))
    await settle()
    others = [asyncio.create_task(batching.embed_one(text, b"t")) for text in "bcdef"]
    await settle()
    inner.gate.set()
    await asyncio.gather(first, *others)

    assert inner.batches == [["a"], ["b", "c", "d"], ["e", "f"]]


async def test_an_embedder_that_gains_nothing_from_batches_gets_one_text_at_a_time() -> None:
    inner = GatedEmbedder(max_batch=1)

    await asyncio.gather(*(BatchingEmbedder(inner).embed_one(text, b"t") for text in "abc"))

    assert inner.batches == [["a"], ["b"], ["c"]]


async def test_a_text_that_several_want_at_once_is_asked_once(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)

    await asyncio.gather(*(batching.embed_one("same", b"t") for _ in range(10)))

    assert inner.batches == [["same"]]


async def test_a_remembered_text_is_not_asked_again_and_the_longest_unused_is_forgotten(
    inner: GatedEmbedder,
) -> None:
    batching = BatchingEmbedder(inner, max_remembered=2)
    for text in ("a", "b", "a", "c", "a", "b"):  # c drives b out, because a was used after it
        await batching.embed_one(text, b"t")

    assert inner.batches == [["a"], ["b"], ["c"], ["b"]]


async def test_one_tenants_texts_are_not_there_sooner_for_another(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)
    await batching.embed_one("salary of the boss", b"tenant 1")
    inner.gate.clear()
    in_air = [
        asyncio.create_task(batching.embed_one("salary of the boss", scope))
        for scope in (b"tenant 2", b"tenant 3")
    ]
    await settle()
    inner.gate.set()
    await asyncio.gather(*in_air)

    assert sum(batch.count("salary of the boss") for batch in inner.batches) == 3


async def test_scope_and_text_cannot_be_shifted_into_each_other(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)
    await batching.embed_one("bc", b"a")
    await batching.embed_one("c", b"ab")

    assert inner.batches == [["bc"], ["c"]]


async def test_that_a_text_has_no_vector_is_remembered_too(inner: GatedEmbedder) -> None:
    inner.answer = lambda _text: None
    batching = BatchingEmbedder(inner)

    assert [await batching.embed_one("long", b"t"), await batching.embed_one("long", b"t")] == [None, None]
    assert inner.batches == [["long"]]


@pytest.mark.parametrize("values", [[0.0, 0.0], [float("nan"), 1.0]])
async def test_a_vector_without_a_direction_fails_its_own_text_only_and_is_not_remembered(
    inner: GatedEmbedder, values: list[float]
) -> None:
    inner.answer = lambda text: np.array(values, np.float32) if text == "bad" else angle(text)
    batching = BatchingEmbedder(inner)

    bad, good = await asyncio.gather(
        batching.embed_one("bad", b"t"), batching.embed_one("good", b"t"), return_exceptions=True
    )

    assert isinstance(bad, EmbeddingError)
    assert isinstance(good, np.ndarray)
    inner.answer = angle
    assert await batching.embed_one("bad", b"t") is not None


async def test_a_failed_batch_fails_all_that_wait_for_it_and_the_next_one_works(inner: GatedEmbedder) -> None:
    def fail(_text: str) -> Vector:
        raise EmbeddingError("no model")

    inner.answer = fail
    batching = BatchingEmbedder(inner)
    outcomes = await asyncio.gather(
        *(batching.embed_one(text, b"t") for text in "ab"), return_exceptions=True
    )
    inner.answer = angle

    assert [str(outcome) for outcome in outcomes] == ["no model", "no model"]
    assert await batching.embed_one("a", b"t") is not None


async def test_a_fault_of_the_embedder_leaves_nobody_waiting(inner: GatedEmbedder) -> None:
    def fault(_text: str) -> Vector:
        raise ZeroDivisionError

    inner.answer = fault
    batching = BatchingEmbedder(inner)
    outcomes = await asyncio.gather(
        *(batching.embed_one(text, b"t") for text in "ab"), return_exceptions=True
    )
    inner.answer = angle

    assert [type(outcome) for outcome in outcomes] == [EmbeddingError, EmbeddingError]
    assert await batching.embed_one("a", b"t") is not None


async def test_one_waiter_that_gives_up_fails_no_other(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)
    inner.gate.clear()
    waiters = [asyncio.create_task(batching.embed_one(text, b"t")) for text in ("same", "same", "other")]
    await settle()
    waiters[0].cancel()
    await settle()
    inner.gate.set()

    assert await waiters[1] is not None
    assert await waiters[2] is not None
    assert waiters[0].cancelled()


async def test_a_text_that_nobody_waits_for_any_more_is_not_asked(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner)
    inner.gate.clear()
    first = asyncio.create_task(batching.embed_one("first", b"t"))
    await settle()
    given_up = asyncio.create_task(batching.embed_one("given up", b"t"))
    await settle()
    given_up.cancel()
    await settle()
    inner.gate.set()
    await first
    await settle()

    assert inner.batches == [["first"]]
    assert await batching.embed_one("given up", b"t") is not None


async def test_a_slow_embedder_is_an_error_in_time(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner, timeout_s=0.05)
    inner.gate.clear()

    with pytest.raises(EmbeddingError, match=r"within 0\.05 s"):
        await batching.embed_one("a", b"t")
    inner.gate.set()
    assert await batching.embed_one("a", b"t") is not None


async def test_more_texts_than_may_wait_fail_at_once(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner, max_waiting=2)
    inner.gate.clear()
    first = asyncio.create_task(batching.embed_one("first", b"t"))
    await settle()
    waiting = [asyncio.create_task(batching.embed_one(text, b"t")) for text in "ab"]
    await settle()

    with pytest.raises(EmbeddingError, match="busy"):
        await batching.embed_one("c", b"t")
    joins = asyncio.create_task(batching.embed_one("a", b"t"))  # needs no room of its own
    await settle()
    inner.gate.set()
    await asyncio.gather(first, joins, *waiting)


async def test_closing_fails_all_that_wait(inner: GatedEmbedder) -> None:
    batching = BatchingEmbedder(inner, max_batch=1)
    inner.gate.clear()
    waiting = [asyncio.create_task(batching.embed_one(text, b"t")) for text in "ab"]
    await settle()
    await batching.aclose()

    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [EmbeddingError, EmbeddingError]
