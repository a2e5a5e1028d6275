"""What an upstream says of its prompt cache, read and written, reaches client and record, in every dialect."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.every_api import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Api, answer_all, named, two_vendors
from support.scripted_upstream import Exchange, ScriptedUpstream
from support.served import Answer, served

WRITTEN = 5


async def answer_with_writes(exchange: Exchange) -> None:
    """Good replies of both vendors, with `cache_write_tokens` beside `cached_tokens` where OpenAI has them."""

    class Writing:
        call = exchange.call

        async def json(self, value: Any, status: int = 200) -> None:
            await exchange.json(json.loads(written(json.dumps(value).encode())), status)

        async def stream(self, parts: list[bytes]) -> None:
            await exchange.stream([written(part) for part in parts])

    await answer_all(Writing())  # type: ignore[arg-type]


def written(part: bytes) -> bytes:
    return re.sub(rb'("cached_tokens": ?\d+)', rb'\1,"cache_write_tokens":%d' % WRITTEN, part)


def counts(answer: Answer, *, stream: bool) -> tuple[int, int, int]:
    """(prompt, read, written) as the vendor's own clients read them."""
    usage: dict[str, Any] = {}
    for event in answer.events() if stream else [answer.json()]:
        if isinstance(event, dict):
            holders = (event, event.get("response") or {}, event.get("message") or {})
            for told in (holder.get("usage") for holder in holders):
                usage |= told or {}
    if "cache_read_input_tokens" in usage:
        read, wrote = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return usage["input_tokens"] + read + wrote, read, wrote
    details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
    prompt = usage["prompt_tokens"] if "prompt_tokens" in usage else usage["input_tokens"]
    return prompt, details["cached_tokens"], details["cache_write_tokens"]


EXPECTED = {CHAT: (19, 8, 5), COMPLETIONS: (19, 8, 5), RESPONSES: (36, 16, 5), MESSAGES: (2112, 2000, 100)}


@pytest.mark.parametrize("api", [CHAT, COMPLETIONS, RESPONSES, MESSAGES], ids=named)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_read_and_written_tokens_come_through_and_are_stored_with_the_reply(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, stream: bool
) -> None:
    upstream.script = answer_with_writes
    options: dict[str, Any] = (
        {"stream_options": {"include_usage": True}} if stream and api in (CHAT, COMPLETIONS) else {}
    )
    async with served(tmp_path, [], upstreams=two_vendors(upstream.url)) as gateway:
        body = api.body(stream=stream, **options)
        first = await gateway.ask(body, path=api.path)
        again = await gateway.ask(body, path=api.path)
        assert again.is_hit
        assert counts(first, stream=stream) == counts(again, stream=stream) == EXPECTED[api]
        [(_, entry, _)] = gateway.app.gateway.cache._memory.items()
        assert (entry.prompt_tokens, entry.cached_tokens, entry.cache_write_tokens) == EXPECTED[api]
