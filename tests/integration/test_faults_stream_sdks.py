"""Streams that broke, as the official SDKs see them: they raise, and never take half a reply for a whole one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.fault_scripts import (
    CHAT,
    COMPLETIONS,
    ERRORS,
    MESSAGES,
    RESPONSES,
    TEXT,
    Wire,
    breaks_after,
    wired,
)
from support.scripted_upstream import Script, ScriptedUpstream, event, sends
from support.served import Served


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url) as running:
        yield running


def broken_streams(wire: Wire) -> list[Script]:
    *events, _ = wire.events(TEXT)
    failure = b"event: error\n" + event(ERRORS[wire.vendor])
    return [breaks_after(events, "close"), sends(*events, failure)]


async def drain(stream: Any) -> None:
    async for _ in stream:
        pass


@pytest.mark.parametrize("wire", [CHAT, COMPLETIONS, RESPONSES], ids=lambda wire: wire.name)
async def test_openais_sdk_raises_where_a_stream_broke(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async with openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key="k", max_retries=0) as sdk:
        for upstream.script in broken_streams(wire):
            resource: Any = {
                CHAT.name: sdk.chat.completions,
                COMPLETIONS.name: sdk.completions,
                RESPONSES.name: sdk.responses,
            }[wire.name]
            stream = await resource.create(**wire.body(stream=True))
            with pytest.raises(openai.APIError):
                await drain(stream)


async def test_anthropics_sdk_raises_where_a_stream_broke(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async with anthropic.AsyncAnthropic(base_url=gateway.url, api_key="k", max_retries=0) as sdk:
        for upstream.script in broken_streams(MESSAGES):
            stream: Any = await sdk.messages.create(**MESSAGES.body(stream=True))
            with pytest.raises(anthropic.APIError):
                await drain(stream)
