"""The engine's HTTP face: bare ASGI, the OpenAI API of one model."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

import orjson

from openclaw_cache.engine import request, wire
from openclaw_cache.engine.asgi import forbids_storing, read_body, salt_of, send_json, unless_gone
from openclaw_cache.engine.chat import Finished, Piece, Work
from openclaw_cache.engine.failure import where
from openclaw_cache.engine.line import LineFullError
from openclaw_cache.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from openclaw_cache.engine.asgi import Receive, Scope, Send
    from openclaw_cache.engine.chat import ChatEngine, Event, Ticket
    from openclaw_cache.engine.source import ModelSource
    from openclaw_cache.types import Headers, Json

    Operate = Callable[[str, str, Scope, Receive, Send], Awaitable[bool]]


class EngineApp:
    """ASGI application for one model, which may still be loading.

    Args:
        source: The model's names.
        say: Told about failures, never about what a prompt or reply says.
    """

    def __init__(self, source: ModelSource, *, say: Callable[[str], None]) -> None:
        self._source = source
        self._say = say
        self._created_at = int(source.path.stat().st_mtime)  # the same after every restart
        self._engine: ChatEngine | None = None
        self._operate: Operate | None = None

    def ready(self, engine: ChatEngine, operate: Operate | None = None) -> None:
        """Begin to answer with a loaded model; `operate` answers what is meant for operators (`/kv/…`)."""
        self._engine = engine
        self._operate = operate

    def close(self) -> None:
        """Stop running requests after their present step and start no other. Blocks for a few seconds at most."""
        if self._engine is not None:
            self._engine.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request; errors become OpenAI error objects."""
        if scope["type"] != "http":  # uvicorn runs us without lifespan; websockets are not spoken here
            return
        try:
            await self._route(scope, receive, send)
        except RequestError as error:
            headers: Headers = []
            if error.retry_after_s is not None:
                headers.append((b"retry-after", str(error.retry_after_s).encode()))
            await send_json(send, error.status, wire.error_object(error), headers)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == b"origin" for name, _ in scope["headers"]):  # the gateway never passes one on
            raise RequestError(
                403, "web pages may not ask this engine: use the gateway", kind="permission_error"
            )
        route = (scope["method"], scope["path"])
        if route == ("POST", "/v1/chat/completions"):
            await self._chat(await read_body(receive), scope, receive, send)
        elif route == ("GET", "/v1/models"):
            fingerprint, window = (
                (self._engine.fingerprint, self._engine.window) if self._engine else (None, None)
            )
            models = wire.model_list(self._source.model_id, self._created_at, fingerprint, window)
            await send_json(send, 200, models)
        elif route == ("GET", "/healthz"):
            await send_json(send, 200, {"status": "ok"})
        elif route == ("GET", "/readyz"):
            status = "ready" if self._engine else "loading"
            await send_json(send, 200 if self._engine else 503, {"status": status})
        elif route[1].startswith("/kv/") and await self._answer_operator(scope, receive, send):
            return
        else:
            raise RequestError(404, f"no such endpoint: {scope['method']} {scope['path']}", code="not_found")

    async def _answer_operator(self, scope: Scope, receive: Receive, send: Send) -> bool:
        # Without a key of its own, an engine obeys only this machine: the gateway that has started it.
        if not ipaddress.ip_address((scope.get("client") or ("127.0.0.1", 0))[0]).is_loopback:
            raise RequestError(403, "only this machine may ask for /kv/…", kind="permission_error")
        if self._engine is None:
            raise _loading()
        return self._operate is not None and await self._operate(
            scope["method"], scope["path"], scope, receive, send
        )

    async def _chat(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one chat request; whatever ends first, the reply or the client, ends the work."""
        asked = request.parse(body)
        if not self._source.answers_to(asked.model):
            message = f"the model '{asked.model}' is not served here, only '{self._source.model_id}'"
            raise RequestError(404, message, code="model_not_found", param="model")
        engine = self._engine
        if engine is None:
            raise _loading()
        prompt = await asyncio.to_thread(engine.encode, asked.messages, asked.tools)
        sampling = asked.sampling(len(prompt), engine.window)
        reply = wire.Reply(
            id=f"chatcmpl-{secrets.token_hex(12)}",
            model=self._source.model_id,
            created_at=int(time.time()),
            fingerprint=engine.fingerprint,
            wants_logprobs=sampling.top_logprobs is not None,
            wants_usage=asked.stream and asked.include_usage,
        )
        work = Work(prompt, sampling, salt=salt_of(scope), is_volatile=forbids_storing(scope))
        ticket = admitted(engine, work)
        try:
            answer = self._stream if asked.stream else self._complete
            tally = wire.Tally(num_prompt_tokens=len(prompt), n=sampling.n)
            await unless_gone(receive, answer(ticket, reply, tally, send))
        finally:
            ticket.close()

    async def _complete(self, ticket: Ticket, reply: wire.Reply, tally: wire.Tally, send: Send) -> None:
        async for event in self._events(ticket, tally):
            tally.add(event)
        await send_json(send, 200, reply.completion(tally), [wire.reuse_header(tally.reuse)])

    async def _stream(self, ticket: Ticket, reply: wire.Reply, tally: wire.Tally, send: Send) -> None:
        """Send events as they come; the status goes out with the first text: an early failure has its own."""
        has_begun = False
        try:
            async for event in self._events(ticket, tally):
                tally.add(event)
                chunks = _chunks(event, reply)
                if chunks and not has_begun:
                    has_begun = True
                    chunks = [
                        reply.chunk(i, {"role": "assistant", "content": ""}) for i in range(tally.n)
                    ] + chunks
                    await _start_stream(send, wire.reuse_header(tally.reuse))
                for chunk in chunks:
                    await _send_event(send, orjson.dumps(chunk))
            if reply.wants_usage:
                await _send_event(send, orjson.dumps(reply.usage_chunk(tally)))
            await _send_event(send, b"[DONE]")
        except RequestError as error:
            if not has_begun:
                raise
            await _send_event(send, orjson.dumps(wire.error_object(error)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self, ticket: Ticket, tally: wire.Tally) -> AsyncIterator[Event]:
        """The ticket's events, with any failure of the model as a RequestError that names no content."""
        try:
            async for event in ticket:
                yield event
        except RequestError:
            raise
        except Exception as exc:  # whatever the model's libraries raise: the client gets an error, no content
            self._say(f"generation failed: {where(exc)}")
            raise RequestError(
                500, "the model failed to answer", kind="server_error", code="engine_error"
            ) from exc
        if not tally.is_complete:
            raise RequestError(
                503, "the engine is stopping", kind="server_error", code="engine_stopping", retry_after_s=5
            )


def admitted(engine: ChatEngine, work: Work) -> Ticket:
    """Submit work.

    Raises:
        RequestError: 429 with when to come back: the line is full.
    """
    try:
        return engine.submit(work)
    except LineFullError as exc:
        raise RequestError(
            429,
            f"the engine is busy: {exc}; try again in {exc.retry_after_s} s",
            kind="rate_limit_error",
            code="rate_limit_exceeded",
            retry_after_s=exc.retry_after_s,
        ) from None


def _loading() -> RequestError:
    return RequestError(
        503, "the model is still loading", kind="server_error", code="model_loading", retry_after_s=2
    )


def _chunks(event: Event, reply: wire.Reply) -> list[Json]:
    match event:
        case Piece(index, text, logprobs) if text or logprobs:
            return [reply.chunk(index, {"content": text}, logprobs=logprobs)]
        case Finished(index, reason):
            return [reply.chunk(index, {}, reason=reason)]
    return []


async def _start_stream(send: Send, *more: tuple[bytes, bytes]) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_event(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})
