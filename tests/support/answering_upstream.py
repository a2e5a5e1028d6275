"""An OpenAI-compatible upstream that never fails and whose replies say which request they answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import web

TRANSPORT_FIELDS = frozenset({"stream", "stream_options", "prompt_cache_key", "prompt_cache_retention"})
"""Body fields that say how a reply travels or is cached; the others decide what it says."""


@dataclass(frozen=True, slots=True)
class UpstreamCall:
    """One request that arrived."""

    body: dict[str, Any]
    headers: dict[str, str]
    generation: int


def identity(body: dict[str, Any]) -> str:
    """Names a request by what decides its reply."""
    kept = {name: value for name, value in body.items() if name not in TRANSPORT_FIELDS}
    return json.dumps(kept, sort_keys=True, ensure_ascii=False)


def answer_text(body: dict[str, Any], generation: int = 0) -> str:
    """The one right answer to a request: no two requests (nor generations) have the same."""
    digest = hashlib.sha256(f"{generation}\n{identity(body)}".encode()).hexdigest()
    return f"  答案 {digest[:32]}\n\n🦞 {digest[32:]} \n"


def generation_of(text: str, body: dict[str, Any], newest: int) -> int:
    """Which generation an answer comes from; -1 where it is no right answer at all."""
    found = (g for g in range(newest, -1, -1) if answer_text(body, g) == text)
    return next(found, -1)


class AnsweringUpstream:
    """Serves `POST /v1/chat/completions` on a free port, from a thread of its own. Use as a context manager.

    Args:
        delay_s: Pause before a reply and, where it is streamed, also in its middle: what is in flight stays so
            for a while.
    """

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.generation = 0
        self.calls: list[UpstreamCall] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="answering-upstream", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(10), "the upstream did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def num_calls_for(self, body: dict[str, Any]) -> int:
        """How often this request has arrived."""
        wanted = identity(body)
        return sum(identity(call.body) == wanted for call in self.calls)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._start())
        self._up.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())
        self._loop.close()

    async def _start(self) -> web.AppRunner:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return runner

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        call = UpstreamCall(body, dict(request.headers), self.generation)
        self.calls.append(call)
        await asyncio.sleep(self.delay_s)
        text = answer_text(body, call.generation)
        usage: dict[str, Any] = {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 0},
        }
        common = {"id": f"chatcmpl-{len(self.calls)}", "created": 1_800_000_000, "model": body["model"]}
        if body.get("stream") is not True:
            message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
            reply = common | {"object": "chat.completion", "choices": [choice], "usage": usage}
            return web.json_response(reply)
        return await self._stream(request, common | {"object": "chat.completion.chunk"}, text, usage)

    async def _stream(
        self, request: web.Request, common: dict[str, Any], text: str, usage: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        deltas = [
            {"role": "assistant", "content": ""},
            *({"content": text[i : i + 7]} for i in range(0, len(text), 7)),
        ]
        chunks = [common | {"choices": [_choice(delta, None)]} for delta in deltas]
        chunks.append(common | {"choices": [_choice({}, "stop")]})
        options = json.loads(await request.read()).get("stream_options") or {}
        if options.get("include_usage"):
            chunks = [chunk | {"usage": None} for chunk in chunks] + [
                common | {"choices": [], "usage": usage}
            ]
        events = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode() for chunk in chunks]
        half = len(events) // 2
        await response.write(b"".join(events[:half]))
        await asyncio.sleep(self.delay_s)
        await response.write(b"".join(events[half:]) + b"data: [DONE]\n\n")
        await response.write_eof()
        return response


def _choice(delta: dict[str, str], finish_reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish_reason}
