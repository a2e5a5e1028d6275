"""`GET /v1/models`, merged over all upstreams, and `GET /v1/models/NAME`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import orjson

from openclaw_cache.api.auth import Principal
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.types import Headers, Json

LIST_TIMEOUT_S: Final = 5.0
MAX_LIST_BYTES: Final = 16 * 2**20
_ANTHROPIC_VERSION: Final = "2023-06-01"


class Models:
    """Asks every upstream for its models; one that does not answer in time is left out."""

    def __init__(self, upstreams: Sequence[Upstream]) -> None:
        self._upstreams = upstreams

    async def shown(self, principal: Principal, headers: Headers, name: str | None) -> dict[str, Json]:
        """The list, or the one model `name`, as the client's API writes it.

        A client of Anthropic's API (it sends `anthropic-version`) sees the models that it can use through it. Others
        see all, since names are what the list is for; the first upstream to name a model wins, as in routing.

        Raises:
            RequestError: 404, there is no such model for this client.
        """
        is_anthropic = any(n == b"anthropic-version" for n, _ in headers)
        asked = [u for u in self._upstreams if u.kind == "anthropic" or not is_anthropic]
        answers = await asyncio.gather(*(self._ask(u, principal, headers) for u in asked))
        merged: dict[str, Json] = {}
        for upstream, models in zip(asked, answers, strict=True):
            for model in models:
                model_id = model.get("id")
                if not isinstance(model_id, str) or not upstream.serves(model_id):
                    continue
                if principal.may_use(model_id):
                    merged.setdefault(model_id, model if is_anthropic else _as_openai(model))
        if name is not None:
            if name not in merged:
                raise RequestError(
                    404, f"there is no model {name[:200]!r} here", code="model_not_found", param="model"
                )
            found: dict[str, Json] = merged[name]
            return found
        data = list(merged.values())
        if is_anthropic:
            ends = {"first_id": data[0]["id"] if data else None, "last_id": data[-1]["id"] if data else None}
            return {"data": data, "has_more": False, **ends}
        return {"object": "list", "data": data}

    async def _ask(self, upstream: Upstream, principal: Principal, headers: Headers) -> list[dict[str, Json]]:
        # A credential was meant for the API that its client speaks, not for another vendor's.
        is_anthropic = any(n == b"anthropic-version" for n, _ in headers)
        is_meant = is_anthropic == (upstream.kind == "anthropic")
        forwards = not principal.keyed and upstream.api_key is None and is_meant
        sent = header_rules.outgoing(headers, with_credentials=forwards)
        query = ""
        if upstream.kind == "anthropic":
            query = "limit=1000"
            if not any(n == "anthropic-version" for n, _ in sent):
                sent.append(("anthropic-version", _ANTHROPIC_VERSION))
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                reply = await upstream.send("GET", "/v1/models", query, sent, None)
                try:
                    raw = bytearray()
                    while (part := await reply.read()) and len(raw) <= MAX_LIST_BYTES:
                        raw += part
                finally:
                    reply.close()
            listed = orjson.loads(raw) if reply.status == 200 else {}
            orjson.dumps(listed)  # what is nested too deeply to be shown again is left out as well
        except (RequestError, TimeoutError, orjson.JSONDecodeError, orjson.JSONEncodeError):
            return []
        data = listed.get("data") if isinstance(listed, dict) else None
        return [m for m in data if isinstance(m, dict)] if isinstance(data, list) else []


def _as_openai(model: dict[str, Json]) -> dict[str, Json]:
    """A model of Anthropic's list as OpenAI's has it; any other as it came."""
    if model.get("type") != "model":
        return model
    try:
        created = int(datetime.fromisoformat(str(model.get("created_at"))).timestamp())
    except (ValueError, OverflowError):
        created = 0
    return {"id": model["id"], "object": "model", "created": created, "owned_by": "anthropic"}
