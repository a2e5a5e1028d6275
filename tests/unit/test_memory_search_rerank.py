"""The reranker against a server that speaks as vLLM does (`POST /v1/rerank`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from openclaw_cache.memory.retrieval.rerank import Reranker

TEXTS = [
    "The capital of Brazil is Brasilia.",
    "The capital of France is Paris.",
    "Horses and cows are both animals",
]
# The shape of the example reply in vLLM's documentation: best first, each with its document.
REPLY = {
    "id": "rerank-fae51b2b664d4ed38f5969b612edff77",
    "model": "BAAI/bge-reranker-base",
    "usage": {"prompt_tokens": 56, "total_tokens": 56},
    "results": [
        {"index": 1, "document": {"text": TEXTS[1]}, "relevance_score": 0.99853515625},
        {"index": 0, "document": {"text": TEXTS[0]}, "relevance_score": 0.0005860328674316406},
    ],
}
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def reranker(answer: Answer, **more: object) -> AsyncIterator[Reranker]:
    """One that asks a server which answers so."""
    app = web.Application()
    app.router.add_post("/v1/rerank", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    asks = Reranker(f"http://127.0.0.1:{port}/v1", "BAAI/bge-reranker-base", **more)  # type: ignore[arg-type]
    try:
        yield asks
    finally:
        await asks.aclose()
        await runner.cleanup()


def replies(value: object, status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(value, status=status)

    return answer


async def test_each_text_gets_its_score_and_one_that_is_left_out_comes_last() -> None:
    async with reranker(replies(REPLY)) as asks:
        scores = await asks.rerank("What is the capital of France?", TEXTS)

    assert scores == [0.0005860328674316406, 0.99853515625, float("-inf")]


async def test_the_question_is_asked_as_the_endpoint_wants_it() -> None:
    seen: list[tuple[object, str | None]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((await request.json(), request.headers.get("authorization")))
        return web.json_response(REPLY)

    async with reranker(answer, api_key="sk-secret") as asks:
        await asks.rerank("法国的首都？", TEXTS)
        await asks.rerank("again", TEXTS)

    body, authorization = seen[0]
    assert body == {
        "model": "BAAI/bge-reranker-base",
        "query": "法国的首都？",
        "documents": TEXTS,
        "top_n": 3,
    }
    assert authorization == "Bearer sk-secret"
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("value", "status"),
    [
        (REPLY, 500),
        (REPLY, 429),
        ({"error": "no"}, 200),
        ({"results": []}, 200),
        ({"results": [{"index": 7, "relevance_score": 1.0}]}, 200),
        ({"results": [{"index": -1, "relevance_score": 1.0}]}, 200),
        ({"results": [{"index": 0, "relevance_score": "much"}]}, 200),
        ([], 200),
    ],
)
async def test_a_reply_of_no_use_leaves_the_order_as_it_is(value: object, status: int) -> None:
    async with reranker(replies(value, status)) as asks:
        assert await asks.rerank("q", TEXTS) is None


async def test_a_slow_endpoint_leaves_the_order_as_it_is() -> None:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.json_response(REPLY)

    async with reranker(answer, timeout_s=0.05) as asks:
        assert await asks.rerank("q", TEXTS) is None


async def test_an_endless_reply_leaves_the_order_as_it_is() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse()
        await reply.prepare(request)
        for _ in range(64):
            await reply.write(b" " * 65_536)
        return reply

    async with reranker(answer, timeout_s=20.0) as asks:
        assert await asks.rerank("q", TEXTS) is None


async def test_an_endpoint_that_is_not_there_leaves_the_order_as_it_is() -> None:
    asks = Reranker("http://127.0.0.1:9/v1", "m")

    assert await asks.rerank("q", TEXTS) is None
    await asks.aclose()
    await asks.aclose()


async def test_a_text_that_is_no_unicode_leaves_the_order_as_it_is() -> None:
    async with reranker(replies(REPLY)) as asks:
        assert await asks.rerank("half \ud800", TEXTS) is None


async def test_nothing_is_asked_about_nothing() -> None:
    asks = Reranker("http://127.0.0.1:9/v1", "m")

    assert await asks.rerank("q", []) == []
