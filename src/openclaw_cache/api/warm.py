"""Filling caches ahead of their users: `POST /admin/warm`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
import orjson

from openclaw_cache.api.kv import KvAdmin, WarmOrder
from openclaw_cache.api.order import decode_order
from openclaw_cache.api.semantic import SemanticAdmin
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.settings import DOMAIN_PATTERN, NAME_PATTERN
from openclaw_cache.types import Json, Namespace
from openclaw_cache.units import parse_duration

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.faq import Faq, FaqWarmer
    from openclaw_cache.gateway.semantic.step import SemanticStep

MOST_PAIRS: Final = 10_000

_CHAT: Final = ChatDialect()
_NAME: Final = re.compile(NAME_PATTERN)
_DOMAIN: Final = re.compile(DOMAIN_PATTERN)
_PLACE: Final = re.compile(r"(.*) - at `\$\.?([^`]*)`.*", re.DOTALL)
_SAMPLE: Final = "What is the capital of France?"
"""Stands for any question, to see whether a request can be answered by meaning at all."""
_WHY_NOT: Final = {
    "shape": "it must end in one user message with one text",
    "tools": "requests with tools are never answered by meaning",
    "turns": "it has earlier turns, and semantic_cache.scope: single_turn answers no such request",
}


class FaqPair(msgspec.Struct, forbid_unknown_fields=True):
    """A question, with its answer and domain where they are known."""

    question: str
    answer: str | None = None
    """Where there is none, the model is asked."""
    domain: str | None = None


class SemanticWarmOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/warm` for the semantic cache."""

    pairs: Annotated[list[FaqPair], msgspec.Meta(min_length=1, max_length=MOST_PAIRS)]
    type: Literal["semantic"] = "semantic"
    model: str | None = None
    namespace: str | None = None
    ttl: str | float | None = None
    """How long given answers live: a duration, such as `12h`; `result_cache.ttl` without it. `semantic_cache.max_age`
    is the most."""
    request: dict[str, Json] | None = None
    """A chat request as clients send it; its last user message makes room for each question."""


class _AnyOrder(msgspec.Struct):
    """What every order says."""

    type: str = "kv"


class Warming:
    """Takes the orders.

    Args:
        kv: The KV caches of the embedded engines.
        semantic: The semantic cache, on or off.
        gateway: Owns the stored replies.
        max_age_s: Older replies answer no other question: `semantic_cache.max_age`.
    """

    def __init__(self, kv: KvAdmin, semantic: SemanticAdmin, gateway: Gateway, max_age_s: float) -> None:
        self._kv = kv
        self._semantic = semantic
        self._gateway = gateway
        self._max_age_s = max_age_s

    def warm(self, raw: bytes) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Carry out an order, line by line, for as long as somebody reads. Entering it raises RequestError."""
        kind = decode_order(raw, _AnyOrder).type
        if kind == "kv":
            order = decode_order(raw, WarmOrder)
            return self._kv.warm(order, _namespace(order.namespace))
        if kind == "semantic":
            return self._warm_semantic(raw)
        if kind == "result":
            raise RequestError(
                400, "type: warming the result cache is not built yet: use kv or semantic", param="type"
            )
        raise RequestError(
            400, f"type: {kind!r} is no cache that can be warmed: use kv or semantic", param="type"
        )

    @asynccontextmanager
    async def _warm_semantic(self, raw: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        step = self._semantic.require()
        order = _semantic_order(raw)
        # Only here: the semantic cache needs packages of its own.
        from openclaw_cache.gateway.semantic.faq import FaqWarmer  # noqa: PLC0415

        warmer = FaqWarmer(
            gateway=self._gateway,
            semantic=step,
            template=self._template(order, step),
            namespace=_namespace(order.namespace),
            ttl_s=min(self._gateway.ttl_s if order.ttl is None else _ttl_s(order.ttl), self._max_age_s),
        )
        yield _lines(warmer, _pairs(order))

    def _template(self, order: SemanticWarmOrder, step: SemanticStep) -> dict[str, Json]:
        """The request that each question is put into. Raises RequestError where none like it could be answered."""
        request = {
            name: v for name, v in (order.request or {}).items() if name not in ("stream", "stream_options")
        }
        messages = request.get("messages", [])
        if not isinstance(messages, list):
            raise _wrong("request.messages", "it must be a list of messages")
        if "system" in request:
            raise _wrong(
                "request.system",
                "a request of Anthropic's API is not read here: only OpenAI chat requests are",
            )
        if messages and isinstance(messages[-1], dict) and messages[-1].get("role") == "user":
            *messages, last = messages
            if last.keys() != {"role", "content"} or not isinstance(last["content"], str):
                raise _wrong(
                    f"request.messages.{len(messages)}",
                    'the message that makes room must be {"role": "user", "content": "…"}, and nothing else',
                )
        model = self._model(order.model if order.model is not None else request.get("model"))
        template = request | {"model": model, "messages": messages}
        sample = template | {"messages": [*messages, {"role": "user", "content": _SAMPLE}]}
        try:
            orjson.dumps(sample)
        except TypeError as e:  # an integer of more than 64 bits, nested too deeply
            raise _wrong("request", str(e)) from None
        parsed = _CHAT.parse(sample)
        if parsed.n not in (None, 1):
            raise _wrong("request.n", "an answer is one choice: leave it out")
        if why := step.reason_not_to(parsed, _CHAT.question(sample)):
            raise _wrong("request", _WHY_NOT.get(why, why))
        return template

    def _model(self, named: Json) -> str:
        """The model that clients ask. Raises RequestError where no upstream serves it, or where none is named."""
        dispatch = self._gateway.dispatch
        if named is None:
            served = [n for u in dispatch.upstreams for n in (u.pod.model_ids[:1] if u.pod else u.models)]
            if len(served) != 1 or "*" in served[0]:
                raise RequestError(400, "model: name the model that clients ask", param="model")
            named = served[0]
        if not isinstance(named, str):
            raise RequestError(400, "model: it must be a text", param="model")
        dispatch.candidates(named, _CHAT.name, _CHAT.vendor)
        return named


async def _lines(warmer: FaqWarmer, pairs: list[Faq]) -> AsyncIterator[bytes]:
    begin = {"namespace": warmer.namespace, "model": warmer.template["model"], "ttl_s": warmer.ttl_s}
    yield orjson.dumps({"num_questions": len(pairs), **begin}) + b"\n"
    async for line in warmer.warm(pairs):
        yield line
        await asyncio.sleep(
            0
        )  # where every vector is remembered, nothing else would let others have their turn


def _semantic_order(raw: bytes) -> SemanticWarmOrder:
    try:
        return decode_order(raw, SemanticWarmOrder)
    except RequestError as e:
        found = _PLACE.fullmatch(e.message)  # as msgspec writes it
        if found is None:
            raise
        place = re.sub(r"\[(\d+)\]", r".\1", found[2])
        raise _wrong(place, found[1]) from None


def _pairs(order: SemanticWarmOrder) -> list[Faq]:
    from openclaw_cache.gateway.semantic.faq import Faq  # noqa: PLC0415 - as above

    pairs = []
    for i, pair in enumerate(order.pairs):
        if not pair.question.strip():
            raise _wrong(f"pairs.{i}.question", "it is empty")
        if pair.domain is not None and not _DOMAIN.fullmatch(pair.domain):
            raise _wrong(f"pairs.{i}.domain", "it has 1-64 lower-case letters, digits and _ . -")
        answer = pair.answer if pair.answer and pair.answer.strip() else None
        pairs.append(Faq(pair.question, answer, pair.domain))
    return pairs


def _namespace(named: str | None) -> Namespace:
    namespace = "default" if named is None else named
    if not _NAME.fullmatch(namespace):
        raise RequestError(
            400, f"namespace: {namespace!r} is none that a request can have", param="namespace"
        )
    return Namespace(namespace)


def _ttl_s(ttl: str | float) -> float:
    try:
        seconds = parse_duration(ttl)
    except ValueError as e:
        raise _wrong("ttl", str(e)) from None
    if seconds == 0:
        raise _wrong("ttl", "0 stores nothing: leave it out, or write for example 12h")
    return seconds


def _wrong(field: str, message: str) -> RequestError:
    return RequestError(400, f"{field}: {message}", param=field.partition(".")[0])
