"""The official Node SDKs, unchanged but for `baseURL`: what they read through the gateway, from the upstream or from
the cache, is what they read when they ask the upstream itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from support import anthropic_upstream, openai_upstream
from support.node_sdk import NodeCall, NodeSdk
from support.vendor_site import HIT, MISS, PNG, STORED, VendorSite, vendor_site

pytestmark = pytest.mark.node

Vendor = Literal["openai", "anthropic"]
GONE_S = 30.0
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TIDE = [{"role": "user", "content": "What is the tide? 潮"}]
CHAT: dict[str, Any] = {"model": "gpt-5-mini", "messages": TIDE}
RESPONSE: dict[str, Any] = {"model": "gpt-5-mini", "store": False, "input": "What is the tide? 潮"}
MESSAGE: dict[str, Any] = {"model": "claude-haiku-5", "max_tokens": 2048, "messages": TIDE}
BODIES: dict[str, tuple[Vendor, str, dict[str, Any]]] = {
    "chat": ("openai", "chat.completions", CHAT),
    "chat tool": (
        "openai",
        "chat.completions",
        CHAT
        | {
            "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
            "tool_choice": "required",
        },
    ),
    "chat image": (
        "openai",
        "chat.completions",
        CHAT
        | {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}],
                }
            ]
        },
    ),
    "response": ("openai", "responses", RESPONSE | {"reasoning": {"effort": "low"}}),
    "response tool": (
        "openai",
        "responses",
        RESPONSE
        | {
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
            "tool_choice": "required",
        },
    ),
    "message": ("anthropic", "messages", MESSAGE),
    "message thinking": (
        "anthropic",
        "messages",
        MESSAGE | {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    ),
    "message tool": (
        "anthropic",
        "messages",
        MESSAGE | {"tools": [{"name": "weather", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}},
    ),
    "message image": (
        "anthropic",
        "messages",
        MESSAGE
        | {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        }
                    ],
                }
            ]
        },
    ),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    with vendor_site(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.mark.parametrize("name", BODIES)
def test_each_reply_is_the_upstreams_own_then_a_hit(name: str, site: VendorSite, node_sdk: NodeSdk) -> None:
    vendor, method, body = BODIES[name]
    upstream = site.openai if vendor == "openai" else site.anthropic
    other = body | {"metadata": {"user_id": "another"}}
    streamed = body | {"stream": True}
    create, stream = f"{method}.create", f"{method}.stream"
    [own, own_events, own_final] = node_sdk.ask(
        vendor,
        upstream.url,
        "sk-direct",
        NodeCall(create, (body,)),
        NodeCall(create, (streamed,), "stream"),
        NodeCall(stream, (other,), "final"),
    )
    num_before = len(upstream.calls)
    [miss, hit, events, miss_final, hit_final, crossed] = node_sdk.ask(
        vendor,
        site.gateway.url,
        f"sk-{name.encode().hex()}",
        NodeCall(create, (body,)),
        NodeCall(create, (body,)),
        NodeCall(create, (streamed,), "stream"),
        NodeCall(stream, (other,), "final"),
        NodeCall(stream, (other,), "final"),
        NodeCall(create, (other,)),
    )
    assert [miss["cacheStatus"], hit["cacheStatus"], events["cacheStatus"]] == [STORED, HIT, HIT]
    assert miss["value"] == hit["value"] == own["value"]
    if method != "chat.completions":  # whose chunks have no types
        assert kinds(events["value"]) == kinds(own_events["value"])
    assert miss_final["value"] == hit_final["value"] == own_final["value"]
    assert crossed["cacheStatus"] == HIT
    assert len(upstream.calls) == num_before + 2


@pytest.mark.parametrize("name", BODIES)
def test_each_event_of_a_missed_stream_is_the_upstreams_own(
    name: str, site: VendorSite, node_sdk: NodeSdk
) -> None:
    vendor, method, body = BODIES[name]
    upstream = site.openai if vendor == "openai" else site.anthropic
    call = NodeCall(f"{method}.create", (body | {"stream": True},), "stream")
    [own] = node_sdk.ask(vendor, upstream.url, "sk-direct", call)
    [miss] = node_sdk.ask(vendor, site.gateway.url, f"sk-events-{name.encode().hex()}", call)
    assert miss["cacheStatus"] == MISS
    assert miss["value"] == own["value"]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """The types of a stream's events, each run of one type once, without pings."""
    types = [event["type"] for event in events if event["type"] != "ping"]
    return [kind for kind, _ in itertools.groupby(types)]


def test_embeddings_models_and_token_counts(site: VendorSite, node_sdk: NodeSdk) -> None:
    asked = {"model": "text-embedding-3-small", "input": ["tide", "潮"], "dimensions": 4}
    embed = NodeCall("embeddings.create", (asked,))
    [miss, hit, listed, one] = node_sdk.ask(
        "openai",
        site.gateway.url,
        "sk-mine",
        embed,
        embed,
        NodeCall("models.list", (), "list"),
        NodeCall("models.retrieve", ("gpt-4.1",)),
    )
    assert [miss["cacheStatus"], hit["cacheStatus"]] == [STORED, HIT]
    assert miss["value"] == hit["value"]
    vectors = [item["embedding"] for item in hit["value"]["data"]]
    assert vectors == [openai_upstream.vector_for("tide", 4), openai_upstream.vector_for("潮", 4)]
    assert {*openai_upstream.MODELS, *anthropic_upstream.MODELS} == {model["id"] for model in listed["value"]}
    assert one["value"]["owned_by"] == "system"

    counted = {"model": "claude-haiku-5", "messages": TIDE}
    count = NodeCall("messages.countTokens", (counted,))
    [first, second, models] = node_sdk.ask(
        "anthropic", site.gateway.url, "sk-mine", count, count, NodeCall("models.list", (), "list")
    )
    assert [first["cacheStatus"], second["cacheStatus"]] == [STORED, HIT]
    assert second["value"] == {"input_tokens": anthropic_upstream.num_tokens_for(counted)}
    assert [model["id"] for model in models["value"]] == list(anthropic_upstream.MODELS)


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_errors_have_the_sdks_own_classes(vendor: Vendor, site: VendorSite, node_sdk: NodeSdk) -> None:
    is_openai = vendor == "openai"
    upstream = site.openai if is_openai else site.anthropic
    failure = openai_upstream.failure if is_openai else anthropic_upstream.failure
    method, body = ("chat.completions", CHAT) if is_openai else ("messages", MESSAGE)
    create = f"{method}.create"
    wrong = openai_upstream.WRONG_KEY if is_openai else anthropic_upstream.WRONG_KEY
    [refused] = node_sdk.ask(vendor, site.gateway.url, wrong, NodeCall(create, (body,)))
    assert (refused["error"], refused["status"]) == ("AuthenticationError", 401)

    upstream.answer_next(failure(429, "Slow down", retry_after="30"))
    other = body | {"model": "claude-haiku-5" if is_openai else "gpt-5-mini"}
    [slow, unknown, own, foreign, fine] = node_sdk.ask(
        vendor,
        site.gateway.url,
        "sk-errors",
        NodeCall(create, (body,)),
        NodeCall(create, (body | {"model": "llama-none"},)),
        NodeCall(create, (body | {"model": body["model"].split("-")[0] + "-none"},)),
        NodeCall(create, (other,)),
        NodeCall(create, (body | {"max_tokens": 99},)),  # the same one was told to wait half a minute
    )
    assert (slow["error"], slow["status"], slow["retryAfter"]) == ("RateLimitError", 429, "30")
    assert (unknown["error"], unknown["status"]) == ("NotFoundError", 404)
    assert (own["error"], own["status"]) == ("NotFoundError", 404)
    assert (foreign["error"], foreign["status"]) == ("BadRequestError", 400)
    assert fine["cacheStatus"] == STORED


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_a_server_error_is_repeated_by_the_sdk(vendor: Vendor, site: VendorSite, node_sdk: NodeSdk) -> None:
    is_openai = vendor == "openai"
    upstream = site.openai if is_openai else site.anthropic
    failure = openai_upstream.failure if is_openai else anthropic_upstream.failure
    method, body = ("chat.completions", CHAT) if is_openai else ("messages", MESSAGE)
    num_before = len(upstream.calls)
    upstream.answer_next(failure(500, "Oops", retry_after="0.01"))
    call = NodeCall(f"{method}.create", (body,))
    [reply] = node_sdk.ask(vendor, site.gateway.url, "sk-repeats", call, max_retries=1)
    assert reply["cacheStatus"] == STORED
    retries = [call.header("x-stainless-retry-count") for call in upstream.calls[num_before:]]
    assert retries == ["0", "1"]


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_leaving_a_stream_frees_the_upstream(vendor: Vendor, site: VendorSite, node_sdk: NodeSdk) -> None:
    is_openai = vendor == "openai"
    upstream = site.openai if is_openai else site.anthropic
    method, body = ("responses", RESPONSE) if is_openai else ("messages", MESSAGE)
    with upstream.holding("middle"):
        call = NodeCall(f"{method}.create", (body | {"stream": True},), "cancel")
        [seen] = node_sdk.ask(vendor, site.gateway.url, "sk-leaves", call)
        assert seen["value"]["type"] in ("response.created", "message_start")
        assert upstream.gone.wait(GONE_S)
