"""What the fuzzers have found, one test for each kind: these run in no time, and say what is right."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.result.s3fifo import S3Fifo
from support.running import RunningGateway
from support.scripted_upstream import (
    DONE,
    Exchange,
    Gate,
    ScriptedUpstream,
    chunk,
    event,
    reply,
    says,
    sends,
    sends_raw,
    stream_events,
)
from support.served import Served, chat, served

ONLY_IF_CACHED = {"cache-control": "only-if-cached"}
EVENTS = b"HTTP/1.1 %d X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST = event(chunk({"role": "assistant", "content": "Par"}))


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as pod:
        yield pod
        assert pod.failures == []


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path, [upstream.url], server__ping_interval="100ms") as running:
        yield running


def code(body: bytes) -> str:
    found: str = json.loads(body)["error"]["code"]
    return found


@pytest.mark.parametrize("status", [600, 999])
async def test_a_status_that_http_does_not_have_is_a_broken_upstream(
    gateway: Served, upstream: ScriptedUpstream, status: int
) -> None:
    upstream.script = sends_raw(b"HTTP/1.1 %d X\r\ncontent-length: 2\r\n\r\n{}" % status)
    answer = await gateway.ask()
    assert (answer.status, code(answer.body)) == (502, "upstream_broken")


async def test_a_body_that_breaks_the_chunked_coding_ends_at_once(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = sends_raw(EVENTS % 200 + b"%x\r\n%b\r\nzz\r\n" % (len(FIRST), FIRST))
    answer = await gateway.ask()
    assert (answer.status, code(answer.body)) == (502, "upstream_broken")


async def test_a_stream_that_breaks_the_chunked_coding_ends_at_once_with_an_error_event(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    held = Gate(sends_raw(b"zz\r\n"), first=EVENTS % 200 + b"%x\r\n%b\r\n" % (len(FIRST), FIRST))
    upstream.script = held
    async with gateway.send(chat(stream=True)) as response:
        assert await response.content.readuntil(b"\n\n") == FIRST
        held.open()
        rest = (await response.content.read()).replace(b": ping\n\n", b"")
    error, done = rest.removesuffix(b"\n\n").split(b"\n\n")
    assert (code(error.removeprefix(b"data: ")), done) == ("upstream_broken", b"data: [DONE]")


@pytest.mark.parametrize("status", [204, 205, 304])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_without_a_body_is_no_reply(
    gateway: Served, upstream: ScriptedUpstream, status: int, stream: bool
) -> None:
    head = b"HTTP/1.1 %d X\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n"
    upstream.next_scripts = [sends_raw(head % status)]
    answer = await gateway.ask(chat(stream=stream))
    assert answer.status == 502
    assert json.loads(answer.body)["error"]["type"] == "api_error"
    assert (await gateway.ask()).text == "answer 2"  # over the same connection


@pytest.mark.parametrize("status", [204, 304])
async def test_nor_is_it_one_of_vectors(gateway: Served, upstream: ScriptedUpstream, status: int) -> None:
    upstream.script = sends_raw(b"HTTP/1.1 %d X\r\n\r\n" % status)
    answer = await gateway.ask({"model": "m", "input": "a"}, path="/v1/embeddings")
    assert (answer.status, code(answer.body)) == (502, "upstream_broken")


async def test_vectors_in_an_encoding_that_is_unknown_here_are_passed_on_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    told = {"object": "list", "data": [{"index": 0, "embedding": [0.5]}], "model": "m"}
    upstream.script = says(told, headers={"content-encoding": "snappy"})
    asked = {"model": "m", "input": "a"}
    answer = await gateway.ask(asked, path="/v1/embeddings")
    assert (answer.json(), answer.headers["content-encoding"]) == (told, "snappy")
    assert (await gateway.ask(asked, path="/v1/embeddings", headers=ONLY_IF_CACHED)).status == 504


@pytest.mark.parametrize("content", [1.5, True, {"a": 1}])
async def test_content_that_is_no_text_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, content: Any
) -> None:
    upstream.script = says(reply(content))
    assert (await gateway.ask()).json()["choices"][0]["message"]["content"] == content
    assert (await gateway.ask(headers=ONLY_IF_CACHED)).status == 504


@pytest.mark.parametrize("size_bytes", [300, 1_200, 10_000])
def test_what_was_put_a_moment_ago_is_in_memory_however_many_small_entries_came_before(
    size_bytes: int,
) -> None:
    entries: S3Fifo[int, int] = S3Fifo(2**22, ghost_cost=240)
    for number in range(40_000):
        entries.put(number, number, size_bytes)
    assert [entries.get(number) for number in range(39_980, 40_000)] == list(range(39_980, 40_000))


async def test_numbers_that_are_no_count_of_tokens_do_not_keep_a_reply_out_of_the_store(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    usage = {"input_tokens": 2**64 - 1, "cache_read_input_tokens": 2**64 - 1, "output_tokens": 1}
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Paris."}]}
    upstream.script = says({**said, "stop_reason": "end_turn", "usage": usage})
    asked, path = {"model": "m", "messages": [], "max_tokens": 9}, "/v1/messages"
    async with served(tmp_path / "own", [upstream.url], upstream={"kind": "anthropic"}) as gateway:
        first = await gateway.ask(asked, path=path)
        await gateway.written()
        gateway.forget_memory()
        second = await gateway.ask(asked, path=path, headers=ONLY_IF_CACHED)
    assert (second.is_hit, second.body) == (True, first.body)


async def test_an_error_event_that_no_blank_line_follows_reaches_the_client(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = sends(FIRST, b'event: error\ndata: {"error": {"message": "Overloaded"}}')
    answer = await gateway.ask(chat(stream=True))
    _, error, done = answer.events()
    assert (error, done) == ({"error": {"message": "Overloaded"}}, "[DONE]")


async def test_a_last_event_that_has_half_a_character_is_the_end(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    last = (
        b'data: {"type":"response.completed","response":{"status":"completed","output":[],"x":"\\ud83c"}}\n\n'
    )
    upstream.script = sends(last)
    answer = await gateway.ask({"model": "m", "input": "hi", "stream": True}, path="/v1/responses")
    assert answer.body == last


async def test_a_byte_order_mark_does_not_hide_the_first_event_behind_our_ping(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    events = [b"\xef\xbb\xbf" + stream_events("Paris.")[0], *stream_events("Paris.")[1:]]
    held = Gate(sends(*events))
    upstream.script = held
    async with gateway.send(chat(stream=True)) as response:
        assert await response.content.readuntil(b"\n\n") == b": ping\n\n"
        held.open()
        rest = await response.content.read()
    assert rest.replace(b": ping\n\n", b"").startswith(b"data: ")


@pytest.mark.parametrize("choices", [1e300, "x", {"a": 1}, 5, True])
async def test_choices_that_are_no_list_are_passed_on_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, choices: Any
) -> None:
    upstream.script = says(reply(choices=choices))
    answer = await gateway.ask()
    assert (answer.status, answer.json()["choices"]) == (200, choices)
    assert (await gateway.ask(headers=ONLY_IF_CACHED)).status == 504


async def test_a_header_with_control_characters_is_left_out(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply(), headers={"x-odd": "a\x0cb", "x-good": "c"})
    answer = await gateway.ask()
    assert (answer.status, answer.headers.get("x-odd"), answer.headers["x-good"]) == (200, None, "c")


@pytest.mark.parametrize(
    "call",
    [
        {"index": 0, "function": {"arguments": "{}"}},
        {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a'}},
    ],
)
async def test_a_tool_call_that_lost_its_beginning_or_its_end_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, call: Any
) -> None:
    events = [
        event(chunk({"role": "assistant", "tool_calls": [call]})),
        event(chunk({}, finish="tool_calls")),
    ]
    upstream.script = sends(*events, DONE)
    assert (await gateway.ask(chat(stream=True))).status == 200
    assert (await gateway.ask(chat(stream=True), headers=ONLY_IF_CACHED)).status == 504


async def test_a_chunk_that_calls_itself_an_error_is_one(gateway: Served, upstream: ScriptedUpstream) -> None:
    upstream.script = sends(FIRST, event({"type": "error", "message": "x"}), *stream_events("is."))
    assert (await gateway.ask(chat(stream=True))).status == 200
    assert (await gateway.ask(chat(stream=True), headers=ONLY_IF_CACHED)).status == 504


async def test_an_error_event_is_not_taken_for_the_usage(gateway: Served, upstream: ScriptedUpstream) -> None:
    usage = event({**chunk({}), "choices": [], "usage": {"prompt_tokens": 1}})
    upstream.script = sends(FIRST, b"event: error\n" + usage)
    answer = await gateway.ask(chat(stream=True))
    assert b"event: error\n" in answer.body


async def test_a_model_that_is_no_text_is_refused_and_does_not_spoil_the_status(gateway: Served) -> None:
    raw = b'{"model": "a\\ud800", "messages": []}'
    answer = await gateway.ask(raw=raw)
    assert (answer.status, json.loads(answer.body)["error"]["param"]) == (400, "model")
    assert (await gateway.get("/admin/status")).status == 200


async def test_what_is_no_http_behind_a_request_puts_nothing_between_the_pieces_of_its_reply(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = Gate(first=EVENTS % 200 + b"%x\r\n%b\r\n" % (len(FIRST), FIRST))
    process = RunningGateway(
        tmp_path / "process", {"upstreams": [{"name": "o", "kind": "openai", "urls": [upstream.url]}]}
    )
    await asyncio.to_thread(process.start)
    try:
        host, port = process.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps(chat(stream=True)).encode()
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: %b\r\n" % host.encode())
        writer.write(b"content-length: %d\r\n\r\n%b" % (len(body), body))
        await reader.readuntil(FIRST)
        writer.write(b"\x16\x03\x01 no HTTP\r\n\r\n")
        rest = b""
        with contextlib.suppress(ConnectionResetError):
            rest = await reader.read()
        writer.close()
    finally:
        await asyncio.to_thread(process.__exit__)
    assert b"HTTP/1.1 400" not in rest
    assert "Traceback" not in process.log()


@pytest.mark.parametrize(
    "listed",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"data": 5}',
        b'{"data": [5, {"id": 7}, {}]}',
        b'{"data": [{"id": "m", "x": ' + b"[" * 500 + b"]" * 500 + b"}]}",
        b'{"data": [{"id": "m"}], "x": "' + b"a" * 17 * 2**20 + b'"}',
    ],
)
async def test_a_list_of_models_that_is_none_is_left_out(
    gateway: Served, upstream: ScriptedUpstream, listed: bytes
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(listed, headers={"content-type": "application/json"})

    upstream.get_script = script
    answer = await gateway.get("/v1/models")
    assert (answer.status, answer.json()) == (200, {"object": "list", "data": []})


async def test_an_order_that_is_nested_too_deeply_is_refused(gateway: Served) -> None:
    raw = b'{"prompts": [{"messages": [{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}]}]}"
    assert (await gateway.ask(raw=raw, path="/admin/warm")).status == 400


async def test_one_byte_at_a_time_says_the_same(gateway: Served, upstream: ScriptedUpstream) -> None:
    whole = b"".join(stream_events("Zu Köln 🏰"))

    async def script(exchange: Exchange) -> None:
        await exchange.stream(whole[i : i + 1] for i in range(len(whole)))

    upstream.script = script
    assert (await gateway.ask(chat(stream=True))).body.replace(b": ping\n\n", b"") == whole
