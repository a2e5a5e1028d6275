"""The door to `/v1/agents`: lets a request in, finds what is asked, writes the reply and its one log line."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from openclaw_cache.api.agents import listing, memories, recalling, transfer, turns
from openclaw_cache.api.agents.ask import Ask, Handler, Reply, Table, query_of
from openclaw_cache.api.agents.failures import as_request_error
from openclaw_cache.api.agents.path import AgentPath, is_ours, parse_path
from openclaw_cache.api.lines import send_lines
from openclaw_cache.api.relay import CLIENT_GONE, Receive, Send
from openclaw_cache.api.reply import JSON, Scope, cut_off, request_id, send_body, send_error
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.errors import MemoryStoreError, RequestError

if TYPE_CHECKING:
    from openclaw_cache.api.principal import Principal
    from openclaw_cache.api.visit import Door, Visit
    from openclaw_cache.memory.service import MemoryService
    from openclaw_cache.types import Headers

_log = structlog.get_logger()
_NO_STORE: Final = (b"cache-control", b"no-store")
_ERRORS: Final = ChatDialect()
_ROOT: Final = ""
"""What the table calls the agent itself."""
_NONE: Final = "/"
"""What nothing is called."""


class AgentRoutes:
    """Serves everything under `/v1/agents`.

    Args:
        service: The memories; None = they are switched off.
        door: Keys, budgets, and the room for bodies.
        more: Handlers beside those of the memory itself: those of the context engine.
    """

    def __init__(self, service: MemoryService | None, door: Door, more: Table) -> None:
        self._service = service
        self._door = door
        self.table: Table = (
            memories.ROUTES | recalling.ROUTES | turns.ROUTES | transfer.ROUTES | listing.ROUTES | more
        )

    def serves(self, scope: Scope) -> bool:
        """Whether a request is for an agent's memory."""
        return is_ours(_raw_path(scope))

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        arrived = time.perf_counter()
        own_id = request_id(scope["headers"])
        told: dict[str, object] = {}
        visit: Visit | None = None
        status, error = 500, None
        has_reply = False
        try:
            visit = self._door.enter(scope, time.time())
            reply = await self._answer(scope, receive, visit, told)
            has_reply = True
            status = await _write(reply, receive, send, own_id)
        except RequestError as e:
            error, status = e, e.status
            await send_error(send, e, _ERRORS.error_body(e), own_id, [_NO_STORE, *_allow(told)])
        except asyncio.CancelledError:  # the drain's time is up
            error, status = cut_off(), 503
            if not has_reply:
                await send_error(send, error, _ERRORS.error_body(error), own_id)
            raise
        finally:
            _tell(visit, own_id, status, error, arrived, told)
            if visit is not None:
                visit.leave()

    async def _answer(self, scope: Scope, receive: Receive, visit: Visit, told: dict[str, object]) -> Reply:
        path = parse_path(_raw_path(scope))
        handler, params = self._find(scope["method"], path, told)
        principal = visit.principal
        if path.agent is not None:
            _check_agent(principal, path.agent)
            told["agent"] = path.agent
        if self._service is None:
            raise RequestError(
                409, "memory is off here: set memory.enabled: true, and start anew", code="memory_off"
            )
        ask = Ask(
            service=self._service,
            principal=principal,
            agent=path.agent or "",
            params=params,
            query=query_of(scope.get("query_string", b"")),
            headers=scope["headers"],
            raw=await visit.body(scope, receive),
            now=time.time(),
        )
        try:
            return await handler(ask)
        except MemoryStoreError as e:
            raise as_request_error(e) from None

    def _find(self, method: str, path: AgentPath, told: dict[str, object]) -> tuple[Handler, tuple[str, ...]]:
        """The handler for a path. Raises RequestError: 404, or 405 with the methods that there are."""
        method = "GET" if method == "HEAD" else method
        name, params = _template(path)
        allowed = [known for known, of in self.table if of == name]
        told["api"] = f"agents/{name}" if allowed else "agents"
        if not allowed:
            raise RequestError(
                404, "there is no such path under an agent: GET /openapi.json lists them", code="not_found"
            )
        if method not in allowed:
            told["allow"] = ", ".join(allowed)
            raise RequestError(405, f"use {told['allow']} here", code="method_not_allowed")
        return self.table[method, name], params


def _template(path: AgentPath) -> tuple[str, tuple[str, ...]]:
    """How the table names a path: `*` for a second part, which is an id."""
    if path.agent is None:
        return listing.ALL, ()
    if any("*" in part for part in path.parts[:1]):
        return _NONE, ()
    if len(path.parts) == 2 and path.parts[1]:
        return f"{path.parts[0]}/*", path.parts[1:]
    return "/".join(path.parts) if path.parts else _ROOT, ()


def _check_agent(principal: Principal, agent: str) -> None:
    """Before anything is looked up: what is refused says nothing about an agent. Raises RequestError (403)."""
    try:
        principal.check_agent(agent)
    except RequestError as e:
        message = f"this API key is bound to the agents {', '.join(principal.agents)}"
        raise RequestError(403, message, kind=e.kind, code=e.code, param="agent_id") from None


def _raw_path(scope: Scope) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0]


async def _write(reply: Reply, receive: Receive, send: Send, own_id: str) -> int:
    """Returns the status, `CLIENT_GONE` where the client left before the end."""
    if reply.lines is not None:
        extra: Headers = [(b"x-request-id", own_id.encode()), *reply.headers]
        return await send_lines(reply.lines, extra, receive, send)
    told: Headers = [JSON, (b"x-request-id", own_id.encode()), _NO_STORE, *reply.headers]
    body = msgspec.json.encode(reply.value)  # takes integers of any size, as contents may hold
    await send_body(send, reply.status, told, body)
    return reply.status


def _allow(told: dict[str, object]) -> Headers:
    return [(b"allow", str(told["allow"]).encode())] if "allow" in told else []


def _tell(
    visit: Visit | None,
    own_id: str,
    status: int,
    error: RequestError | None,
    arrived: float,
    told: dict[str, object],
) -> None:
    """The one log line of a request; no text of a memory is in it."""
    fields: dict[str, object] = {
        "request_id": own_id,
        "api": told.get("api", "agents"),
        "status": status,
        "outcome": "ok" if status < 400 or status == CLIENT_GONE else "error",
        "duration_ms": round((time.perf_counter() - arrived) * 1e3, 3),
    }
    if visit is not None:
        fields["namespace"] = visit.principal.namespace
        if visit.principal.keyed:
            fields["key"] = visit.principal.key_id
    if "agent" in told:
        fields["agent"] = told["agent"]
    if error is not None:
        fields["error"] = error.code or error.kind
    _log.info("request", **fields)
