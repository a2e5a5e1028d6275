"""`POST /v1/embeddings`, from its arrival to its one log line."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from openclaw_cache.api.account import Account
from openclaw_cache.api.answering import call_of
from openclaw_cache.api.exchange import Exchange
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Send
from openclaw_cache.api.reply import Scope, cut_off, request_id, send_body, send_error
from openclaw_cache.api.visit import Door
from openclaw_cache.api.watch import ClientGoneError, while_connected
from openclaw_cache.api.whole import WholeReply, checked, json_object
from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import CACHE_NAME, Call, Outcome
from openclaw_cache.gateway.dispatch import Dispatch
from openclaw_cache.gateway.embeddings import Embeddings, EmbeddingsReply, Reading
from openclaw_cache.gateway.identity import BodyLabels, identify
from openclaw_cache.gateway.policy import Control
from openclaw_cache.gateway.prompt_tokens import PromptTokens
from openclaw_cache.gateway.refusals import ambiguous
from openclaw_cache.gateway.upstream import Upstream
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
        own_id = request_id(scope["headers"])
        seen = Exchange(API, own_id, time.perf_counter())
        has_reply = False
        try:
            visit = seen.visit = self._door.enter(scope, time.time())
            raw = await visit.body(scope, receive)
            seen.entered_at = time.perf_counter()
            call = call_of(scope, raw, self._dialect, visit, own_id)
            reading, upstream, outcome = await self._begin(call)
            call.outcome = seen.outcome = outcome
            reply = await while_connected(receive, self._answer(call, reading, upstream, outcome))
            has_reply = True
            seen.status = await self._send_reply(send, reply, own_id)
            seen.first_byte_at = time.perf_counter()
        except ClientGoneError:
            seen.status = CLIENT_GONE
            if (
                seen.outcome is not None
            ):  # four bytes count as a token: they may have been computed all the same
                seen.outcome.usage = Usage(prompt_tokens=len(raw) // 4, completion_tokens=0, is_estimate=True)
        except RequestError as e:
            seen.error, seen.status = e, e.status
            extra = [(b"cache-status", seen.outcome.cache_status.encode())] if seen.outcome else []
            if e.code == "not_cached":
                extra = [(b"cache-status", b"openclaw-cache; detail=not-cached")]
            await send_error(send, e, self._dialect.error_body(e), own_id, extra)
        except asyncio.CancelledError:  # the drain's time is up
            error = seen.error = cut_off()
            seen.status = error.status
            if not has_reply:  # else it breaks off, which its client sees
                await send_error(send, error, self._dialect.error_body(error), own_id)
            raise
        finally:
            if seen.visit is not None:
                seen.visit.leave()  # first: whatever fails behind it, the place is free again
            self._account.close(seen)

    async def _begin(self, call: Call) -> tuple[Reading, Upstream, Outcome]:
        """What a request says, and who is to answer it. Raises RequestError."""
        reading = await self._embeddings.read(call.raw)
        identity = identify(call.headers, _NO_LABELS)
        if call.strict and reading.ambiguity:
            raise ambiguous(reading.ambiguity)
        model = reading.request.model
        call.check(model, identity)
        upstream = self._dispatch.candidates(model, API, _VENDOR, call)[0]
        namespace = self._dispatch.namespace(call, self._dispatch.client(call), upstream)
        status = f"{CACHE_NAME}; fwd=miss"
        outcome = Outcome("miss", status, model, upstream.name, namespace, stream=False, identity=identity)
        return reading, upstream, outcome

    async def _answer(
        self, call: Call, reading: Reading, upstream: Upstream, outcome: Outcome
    ) -> EmbeddingsReply:
        reply = await self._embeddings.answer(
            call,
            reading,
            upstream,
            outcome.namespace,
            Control.parse(call.headers),
            may_read=call.may_read,
            may_write=call.may_write,
        )
        outcome.outcome, outcome.cache_status = reply.outcome, reply.cache_status
        outcome.detail, outcome.age_s = reply.detail, reply.age_s
        if reply.prompt_tokens is not None:
            # Of a batch that was stored in part, what an upstream was asked for.
            cached_tokens = 0 if outcome.is_answered else reply.cached_tokens
            outcome.usage = Usage(prompt_tokens=reply.prompt_tokens - cached_tokens, completion_tokens=0)
            if not outcome.is_answered:
                outcome.prompt_tokens = PromptTokens(computed=reply.prompt_tokens - cached_tokens)
        return reply

    async def _send_reply(self, send: Send, reply: EmbeddingsReply, own_id: str) -> int:
        """Returns the status. Raises RequestError where the upstream sent something that is no reply."""
        whole = WholeReply(reply.status, reply.headers, reply.body)
        if not reply.is_read and all(name != b"content-encoding" for name, _ in reply.headers):
            whole = checked(whole, json_object(reply.body), self._dialect)
        headers: Headers = [
            *whole.headers,
            (b"cache-status", reply.cache_status.encode()),
            (b"x-request-id", own_id.encode()),
        ]
        if reply.age_s is not None:
            headers.append((b"age", b"%d" % reply.age_s))
        await send_body(send, whole.status, headers, whole.body)
        return whole.status
