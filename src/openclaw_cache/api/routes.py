"""The HTTP surface. Hot routes are bare ASGI: a framework's routing costs more than a cache hit."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson
import structlog

from openclaw_cache.api.admin import Admin
from openclaw_cache.api.auth import Authenticator, Principal
from openclaw_cache.api.body import read_body
from openclaw_cache.api.kv import KvAdmin
from openclaw_cache.api.lines import send_lines
from openclaw_cache.api.models import Models
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Relay, Send
from openclaw_cache.dialects import openai
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.gateway import Call, Gateway, Outcome, Ready
from openclaw_cache.observe import metrics as metrics_module
from openclaw_cache.types import Headers, Identity

Scope = MutableMapping[str, Any]

_log = structlog.get_logger()
# Unlike those of any other process, and cheaper than a uuid4 for each.
_new_ids = itertools.count(int.from_bytes(os.urandom(15)) << 8)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_PLANNED = frozenset({
    "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
    "/dashboard",
})  # fmt: skip
_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_NO_CACHE = (b"cache-control", b"no-cache")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request."""

    max_body_bytes: int
    body_timeout_s: float
    ping_interval_s: float


class Routes:
    """The ASGI application."""

    def __init__(
        self,
        gateway: Gateway,
        authenticator: Authenticator,
        models: Models,
        admin: Admin,
        kv: KvAdmin,
        limits: Limits,
        is_ready: Callable[[], str | None],
    ) -> None:
        self._gateway = gateway
        self._auth = authenticator
        self._models = models
        self._admin = admin
        self._kv = kv
        self._limits = limits
        self._is_ready = is_ready
        self._metrics = gateway.metrics
        self._routes: dict[str, dict[str, Callable[[Scope, Receive, Send], Awaitable[None]]]] = {
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/models": {"GET": self._list_models},
            "/healthz": {"GET": self._health},
            "/readyz": {"GET": self._ready},
            "/metrics": {"GET": self._expose_metrics},
            "/admin/status": {"GET": self._administer},
            "/admin/evict": {"POST": self._administer},
            "/admin/invalidate": {"POST": self._administer},
            "/admin/tree": {"GET": self._administer},
            "/admin/warm": {"POST": self._warm},
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event (ASGI 3)."""
        if scope["type"] != "http":
            return
        methods = self._routes.get(scope["path"])
        if methods is None:
            message = f"there is no {scope['path']!r} here"
            if scope["path"] in _PLANNED:
                message = f"{scope['path']} is not built yet; this version serves /v1/chat/completions"
            error = RequestError(404, message, code="not_found")
            await self._refuse(scope, send, error, _request_id(scope["headers"]))
            return
        method = scope["method"]
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(methods)
            error = RequestError(405, f"use {allowed} for {scope['path']}", code="method_not_allowed")
            await self._refuse(
                scope, send, error, _request_id(scope["headers"]), [(b"allow", allowed.encode())]
            )
            return
        await handler(scope, receive, send)

    async def _chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived = time.perf_counter()
        headers: Headers = scope["headers"]
        request_id = _request_id(headers)
        outcome: Outcome | None = None
        first_byte_at: float | None = None
        error: RequestError | None = None
        status = 500  # of a failure that nobody foresaw
        recorder = None
        try:
            principal = self._auth.client(_peer(scope), headers)
            raw = await read_body(
                receive,
                headers,
                max_bytes=self._limits.max_body_bytes,
                timeout_s=self._limits.body_timeout_s,
            )
            answer = await self._gateway.answer(_call(scope, raw, principal, request_id))
            outcome = answer.outcome
            if isinstance(answer, Ready):
                await _send_ready(send, answer, request_id)
                first_byte_at, status = time.perf_counter(), 200
            else:
                recorder = answer.reader.flight.recorder
                leads = outcome.outcome != "collapsed"

                def own_headers() -> Headers:
                    status_text = answer.outcome.cache_status
                    if leads and recorder.stored and not answer.request.stream:
                        status_text += "; stored"
                    return [(b"cache-status", status_text.encode()), (b"x-request-id", request_id.encode())]

                relay = Relay(answer, own_headers, receive, send, self._limits.ping_interval_s)
                status = await relay.run()
                first_byte_at = relay.first_byte_at
                error = answer.reader.flight.error
        except RequestError as e:
            error, status = e, e.status
            extra = [(b"cache-status", outcome.cache_status.encode())] if outcome else []
            if e.code == "not_cached":
                extra = [(b"cache-status", b"openclaw-cache; detail=not-cached")]
            await self._refuse(scope, send, e, request_id, extra, logged=False)
        except asyncio.CancelledError:  # the drain's time is up
            error, status = RequestError(503, "cut off at shutdown", code="shutting_down"), 503
            raise
        finally:
            if recorder is not None and outcome is not None:
                outcome.prompt_tokens = recorder.prompt_tokens
                outcome.completion_tokens = recorder.completion_tokens
            self._account(outcome, status, error, arrived, first_byte_at, request_id)

    def _account(
        self,
        outcome: Outcome | None,
        status: int,
        error: RequestError | None,
        arrived: float,
        first_byte_at: float | None,
        request_id: str,
    ) -> None:
        """Metrics and the one log line of a chat request."""
        ended = time.perf_counter()
        failed = (status >= 400 or error is not None) and status != CLIENT_GONE
        label = "error" if failed or outcome is None else outcome.outcome
        self._metrics.chat_requests[label].inc()
        if first_byte_at is not None and outcome is not None and not failed:
            source = "result" if outcome.outcome == "exact" else "upstream"
            self._metrics.ttft[source].observe(first_byte_at - arrived)
        fields: dict[str, object] = {
            "request_id": request_id,
            "api": "chat",
            "status": status,
            "outcome": label,
            "duration_ms": round((ended - arrived) * 1e3, 3),
        }
        if outcome is not None:
            identity = outcome.identity
            fields |= {
                "detail": outcome.detail,
                "model": outcome.model[:128],
                "upstream": outcome.upstream,
                "namespace": outcome.namespace,
                "stream": outcome.stream,
                "agent": identity.agent,
                "session": identity.session,
                "prompt_tokens": outcome.prompt_tokens,
                "completion_tokens": outcome.completion_tokens,
            }
            if first_byte_at is not None:
                fields["ttft_ms"] = round((first_byte_at - arrived) * 1e3, 3)
        if error is not None and error.code != "client_gone":
            fields["error"] = error.code or error.kind
        _log.info("request", **fields)

    async def _list_models(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope["headers"])
        try:
            principal = self._auth.client(_peer(scope), scope["headers"])
            listed = await self._models.listed(principal, scope["headers"])
        except RequestError as e:
            await self._refuse(scope, send, e, request_id)
            return
        await _send_json(send, 200, listed, request_id)
        _log.info("request", request_id=request_id, api="models", status=200, outcome="ok")

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _send_json(send, 200, {"status": "ok"}, _request_id(scope["headers"]))

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._is_ready()
        shown = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        await _send_json(send, 200 if reason is None else 503, shown, _request_id(scope["headers"]))

    async def _expose_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._auth.observer(_peer(scope), scope["headers"])
        except RequestError as e:
            await self._refuse(scope, send, e, _request_id(scope["headers"]))
            return
        await self._admin.refresh_gauges()
        await _send(
            send, 200, [(b"content-type", metrics_module.CONTENT_TYPE.encode())], self._metrics.text()
        )

    async def _administer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        request_id = _request_id(headers)
        try:
            self._auth.admin(_peer(scope), headers)
            raw = await read_body(receive, headers, max_bytes=10**6, timeout_s=self._limits.body_timeout_s)
            what = scope["path"].removeprefix("/admin/")
            shown = await self._admin.serve(what, scope.get("query_string", b""), raw)
        except RequestError as e:
            await self._refuse(scope, send, e, request_id)
            return
        await _send_json(send, 200, shown, request_id)
        _log.info("request", request_id=request_id, api=scope["path"][1:], status=200, outcome="ok")

    async def _warm(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        request_id = _request_id(headers)
        try:
            self._auth.admin(_peer(scope), headers)
            raw = await read_body(
                receive,
                headers,
                max_bytes=self._limits.max_body_bytes,
                timeout_s=self._limits.body_timeout_s,
            )
            async with self._kv.warm(raw) as lines:
                status = await send_lines(lines, [(b"x-request-id", request_id.encode())], receive, send)
        except RequestError as e:
            await self._refuse(scope, send, e, request_id)
            return
        _log.info("request", request_id=request_id, api="admin/warm", status=status, outcome="ok")

    async def _refuse(
        self,
        scope: Scope,
        send: Send,
        error: RequestError,
        request_id: str,
        extra: Headers | None = None,
        *,
        logged: bool = True,
    ) -> None:
        headers: Headers = [_JSON, (b"x-request-id", request_id.encode()), *(extra or [])]
        if error.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % error.retry_after_s))
        if error.status in (408, 413):
            headers.append((b"connection", b"close"))
        await _send(send, error.status, headers, openai.error_body(error))
        if logged:
            _log.info(
                "request",
                request_id=request_id,
                api=scope["path"][:64],
                status=error.status,
                outcome="error",
                error=error.code or error.kind,
            )


def _call(scope: Scope, raw: bytes, principal: Principal, request_id: str) -> Call:
    def check(model: str, identity: Identity) -> None:
        principal.check_model(model)
        principal.check_agent(identity.agent)

    return Call(
        path=scope["path"],
        query=scope.get("query_string", b""),
        headers=scope["headers"],
        raw=raw,
        namespace=principal.namespace,
        keyed=principal.keyed,
        request_id=request_id,
        strict="*" not in principal.models,
        check=check,
    )


def _request_id(headers: Headers) -> str:
    """The client's own request id where it is well formed, else a new one."""
    for name, value in headers:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"{next(_new_ids):032x}"


def _peer(scope: Scope) -> str | None:
    client = scope.get("client")
    return client[0] if client else None


async def _send_ready(send: Send, answer: Ready, request_id: str) -> None:
    outcome = answer.outcome
    headers: Headers = [_EVENTS, _NO_CACHE] if outcome.stream else [_JSON]
    headers += [
        (b"cache-status", outcome.cache_status.encode()),
        (b"age", b"%d" % (outcome.age_s or 0)),
        (b"x-request-id", request_id.encode()),
    ]
    await _send(send, 200, headers, answer.body)


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_json(send: Send, status: int, value: object, request_id: str) -> None:
    await _send(send, status, [_JSON, (b"x-request-id", request_id.encode())], orjson.dumps(value))
