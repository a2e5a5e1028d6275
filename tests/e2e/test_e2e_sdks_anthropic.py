"""Anthropic's Python SDK, unchanged but for `base_url`: what it reads through the gateway, from the upstream or from
the cache, is what it reads when it asks the upstream itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from support.anthropic_upstream import INPUT, MODELS, num_tokens_for
from support.vendor_site import HIT, MISS, PNG, STORED, VendorSite, vendor_site

WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
MESSAGES: dict[str, dict[str, Any]] = {
    "text": {
        "system": [
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        ],
        "messages": [{"role": "user", "content": "What is the tide? 潮"}],
    },
    "tool": {
        "messages": [{"role": "user", "content": "How is the weather in Zürich?"}],
        "tools": [WEATHER],
        "tool_choice": {"type": "any"},
    },
    "thinking": {
        "messages": [{"role": "user", "content": "Which city?"}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    },
    "thinking and tool": {
        "messages": [{"role": "user", "content": "Which city?"}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [WEATHER],
        "tool_choice": {"type": "tool", "name": "weather"},
    },
    "image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    {"type": "text", "text": "What is this?", "cache_control": {"type": "ephemeral"}},
                ],
            }
        ]
    },
    "tool result": {
        "messages": [
            {"role": "user", "content": "How is the weather?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": [{"type": "text", "text": "Fine."}],
                    }
                ],
            },
        ],
        "tools": [WEATHER],
    },
}

ON_THE_WIRE = {
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop"),
}
"""Not pings, which say nothing, nor the events that the SDK makes of these."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    with vendor_site(tmp_path_factory.mktemp("sdks")) as running:
        yield running


def sdk(url: str, key: str = "sk-ant-of-mine") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)


@pytest.fixture
def client(site: VendorSite, request: pytest.FixtureRequest) -> Iterator[anthropic.Anthropic]:
    """The SDK before the gateway, with a key of its own for each test: nothing is stored for it yet."""
    with sdk(site.gateway.url, f"sk-{request.node.name.encode().hex()}") as made:
        yield made


@pytest.fixture(scope="module")
def direct(site: VendorSite) -> Iterator[anthropic.Anthropic]:
    """The SDK before the upstream itself."""
    with sdk(site.anthropic.url) as made:
        yield made


def body_of(kind: str) -> dict[str, Any]:
    return {"model": "claude-haiku-5", "max_tokens": 2048, **MESSAGES[kind]}


def whole(client: anthropic.Anthropic, body: dict[str, Any]) -> tuple[str | None, Any]:
    raw = client.messages.with_raw_response.create(**body)
    return raw.headers.get("cache-status"), raw.parse().model_dump()


def streamed(client: anthropic.Anthropic, body: dict[str, Any]) -> tuple[Any, list[str]]:
    """What the SDK's own accumulator makes of a stream, and the kinds of its events, each run of one kind once."""
    with client.messages.stream(**body) as stream:
        kinds: list[str] = []
        for event in stream:
            if event.type in ON_THE_WIRE and (not kinds or kinds[-1] != event.type):
                kinds.append(event.type)
        return stream.get_final_message().model_dump(), kinds


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_is_the_upstreams_own_then_a_hit(
    kind: str, site: VendorSite, client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    body = body_of(kind)
    _, expected = whole(direct, body)
    num_before = len(site.anthropic.calls)
    assert whole(client, body) == (STORED, expected)
    assert whole(client, body) == (HIT, expected)
    assert len(site.anthropic.calls) == num_before + 1


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_streamed_message_is_the_upstreams_own_then_a_hit_with_the_same_kinds_of_events(
    kind: str, site: VendorSite, client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    body = body_of(kind)
    expected = streamed(direct, body)
    num_before = len(site.anthropic.calls)
    assert streamed(client, body) == expected
    assert streamed(client, body) == expected
    assert len(site.anthropic.calls) == num_before + 1


@pytest.mark.parametrize("kind", MESSAGES)
def test_each_form_of_a_message_answers_the_other(
    kind: str, site: VendorSite, client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    body = body_of(kind)
    streamed(client, body)
    assert whole(client, body) == (HIT, whole(direct, body)[1])

    other = body | {"metadata": {"user_id": "another"}}
    whole(client, other)
    num_before = len(site.anthropic.calls)
    final, _ = streamed(client, other)
    assert len(site.anthropic.calls) == num_before
    assert final == streamed(direct, other)[0]


def test_every_event_of_a_missed_stream_is_the_upstreams_own(
    client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    body = body_of("thinking and tool") | {"stream": True}
    expected = [event.model_dump() for event in direct.messages.create(**body)]
    assert [event.model_dump() for event in client.messages.create(**body)] == expected


def test_a_signature_from_the_cache_goes_back_upstream_byte_for_byte(
    site: VendorSite, client: anthropic.Anthropic
) -> None:
    body = body_of("thinking and tool")
    streamed(client, body)
    message, _ = streamed(client, body)
    thinking, redacted, said, use = message["content"]
    assert use["input"] == INPUT
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "Fine."}
    given = [
        {name: thinking[name] for name in ("type", "thinking", "signature")},
        {name: redacted[name] for name in ("type", "data")},
        {name: said[name] for name in ("type", "text")},
        {name: use[name] for name in ("type", "id", "name", "input")},
    ]
    turns = [
        *body["messages"],
        {"role": "assistant", "content": given},
        {"role": "user", "content": [result]},
    ]
    client.messages.create(**body | {"messages": turns, "tool_choice": {"type": "auto"}})
    [_, assistant, _] = site.anthropic.calls[-1].body["messages"]
    first = next(call for call in reversed(site.anthropic.calls[:-1]) if call.body.get("stream"))
    with sdk(site.anthropic.url) as direct:
        [own, *_] = direct.messages.create(**body).content
    assert own.type == "thinking"
    assert assistant["content"][0] == {
        "type": "thinking",
        "thinking": "Which city?\n苏黎世.",
        "signature": own.signature,
    }
    assert first.body["messages"] == body["messages"]


def test_tokens_are_counted_by_the_upstream_then_by_the_cache(
    site: VendorSite, client: anthropic.Anthropic
) -> None:
    asked = {name: value for name, value in body_of("tool").items() if name != "max_tokens"}
    num_before = len(site.anthropic.calls)
    for expected in (STORED, HIT):
        raw = client.messages.with_raw_response.count_tokens(**asked)
        assert raw.headers["cache-status"] == expected
        assert raw.parse().input_tokens == num_tokens_for(asked)
    assert len(site.anthropic.calls) == num_before + 1


def test_hints_versions_and_betas_arrive_upstream_as_they_were_sent(
    site: VendorSite, client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    body = body_of("text") | {"betas": ["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"]}
    direct.beta.messages.create(**body)
    expected = site.anthropic.calls[-1]
    client.beta.messages.create(**body)
    call = site.anthropic.calls[-1]
    assert call is not expected
    assert (call.path, call.query, call.raw) == (expected.path, expected.query, expected.raw)
    assert call.header("anthropic-beta") == "context-1m-2025-08-07,interleaved-thinking-2025-05-14"
    assert call.header("authorization") == f"Bearer {client.api_key}"
    own = {"host", "authorization", "x-request-id", "accept-encoding", "connection", "content-length"}
    arrived, sent = (dict(h for h in c.headers if h[0] not in own) for c in (call, expected))
    assert arrived == sent
    # Another beta may be another answer.
    raw = client.beta.messages.with_raw_response.create(**body | {"betas": ["context-1m-2025-08-07"]})
    assert raw.headers["cache-status"] == STORED


def test_the_models_that_speak_anthropics_api_are_listed_as_it_lists_them(
    client: anthropic.Anthropic, direct: anthropic.Anthropic
) -> None:
    listed = [model.model_dump() for model in client.models.list()]
    assert listed == [model.model_dump() for model in direct.models.list()]
    assert [model["id"] for model in listed] == list(MODELS)
    assert client.models.retrieve(MODELS[1]).model_dump() == listed[1]
    with pytest.raises(anthropic.NotFoundError):
        client.models.retrieve("gpt-4.1")


async def test_the_async_sdk_reads_the_same(site: VendorSite, direct: anthropic.Anthropic) -> None:
    body = body_of("thinking")
    expected = streamed(direct, body)[0]
    async with anthropic.AsyncAnthropic(
        base_url=site.gateway.url, api_key="sk-async", max_retries=0
    ) as client:
        for status in (MISS, HIT):
            async with client.messages.stream(**body) as stream:
                assert stream.response.headers["cache-status"] == status
                final = await stream.get_final_message()
            assert final.model_dump() == expected


@pytest.mark.parametrize("name", ["x-api-key", "authorization"])
def test_a_key_goes_upstream_in_the_header_that_it_came_in(name: str, site: VendorSite) -> None:
    """Older releases of the SDK send `x-api-key`; newer ones, and those who logged in, a bearer token."""
    sent = {"x-api-key": "sk-ant-mine", "authorization": "Bearer sk-ant-mine"}
    told = {name: sent[name]} | {other: anthropic.omit for other in sent if other != name}
    with sdk(site.gateway.url) as client:
        client.messages.create(**body_of("text"), extra_headers=told)
    call = site.anthropic.calls[-1]
    assert {other: call.header(other) for other in sent} == dict.fromkeys(sent) | {name: sent[name]}
