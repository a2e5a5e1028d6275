"""`POST /v1/embeddings`, from its arrival to its one log line."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from openclaw_cache.api.account import Account
from openclaw_cache.api.answering import call_of
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Send
from openclaw_cache.api.reply import Scope, request_id, send_body, send_error
from openclaw_cache.api.visit import Door, Visit
from openclaw_cache.api.watch import ClientGoneError, while_connected
from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import Call, Outcome
from openclaw_cache.gateway.dispatch import Dispatch
from openclaw_cache.gateway.embeddings import Embeddings, EmbeddingsReply
from openclaw_cache.gateway.gateway import ambiguous
from openclaw_cache.gateway.identity import BodyLabels, identify
from openclaw_cache.gateway.policy import Control
from openclaw_cache.types import Headers

API: Final = "embeddings"
_VENDOR: Final[Vendor] = "openai"
_NO_LABELS: Final = BodyLabels(None, None, None, None)


class Embedding:
    """Serves requests for embeddings."""

    def __init__(self, embeddings: Embeddings, dispatch: Dispatch, door: Door, account: Account) -> None:
        self._embeddings = embeddings
        self._dispatch = dispatch
        self._door = door
        self._account = account
        self._dialect = ChatDialect()  # its errors have the same shape

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        arrived = time.perf_counter()
        own_id = request_id(scope["headers"])
        outcome: Outcome | None = None
        visit: Visit | None = None
        error: RequestError | None = None
        first_byte_at: float | None = None
        status = 500  # of a failure that nobody foresaw
        try:
            visit = self._door.enter(scope, time.time())
            raw = await visit.body(scope, receive)
            call = call_of(scope, raw, self._dialect, visit, own_id)
            reply, outcome = await while_connected(receive, self._answer(call))
            await _send_reply(send, reply, own_id)
            first_byte_at, status = time.perf_counter(), reply.status
        except ClientGoneError:
            status = CLIENT_GONE
        except RequestError as e:
            error, status = e, e.status
            extra = (
                [(b"cache-status", b"openclaw-cache; detail=not-cached")] if e.code == "not_cached" else []
            )
            await send_error(send, e, self._dialect.error_body(e), own_id, extra)
        except asyncio.CancelledError:  # the drain's time is up
            error, status = RequestError(503, "cut off at shutdown", code="shutting_down"), 503
            raise
        finally:
            self._account.close(API, outcome, visit, status, error, arrived, first_byte_at, own_id)
            if visit is not None:
                visit.leave()

    async def _answer(self, call: Call) -> tuple[EmbeddingsReply, Outcome]:
        reading = await self._embeddings.read(call.raw)
        identity = identify(call.headers, _NO_LABELS)
        if call.strict and reading.ambiguity:
            raise ambiguous(reading.ambiguity)
        call.check(reading.request.model, identity)
        upstream = self._dispatch.candidates(reading.request.model, API, _VENDOR)[0]
        namespace = self._dispatch.namespace(call, upstream)
        reply = await self._embeddings.answer(
            call,
            reading,
            upstream,
            namespace,
            Control.parse(call.headers),
            may_read=call.may_read,
            may_write=call.may_write,
        )
        outcome = Outcome(
            reply.outcome,
            reply.cache_status,
            reading.request.model,
            upstream.name,
            namespace,
            stream=False,
            identity=identity,
            detail=reply.detail,
            age_s=reply.age_s,
        )
        if reply.prompt_tokens is not None:
            outcome.usage = Usage(prompt_tokens=reply.prompt_tokens, completion_tokens=0)
        return reply, outcome


async def _send_reply(send: Send, reply: EmbeddingsReply, own_id: str) -> None:
    headers: Headers = [
        *reply.headers,
        (b"cache-status", reply.cache_status.encode()),
        (b"x-request-id", own_id.encode()),
    ]
    if reply.age_s is not None:
        headers.append((b"age", b"%d" % reply.age_s))
    await send_body(send, reply.status, headers, reply.body)
