"""The HTTP surface. Hot routes are bare ASGI: a framework's routing costs more than a cache hit."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping

import structlog

from openclaw_cache.api import dashboard, openapi
from openclaw_cache.api.admin import Admin
from openclaw_cache.api.agents.routes import AgentRoutes
from openclaw_cache.api.answering import Answering
from openclaw_cache.api.body import read_body
from openclaw_cache.api.embedding import Embedding
from openclaw_cache.api.lines import send_lines
from openclaw_cache.api.models import Models
from openclaw_cache.api.passthrough import Passthrough
from openclaw_cache.api.relay import Receive, Send
from openclaw_cache.api.reply import (
    JSON,
    Scope,
    log_refusal,
    peer,
    request_id,
    send_body,
    send_error,
    send_json,
)
from openclaw_cache.api.requests import Explaining
from openclaw_cache.api.savings import Csv
from openclaw_cache.api.visit import Door
from openclaw_cache.api.warm import Warming
from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.completions import CompletionsDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.responses import ResponsesDialect
from openclaw_cache.errors import RequestError
from openclaw_cache.observe import metrics as metrics_module
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.types import Headers, Json

_log = structlog.get_logger()
_CHAT, _MESSAGES = ChatDialect(), MessagesDialect()
_DIALECTS: dict[str, Dialect] = {
    "/v1/chat/completions": _CHAT,
    "/v1/completions": CompletionsDialect(),
    "/v1/responses": ResponsesDialect(),
    "/v1/messages": _MESSAGES,
    "/v1/messages/count_tokens": CountTokensDialect(),
}
_MODEL = "/v1/models/"
_EXPLAIN = "/admin/explain/"
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
View = Callable[[bytes], Awaitable[Json]]
"""Shows an administrator something, by a query. Raises RequestError."""


class Routes:
    """The ASGI application."""

    def __init__(
        self,
        agents: AgentRoutes,
        answering: Answering,
        embedding: Embedding,
        passthrough: Passthrough,
        door: Door,
        models: Models,
        admin: Admin,
        warming: Warming,
        views: Mapping[str, View],
        explaining: Explaining,
        metrics: Metrics,
        is_ready: Callable[[], str | None],
    ) -> None:
        self.agents = agents
        self._passthrough = passthrough
        self._door = door
        self._auth = door.authenticator
        self._models = models
        self._admin = admin
        self._warming = warming
        self._views = views
        self._explaining = explaining
        self._metrics = metrics
        self._is_ready = is_ready
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/embeddings": {"POST": embedding.serve},
            "/v1/models": {"GET": self._list_models},
            "/openapi.json": {"GET": self._describe},
            "/healthz": {"GET": self._health},
            "/readyz": {"GET": self._ready},
            "/metrics": {"GET": self._expose_metrics},
            "/admin/status": {"GET": self._administer},
            "/admin/evict": {"POST": self._administer},
            "/admin/invalidate": {"POST": self._administer},
            "/admin/rekey": {"POST": self._administer},
            "/admin/tree": {"GET": self._administer},
            "/admin/feedback": {"POST": self._administer},
            "/admin/warm": {"POST": self._warm},
        }
        for name in views:
            self._routes[f"/admin/{name}"] = {"GET": self._administer}
        for path, dialect in _DIALECTS.items():
            self._routes[path] = {"POST": functools.partial(answering.serve, dialect)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event (ASGI 3)."""
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        methods = self._routes.get(path)
        if methods is None and path.startswith(_MODEL):
            methods = {"GET": self._one_model}
        elif methods is None and path.startswith(_EXPLAIN):
            methods = {"GET": self._administer}
        elif methods is None and dashboard.serves(path):
            methods = {"GET": self._show_dashboard}
        if methods is None:
            if self.agents.serves(scope):
                await self.agents.serve(scope, receive, send)
                return
            if (upstream := self._passthrough.find(path)) is not None:
                await self._passthrough.serve(upstream, scope, receive, send)
                return
            message = f"there is no {path[:200]!r} here: GET /openapi.json lists the paths"
            await self._refuse(scope, send, RequestError(404, message, code="not_found"))
            return
        handler = methods.get("GET" if method == "HEAD" else method)
        if handler is None:
            allowed = ", ".join(methods)
            error = RequestError(405, f"use {allowed} for {path[:200]}", code="method_not_allowed")
            await self._refuse(scope, send, error, [(b"allow", allowed.encode())])
            return
        await handler(scope, receive, send)

    async def _list_models(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._show_models(scope, send, None)

    async def _one_model(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._show_models(scope, send, scope["path"].removeprefix(_MODEL))

    async def _show_models(self, scope: Scope, send: Send, name: str | None) -> None:
        own_id = request_id(scope["headers"])
        try:
            visit = self._door.enter(scope, time.time())
            try:
                shown = await self._models.shown(visit.principal, scope["headers"], name)
            finally:
                visit.leave()
        except RequestError as e:
            await self._refuse(scope, send, e)
            return
        await send_json(send, 200, shown, own_id)
        _log.info("request", request_id=own_id, api="models", status=200, outcome="ok")

    async def _describe(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = (b"x-request-id", request_id(scope["headers"]).encode())
        await send_body(send, 200, [JSON, told], openapi.document())

    async def _health(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, {"status": "ok"}, request_id(scope["headers"]))

    async def _ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._is_ready()
        shown = {"status": "ready"} if reason is None else {"status": "not ready", "reason": reason}
        await send_json(send, 200 if reason is None else 503, shown, request_id(scope["headers"]))

    async def _show_dashboard(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await dashboard.serve(self._auth, scope, send)
        except RequestError as e:
            await self._refuse(scope, send, e)

    async def _expose_metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            self._auth.observer(peer(scope), scope["headers"])
        except RequestError as e:
            await self._refuse(scope, send, e)
            return
        await self._admin.refresh_gauges()
        told = (b"x-request-id", request_id(scope["headers"]).encode())
        kind = (b"content-type", metrics_module.CONTENT_TYPE.encode())
        await send_body(send, 200, [kind, told], self._metrics.text())

    async def _administer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        own_id = request_id(headers)
        try:
            self._auth.admin(peer(scope), headers)
            raw = await read_body(
                receive, headers, max_bytes=10**6, timeout_s=self._door.limits.body_timeout_s
            )
            what, query = scope["path"].removeprefix("/admin/"), scope.get("query_string", b"")
            if (view := self._views.get(what)) is not None:
                shown = await view(query)
            elif what.startswith("explain/"):
                shown = await self._explaining.shown(what.removeprefix("explain/"))
            else:
                shown = await self._admin.serve(what, query, raw)
        except RequestError as e:
            await self._refuse(scope, send, e)
            return
        if isinstance(shown, Csv):
            told = (b"x-request-id", own_id.encode())
            head = [(b"content-type", shown.content_type), (b"content-disposition", shown.disposition), told]
            await send_body(send, 200, head, shown.body)
        else:
            await send_json(send, 200, shown, own_id)
        if scope["method"] == "POST":  # an open dashboard looks several times a second, and changes nothing
            _log.info("request", request_id=own_id, api=_label(scope["path"]), status=200, outcome="ok")

    async def _warm(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope["headers"]
        own_id = request_id(headers)
        try:
            self._auth.admin(peer(scope), headers)
            raw = await read_body(
                receive,
                headers,
                max_bytes=self._door.limits.max_body_bytes,
                timeout_s=self._door.limits.body_timeout_s,
            )
            async with self._warming.warm(raw) as lines:
                status = await send_lines(lines, [(b"x-request-id", own_id.encode())], receive, send)
        except RequestError as e:
            await self._refuse(scope, send, e)
            return
        _log.info("request", request_id=own_id, api="admin/warm", status=status, outcome="ok")

    async def _refuse(
        self, scope: Scope, send: Send, error: RequestError, extra: Headers | None = None
    ) -> None:
        own_id = request_id(scope["headers"])
        dialect = _MESSAGES if is_anthropic(scope) else _CHAT
        await send_error(send, error, dialect.error_body(error), own_id, extra)
        log_refusal(_label(scope["path"]), error, own_id)


def _label(path: str) -> str:
    """What the log calls an API: as for its successes; by its path where it is none of ours."""
    if path.startswith("/admin/"):
        return "/".join(path.split("/", 3)[1:3])
    return "models" if path.startswith("/v1/models") else path


def is_anthropic(scope: Scope) -> bool:
    """Whether a client of Anthropic's API asks, so far as path and headers tell."""
    return scope["path"].startswith("/v1/messages") or any(
        name == b"anthropic-version" for name, _ in scope["headers"]
    )
