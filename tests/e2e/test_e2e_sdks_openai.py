"""OpenAI's Python SDK, unchanged but for `base_url`: what it reads through the gateway, from the upstream or from the
cache, is what it reads when it asks the upstream itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from support.openai_upstream import MODELS, vector_for
from support.vendor_site import HIT, MISS, PNG, STORED, VendorSite, vendor_site

KEY = "sk-a-test-of-mine"
DATA_URL = f"data:image/png;base64,{PNG}"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
WEATHER_FLAT = {"type": "function", "name": "weather", "parameters": PARAMETERS, "strict": False}

CHATS: dict[str, dict[str, Any]] = {
    "text": {"messages": [{"role": "user", "content": "What is the tide? 潮"}]},
    "tool": {
        "messages": [{"role": "user", "content": "How is the weather in Zürich?"}],
        "tools": [WEATHER],
        "tool_choice": "required",
    },
    "image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": DATA_URL, "detail": "low"}},
                ],
            }
        ]
    },
    "tool result": {
        "messages": [
            {"role": "user", "content": "How is the weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Fine."},
        ],
        "tools": [WEATHER],
    },
}
RESPONSES: dict[str, dict[str, Any]] = {
    "text": {"input": "What is the tide? 潮", "instructions": "Be brief."},
    "reasoning": {
        "input": "What is the tide?",
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "tool": {"input": "Weather in Zürich?", "tools": [WEATHER_FLAT], "tool_choice": "required"},
    "image": {
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
                ],
            }
        ]
    },
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    with vendor_site(tmp_path_factory.mktemp("sdks")) as running:
        yield running


def sdk(url: str, key: str = KEY) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


@pytest.fixture
def client(site: VendorSite, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    """The SDK before the gateway, with a key of its own for each test: nothing is stored for it yet."""
    with sdk(site.gateway.url, f"sk-{request.node.name.encode().hex()}") as made:
        yield made


@pytest.fixture(scope="module")
def direct(site: VendorSite) -> Iterator[openai.OpenAI]:
    """The SDK before the upstream itself."""
    with sdk(site.openai.url) as made:
        yield made


def chat_body(kind: str) -> dict[str, Any]:
    return {"model": "gpt-5-mini", **CHATS[kind]}


def response_body(kind: str) -> dict[str, Any]:
    return {"model": "gpt-5-mini", "store": False, **RESPONSES[kind]}


def whole_chat(client: openai.OpenAI, body: dict[str, Any]) -> tuple[str | None, Any]:
    raw = client.chat.completions.with_raw_response.create(**body)
    return raw.headers.get("cache-status"), raw.parse().model_dump()


def streamed_chat(client: openai.OpenAI, body: dict[str, Any]) -> tuple[Any, set[str]]:
    """What the SDK's own accumulator makes of a stream, and the kinds of its events."""
    with client.chat.completions.stream(**body, stream_options={"include_usage": True}) as stream:
        kinds = {str(event.type) for event in stream}
        return stream.get_final_completion().model_dump(), kinds


def without_annotations(chat: dict[str, Any]) -> dict[str, Any]:
    """OpenAI writes an empty list of annotations into a whole reply, and nothing into a stream."""
    [choice] = chat["choices"]
    message = {name: value for name, value in choice["message"].items() if name != "annotations"}
    return chat | {"choices": [choice | {"message": message}]}


def whole_response(client: openai.OpenAI, body: dict[str, Any]) -> tuple[str | None, Any]:
    raw = client.responses.with_raw_response.create(**body)
    return raw.headers.get("cache-status"), raw.parse().model_dump()


def streamed_response(client: openai.OpenAI, body: dict[str, Any]) -> tuple[Any, list[str]]:
    """The SDK's final response of a stream, and the kinds of its events in order, each run of one kind once."""
    with client.responses.stream(**body) as stream:
        kinds: list[str] = []
        for event in stream:
            if not kinds or kinds[-1] != event.type:
                kinds.append(event.type)
        return stream.get_final_response().model_dump(), kinds


@pytest.mark.parametrize("kind", CHATS)
def test_a_chat_is_the_upstreams_own_then_a_hit(
    kind: str, site: VendorSite, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = chat_body(kind)
    _, expected = whole_chat(direct, body)
    num_before = len(site.openai.calls)
    assert whole_chat(client, body) == (STORED, expected)
    assert whole_chat(client, body) == (HIT, expected)
    assert len(site.openai.calls) == num_before + 1


@pytest.mark.parametrize("kind", CHATS)
def test_a_streamed_chat_is_the_upstreams_own_then_a_hit(
    kind: str, site: VendorSite, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = chat_body(kind)
    expected = streamed_chat(direct, body)
    num_before = len(site.openai.calls)
    assert streamed_chat(client, body) == expected
    assert streamed_chat(client, body) == expected
    assert len(site.openai.calls) == num_before + 1


@pytest.mark.parametrize("kind", CHATS)
def test_each_form_of_a_chat_answers_the_other(
    kind: str, site: VendorSite, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = chat_body(kind)
    list(client.chat.completions.create(**body, stream=True))
    status, hit = whole_chat(client, body)
    _, expected = whole_chat(direct, body)
    assert status == HIT
    assert without_annotations(hit) == without_annotations(expected)

    other = body | {"user": "another"}
    whole_chat(client, other)
    num_before = len(site.openai.calls)
    final, _ = streamed_chat(client, other)
    assert len(site.openai.calls) == num_before
    assert without_annotations(final) == without_annotations(streamed_chat(direct, other)[0])


def test_every_chunk_of_a_missed_chat_is_the_upstreams_own(
    client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = chat_body("text") | {"stream": True, "stream_options": {"include_usage": True}}
    expected = [chunk.model_dump() for chunk in direct.chat.completions.create(**body)]
    assert [chunk.model_dump() for chunk in client.chat.completions.create(**body)] == expected
    hit = [chunk.model_dump() for chunk in client.chat.completions.create(**body)]
    assert hit[-1]["usage"] == expected[-1]["usage"]
    assert "".join(c["choices"][0]["delta"]["content"] or "" for c in hit[:-1]) == "".join(
        c["choices"][0]["delta"]["content"] or "" for c in expected[:-1]
    )


def test_a_parsed_chat_is_the_same_object_for_hit_and_miss(client: openai.OpenAI) -> None:
    strict = WEATHER | {"function": WEATHER["function"] | {"strict": True}}
    body = chat_body("tool") | {"tools": [strict]}
    miss = client.chat.completions.parse(**body)
    hit = client.chat.completions.parse(**body)
    assert miss.model_dump() == hit.model_dump()
    [call] = miss.choices[0].message.tool_calls or []
    assert call.function.arguments == '{"city":"Zürich","days":2}'


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_response_is_the_upstreams_own_then_a_hit(
    kind: str, site: VendorSite, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = response_body(kind)
    _, expected = whole_response(direct, body)
    num_before = len(site.openai.calls)
    assert whole_response(client, body) == (STORED, expected)
    assert whole_response(client, body) == (HIT, expected)
    assert len(site.openai.calls) == num_before + 1


@pytest.mark.parametrize("kind", RESPONSES)
def test_a_streamed_response_is_the_upstreams_own_then_a_hit_with_the_same_kinds_of_events(
    kind: str, site: VendorSite, client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    body = response_body(kind)
    expected = streamed_response(direct, body)
    num_before = len(site.openai.calls)
    assert streamed_response(client, body) == expected
    assert streamed_response(client, body) == expected
    status, whole = whole_response(client, body)
    assert (status, whole) == (HIT, whole_response(direct, body)[1])
    assert len(site.openai.calls) == num_before + 2  # one of them is the direct one


def test_a_response_that_the_provider_is_to_keep_is_never_answered_from_the_cache(
    client: openai.OpenAI,
) -> None:
    body = response_body("text") | {"store": True}
    for _ in range(2):
        status, _ = whole_response(client, body)
        assert status == "openclaw-cache; fwd=bypass; detail=stored-state"


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_embeddings_are_the_texts_own_then_hits(encoding: str | None, client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "text-embedding-3-small", "input": ["tide", "潮"], "dimensions": 4}
    if encoding is not None:
        asked["encoding_format"] = encoding
    seen = []
    for expected in (STORED, HIT):
        raw = client.embeddings.with_raw_response.create(**asked)
        assert raw.headers["cache-status"] == expected
        seen.append(raw.parse())
    assert seen[0] == seen[1]
    if encoding != "base64":
        assert [one.embedding for one in seen[1].data] == [vector_for("tide", 4), vector_for("潮", 4)]
    assert [one.index for one in seen[1].data] == [0, 1]


def test_the_models_of_all_upstreams_are_listed_as_openai_lists_them(client: openai.OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}
    assert set(MODELS) < set(listed)
    assert listed["claude-haiku-5"].owned_by == "anthropic"
    assert listed["claude-haiku-5"].created == 1759104000  # 2025-09-29T00:00:00Z
    assert client.models.retrieve("gpt-4.1").model_dump() == listed["gpt-4.1"].model_dump()
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-none")


async def test_the_async_sdk_reads_the_same(site: VendorSite, direct: openai.OpenAI) -> None:
    body = chat_body("text")
    _, expected = whole_chat(direct, body)
    async with openai.AsyncOpenAI(
        base_url=f"{site.gateway.url}/v1", api_key="sk-async", max_retries=0
    ) as client:
        for status in (STORED, HIT):
            raw = await client.chat.completions.with_raw_response.create(**body)
            assert (raw.headers["cache-status"], raw.parse().model_dump()) == (status, expected)
        async with client.chat.completions.stream(**body) as stream:
            final = await stream.get_final_completion()
        assert final.choices[0].message.content == expected["choices"][0]["message"]["content"]


def test_a_stream_says_by_its_head_whether_it_is_a_hit(client: openai.OpenAI) -> None:
    body = chat_body("text") | {"stream": True}
    for expected in (MISS, HIT):
        with client.chat.completions.with_streaming_response.create(**body) as raw:
            assert raw.headers["cache-status"] == expected
            assert raw.headers["x-request-id"]
            list(raw.iter_lines())
