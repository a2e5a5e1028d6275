"""The exact result cache through the gateway: hits, what they replay, and what never becomes one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import openai
import pytest

from support.scripted_upstream import (
    DONE,
    USAGE,
    ScriptedUpstream,
    chunk,
    event,
    reply,
    says,
    sends,
    sends_raw,
    stream_events,
    wants_usage,
)
from support.served import Answer, Served, chat, served

HIT = "openclaw-cache; hit; detail=exact"
MISS = "openclaw-cache; fwd=miss"
STORED = "openclaw-cache; fwd=miss; stored"


async def assert_never_stored(
    gateway: Served, upstream: ScriptedUpstream, body: Any
) -> tuple[Answer, Answer]:
    """Ask twice: two upstream calls and no hit."""
    first, second = await gateway.ask(body), await gateway.ask(body)
    assert upstream.num_calls == 2
    assert not first.is_hit
    assert not second.is_hit
    assert "stored" not in (first.cache_status or "")
    return first, second


async def test_the_same_request_again_is_a_hit_with_the_same_bytes_and_no_call(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    first, second = await gateway.ask(), await gateway.ask()
    assert (first.status, first.cache_status) == (200, STORED)
    assert (second.status, second.cache_status) == (200, HIT)
    assert "age" not in first.headers
    assert int(second.headers["age"]) in range(60)
    assert second.body == first.body
    assert second.headers["content-type"] == "application/json"
    assert upstream.num_calls == 1
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


async def test_the_clients_own_request_id_comes_back_and_goes_up_once(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    answered = await gateway.ask(headers={"x-request-id": "mine-1"})
    assert answered.headers.getall("x-request-id") == ["mine-1"]
    assert [v for n, v in upstream.calls[0].headers if n == "x-request-id"] == ["mine-1"]


@pytest.mark.parametrize("first_streams", [False, True])
@pytest.mark.parametrize("second_streams", [False, True])
async def test_stream_and_whole_share_one_entry_both_ways(
    gateway: Served, upstream: ScriptedUpstream, first_streams: bool, second_streams: bool
) -> None:
    first = await gateway.ask(chat(stream=first_streams))
    second = await gateway.ask(chat(stream=second_streams))
    assert first.cache_status == (MISS if first_streams else STORED)
    assert second.cache_status == HIT
    assert first.text == second.text == "answer 1"
    assert upstream.num_calls == 1
    kind = "text/event-stream; charset=utf-8" if second_streams else "application/json"
    assert second.headers["content-type"] == kind
    if second_streams:
        assert second.events()[-1] == "[DONE]"
        assert [e["choices"][0]["finish_reason"] for e in second.events()[:-1]][-1] == "stop"
    else:
        assert second.json()["usage"] == USAGE


@pytest.mark.parametrize("first_asks", [False, True])
@pytest.mark.parametrize("second_asks", [False, True])
async def test_each_streaming_client_gets_usage_exactly_if_it_asked(
    gateway: Served, upstream: ScriptedUpstream, first_asks: bool, second_asks: bool
) -> None:
    def body(asks: bool) -> Any:
        return chat(stream=True, stream_options={"include_usage": True}) if asks else chat(stream=True)

    answers = [(await gateway.ask(body(asks)), asks) for asks in (first_asks, second_asks)]
    assert upstream.num_calls == 1
    assert wants_usage(upstream.calls[0])  # asked on the client's behalf, so that the entry has it
    for answer, asks in answers:
        usages = [e["usage"] for e in answer.events()[:-1] if e.get("usage")]
        assert usages == ([USAGE] if asks else [])
        assert any(e["choices"] == [] for e in answer.events()[:-1]) is asks


async def test_where_usage_must_not_be_asked_for_a_client_that_wants_it_is_no_hit(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], upstream={"ask_usage": False}) as gateway:
        first = await gateway.ask(chat(stream=True))
        assert not wants_usage(upstream.calls[0])
        again = await gateway.ask(chat(stream=True))
        asking = await gateway.ask(chat(stream=True, stream_options={"include_usage": True}))
        whole = await gateway.ask(chat())
    assert [a.is_hit for a in (first, again, asking, whole)] == [False, True, False, True]
    assert whole.json()["usage"] == USAGE


async def test_an_upstream_that_never_reports_usage_is_cached_all_the_same(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    silent = reply("no counts")
    del silent["usage"]
    upstream.script = says(silent)
    await gateway.ask()
    assert (await gateway.ask()).is_hit
    assert (await gateway.ask(chat(stream=True))).is_hit


RICH_MESSAGE = {
    "role": "assistant",
    "content": "Zu Köln 🏰 sah ich 東京 👩‍👩‍👧‍👦.",
    "reasoning_content": "First the tower, then the river.",
    "refusal": None,
    "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": "tower 🏰"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "swim", "arguments": "{}"}},
    ],
    "x_vendor": {"nested": [1, 2.5, None, "é"]},
}
RICH = reply(
    choices=[
        {
            "index": 0,
            "message": RICH_MESSAGE,
            "logprobs": {
                "content": [{"token": "Zu", "logprob": -0.25, "bytes": [90, 117], "top_logprobs": []}]
            },
            "finish_reason": "tool_calls",
            "stop_reason": 151645,
        }
    ],
    system_fingerprint="fp_1",
    service_tier="default",
    usage={**USAGE, "prompt_tokens_details": {"cached_tokens": 0}, "x_vendor_usage": 1},
    x_unknown={"kept": True},
)


async def test_tool_calls_logprobs_reasoning_and_unknown_fields_survive(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(RICH)
    first = await gateway.ask()
    second = await gateway.ask()
    streamed = await gateway.ask(chat(stream=True, stream_options={"include_usage": True}))
    assert first.json() == second.json() == RICH
    assert second.is_hit
    assert streamed.is_hit
    events = streamed.events()[:-1]
    assert any(e.get("x_unknown") == {"kept": True} for e in events)
    assert all(e["system_fingerprint"] == "fp_1" for e in events)
    assert events[-1]["usage"] == RICH["usage"]
    deltas = [choice["delta"] for e in events for choice in e["choices"]]
    assert "".join(d.get("content") or "" for d in deltas) == RICH_MESSAGE["content"]
    assert "".join(d.get("reasoning_content") or "" for d in deltas) == RICH_MESSAGE["reasoning_content"]
    assert any(d.get("x_vendor") == RICH_MESSAGE["x_vendor"] for d in deltas)
    calls: dict[int, str] = {}
    for delta in deltas:
        for call in delta.get("tool_calls", ()):
            calls[call["index"]] = calls.get(call["index"], "") + call["function"].get("arguments", "")
    assert calls == {0: '{"at": "tower 🏰"}', 1: "{}"}


async def test_a_streamed_reply_with_everything_comes_back_whole(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": '{"at":1}'}}
    upstream.script = sends(
        event(chunk({"role": "assistant", "content": None, "reasoning_content": "Hm"}, x_unknown=7)),
        event(chunk({"reasoning_content": "m."})),
        event(chunk({"tool_calls": [call]})),
        event(chunk({"tool_calls": [rest]})),
        event(chunk({}, finish="tool_calls")),
        event({**chunk({}), "choices": [], "usage": USAGE}),
        DONE,
    )
    await gateway.ask(chat(stream=True))
    whole = await gateway.ask()
    assert whole.is_hit
    message = whole.json()["choices"][0]["message"]
    assert message["reasoning_content"] == "Hmm."
    assert message["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
    ]
    assert whole.json()["x_unknown"] == 7
    assert upstream.num_calls == 1


async def test_the_official_sdk_reads_hits_of_both_kinds(gateway: Served, upstream: ScriptedUpstream) -> None:
    upstream.script = says(RICH)
    async with openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key="k", max_retries=0) as sdk:
        messages: Any = [{"role": "user", "content": "hi"}]
        first = await sdk.chat.completions.create(model="pod-model", messages=messages)
        hit = await sdk.chat.completions.with_raw_response.create(model="pod-model", messages=messages)
        assert hit.headers["cache-status"] == HIT
        assert hit.parse() == first
        assert first.choices[0].message.tool_calls is not None
        async with sdk.chat.completions.stream(model="pod-model", messages=messages) as stream:
            final = await stream.get_final_completion()
    assert upstream.num_calls == 1
    assert final.choices[0].message.content == RICH_MESSAGE["content"]
    assert final.choices[0].finish_reason == "tool_calls"
    assert [c.function.arguments for c in final.choices[0].message.tool_calls or ()] == [
        '{"at": "tower 🏰"}',
        "{}",
    ]


async def test_a_hit_in_valkey_alone_is_a_hit(gateway: Served, upstream: ScriptedUpstream) -> None:
    first = await gateway.ask()
    await gateway.written()
    gateway.forget_memory()
    second = await gateway.ask()
    assert second.is_hit
    assert second.body == first.body
    assert upstream.num_calls == 1


async def test_a_corrupt_entry_is_a_miss_and_is_removed(gateway: Served, upstream: ScriptedUpstream) -> None:
    store = gateway.app.gateway.cache._store
    await gateway.ask()
    await gateway.written()
    (key,) = [k async for k in store.scan(b"r:")]
    stored = await store.get(key)
    assert stored is not None
    broken = stored[:-3] + bytes([stored[-3] ^ 1]) + stored[-2:]
    await store.put(key, broken)
    gateway.forget_memory()
    again = await gateway.ask(headers={"cache-control": "only-if-cached"})
    assert again.status == 504
    assert await store.get(key) is None
    assert await gateway.metric('openclaw_cache_degraded_total{what="entry_corrupt"}') == 1
    assert (await gateway.ask()).cache_status == STORED
    assert (await gateway.ask()).is_hit
    assert upstream.num_calls == 2


# Never stored.


def plain(**choice: Any) -> Any:
    changed = reply()
    changed["choices"][0].update(choice)
    return changed


NOT_STORABLE_REPLIES = {
    "error object with 200": {"error": {"message": "overloaded", "type": "server_error"}},
    "refusal": plain(message={"role": "assistant", "content": None, "refusal": "I cannot."}),
    "content_filter": plain(finish_reason="content_filter"),
    "no finish_reason": plain(finish_reason=None),
    "length without a limit of the request": plain(finish_reason="length"),
    "unknown finish_reason": plain(finish_reason="abort"),
    "empty": plain(message={"role": "assistant", "content": ""}),
    "no choices": reply(choices=[]),
    "not an object": ["surprise"],
}


@pytest.mark.parametrize("name", NOT_STORABLE_REPLIES)
async def test_a_whole_reply_that_is_no_complete_answer_is_passed_on_and_never_stored(
    gateway: Served, upstream: ScriptedUpstream, name: str
) -> None:
    upstream.script = says(NOT_STORABLE_REPLIES[name])
    first, second = await assert_never_stored(gateway, upstream, chat())
    if name == "not an object":
        assert (first.status, first.json()["error"]["code"]) == (502, "upstream_broken")
        return
    assert first.status == (502 if name.startswith("error object") else 200)
    assert first.json() == second.json() == NOT_STORABLE_REPLIES[name]


NOT_STORABLE_STREAMS = {
    "error event": [
        *stream_events("Par", finish=None, done=False),
        event({"error": {"message": "oom"}}),
        DONE,
    ],
    "named error event": [
        *stream_events("Par", finish=None, done=False),
        b'event: error\ndata: {"message": "oom"}\n\n',
        DONE,
    ],
    "refusal": [
        event(chunk({"role": "assistant", "refusal": "I cannot."})),
        event(chunk({}, finish="stop")),
        DONE,
    ],
    "content_filter": stream_events("Par", finish="content_filter"),
    "no finish_reason": stream_events("Par", finish=None),
    "no [DONE]": stream_events("Paris.", done=False),
    "length without a limit of the request": stream_events("Par", finish="length", usage=True),
    "chunk that is no JSON": [*stream_events("Par", done=False), event(b"{oops"), DONE],
    "two finish_reasons": [*stream_events("Par", done=False), event(chunk({}, finish="length")), DONE],
}


@pytest.mark.parametrize("name", NOT_STORABLE_STREAMS)
async def test_a_stream_that_is_no_complete_answer_is_never_stored(
    gateway: Served, upstream: ScriptedUpstream, name: str
) -> None:
    upstream.script = sends(*NOT_STORABLE_STREAMS[name])
    await assert_never_stored(gateway, upstream, chat(stream=True))


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_error_keeps_its_status_and_body_and_is_never_stored(
    tmp_path: Path, upstream: ScriptedUpstream, status: int
) -> None:
    error = {"error": {"message": "no", "type": "t", "param": None, "code": "c"}}
    upstream.script = says(error, status=status, headers={"retry-after": "60"})
    async with served(tmp_path, [upstream.url], result_cache__negative_ttl="0s") as gateway:
        first, _ = await assert_never_stored(gateway, upstream, chat())
        assert (first.status, first.json()) == (status, error)
        streamed = await gateway.ask(chat(stream=True))
        assert (streamed.status, streamed.json()) == (status, error)


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("streams", [False, True])
async def test_length_is_stored_only_where_usage_equals_the_requests_own_limit(
    gateway: Served, upstream: ScriptedUpstream, field: str, streams: bool
) -> None:
    cut = reply("one two three", finish="length")  # its usage says 3 completion tokens
    upstream.script = sends(*stream_events("one two", finish="length", usage=True)) if streams else says(cut)
    await gateway.ask(chat(stream=streams, **{field: 3}))
    assert (await gateway.ask(chat(stream=streams, **{field: 3}))).is_hit
    await gateway.ask(chat(stream=streams, **{field: 4}))
    assert not (await gateway.ask(chat(stream=streams, **{field: 4}))).is_hit
    assert upstream.num_calls == 3


async def test_a_whole_reply_cut_by_its_connection_is_502_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    body = json.dumps(reply()).encode()
    top = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    upstream.next_scripts = [sends_raw(top + body[:-10])]
    cut = await gateway.ask()
    assert cut.status == 502
    assert cut.json()["error"]["code"] == "upstream_broken"
    assert (await gateway.ask()).cache_status == STORED


async def test_a_reply_whose_client_left_is_not_stored(gateway: Served, upstream: ScriptedUpstream) -> None:
    async def half(exchange: Any) -> None:
        await exchange.start_stream()
        await exchange.chunk(stream_events("half")[0])
        await exchange.until_closed()

    upstream.next_scripts = [half]
    async with gateway.send(chat(stream=True)) as response:
        await response.content.readany()
        response.close()
    async with asyncio.timeout(10):
        while gateway.num_flights:
            await asyncio.sleep(0.01)
    after = await gateway.ask()
    assert after.cache_status == STORED
    assert upstream.num_calls == 2


async def test_a_deeply_nested_reply_is_passed_on_and_never_breaks_a_later_request(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    deep: Any = 1
    for _ in range(400):
        deep = [deep]
    upstream.script = says(reply(x_deep=deep))
    assert (await gateway.ask()).json()["x_deep"] == deep
    for streams in (False, True):
        assert (await gateway.ask(chat(stream=streams))).status == 200


async def test_entries_expire_by_age_alone(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path, [upstream.url], result_cache__ttl="300ms") as gateway:
        await gateway.ask()
        for _ in range(200):  # hits do not lengthen its life
            if not (await gateway.ask()).is_hit:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the entry never expired")
    assert upstream.num_calls == 2
