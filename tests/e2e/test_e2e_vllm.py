"""A real vLLM behind the gateway, as an upstream of OpenAI's kind and once more of Anthropic's: what comes through is
what vLLM says itself, and the second time it comes from the cache.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.raw_http import RawReply, encoded, post
from support.real_vllm import RealVllm, require_vllm
from support.running import RunningGateway
from support.vendor_site import HIT, MISS, STORED

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

MODEL = "smollm2"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
USER = [{"role": "user", "content": "What is the capital of France?"}]
SYSTEM = (
    "You are the guide of a museum of the sea. You answer in one short sentence, and you never guess. " * 4
)
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"messages": USER, "max_tokens": 16}),
    "chat cut": (CHAT, {"messages": USER, "max_tokens": 3}),
    "chat logprobs": (CHAT, {"messages": USER, "max_tokens": 4, "logprobs": True, "top_logprobs": 2}),
    "completion": (COMPLETIONS, {"prompt": "The sea is", "max_tokens": 6}),
    "completion echo": (COMPLETIONS, {"prompt": "The sea is", "max_tokens": 4, "echo": True, "logprobs": 1}),
    "response": (
        RESPONSES,
        {"input": "What is the capital of France?", "max_output_tokens": 16, "store": False},
    ),
    "response cut": (RESPONSES, {"input": "Tell me of the sea.", "max_output_tokens": 4, "store": False}),
    "message": (MESSAGES, {"messages": USER, "max_tokens": 16}),
    "message cut": (MESSAGES, {"messages": USER, "max_tokens": 3, "system": "Be brief."}),
    "message stopped": (MESSAGES, {"messages": USER, "max_tokens": 16, "stop_sequences": [" of"]}),
}
_OWN_TO_A_REPLY = {"id", "item_id", "created", "created_at", "completed_at", "sequence_number"}
_OWN_TO_A_CACHE = {
    *("prompt_tokens_details", "input_tokens_details"),
    *("cache_creation_input_tokens", "cache_read_input_tokens"),
}
"""How much of a prompt vLLM's own cache had: another request may have changed it."""
_OWN_TO_A_FORM = {"prompt_token_ids", "prompt_logprobs"}
"""vLLM tells the ones in streams only, the others (which `echo` and `logprobs` tell too) in whole replies only."""


@pytest.fixture(scope="module")
def vllm(model_data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealVllm]:
    require_vllm()
    [model] = [path for path in (model_data_dir / "models").iterdir() if path.is_dir()]
    with RealVllm(model, MODEL, tmp_path_factory.mktemp("vllm") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def gateway(vllm: RealVllm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    data_dir = tmp_path_factory.mktemp("gateway") / "data"
    data_dir.mkdir()
    upstreams = [{"name": kind, "kind": kind, "urls": [vllm.url]} for kind in ("openai", "anthropic")]
    with RunningGateway(data_dir, {"upstreams": upstreams}) as running:
        yield running


def asked(url: str, path: str, body: dict[str, Any], namespace: str) -> RawReply:
    """Ask as a client with a key of its own, with which it shares nothing with another."""
    headers = [
        ("content-type", "application/json"),
        ("authorization", f"Bearer sk-{namespace.encode().hex()}"),
    ]
    reply = post(url, path, encoded(body), headers)
    assert reply.status == 200, reply.body
    return reply


def request_of(name: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    path, body = REQUESTS[name]
    told = fields.get("stream") and path in (CHAT, COMPLETIONS)
    usage = {"stream_options": {"include_usage": True}} if told else {}
    return path, {"model": MODEL, "temperature": 0, **body, **fields, **usage}


def plain(value: Any) -> Any:
    """What is the same each time: without ids, times, null fields and the state of vLLM's own cache."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: plain(item)
        for name, item in value.items()
        if item is not None and name not in _OWN_TO_A_REPLY | _OWN_TO_A_CACHE
    }
    if "cache_read_input_tokens" in value:  # Anthropic's way to count: what was cached is counted apart
        kept["input_tokens"] += value["cache_read_input_tokens"] + value["cache_creation_input_tokens"]
    return kept


@pytest.mark.parametrize("name", REQUESTS)
def test_a_whole_reply_is_vllms_own_then_a_hit(name: str, vllm: RealVllm, gateway: RunningGateway) -> None:
    path, body = request_of(name)
    own = asked(vllm.url, path, body, name)
    miss = asked(gateway.url, path, body, name)
    hit = asked(gateway.url, path, body, name)
    assert (miss.cache_status, hit.cache_status) == (STORED, HIT)
    assert plain(miss.json()) == plain(own.json())
    assert hit.body == miss.body


@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_is_vllms_own_then_a_hit_that_tells_the_same(
    name: str, vllm: RealVllm, gateway: RunningGateway
) -> None:
    path, body = request_of(name, stream=True)
    own = asked(vllm.url, path, body, f"{name} streamed")
    miss = asked(gateway.url, path, body, f"{name} streamed")
    hit = asked(gateway.url, path, body, f"{name} streamed")
    assert (miss.cache_status, hit.cache_status) == (MISS, HIT)
    # Not event by event: where its reader lags, vLLM puts several tokens into one.
    assert plain(miss.events[0]) == plain(own.events[0])
    assert plain(miss.events[-1]) == plain(own.events[-1])
    assert accumulated(path, miss.events) == accumulated(path, own.events)
    assert accumulated(path, hit.events) == accumulated(path, own.events)
    assert hit.body.endswith(b"data: [DONE]\n\n") == own.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("name", REQUESTS)
def test_each_form_answers_the_other(name: str, vllm: RealVllm, gateway: RunningGateway) -> None:
    path, whole = request_of(name)
    _, stream = request_of(name, stream=True)
    asked(gateway.url, path, stream, f"{name} stream first")
    hit = asked(gateway.url, path, whole, f"{name} stream first")
    assert hit.cache_status == HIT
    assert in_any_form(plain(hit.json())) == in_any_form(plain(asked(vllm.url, path, whole, name).json()))

    asked(gateway.url, path, whole, f"{name} whole first")
    replay = asked(gateway.url, path, stream, f"{name} whole first")
    assert replay.cache_status == HIT
    assert accumulated(path, replay.events) == accumulated(path, asked(vllm.url, path, stream, name).events)


def in_any_form(value: Any) -> Any:
    """What both a stream and a whole reply tell; a stream does not tell an empty list from none."""
    if isinstance(value, list):
        return [in_any_form(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {n: in_any_form(item) for n, item in value.items() if item != [] and n not in _OWN_TO_A_FORM}


def accumulated(path: str, events: list[dict[str, Any]]) -> list[Any]:
    """Text, reason of the end, and usage that a stream's events add up to."""
    if path == RESPONSES:
        text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        return [text, plain(events[-1]["response"])]
    if path == MESSAGES:
        deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
        [end] = [e for e in events if e["type"] == "message_delta"]
        return ["".join(d["text"] for d in deltas), plain(end["delta"]), plain(end["usage"])]
    choices = [choice for event in events for choice in event["choices"]]
    texts = [choice["delta"].get("content") or "" if path == CHAT else choice["text"] for choice in choices]
    ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return ["".join(texts), ends, plain(events[-1]["usage"])]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_what_vllms_cache_had_stands_in_usage_log_and_metrics(
    path: str, vllm: RealVllm, gateway: RunningGateway
) -> None:
    if path == RESPONSES:
        body: dict[str, Any] = {"input": USER, "instructions": SYSTEM, "max_output_tokens": 4, "store": False}
    elif path == MESSAGES:
        body = {"messages": USER, "system": SYSTEM, "max_tokens": 4}
    else:
        body = {"messages": [{"role": "system", "content": SYSTEM}, *USER], "max_tokens": 4}
    body |= {"model": MODEL, "temperature": 0}
    asked(vllm.url, path, body, "first")
    expected = cached_tokens(asked(vllm.url, path, body, "again").json())
    assert expected >= 64
    before = device_tokens(gateway)
    reply = asked(gateway.url, path, body, "cached")
    assert reply.cache_status == STORED
    assert cached_tokens(reply.json()) == expected
    assert device_tokens(gateway) - before == expected
    assert logged(gateway, reply)["upstream_cached_tokens"] == expected
    # Answered by us: vLLM's cache had no part in it, but would have had one.
    hit = asked(gateway.url, path, body, "cached")
    assert hit.cache_status == HIT
    assert device_tokens(gateway) - before == expected
    line = logged(gateway, hit)
    assert (line["would_be_cached_tokens"], line.get("upstream_cached_tokens")) == (expected, None)


def cached_tokens(reply: dict[str, Any]) -> int:
    usage = reply["usage"]
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    num_tokens: int = details["cached_tokens"] if details else usage["cache_read_input_tokens"]
    return num_tokens


def device_tokens(gateway: RunningGateway) -> float:
    with urllib.request.urlopen(f"{gateway.url}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    name = 'openclaw_cache_prompt_tokens_total{source="device"} '
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def logged(gateway: RunningGateway, reply: RawReply) -> dict[str, Any]:
    """The log line of a request, which may come a moment after its reply."""
    for _ in range(100):
        for line in gateway.requests_logged():
            if line["request_id"] == reply.headers["x-request-id"]:
                return line
        time.sleep(0.05)
    raise AssertionError("the request has no log line")


def test_tokens_are_counted_by_vllm_then_by_the_cache(vllm: RealVllm, gateway: RunningGateway) -> None:
    body = {"model": MODEL, "messages": USER, "system": "Be brief."}
    path = f"{MESSAGES}/count_tokens"
    own = asked(vllm.url, path, body, "count")
    for expected in (STORED, HIT):
        reply = asked(gateway.url, path, body, "count")
        assert (reply.cache_status, reply.body) == (expected, own.body)


def test_an_error_is_vllms_own(vllm: RealVllm, gateway: RunningGateway) -> None:
    for path in (CHAT, MESSAGES):
        body = encoded({"model": MODEL, "messages": USER, "max_tokens": 100_000})
        own, told = (post(url, path, body) for url in (vllm.url, gateway.url))
        assert (told.status, told.body) == (own.status, own.body)
        assert told.status == 400


def test_the_official_sdks_read_vllm_through_the_gateway(gateway: RunningGateway) -> None:
    question = "What is the capital of France?"
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-sdk", max_retries=0) as client:
        assert MODEL in [model.id for model in client.models.list()]
        responses = []
        for _ in range(2):
            with client.responses.stream(model=MODEL, input=question, store=False, temperature=0) as stream:
                responses.append(stream.until_done().get_final_response())
        assert responses[0] == responses[1]
        assert "Paris" in responses[0].output_text
    with anthropic.Anthropic(base_url=gateway.url, api_key="sk-sdk", max_retries=0) as claude:
        messages = []
        for _ in range(2):
            with claude.messages.stream(
                model=MODEL,
                max_tokens=16,
                messages=[{"role": "user", "content": question}],
                extra_body={"temperature": 0},
            ) as said:
                messages.append(said.get_final_message())
        assert messages[0] == messages[1]
        [block] = messages[0].content
        assert block.type == "text"
        assert "Paris" in block.text
