"""Fills the semantic cache ahead of its users: with the answers of a FAQ, or with the model's own."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.errors import EmbeddingError, RequestError
from openclaw_cache.gateway.call import Call, Following
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.semantic.placing import place
from openclaw_cache.gateway.semantic.step import SemanticStep
from openclaw_cache.types import Headers, Json, Namespace

_CHAT: Final = ChatDialect()
_PATH: Final = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Faq:
    """One question, with its answer and domain where they are known."""

    question: str
    answer: str | None = None
    domain: str | None = None


@dataclass(frozen=True, slots=True)
class FaqWarmer:
    """Puts questions and answers where the requests of clients find them.

    Args:
        gateway: Stores them, and asks the model for the answers that are missing.
        template: The request that clients send, without its last user message: only requests that are equal to it in
            all else find the answers.
        namespace: Whose they are.
        ttl_s: How long the given answers live.
    """

    gateway: Gateway
    semantic: SemanticStep
    template: dict[str, Json]
    namespace: Namespace
    ttl_s: float

    async def warm(self, pairs: Sequence[Faq]) -> AsyncIterator[bytes]:
        """Take up the questions one after another; gives a line of JSON for each, and one at the end."""
        num_warm = 0
        for index, pair in enumerate(pairs):
            try:
                error = await self._take(pair)
            except RequestError as e:
                error = e.message
            except EmbeddingError as e:
                error = str(e)
            num_warm += not error
            yield orjson.dumps({"index": index, "asked": pair.answer is None, "error": error or None}) + b"\n"
        yield orjson.dumps({"done": True, "num_warm": num_warm}) + b"\n"

    async def _take(self, pair: Faq) -> str:
        messages = [*self.template.get("messages", []), {"role": "user", "content": pair.question}]
        raw = orjson.dumps(self.template | {"messages": messages})
        headers: Headers = [(b"content-type", b"application/json"), (b"x-openclaw-semantic", b"on")]
        if pair.domain is not None:
            headers.append((b"x-openclaw-domain", pair.domain.encode()))
        if pair.answer is None:
            headers.append(
                (b"cache-control", b"no-cache")
            )  # else a reply that nobody finds by meaning would do
        call = Call(
            dialect=_CHAT,
            path=_PATH,
            query=b"",
            headers=headers,
            raw=raw,
            namespace=self.namespace,
            keyed=True,
            request_id=uuid.uuid4().hex,
        )
        if pair.answer is not None:
            return await place(self.gateway, self.semantic, call, self._reply(pair.answer), self.ttl_s)
        # Before the reply is there, so that it is found by its question.
        await self.semantic.cache.embedder.embed_one(pair.question, self.namespace.encode())
        answer = await self.gateway.answer(call)
        if not isinstance(answer, Following):
            return ""
        try:
            source = await answer.reader.flight.head()
            await answer.reader.rest()
        finally:
            answer.reader.leave()
        if not source.is_ok:
            return f"the upstream answers with status {source.status}"
        return "" if answer.reader.flight.recorder.stored else "the reply may not be stored"

    def _reply(self, answer: str) -> dict[str, Json]:
        """A chat completion that says this, and that no model had to compute."""
        message = {"role": "assistant", "content": answer, "refusal": None}
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(self.gateway.wall()),
            "model": self.template["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }
