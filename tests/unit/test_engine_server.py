"""Faults of the model and of the line, which a real model does not show on demand."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.engine.chat import Event, Finished, Message, Piece, Prefilled, Sampling
from openclaw_cache.engine.server import EngineApp
from openclaw_cache.engine.source import ModelSource

SECRET = "the prompt's own words"


class SteppedModel:
    """Says "w0 w1 w2 …", one word for each permit; fails before word `fails_at`."""

    fingerprint = "f" * 64
    window = 100

    def __init__(self, *, permits: int = 1000, fails_at: int | None = None) -> None:
        self.permits = threading.Semaphore(permits)
        self.fails_at = fails_at
        self.stopped = threading.Event()

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return list(range(len(messages)))

    def generate(self, prompt: Sequence[int], sampling: Sampling) -> Generator[Event]:
        try:
            yield Prefilled(len(prompt))
            for number in range(sampling.max_tokens):
                assert self.permits.acquire(timeout=30)
                if number == self.fails_at:
                    raise ValueError(SECRET)
                yield Piece(0, f"w{number} ")
            yield Finished(0, "length", sampling.max_tokens)
        finally:
            self.stopped.set()


class Exchange:
    """One HTTP exchange with an ASGI application, without a socket."""

    def __init__(
        self, app: EngineApp, method: str, path: str, body: Any = None, *, origin: bytes | None = None
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode()})
        self._arrived = asyncio.Event()
        headers = [] if origin is None else [(b"origin", origin)]
        scope = {"type": "http", "method": method, "path": path, "headers": headers}
        self.task = asyncio.create_task(app(scope, self._incoming.get, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        self.body += message.get("body", b"")
        self._arrived.set()

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(30):
            while text not in self.body:
                self._arrived.clear()
                await self._arrived.wait()

    def leave(self) -> None:
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def json(self) -> Any:
        await self.task
        return json.loads(self.body)


said: list[str] = []


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[EngineApp]:
    said.clear()
    app = EngineApp(ModelSource("tiny", tmp_path, ("Tiny-1",)), max_waiting=1, say=said.append)
    yield app
    app.close()


def chat(app: EngineApp, **fields: Any) -> Exchange:
    body = {"model": "tiny", "messages": [{"role": "user", "content": SECRET}], **fields}
    return Exchange(app, "POST", "/v1/chat/completions", body)


async def test_while_the_model_loads_it_is_alive_but_not_ready_and_chats_are_told_when_to_come_back(
    app: EngineApp,
) -> None:
    assert (await Exchange(app, "GET", "/healthz").json()) == {"status": "ok"}
    ready = Exchange(app, "GET", "/readyz")
    assert (await ready.json(), ready.status) == ({"status": "loading"}, 503)
    answer = chat(app)
    assert (await answer.json())["error"]["code"] == "model_loading"
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    app.ready(SteppedModel())
    ready = Exchange(app, "GET", "/readyz")
    assert (await ready.json(), ready.status) == ({"status": "ready"}, 200)


async def test_a_model_that_fails_before_its_first_word_gives_a_500_and_never_tells_the_prompt(
    app: EngineApp,
) -> None:
    app.ready(SteppedModel(fails_at=0))
    for stream in (False, True):
        answer = chat(app, stream=stream)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (500, "engine_error")
        assert SECRET not in str(error)
    assert len(said) == 2
    assert "ValueError" in said[0]
    assert SECRET not in "".join(said)


async def test_a_stream_that_fails_midway_ends_with_an_error_event_and_no_done(app: EngineApp) -> None:
    app.ready(SteppedModel(fails_at=2))
    answer = chat(app, stream=True)
    await answer.task
    events = answer.body.decode().removesuffix("\n\n").split("\n\n")
    contents = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [c["choices"][0]["delta"]["content"] for c in contents[:-1]] == ["", "w0 ", "w1 "]
    assert contents[-1]["error"]["code"] == "engine_error"
    assert answer.status == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_word_stops_the_model(
    app: EngineApp, stream: bool
) -> None:
    model = SteppedModel(permits=0)
    app.ready(model)
    answer = chat(app, stream=stream)
    await asyncio.sleep(0.05)  # so that the work has begun: the rule holds at any moment
    answer.leave()
    await asyncio.wait_for(answer.task, 30)
    model.permits.release()
    assert await asyncio.to_thread(model.stopped.wait, 30)
    assert answer.body == b""


async def test_a_client_that_leaves_a_stream_stops_the_model(app: EngineApp) -> None:
    model = SteppedModel(permits=2)
    app.ready(model)
    answer = chat(app, stream=True)
    await answer.until(b"w1 ")
    answer.leave()
    await asyncio.wait_for(answer.task, 30)
    model.permits.release()
    assert await asyncio.to_thread(model.stopped.wait, 30)
    assert b"w2" not in answer.body


async def test_more_requests_than_may_wait_get_429_with_retry_after(app: EngineApp) -> None:
    model = SteppedModel(permits=1)
    app.ready(model)
    running = chat(app, stream=True, max_tokens=2)
    await running.until(b"w0")
    waiting = chat(app, max_tokens=2)
    await asyncio.sleep(0.05)  # the second is in line
    refused = chat(app, max_tokens=2)
    assert (await refused.json())["error"]["code"] == "rate_limit_exceeded"
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    model.permits.release(10)
    assert (await waiting.json())["choices"][0]["message"]["content"] == "w0 w1 "
    await running.task
    assert running.body.endswith(b"data: [DONE]\n\n")


async def test_a_stopping_engine_ends_its_streams_with_an_error(app: EngineApp) -> None:
    model = SteppedModel(permits=1)
    app.ready(model)
    running = chat(app, stream=True)
    await running.until(b"w0")
    waiting = chat(app)
    await asyncio.sleep(0.05)  # the second is in line
    app.close()
    model.permits.release()
    assert (await waiting.json())["error"]["code"] == "engine_stopping"
    assert waiting.status == 503
    await running.task
    assert b"engine_stopping" in running.body
    assert b"[DONE]" not in running.body


async def test_another_model_or_endpoint_is_404(app: EngineApp) -> None:
    app.ready(SteppedModel())
    other = chat(app, model="gpt-4o")
    error = (await other.json())["error"]
    assert (other.status, error["code"], error["param"]) == (404, "model_not_found", "model")
    nowhere = Exchange(app, "GET", "/v1/embeddings")
    await nowhere.task
    assert nowhere.status == 404


async def test_a_model_answers_to_its_aliases_under_its_own_id(app: EngineApp) -> None:
    app.ready(SteppedModel())
    reply = await chat(app, model="Tiny-1", max_tokens=1).json()
    assert reply["model"] == "tiny"


async def test_a_reply_that_reaches_max_tokens_says_so_and_usage_adds_up(app: EngineApp) -> None:
    app.ready(SteppedModel())
    reply = await chat(app, max_tokens=3).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"] == {
        "prompt_tokens": 1,
        "completion_tokens": 3,
        "total_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


async def test_a_web_page_may_not_ask_the_engine_behind_the_gateways_back(app: EngineApp) -> None:
    app.ready(SteppedModel())
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    exchange = Exchange(app, "POST", "/v1/chat/completions", body, origin=b"https://evil.example")
    await exchange.json()
    assert exchange.status == 403
