"""Paths that an operator lets through to an upstream untouched (`upstreams[].relay`): nothing is read or stored."""

from __future__ import annotations

import asyncio
import fnmatch
import re
import time
from collections.abc import Sequence
from typing import Final

from openclaw_cache.api.account import RELAY, Account
from openclaw_cache.api.auth import Principal
from openclaw_cache.api.exchange import Exchange
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Send
from openclaw_cache.api.reply import Scope, cut_off, request_id, send_error
from openclaw_cache.api.visit import Door
from openclaw_cache.api.watch import ClientGoneError, while_connected
from openclaw_cache.dialects.anthropic import failure as anthropic
from openclaw_cache.dialects.openai import failure as openai
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.gateway.upstream_reply import UpstreamReply
from openclaw_cache.types import Headers

_PLAIN_PATH: Final = re.compile(rb"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~:@!$&'()*+,;=-]+)+/?")
"""No escapes, no empty segments, no dots that climb: a path that every reader takes for the same."""

_CACHE_STATUS: Final = (b"cache-status", b"openclaw-cache; fwd=bypass; detail=relay")


class Passthrough:
    """Relays requests by path."""

    def __init__(self, upstreams: Sequence[Upstream], door: Door, account: Account) -> None:
        self._upstreams = [u for u in upstreams if u.relay]
        self._door = door
        self._account = account

    def find(self, path: str) -> Upstream | None:
        """The first upstream that relays this path; None where none does."""
        for upstream in self._upstreams:
            if any(fnmatch.fnmatchcase(path, glob) for glob in upstream.relay):
                return upstream
        return None

    async def serve(self, upstream: Upstream, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay one request."""
        own_id = request_id(scope["headers"])
        seen = Exchange(RELAY, own_id, time.perf_counter())
        has_head = False
        try:
            visit = seen.visit = self._door.enter(scope, time.time())
            _check(visit.principal, scope)
            raw = await visit.body(scope, receive, may_be_encoded=True)
            seen.entered_at = time.perf_counter()
            reply = await while_connected(receive, _send(upstream, scope, raw, visit.principal.keyed, own_id))
            seen.status, has_head = reply.status, True
            try:
                await while_connected(receive, _copy(reply, send, own_id))
            finally:
                reply.close()
        except ClientGoneError:
            seen.status = CLIENT_GONE
        except asyncio.CancelledError:  # the drain's time is up
            error = seen.error = cut_off()
            seen.status = error.status
            if not has_head:
                await send_error(send, error, _error_body(upstream, error), own_id, [_CACHE_STATUS])
            raise
        except RequestError as e:
            seen.error = e
            if not has_head:  # else the reply breaks off, which its client sees
                seen.status = e.status
                await send_error(send, e, _error_body(upstream, e), own_id, [_CACHE_STATUS])
        finally:
            if seen.visit is not None:
                seen.visit.leave()
            self._account.relayed(seen, upstream.name)


def _error_body(upstream: Upstream, error: RequestError) -> bytes:
    return anthropic.error_body(error) if upstream.kind == "anthropic" else openai.error_body(error)


def _check(principal: Principal, scope: Scope) -> None:
    """Raises RequestError (403, 404): what is relayed is not read, so limits on what it says cannot be kept."""
    counts_tokens = principal.budget is not None and principal.budget.counts_tokens
    if "*" not in principal.models or "*" not in principal.agents or counts_tokens:
        raise RequestError(
            403,
            "this API key is limited to certain models or agents, or to a budget of tokens, and a relayed request is "
            "not read: use a key without these limits",
            kind="permission_error",
            code="relay_not_allowed",
        )
    if not _PLAIN_PATH.fullmatch(scope.get("raw_path") or scope["path"].encode()):
        raise RequestError(404, "only paths without escapes and dot segments are relayed", code="not_found")


async def _send(upstream: Upstream, scope: Scope, raw: bytes, keyed: bool, own_id: str) -> UpstreamReply:
    headers = header_rules.outgoing(scope["headers"], with_credentials=not keyed and upstream.api_key is None)
    headers.append(("x-request-id", own_id))
    method, query = scope["method"], scope.get("query_string", b"").decode("latin-1")
    is_safe = method in ("GET", "HEAD", "OPTIONS")
    return await upstream.send(method, scope["path"], query, headers, raw or None, repeatable=is_safe)


async def _copy(reply: UpstreamReply, send: Send, own_id: str) -> None:
    headers: Headers = [
        *header_rules.returned(reply.headers),
        _CACHE_STATUS,
        (b"x-request-id", own_id.encode()),
    ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    while part := await reply.read():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
