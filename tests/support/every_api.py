"""Every API that is cached: a request, and one scripted upstream that answers all of them.

The replies are those of `openai_upstream` and `anthropic_upstream`: functions of the request alone. So two tenants get
the same bytes, and whether they share is told by the number of calls and by `Cache-Status` alone.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support import anthropic_upstream, openai_upstream
from support.scripted_upstream import Exchange, ScriptedUpstream, event
from support.served import Served, served
from support.vendor_upstream import VendorCall

Json = Any
QUESTION = "Where do herons sleep in winter?"


@dataclass(frozen=True, slots=True)
class Api:
    """One API: its name in metrics, its path, the members that ask it something."""

    name: str
    path: str
    model: str
    can_stream: bool = True

    def body(self, prompt: str = QUESTION, **fields: Json) -> dict[str, Json]:
        """A request that may be cached."""
        message = {"role": "user", "content": prompt}
        by_api: dict[str, dict[str, Json]] = {
            "completions": {"prompt": prompt},
            "responses": {"input": prompt, "store": False},
            "messages": {"messages": [message], "max_tokens": 64},
            "embeddings": {"input": [prompt, f"{prompt} Again?"]},
        }
        return {"model": self.model, **by_api.get(self.name, {"messages": [message]}), **fields}


CHAT = Api("chat", "/v1/chat/completions", "gpt-heron")
COMPLETIONS = Api("completions", "/v1/completions", "gpt-heron")
RESPONSES = Api("responses", "/v1/responses", "gpt-heron")
MESSAGES = Api("messages", "/v1/messages", "claude-heron")
COUNT_TOKENS = Api("count_tokens", "/v1/messages/count_tokens", "claude-heron", can_stream=False)
EMBEDDINGS = Api("embeddings", "/v1/embeddings", "gpt-heron", can_stream=False)
APIS = (CHAT, COMPLETIONS, RESPONSES, MESSAGES, COUNT_TOKENS, EMBEDDINGS)


def named(value: object) -> str | None:
    """The name of a parameter in the name of a test."""
    return value.name if isinstance(value, Api) else None


async def answer_all(exchange: Exchange) -> None:
    """What good upstreams of both vendors do."""
    target = urlsplit(exchange.call.target)
    call = VendorCall(
        exchange.call.method, target.path, target.query, exchange.call.headers, exchange.call.body
    )
    if call.path == "/v1/completions":
        await _complete(exchange, call)
        return
    is_anthropic = call.path.startswith("/v1/messages")
    told = (anthropic_upstream if is_anthropic else openai_upstream).answer(call)
    if told.frames:
        await exchange.stream(told.frames)
    else:
        await exchange.json(told.whole, told.status)


async def _complete(exchange: Exchange, call: VendorCall) -> None:
    digest = hashlib.sha256(call.body["prompt"].encode()).hexdigest()
    usage = {
        "prompt_tokens": 19,
        "completion_tokens": 10,
        "total_tokens": 29,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    common = {"id": f"cmpl-{digest[:24]}", "object": "text_completion", "created": 1_800_000_000}
    common |= {"model": call.body["model"]}

    def choice(text: str, finish: str | None) -> dict[str, Json]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}

    if call.body.get("stream") is not True:
        await exchange.json({**common, "choices": [choice(digest, "stop")], "usage": usage})
        return
    chunks: list[Json] = [{**common, "choices": [choice(digest[i : i + 16], None)]} for i in (0, 16, 32, 48)]
    chunks.append({**common, "choices": [choice("", "stop")]})
    if (call.body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**common, "choices": [], "usage": usage})
    await exchange.stream([*(event(chunk) for chunk in chunks), event(b"[DONE]")])


def two_vendors(url: str, **fields: Json) -> list[dict[str, Json]]:
    """Upstreams in the shapes of both vendors, at one place; `fields` go to both."""
    return [
        {"name": "oa", "kind": "openai", "urls": [url], "models": ["gpt-*"], **fields},
        {"name": "an", "kind": "anthropic", "urls": [url], "models": ["claude-*"], **fields},
    ]


def bearer(key: str, **more: str) -> dict[str, str]:
    """The headers of a client with this key; `x_openclaw_agent` and the like are further headers."""
    return {"authorization": f"Bearer {key}"} | {name.replace("_", "-"): v for name, v in more.items()}


@contextlib.asynccontextmanager
async def tenants(
    data_dir: Path,
    upstream: ScriptedUpstream,
    keys: list[dict[str, Json]],
    *,
    env: Mapping[str, str] | None = None,
    **settings: Json,
) -> AsyncIterator[Served]:
    """A gateway for all APIs with these client keys, before an upstream that answers all of them."""
    upstream.script = answer_all
    upstreams = settings.pop("upstreams", two_vendors(upstream.url))
    async with served(data_dir, [], env=env, upstreams=upstreams, server__keys=keys, **settings) as running:
        yield running
