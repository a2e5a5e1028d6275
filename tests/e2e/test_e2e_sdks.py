"""A gateway that nobody has configured, with the real model, asked by curl-like HTTP and the OpenAI SDKs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from support.admin import status
from support.node_sdk import NodeSdk
from support.raw_http import encoded, post_chat
from support.running import RunningGateway

pytestmark = pytest.mark.model

MODEL = "smollm2-135m"
KEY = "sk-a-test-of-mine"
HIT = "openclaw-cache; hit; detail=exact"
CAPITAL: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}
AS_STREAM: dict[str, Any] = {"stream": True}
WITH_USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
BEARER = [("content-type", "application/json"), ("authorization", f"Bearer {KEY}")]


def asking(question: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question}]} | fields


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def capital(client: openai.OpenAI) -> Any:
    """The model's own answer, computed once for this module, in the cache from then on."""
    reply = client.chat.completions.with_raw_response.create(**CAPITAL)
    assert reply.headers["cache-status"] == "openclaw-cache; fwd=miss; stored"
    assert "age" not in reply.headers
    return reply.parse()


@pytest.fixture
def frozen_engine(gateway: RunningGateway, capital: Any) -> Iterator[None]:
    """The model's process is stopped meanwhile: whatever is answered now is answered without it."""
    [upstream] = status(gateway.url)["upstreams"]
    os.kill(upstream["pid"], signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(upstream["pid"], signal.SIGCONT)


def test_the_model_answers_truly(capital: Any) -> None:
    assert "Paris" in capital.choices[0].message.content
    assert capital.choices[0].finish_reason == "stop"
    assert capital.model == MODEL
    assert capital.usage.total_tokens == capital.usage.prompt_tokens + capital.usage.completion_tokens


def test_the_answer_is_the_engines_own(gateway: RunningGateway, capital: Any) -> None:
    [upstream] = status(gateway.url)["upstreams"]
    reply = post_chat(upstream["url"], encoded(CAPITAL))
    assert "cache-status" not in reply.headers
    assert reply.text == capital.choices[0].message.content
    assert reply.json()["usage"]["total_tokens"] == capital.usage.total_tokens


def test_the_served_model_is_listed(client: openai.OpenAI) -> None:
    assert MODEL in [model.id for model in client.models.list()]


@pytest.mark.usefixtures("frozen_engine")
class TestWithoutTheEngine:
    """The identical request comes back with the same answer while the model cannot work."""

    def test_python_sdk(self, client: openai.OpenAI, capital: Any) -> None:
        reply = client.chat.completions.with_raw_response.create(**CAPITAL)
        assert reply.headers["cache-status"] == HIT
        assert int(reply.headers["age"]) >= 0
        assert reply.headers["x-request-id"]
        assert reply.parse().model_dump() == capital.model_dump()

    async def test_async_python_sdk(self, gateway: RunningGateway, capital: Any) -> None:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
            reply = await sdk.chat.completions.with_raw_response.create(**CAPITAL)
            assert reply.headers["cache-status"] == HIT
            assert reply.parse().model_dump() == capital.model_dump()

    def test_python_sdk_as_a_stream(self, client: openai.OpenAI, capital: Any) -> None:
        with client.chat.completions.with_streaming_response.create(**CAPITAL | AS_STREAM) as reply:
            assert reply.headers["cache-status"] == HIT
        chunks = list(client.chat.completions.create(**CAPITAL | AS_STREAM))
        assert {chunk.id for chunk in chunks} == {capital.id}
        assert chunks[0].choices[0].delta.role == "assistant"
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == capital.choices[0].message.content
        assert [c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason] == ["stop"]
        assert all(chunk.usage is None for chunk in chunks)

    def test_python_sdk_as_a_stream_with_usage(self, client: openai.OpenAI, capital: Any) -> None:
        *chunks, last = client.chat.completions.create(**CAPITAL | WITH_USAGE)
        assert last.choices == []
        assert last.usage == capital.usage
        assert "".join(c.choices[0].delta.content or "" for c in chunks) == capital.choices[0].message.content

    async def test_async_python_sdk_as_a_stream(self, gateway: RunningGateway, capital: Any) -> None:
        async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
            stream = await sdk.chat.completions.create(**CAPITAL | AS_STREAM)
            texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(texts) == capital.choices[0].message.content

    @pytest.mark.node
    @pytest.mark.parametrize(
        "fields", [{}, AS_STREAM, WITH_USAGE], ids=["whole", "stream", "stream-with-usage"]
    )
    def test_node_sdk(
        self, gateway: RunningGateway, node_sdk: NodeSdk, capital: Any, fields: dict[str, Any]
    ) -> None:
        seen = node_sdk.chat(gateway.url, KEY, CAPITAL | fields)
        assert seen["cacheStatus"] == HIT
        assert int(seen["age"]) >= 0
        assert seen["id"] == capital.id
        assert seen["text"] == capital.choices[0].message.content
        assert seen["finishReason"] == "stop"
        has_usage = "stream" not in fields or "stream_options" in fields
        tokens = seen["usage"]["total_tokens"] if seen["usage"] else None
        assert tokens == (capital.usage.total_tokens if has_usage else None)

    def test_plain_http_with_other_key_order_and_white_space(
        self, gateway: RunningGateway, capital: Any
    ) -> None:
        backwards = json.dumps(dict(reversed(CAPITAL.items())), indent=2).encode()
        reply = post_chat(gateway.url, backwards, BEARER)
        assert (reply.status, reply.cache_status, reply.text) == (
            200,
            HIT,
            capital.choices[0].message.content,
        )
        assert reply.headers["age"].isdigit()

    def test_another_api_key_shares_nothing(self, gateway: RunningGateway) -> None:
        headers = [("content-type", "application/json"), ("authorization", "Bearer sk-of-somebody-else")]
        reply = post_chat(gateway.url, encoded(CAPITAL), [*headers, ("cache-control", "only-if-cached")])
        assert reply.status == 504


def test_a_streamed_reply_answers_the_same_request_unstreamed(client: openai.OpenAI) -> None:
    body = asking("What is two plus two?", max_tokens=24)
    text = "".join(
        c.choices[0].delta.content or "" for c in client.chat.completions.create(**body | AS_STREAM)
    )
    reply = client.chat.completions.with_raw_response.create(**body)
    assert reply.headers["cache-status"] == HIT
    assert reply.parse().choices[0].message.content == text
    assert reply.parse().usage.completion_tokens > 0


@pytest.mark.node
def test_a_reply_to_node_answers_python(
    gateway: RunningGateway, node_sdk: NodeSdk, client: openai.OpenAI
) -> None:
    body = asking("Name a colour of the sky.", max_tokens=24)
    first = node_sdk.chat(gateway.url, KEY, body | WITH_USAGE)
    assert first["cacheStatus"] == "openclaw-cache; fwd=miss"
    assert first["text"]
    reply = client.chat.completions.with_raw_response.create(**body)
    assert reply.headers["cache-status"] == HIT
    assert reply.parse().choices[0].message.content == first["text"]
    assert reply.parse().usage.model_dump(exclude_none=True)["total_tokens"] == first["usage"]["total_tokens"]


def test_one_changed_word_is_another_request(client: openai.OpenAI, capital: Any) -> None:
    body = asking("What is the capital of Italy?")
    reply = client.chat.completions.with_raw_response.create(**body)
    assert reply.headers["cache-status"] == "openclaw-cache; fwd=miss; stored"
    assert reply.parse().choices[0].message.content != capital.choices[0].message.content


def test_an_unknown_model_is_the_sdks_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(**CAPITAL | {"model": "gpt-none"})
    assert caught.value.code == "model_not_found"
    assert MODEL in caught.value.message
    assert caught.value.request_id


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_prompt_longer_than_the_window_is_the_sdks_bad_request(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**asking("word " * 9000), stream=stream)
    assert caught.value.code == "context_length_exceeded"


@pytest.mark.node
def test_errors_have_the_node_sdks_own_classes(gateway: RunningGateway, node_sdk: NodeSdk) -> None:
    seen = node_sdk.chat(gateway.url, KEY, CAPITAL | {"model": "gpt-none"})
    assert seen == {"error": "NotFoundError", "status": 404, "code": "model_not_found"}
