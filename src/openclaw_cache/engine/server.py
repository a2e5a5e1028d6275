"""The engine's HTTP face: bare ASGI, the OpenAI API of one model."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import orjson

from openclaw_cache.engine import request, wire
from openclaw_cache.engine.chat import Finished, Piece
from openclaw_cache.engine.scheduler import LineFullError, Scheduler
from openclaw_cache.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, MutableMapping
    from typing import Any

    from openclaw_cache.engine.chat import ChatModel, Event, Sampling
    from openclaw_cache.engine.scheduler import Ticket
    from openclaw_cache.engine.source import ModelSource
    from openclaw_cache.types import Headers, Json

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    Work = tuple[list[int], Sampling]

_MOST_BODY_BYTES = 32 * 1024 * 1024


class EngineApp:
    """ASGI application for one model, which may still be loading.

    Args:
        source: The model's names.
        max_waiting: How many requests may wait for the one that runs.
        say: Told about failures, never about what a prompt or reply says.
    """

    def __init__(self, source: ModelSource, *, max_waiting: int, say: Callable[[str], None]) -> None:
        self._source = source
        self._max_waiting = max_waiting
        self._say = say
        self._created_at = int(source.path.stat().st_mtime)  # the same after every restart
        self._model: ChatModel | None = None
        self._scheduler: Scheduler[Work, Event] | None = None

    def ready(self, model: ChatModel) -> None:
        """Begin to answer with a loaded model."""

        def run(work: Work) -> Generator[Event]:
            prompt, sampling = work
            yield from model.generate(prompt, sampling)

        self._scheduler = Scheduler(run, max_waiting=self._max_waiting, clock=time.monotonic)
        self._model = model

    def close(self) -> None:
        """Stop the running request after its present step and start no other."""
        if self._scheduler is not None:
            self._scheduler.close()

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
            await _send_json(send, error.status, wire.error_object(error), headers)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if any(name == b"origin" for name, _ in scope["headers"]):  # the gateway never passes one on
            raise RequestError(
                403, "web pages may not ask this engine: use the gateway", kind="permission_error"
            )
        route = (scope["method"], scope["path"])
        if route == ("POST", "/v1/chat/completions"):
            await self._chat(await _read_body(receive), receive, send)
        elif route == ("GET", "/v1/models"):
            fingerprint, window = (
                (self._model.fingerprint, self._model.window) if self._model else (None, None)
            )
            models = wire.model_list(self._source.model_id, self._created_at, fingerprint, window)
            await _send_json(send, 200, models)
        elif route == ("GET", "/healthz"):
            await _send_json(send, 200, {"status": "ok"})
        elif route == ("GET", "/readyz"):
            status = "ready" if self._model else "loading"
            await _send_json(send, 200 if self._model else 503, {"status": status})
        else:
            raise RequestError(404, f"no such endpoint: {scope['method']} {scope['path']}", code="not_found")

    async def _chat(self, body: bytes, receive: Receive, send: Send) -> None:
        """Answer one chat request; whatever ends first, the reply or the client, ends the work."""
        asked = request.parse(body)
        if not self._source.answers_to(asked.model):
            message = f"the model '{asked.model}' is not served here, only '{self._source.model_id}'"
            raise RequestError(404, message, code="model_not_found", param="model")
        if self._model is None or self._scheduler is None:
            raise RequestError(
                503, "the model is still loading", kind="server_error", code="model_loading", retry_after_s=2
            )
        prompt = await asyncio.to_thread(self._model.encode, asked.messages)
        sampling = asked.sampling(len(prompt), self._model.window)
        reply = wire.Reply(
            id=f"chatcmpl-{secrets.token_hex(12)}",
            model=self._source.model_id,
            created_at=int(time.time()),
            fingerprint=self._model.fingerprint,
            wants_logprobs=sampling.top_logprobs is not None,
            wants_usage=asked.stream and asked.include_usage,
        )
        try:
            ticket = self._scheduler.submit((prompt, sampling))
        except LineFullError as exc:
            raise RequestError(
                429,
                f"the engine is busy: {exc}; try again in {exc.retry_after_s} s",
                kind="rate_limit_error",
                code="rate_limit_exceeded",
                retry_after_s=exc.retry_after_s,
            ) from None
        try:
            answer = self._stream if asked.stream else self._complete
            tally = wire.Tally(num_prompt_tokens=len(prompt), n=sampling.n)
            await _unless_gone(receive, answer(ticket, reply, tally, send))
        finally:
            ticket.close()

    async def _complete(
        self, ticket: Ticket[Work, Event], reply: wire.Reply, tally: wire.Tally, send: Send
    ) -> None:
        async for event in self._events(ticket, tally):
            tally.add(event)
        await _send_json(send, 200, reply.completion(tally))

    async def _stream(
        self, ticket: Ticket[Work, Event], reply: wire.Reply, tally: wire.Tally, send: Send
    ) -> None:
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
                    await _start_stream(send)
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

    async def _events(self, ticket: Ticket[Work, Event], tally: wire.Tally) -> AsyncIterator[Event]:
        """The ticket's events, with any failure of the model as a RequestError that names no content."""
        try:
            async for event in ticket:
                yield event
        except RequestError:
            raise
        except Exception as exc:  # whatever the model's libraries raise: the client gets an error, no content
            self._say(f"generation failed: {_where(exc)}")
            raise RequestError(
                500, "the model failed to answer", kind="server_error", code="engine_error"
            ) from exc
        if not tally.is_complete:
            raise RequestError(503, "the engine is stopping", kind="server_error", code="engine_stopping")


def _chunks(event: Event, reply: wire.Reply) -> list[Json]:
    match event:
        case Piece(index, text, logprobs) if text or logprobs:
            return [reply.chunk(index, {"content": text}, logprobs=logprobs)]
        case Finished(index, reason):
            return [reply.chunk(index, {}, reason=reason)]
    return []


def _where(exc: BaseException) -> str:
    """Type and place of an error; its message could quote a prompt."""
    trace = exc.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(exc).__name__}{place}"


async def _unless_gone(receive: Receive, answer: Awaitable[None]) -> None:
    """Run `answer` to its end, or cancel it when the client closes its connection."""
    answering = asyncio.ensure_future(answer)
    watching = asyncio.create_task(_wait_gone(receive))
    try:
        await asyncio.wait({answering, watching}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            answering.result()
    finally:
        for task in (answering, watching):
            task.cancel()
            with suppress(asyncio.CancelledError, RequestError, OSError):
                await task


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client went away before its request was complete")
        parts.append(message.get("body", b""))
        num_bytes += len(parts[-1])
        if num_bytes > _MOST_BODY_BYTES:
            raise RequestError(413, f"the request body is larger than {_MOST_BODY_BYTES} bytes")
        if not message.get("more_body", False):
            return b"".join(parts)


async def _start_stream(send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_event(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": b"data: " + data + b"\n\n", "more_body": True})


async def _send_json(send: Send, status: int, document: Json, headers: Headers | None = None) -> None:
    body = orjson.dumps(document)
    fields = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(headers or []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
