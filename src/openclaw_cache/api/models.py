"""`GET /v1/models`, merged over all upstreams."""

from __future__ import annotations

import asyncio

import orjson

from openclaw_cache.api.auth import Principal
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.types import Headers, Json

LIST_TIMEOUT_S = 5.0


class Models:
    """Asks every upstream for its models; one that does not answer in time is left out."""

    def __init__(self, upstreams: list[Upstream]) -> None:
        self._upstreams = upstreams

    async def listed(self, principal: Principal, headers: Headers) -> dict[str, Json]:
        """The OpenAI model list; the first upstream to name a model wins, as in routing."""
        answers = await asyncio.gather(*(self._ask(u, principal, headers) for u in self._upstreams))
        merged: dict[str, Json] = {}
        for upstream, models in zip(self._upstreams, answers, strict=True):
            for model in models:
                name = model.get("id")
                if not isinstance(name, str) or not upstream.serves(name):
                    continue
                if principal.may_use(name):
                    merged.setdefault(name, model)
        return {"object": "list", "data": list(merged.values())}

    async def _ask(self, upstream: Upstream, principal: Principal, headers: Headers) -> list[dict[str, Json]]:
        forwards = not principal.keyed and upstream.api_key is None
        sent = header_rules.outgoing(headers, with_credentials=forwards)
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                reply = await upstream.send("GET", "/v1/models", "", sent, None)
                try:
                    parts = []
                    while part := await reply.read():
                        parts.append(part)
                finally:
                    reply.close()
            listed = orjson.loads(b"".join(parts)) if reply.status == 200 else {}
        except (RequestError, TimeoutError, orjson.JSONDecodeError):
            return []
        data = listed.get("data") if isinstance(listed, dict) else None
        return [m for m in data if isinstance(m, dict)] if isinstance(data, list) else []
