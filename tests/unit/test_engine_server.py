"""Faults of the model and of the line, which a real model does not show on demand."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.engine.chat import Finished, Message, Piece, Prefilled, Reuse, Work
from openclaw_cache.engine.line import Line
from openclaw_cache.engine.server import EngineApp
from openclaw_cache.engine.source import ModelSource
from openclaw_cache.engine.ticket import WorkTicket
from openclaw_cache.types import Headers, Json

SECRET = "the prompt's own words"


class SteppedEngine:
    """Says "w0 w1 w2 …", one word for each permit, one request after the other; fails before word `fails_at`."""

    fingerprint = "f" * 64
    window = 100

    def __init__(
        self, *, permits: int = 1000, fails_at: int | None = None, reuse: Reuse | None = None
    ) -> None:
        self.permits = asyncio.Semaphore(permits)
        self.fails_at = fails_at
        self.reuse = reuse
        self.stopped = asyncio.Event()
        self.encoded: list[tuple[Sequence[Message], Json]] = []
        self.works: list[Work] = []
        self._line: Line[WorkTicket] = Line(max_waiting=1)
        self._turn = asyncio.Lock()
        self._tasks: dict[WorkTicket, asyncio.Task[None]] = {}

    def encode(self, messages: Sequence[Message], tools: Json = None) -> list[int]:
        self.encoded.append((messages, tools))
        return list(range(len(messages)))

    def submit(self, work: Work) -> WorkTicket:
        ticket = WorkTicket(work, self._forget)
        self._line.join(ticket)
        self.works.append(work)
        self._tasks[ticket] = asyncio.create_task(self._serve(ticket))
        return ticket

    def permit(self, num_words: int = 1) -> None:
        for _ in range(num_words):
            self.permits.release()

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _forget(self, ticket: WorkTicket) -> None:
        self._line.leave(ticket)
        self._tasks[ticket].cancel()

    async def _serve(self, ticket: WorkTicket) -> None:
        try:
            async with self._turn:
                self._line.serve(ticket)
                try:
                    await self._speak(ticket)
                except ValueError as exc:
                    ticket.put(exc)
                finally:
                    self._line.served(1.0)
        finally:
            ticket.put(None)
            self.stopped.set()

    async def _speak(self, ticket: WorkTicket) -> None:
        num_words = ticket.work.sampling.max_tokens
        num_prompt = len(ticket.work.prompt)
        ticket.put(Prefilled(num_prompt, self.reuse or Reuse(computed=num_prompt)))
        for number in range(num_words):
            await self.permits.acquire()
            if number == self.fails_at:
                raise ValueError(SECRET)
            ticket.put(Piece(0, f"w{number} "))
        ticket.put(Finished(0, "length", num_words))


class Exchange:
    """One HTTP exchange with an ASGI application, without a socket."""

    def __init__(
        self, app: EngineApp, method: str, path: str, body: Json = None, headers: Headers | None = None
    ) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "http.request", "body": json.dumps(body).encode()})
        self._arrived = asyncio.Event()
        scope = {"type": "http", "method": method, "path": path, "headers": headers or []}
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
    app = EngineApp(ModelSource("tiny", tmp_path, ("Tiny-1",)), say=said.append)
    yield app
    app.close()


def chat(app: EngineApp, *, headers: Headers | None = None, **fields: Json) -> Exchange:
    body = {"model": "tiny", "messages": [{"role": "user", "content": SECRET}], **fields}
    return Exchange(app, "POST", "/v1/chat/completions", body, headers)


async def test_while_the_model_loads_it_is_alive_but_not_ready_and_chats_are_told_when_to_come_back(
    app: EngineApp,
) -> None:
    assert (await Exchange(app, "GET", "/healthz").json()) == {"status": "ok"}
    ready = Exchange(app, "GET", "/readyz")
    assert (await ready.json(), ready.status) == ({"status": "loading"}, 503)
    answer = chat(app)
    assert (await answer.json())["error"]["code"] == "model_loading"
    assert (answer.status, answer.headers["retry-after"]) == (503, "2")
    app.ready(SteppedEngine())
    ready = Exchange(app, "GET", "/readyz")
    assert (await ready.json(), ready.status) == ({"status": "ready"}, 200)


async def test_a_model_that_fails_before_its_first_word_gives_a_500_and_never_tells_the_prompt(
    app: EngineApp,
) -> None:
    app.ready(SteppedEngine(fails_at=0))
    for stream in (False, True):
        answer = chat(app, stream=stream)
        error = (await answer.json())["error"]
        assert (answer.status, error["code"]) == (500, "engine_error")
        assert SECRET not in str(error)
    assert len(said) == 2
    assert "ValueError" in said[0]
    assert SECRET not in "".join(said)


async def test_a_stream_that_fails_midway_ends_with_an_error_event_and_no_done(app: EngineApp) -> None:
    app.ready(SteppedEngine(fails_at=2))
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
    engine = SteppedEngine(permits=0)
    app.ready(engine)
    answer = chat(app, stream=stream)
    await asyncio.sleep(0.05)  # so that the work has begun: the rule holds at any moment
    answer.leave()
    await asyncio.wait_for(answer.task, 30)
    await asyncio.wait_for(engine.stopped.wait(), 30)
    assert answer.body == b""


async def test_a_client_that_leaves_a_stream_stops_the_model(app: EngineApp) -> None:
    engine = SteppedEngine(permits=2)
    app.ready(engine)
    answer = chat(app, stream=True)
    await answer.until(b"w1 ")
    answer.leave()
    await asyncio.wait_for(answer.task, 30)
    await asyncio.wait_for(engine.stopped.wait(), 30)
    assert b"w2" not in answer.body


async def test_more_requests_than_may_wait_get_429_with_retry_after(app: EngineApp) -> None:
    engine = SteppedEngine(permits=1)
    app.ready(engine)
    running = chat(app, stream=True, max_tokens=2)
    await running.until(b"w0")
    waiting = chat(app, max_tokens=2)
    await asyncio.sleep(0.05)  # the second is in line
    refused = chat(app, max_tokens=2)
    assert (await refused.json())["error"]["code"] == "rate_limit_exceeded"
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    engine.permit(10)
    assert (await waiting.json())["choices"][0]["message"]["content"] == "w0 w1 "
    await running.task
    assert running.body.endswith(b"data: [DONE]\n\n")


async def test_a_stopping_engine_ends_its_streams_with_an_error(app: EngineApp) -> None:
    engine = SteppedEngine(permits=1)
    app.ready(engine)
    running = chat(app, stream=True)
    await running.until(b"w0")
    waiting = chat(app)
    await asyncio.sleep(0.05)  # the second is in line
    app.close()
    engine.permit()
    assert (await waiting.json())["error"]["code"] == "engine_stopping"
    assert waiting.status == 503
    await running.task
    assert b"engine_stopping" in running.body
    assert b"[DONE]" not in running.body


async def test_another_model_or_endpoint_is_404(app: EngineApp) -> None:
    app.ready(SteppedEngine())
    other = chat(app, model="gpt-4o")
    error = (await other.json())["error"]
    assert (other.status, error["code"], error["param"]) == (404, "model_not_found", "model")
    nowhere = Exchange(app, "GET", "/v1/embeddings")
    await nowhere.task
    assert nowhere.status == 404


async def test_a_model_answers_to_its_aliases_under_its_own_id(app: EngineApp) -> None:
    app.ready(SteppedEngine())
    reply = await chat(app, model="Tiny-1", max_tokens=1).json()
    assert reply["model"] == "tiny"


async def test_a_reply_that_reaches_max_tokens_says_so_and_usage_adds_up(app: EngineApp) -> None:
    app.ready(SteppedEngine())
    reply = await chat(app, max_tokens=3).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"] == {
        "prompt_tokens": 1,
        "completion_tokens": 3,
        "total_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    }


async def test_a_web_page_may_not_ask_the_engine_behind_the_gateways_back(app: EngineApp) -> None:
    app.ready(SteppedEngine())
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
    exchange = Exchange(app, "POST", "/v1/chat/completions", body, [(b"origin", b"https://evil.example")])
    await exchange.json()
    assert exchange.status == 403


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_counts_whole_blocks_that_were_cached_or_are_now_and_a_header_tells_the_tiers_apart(
    app: EngineApp, stream: bool
) -> None:
    app.ready(SteppedEngine(reuse=Reuse(computed=37, device=64, host=32, disk=16, copied=3, written=32)))
    answer = chat(app, max_tokens=1, stream=stream, stream_options={"include_usage": True})
    await answer.task
    assert answer.headers["x-openclaw-kv"] == "computed=37, device=64, host=32, disk=16, copied=3"
    body = answer.body.decode()
    usage = json.loads(body.split("data: ")[-2] if stream else body)["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 112, "cache_write_tokens": 32}


async def test_the_salt_and_no_store_of_a_request_reach_the_engine_and_a_wrong_salt_is_refused(
    app: EngineApp,
) -> None:
    engine = SteppedEngine()
    app.ready(engine)
    cases: list[tuple[Headers, bytes, bool]] = [
        ([], b"", False),
        ([(b"x-openclaw-kv-salt", b"00ff"), (b"cache-control", b"max-age=3")], b"\x00\xff", False),
        ([(b"cache-control", b"No-Store, max-age=3")], b"", True),
        ([(b"cache-control", b"max-age=3"), (b"cache-control", b"no-cache, no-store")], b"", True),
    ]
    for headers, salt, is_volatile in cases:
        assert (await chat(app, headers=headers, max_tokens=1).json())["object"] == "chat.completion"
        assert (engine.works[-1].salt, engine.works[-1].is_volatile) == (salt, is_volatile)
    for wrong in (b"xyz", b"0", b"00" * 65):
        refused = chat(app, headers=[(b"x-openclaw-kv-salt", wrong)])
        await refused.json()
        assert refused.status == 400
    assert len(engine.works) == len(cases)


async def test_messages_and_tools_are_rendered_together(app: EngineApp) -> None:
    engine = SteppedEngine()
    app.ready(engine)
    tools = [{"type": "function", "function": {"name": "f"}}]
    await chat(app, max_tokens=1, tools=tools).json()
    assert engine.encoded == [((Message("user", SECRET),), tools)]


async def test_what_is_meant_for_operators_goes_to_them_once_the_model_is_there(app: EngineApp) -> None:
    early = Exchange(app, "GET", "/kv/status")
    assert (await early.json())["error"]["code"] == "model_loading"
    assert early.status == 503
    asked = []

    async def operate(method: str, path: str, _scope: Any, _receive: Any, send: Any) -> bool:
        asked.append((method, path))
        if path != "/kv/status":
            return False
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        return True

    app.ready(SteppedEngine(), operate)
    assert await Exchange(app, "GET", "/kv/status").json() == {}
    unknown = Exchange(app, "POST", "/kv/nothing")
    await unknown.json()
    assert unknown.status == 404
    assert asked == [("GET", "/kv/status"), ("POST", "/kv/nothing")]
