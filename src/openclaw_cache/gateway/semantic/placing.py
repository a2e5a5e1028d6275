"""Storing a reply that no model gave: an operator's own answer to a question."""

from __future__ import annotations

import orjson

from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.policy import Reason
from openclaw_cache.gateway.semantic.step import SemanticStep
from openclaw_cache.gateway.wish import Wish
from openclaw_cache.result.key import decode
from openclaw_cache.types import Entry, Json


async def place(
    gateway: Gateway, semantic: SemanticStep, call: Call, reply: dict[str, Json], ttl_s: float
) -> str:
    """Store a reply to a request, for it and for all that ask the same in other words.

    Returns why that cannot be, one word; empty where it is stored. Raises RequestError and EmbeddingError.
    """
    reading, value = await gateway.readings.read(call.raw, call.namespace, call.dialect)
    request = reading.request
    body = value if value is not None else decode(call.raw).value
    question = call.dialect.question(body)
    why = reading.reason or semantic.reason_not_to(request, question)
    if why or question is None:
        return why
    upstream = gateway.dispatch.candidates(request.model, call.dialect.name, call.dialect.vendor)[0]
    identity = await upstream.model_identity()
    make_key = await gateway.keys.maker(call, upstream, call.namespace, request.model, identity)
    if make_key is None:
        return Reason.DEGRADED
    asked = await semantic.cache.understand(
        question.text,
        make_key(semantic.rest_of(question)),
        call.namespace,
        domain=Wish.parse(call.headers, by_default=True).domain,
        is_strict=False,
    )
    if asked is None:
        return "too_long"
    now = gateway.wall()
    entry = Entry(
        reply=orjson.dumps(reply),
        model=request.model,
        upstream=upstream.name,
        namespace=call.namespace,
        created_at=now,
        expires_at=now + ttl_s,
        prompt_tokens=0,
        completion_tokens=0,
        has_usage=True,
        prompt=call.dialect.prompt_text(body),
        requested_model=request.model,
        likeness=asked.likeness(semantic.cache.fingerprint),
    )
    gateway.cache.put(make_key(reading.body_hash), entry)
    return ""
