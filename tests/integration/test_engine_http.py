"""The engine's process as a client sees it: the real OpenAI SDK, the real model."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import openai
import pytest
import pytest_asyncio

from openclaw_cache.engine.pod import EmbeddedPod

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="module")]

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]
PARIS = "The capital of France is Paris."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pod(model_data_dir: Path) -> AsyncIterator[EmbeddedPod]:
    # One request at a time, and nothing that outlives the test in the folder of the models.
    kv = {"max_concurrent": 1, "host_bytes": 0, "disk_bytes": 0, "preallocation": 0.0}
    async with EmbeddedPod(model="smollm2-135m", data_dir=model_data_dir, max_waiting=0, kv=kv) as pod:
        await pod.wait_ready(120)
        yield pod


@pytest_asyncio.fixture(loop_scope="module")
async def client(pod: EmbeddedPod) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{pod.url}/v1", api_key="any", max_retries=0, timeout=120
    ) as client:
        yield client


def written(usage: openai.types.CompletionUsage) -> object:
    """Prompt tokens put into the cache, where OpenAI tells them since GPT-5.6."""
    assert usage.prompt_tokens_details is not None
    return usage.prompt_tokens_details.to_dict()["cache_write_tokens"]


async def test_it_answers_and_counts_its_tokens(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(model="smollm2-135m", messages=FRANCE)
    assert reply.choices[0].message.content == PARIS
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (37, 7)
    assert reply.usage.prompt_tokens_details is not None
    assert reply.usage.prompt_tokens_details.cached_tokens == 0
    assert written(reply.usage) == 32  # of 37: whole blocks of 16


async def test_a_stream_says_the_same_and_ends_with_usage(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="SmolLM2-135M-Instruct", messages=FRANCE, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    contents = [chunk.choices[0].delta.content for chunk in chunks[:-1]]
    assert "".join(content or "" for content in contents) == PARIS
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * 8 + ["stop"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 7
    assert chunks[-1].usage.prompt_tokens_details is not None
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == 32  # of 37: whole blocks of 16
    assert written(chunks[-1].usage) == 0
    assert len({chunk.id for chunk in chunks}) == 1


async def test_another_namespace_has_nothing_cached_and_gets_the_same_answer(
    client: openai.AsyncOpenAI,
) -> None:
    cached = []
    for _ in range(2):
        raw = await client.chat.completions.with_raw_response.create(
            model="smollm2-135m", messages=FRANCE, extra_headers={"x-openclaw-kv-salt": "c0ffee"}
        )
        reply = raw.parse()
        assert reply.choices[0].message.content == PARIS
        assert reply.usage is not None
        assert reply.usage.prompt_tokens_details is not None
        cached.append(reply.usage.prompt_tokens_details.cached_tokens)
    assert cached == [0, 32]
    # The four tokens of the third block are there too, the last one is computed for what follows it.
    assert raw.headers["x-openclaw-kv"] == "computed=1, device=32, host=0, disk=0, copied=4"


async def test_logprobs_and_choices_come_as_asked(client: openai.AsyncOpenAI) -> None:
    reply = await client.chat.completions.create(
        model="smollm2-135m", messages=FRANCE, max_tokens=2, n=2, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in reply.choices] == [0, 1]
    for choice in reply.choices:
        assert choice.message.content == "The capital"
        assert choice.finish_reason == "length"
        assert choice.logprobs is not None
        content = choice.logprobs.content or []
        assert [bytes(one.bytes or []) for one in content] == [b"The", b" capital"]
        assert [len(one.top_logprobs) for one in content] == [2, 2]
    assert reply.usage is not None
    assert reply.usage.completion_tokens == 4


async def test_a_prompt_that_exceeds_the_window_is_refused_with_its_code(client: openai.AsyncOpenAI) -> None:
    long = [{"role": "user", "content": "word " * 9000}]
    with pytest.raises(openai.BadRequestError) as caught:
        await client.chat.completions.create(model="smollm2-135m", messages=long)
    assert caught.value.code == "context_length_exceeded"
    assert "8192" in caught.value.message


async def test_the_model_list_has_the_window_and_the_fingerprint_of_the_weights(
    client: openai.AsyncOpenAI, pod: EmbeddedPod
) -> None:
    (model,) = (await client.models.list()).data
    assert (model.id, model.owned_by) == ("smollm2-135m", "openclaw-cache")
    assert model.model_dump()["max_model_len"] == 8192
    assert model.model_dump()["fingerprint"] == pod.fingerprint
    reply = await client.chat.completions.create(model=model.id, messages=FRANCE, max_tokens=1)
    assert pod.fingerprint is not None
    assert reply.system_fingerprint == f"fp_{pod.fingerprint[:16]}"


async def refusal(client: openai.AsyncOpenAI) -> openai.RateLimitError | None:
    """The 429 that a short request gets now, or None if it is answered."""
    try:
        await client.chat.completions.create(model="smollm2-135m", messages=FRANCE, max_tokens=1)
    except openai.RateLimitError as error:
        return error
    return None


@pytest.mark.parametrize("stream", [True, False])
async def test_a_second_request_gets_429_until_the_first_client_has_left(
    client: openai.AsyncOpenAI, pod: EmbeddedPod, stream: bool
) -> None:
    essay = {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": "Count from 1 to 1000, one number per line."}],
        "max_tokens": 4000,  # minutes of work: if it went on after its client had left, the test would time out
        "temperature": 2,
        "seed": 1,
        "stream": stream,
    }

    async def occupy(session: aiohttp.ClientSession) -> None:
        status = 429  # while one of our short requests happens to run
        while status == 429:
            async with session.post(f"{pod.url}/v1/chat/completions", json=essay) as response:
                status = response.status
                await response.read()

    async with aiohttp.ClientSession() as session:
        first = asyncio.create_task(occupy(session))
        while (error := await refusal(client)) is None:
            await asyncio.sleep(0.1)
        assert int(error.response.headers["retry-after"]) >= 1
        assert error.code == "rate_limit_exceeded"
        assert not first.done()
        first.cancel()
    while await refusal(client) is not None:
        await asyncio.sleep(0.1)
    reply = await client.chat.completions.create(model="smollm2-135m", messages=FRANCE)
    assert reply.choices[0].message.content == PARIS
