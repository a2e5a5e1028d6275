"""A request for a reply of a model, from its arrival to its one log line."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from openclaw_cache.api.account import Account
from openclaw_cache.api.exchange import Exchange
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Relay, Send
from openclaw_cache.api.reply import JSON, Scope, cut_off, request_id, send_body, send_error
from openclaw_cache.api.visit import Door, Visit
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import Call, Following, Outcome, Ready
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.types import Headers, Identity

_EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_NO_CACHE = (b"cache-control", b"no-cache")


class Answering:
    """Serves every API whose reply is one message: chat, completions, responses, messages, token counts."""

    def __init__(self, gateway: Gateway, door: Door, account: Account) -> None:
        self._gateway = gateway
        self._door = door
        self._account = account

    async def serve(self, dialect: Dialect, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: Headers = scope["headers"]
        own_id = request_id(headers)
        seen = Exchange(dialect.name, own_id, time.perf_counter())
        call: Call | None = None
        relay: Relay | None = None
        is_ready = False
        try:
            visit = seen.visit = self._door.enter(scope, time.time())
            raw = await visit.body(scope, receive)
            seen.entered_at = time.perf_counter()
            call = call_of(scope, raw, dialect, visit, own_id)
            answer = await self._gateway.answer(call)
            seen.outcome = answer.outcome
            if isinstance(answer, Ready):
                is_ready = True
                await _send_ready(send, answer, own_id)
                seen.first_byte_at, seen.status = time.perf_counter(), 200
            else:
                ping_interval_s = self._door.limits.ping_interval_s
                relay = Relay(answer, _own_headers(answer, own_id), receive, send, ping_interval_s)
                seen.status = await relay.run()
                seen.first_byte_at, seen.error = relay.first_byte_at, answer.reader.flight.error
        except RequestError as e:
            seen.error, seen.status = e, e.status
            extra = [] if seen.outcome is None else _told(seen.outcome)
            if e.code == "not_cached":
                extra = [(b"cache-status", b"openclaw-cache; detail=not-cached")]
            await send_error(send, e, dialect.error_body(e), own_id, extra)
        except asyncio.CancelledError:  # the drain's time is up
            error = seen.error = cut_off()
            seen.status = error.status
            has_begun = is_ready if relay is None else bool(relay.status)
            if not has_begun:  # else the reply breaks off, which its client sees
                await send_error(send, error, dialect.error_body(error), own_id)
            raise
        finally:
            if seen.visit is not None:
                seen.visit.leave()  # first: whatever fails behind it, the place is free again
            if relay is not None and seen.outcome is not None:
                _take_over(seen.outcome, relay, seen.status)
            if seen.outcome is None and call is not None:
                seen.outcome = call.outcome
            self._account.close(seen)


def call_of(scope: Scope, raw: bytes, dialect: Dialect, visit: Visit, own_id: str) -> Call:
    """What the gateway needs of a request."""
    principal = visit.principal

    def check(model: str, identity: Identity) -> None:
        principal.check_model(model)
        principal.check_agent(identity.agent)

    return Call(
        dialect=dialect,
        path=scope["path"],
        query=scope.get("query_string", b""),
        headers=scope["headers"],
        raw=raw,
        namespace=principal.namespace,
        keyed=principal.keyed,
        request_id=own_id,
        strict="*" not in principal.models,
        may_read=principal.may_read,
        may_write=principal.may_write,
        check=check,
    )


def _take_over(outcome: Outcome, relay: Relay, status: int) -> None:
    """Note what the flight has come to know: its tokens for all its readers, the rest for who made it."""
    recorder, flight = relay.recorder, relay.flight
    if status == CLIENT_GONE and not flight.ended:
        recorder.estimate(flight)  # others read on, and pay nothing for it
    outcome.usage = recorder.usage
    if not outcome.is_answered:
        outcome.prompt_tokens, outcome.pace = recorder.prompt_tokens, flight.pace


def _own_headers(answer: Following, own_id: str) -> Callable[[], Headers]:
    """Makes our own headers of a reply that is on its way, when its head is written."""

    def made() -> Headers:
        text = answer.outcome.cache_status
        leads = answer.outcome.outcome != "collapsed"
        if leads and answer.reader.flight.recorder.stored and not answer.request.stream:
            text += "; stored"
        return [*_told(answer.outcome, text), (b"x-request-id", own_id.encode())]

    return made


def _told(outcome: Outcome, cache_status: str | None = None) -> Headers:
    """What the cache had to do with a reply, and how old that is where it is not new."""
    told = [(b"cache-status", (cache_status or outcome.cache_status).encode())]
    return told if outcome.age_s is None else [*told, (b"age", b"%d" % outcome.age_s)]


async def _send_ready(send: Send, answer: Ready, own_id: str) -> None:
    outcome = answer.outcome
    headers: Headers = [_EVENTS, _NO_CACHE] if outcome.stream else [JSON]
    headers += [*_told(outcome), (b"x-request-id", own_id.encode())]
    await send_body(send, 200, headers, answer.body)
