"""Streams on their way through: every byte, every cut, silence, and ends that are none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.scripted_upstream import (
    DONE,
    Exchange,
    Gate,
    ScriptedUpstream,
    chunk,
    event,
    head,
    reply,
    says,
    sends,
    stream_events,
)
from support.served import Answer, Served, chat, served

CHUNKED = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}


@pytest.fixture
async def pinging(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path / "pinging", [upstream.url], server__ping_interval="50ms") as running:
        yield running


def data_of(body: bytes) -> list[bytes]:
    """The payloads of a stream in any line ending, after WHATWG HTML §9.2.6."""
    text = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    frames = [
        [line[5:].removeprefix(b" ") for line in frame.split(b"\n") if line.startswith(b"data:")]
        for frame in text.split(b"\n\n")
    ]
    return [b"\n".join(lines) for lines in frames if lines]


TEXTS = ("Zu Köln 🏰 ", "sah ich 東京,", " 👩‍👩‍👧‍👦!")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
async def test_every_event_arrives_whole_whatever_its_line_ends_and_wherever_it_is_cut(
    gateway: Served, upstream: ScriptedUpstream, end: bytes, size: int
) -> None:
    whole = b": hello" + end + end + b"".join(stream_events(*TEXTS, usage=True, end=end))
    parts = [whole[i : i + size] for i in range(0, len(whole), size)]
    upstream.script = sends(*parts)
    first = await gateway.ask(chat(stream=True, stream_options={"include_usage": True}))
    assert first.body.removesuffix(b"\n") == whole.removesuffix(b"\n")
    assert data_of(first.body) == data_of(whole)
    assert data_of(first.body)[-1] == b"[DONE]"
    again = await gateway.ask()
    assert again.is_hit
    assert again.text == "".join(TEXTS)
    assert upstream.num_calls == 1


@pytest.mark.parametrize("end", [b"\n", b"\r\n"], ids=["LF", "CRLF"])
async def test_each_byte_in_a_packet_of_its_own_makes_no_difference(
    gateway: Served, upstream: ScriptedUpstream, end: bytes
) -> None:
    whole = b"".join(stream_events("Grüße 🏰", end=end))

    async def drip(exchange: Exchange) -> None:
        await exchange.head(200, {**CHUNKED})
        for i in range(len(whole)):
            await exchange.chunk(whole[i : i + 1])
            await asyncio.sleep(0)
        await exchange.last_chunk()

    upstream.script = drip
    answered = await gateway.ask(chat(stream=True))
    assert data_of(answered.body) == data_of(whole)
    assert answered.body.endswith(end)
    assert (await gateway.ask()).text == "Grüße 🏰"


async def test_comments_pass_as_comments_and_never_become_data(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    events = stream_events("Paris")
    upstream.script = sends(b": keep-alive\n\n", events[0], b":\n\n", *events[1:])
    answered = await gateway.ask(chat(stream=True))
    assert data_of(answered.body) == data_of(b"".join(events))
    assert (await gateway.ask()).text == "Paris"


async def test_several_data_lines_a_missing_space_and_other_fields_are_read_as_the_standard_says(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    one = json.dumps(chunk({"role": "assistant", "content": "Paris"}))
    cut = one.index(",") + 1
    raw = f"id: 7\nretry: 10\ndata:{one[:cut]}\ndata:{one[cut:]}\n\n".encode()
    upstream.script = sends(raw, event(chunk({}, finish="stop")), b"event: x\n\n", b"data:[DONE]\n\n")
    answered = await gateway.ask(chat(stream=True))
    assert answered.body.startswith(raw)
    assert (await gateway.ask()).text == "Paris"


async def test_only_the_usage_event_is_taken_out_for_a_client_that_did_not_ask(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    def told(delta: Any, **more: Any) -> bytes:
        return event(chunk(delta, usage=None, **more))  # as OpenAI sends it where usage was asked for

    usage = event({**chunk({}), "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}})
    rest = [
        told({"role": "assistant", "content": 'the word "usage"'}),
        b": note\n\n",
        told({}, finish="stop"),
    ]
    upstream.script = sends(b"".join([*rest, usage, b"event: x\nid: 1\n" + DONE]))  # all in one packet
    answered = await gateway.ask(chat(stream=True))
    assert answered.body == b"".join([*rest, b"event: x\nid: 1\n" + DONE])


async def test_usage_in_a_chunk_with_choices_is_kept_and_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 0, "total_tokens": 5}
    last = event(chunk({}, finish="stop", usage=usage))
    upstream.script = sends(event(chunk({"role": "assistant", "content": "Paris"})), last, DONE)
    assert last in (await gateway.ask(chat(stream=True))).body
    assert (await gateway.ask()).json()["usage"] == usage  # explicit zeros kept


async def test_the_upstream_may_keep_its_connection_open_after_done(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async def lingers(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in stream_events("Paris"):
            await exchange.chunk(one)
        await exchange.until_closed()

    upstream.script = lingers
    assert (await gateway.ask(chat(stream=True))).text == "Paris"
    async with asyncio.timeout(10):
        await upstream.calls[0].closed.wait()
    assert (await gateway.ask()).is_hit


# Ends that are none.


def cut_after(*events: bytes, how: str) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in events:
            await exchange.chunk(one)
        if how == "reset":
            await asyncio.sleep(0.05)  # a reset throws away what the peer has not read yet
            exchange.reset()
        elif how == "close":
            exchange.close()
        elif how == "chunked end":
            await exchange.last_chunk()

    return script


@pytest.mark.parametrize("how", ["reset", "close", "chunked end"])
@pytest.mark.parametrize("had_finish", [True, False])
async def test_an_upstream_that_dies_in_mid_stream_ends_in_an_error_event_and_done(
    gateway: Served, upstream: ScriptedUpstream, how: str, had_finish: bool
) -> None:
    events = stream_events("Par", finish="stop" if had_finish else None, done=False)
    upstream.script = cut_after(*events, how=how)
    answered = await gateway.ask(chat(stream=True))
    assert answered.status == 200
    assert answered.body.startswith(b"".join(events))
    error, done = answered.events()[-2:]
    assert error["error"]["code"] == "upstream_broken"
    assert done == "[DONE]"
    assert answered.body.count(b"finish_reason") == b"".join(events).count(b"finish_reason")
    upstream.script = sends(*stream_events("Paris"))
    assert not (await gateway.ask(chat(stream=True))).is_hit


async def test_an_event_cut_in_the_middle_is_not_relayed(gateway: Served, upstream: ScriptedUpstream) -> None:
    first, second, *_ = stream_events("Paris")
    upstream.script = cut_after(first, second[:20], how="close")
    answered = await gateway.ask(chat(stream=True))
    assert answered.events()[0] == json.loads(first[6:])
    assert set(answered.events()[1]) == {"error"}
    assert len(answered.events()) == 3


async def test_the_official_sdk_raises_where_a_stream_broke(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = cut_after(*stream_events("Par", finish=None, done=False), how="close")
    got: list[str | None] = []

    async def read(stream: Any) -> None:
        async for part in stream:
            got.append(part.choices[0].delta.content)  # noqa: PERF401 - what came before the error counts

    async with openai.AsyncOpenAI(base_url=gateway.url + "/v1", api_key="k", max_retries=0) as sdk:
        stream = await sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        with pytest.raises(openai.APIError, match="broke off"):
            await read(stream)
    assert "".join(filter(None, got)) == "Par"


async def test_an_upstreams_own_error_event_is_passed_on_and_done_follows_it(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    failure = event({"error": {"message": "out of memory", "type": "server_error"}})
    for last in ((DONE,), ()):
        upstream.script = sends(*stream_events("Par", finish=None, done=False), failure, *last)
        answered = await gateway.ask(chat(stream=True))
        assert answered.events()[-2:] == [
            {"error": {"message": "out of memory", "type": "server_error"}},
            "[DONE]",
        ]
        assert answered.body.count(b"[DONE]") == 1
        assert (await gateway.ask()).status == 502
    assert upstream.num_calls == 4


async def test_a_line_without_end_is_bounded(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.gateway.transcript.MAX_EVENT_BYTES", 100_000)

    async def endless_line(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b"data: ")
        while True:
            await exchange.chunk(b"x" * 50_000)

    upstream.script = endless_line
    answered = await gateway.ask(chat(stream=True))
    assert answered.events()[0]["error"]["code"] == "upstream_broken"
    async with asyncio.timeout(10):
        await upstream.calls[0].closed.wait()


async def test_one_event_of_megabytes_in_small_packets_passes_in_linear_time(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    text = "x" * 8_000_000  # quadratic work on 8,000 packets would be 32 GB of copying
    big = b"".join(stream_events(text))
    upstream.script = sends(*(big[i : i + 1000] for i in range(0, len(big), 1000)))
    async with asyncio.timeout(20):
        assert len((await gateway.ask(chat(stream=True))).text) == len(text)


# Replies that are no stream though one was asked for.


async def test_a_whole_reply_to_a_streaming_request_is_streamed(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply("Paris."))
    first = await gateway.ask(chat(stream=True))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert (first.text, first.events()[-1]) == ("Paris.", "[DONE]")
    assert (await gateway.ask(chat(stream=True))).is_hit


async def test_a_stream_to_a_request_that_wanted_none_becomes_one_reply(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = sends(*stream_events("Paris."))
    for fields in ({}, {"n": 2}):
        answered = await gateway.ask(chat(**fields))
        assert answered.headers["content-type"] == "application/json"
        assert answered.text == "Paris."


async def test_an_error_status_with_the_content_type_of_a_stream_stays_that_error(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    body = b'data: {"error": {"message": "bad"}}\n\n'

    async def refuses(exchange: Exchange) -> None:
        await exchange.whole(body, 400, {"content-type": "text/event-stream"})

    upstream.script = refuses
    for streams in (False, True):
        answered = await gateway.ask(chat(stream=streams))
        assert (answered.status, answered.headers["content-type"]) == (400, "application/json")
        assert answered.json() == {"error": {"message": "bad"}}


@pytest.mark.parametrize("leader_streams", [False, True])
@pytest.mark.parametrize(
    "value",
    [{"error": {"message": "overloaded"}}, ["no reply"], reply(choices=[])],
    ids=["error", "list", "none"],
)
async def test_a_200_that_is_no_reply_breaks_nobody(
    gateway: Served, upstream: ScriptedUpstream, leader_streams: bool, value: Any
) -> None:
    gate = Gate(says(value))
    upstream.script = gate
    leader = asyncio.create_task(gateway.ask(chat(stream=leader_streams)))
    await upstream.called()
    followers = [asyncio.create_task(gateway.ask(chat(stream=s))) for s in (False, True)]
    await asyncio.sleep(0.05)
    gate.open()
    answers: list[Answer] = [await leader, *(await asyncio.gather(*followers))]
    for answered in answers:
        if answered.headers["content-type"].startswith("text/event-stream"):
            assert answered.events()[-2]["error"]
            assert answered.events()[-1] == "[DONE]"
        elif value == ["no reply"]:
            assert (answered.status, answered.json()["error"]["code"]) == (502, "upstream_broken")
        else:
            assert (answered.status, answered.json()) == (502 if "error" in value else 200, value)
    assert upstream.num_calls == 1


# Silence.


async def read_until(response: Any, marker: bytes) -> bytes:
    got = b""
    async with asyncio.timeout(20):
        while marker not in got:
            part = await response.content.readany()
            assert part, f"ended without {marker!r}: {got!r}"
            got += part
    return got


async def test_a_silent_upstream_is_bridged_by_pings_before_its_headers(
    pinging: Served, upstream: ScriptedUpstream
) -> None:
    gate = Gate()
    upstream.script = gate
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n: ping\n\n")
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-status"] == "openclaw-cache; fwd=miss"
        gate.open()
        got += await response.read()
    assert data_of(got)[-1] == b"[DONE]"
    again = await pinging.ask(chat(stream=True))
    assert again.is_hit
    assert b"ping" not in again.body


async def test_a_silent_upstream_is_bridged_by_pings_between_whole_events(
    pinging: Served, upstream: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()
    events = stream_events("Paris", ".")

    async def pauses_inside_an_event(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(events[0] + events[1][:15])
        await go_on.wait()
        for one in [events[1][15:], *events[2:]]:
            await exchange.chunk(one)
        await exchange.last_chunk()

    upstream.script = pauses_inside_an_event
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n")
        go_on.set()
        got += await response.read()
    assert got.replace(b": ping\n\n", b"") == b"".join(events)


async def test_an_error_after_pings_becomes_an_error_event(
    pinging: Served, upstream: ScriptedUpstream
) -> None:
    error = {"error": {"message": "overloaded", "type": "server_error", "code": "busy"}}
    gate = Gate(says(error, status=429, headers={"retry-after": "9"}))
    upstream.script = gate
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n")
        gate.open()
        got += await response.read()
    (told,) = [json.loads(d)["error"] for d in data_of(got)[:-1]]
    assert {name: told[name] for name in error["error"]} == error["error"]
    assert data_of(got)[-1] == b"[DONE]"


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>"])
async def test_an_error_without_json_after_pings_becomes_an_error_event_that_says_the_status(
    pinging: Served, upstream: ScriptedUpstream, body: bytes
) -> None:
    async def html(exchange: Exchange) -> None:
        await exchange.whole(body, 502, {"content-type": "text/html"})

    gate = Gate(html)
    upstream.script = gate
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n")
        gate.open()
        got += await response.read()
    (error, done) = data_of(got)
    assert "502" in json.loads(error)["error"]["message"]
    assert done == b"[DONE]"


async def test_a_connection_that_breaks_after_pings_becomes_an_error_event(
    pinging: Served, upstream: ScriptedUpstream
) -> None:
    async def reset(exchange: Exchange) -> None:
        exchange.reset()

    gate = Gate(reset)
    upstream.script = gate
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n")
        gate.open()
        got += await response.read()
    (error, done) = data_of(got)
    assert json.loads(error)["error"]["code"] == "upstream_broken"
    assert done == b"[DONE]"


async def test_a_whole_reply_after_pings_is_streamed(pinging: Served, upstream: ScriptedUpstream) -> None:
    gate = Gate(says(reply("Paris.")))
    upstream.script = gate
    leader = asyncio.create_task(pinging.ask())
    await upstream.called()
    async with pinging.send(chat(stream=True)) as response:
        got = await read_until(response, b": ping\n\n")
        gate.open()
        got += await response.read()
    assert (await leader).text == "Paris."
    assert b"Paris." in got
    assert data_of(got)[-1] == b"[DONE]"
    assert upstream.num_calls == 1


async def test_a_client_that_leaves_while_it_is_pinged_closes_the_upstream(
    pinging: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = Gate()
    response = await pinging.send(chat(stream=True))
    await read_until(response, b": ping\n\n")
    response.close()
    async with asyncio.timeout(1.5):
        await upstream.calls[0].closed.wait()


async def test_an_upstream_silent_for_longer_than_idle_timeout_ends_in_an_error(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async def stalls(exchange: Exchange) -> None:
        if exchange.call.json().get("stream"):
            await exchange.send(head(200, CHUNKED))
            await exchange.chunk(stream_events("Par")[0])
        await exchange.until_closed()

    upstream.script = stalls
    async with served(tmp_path, [upstream.url], upstream={"idle_timeout": "200ms"}) as gateway:
        streamed = await gateway.ask(chat(stream=True))
        assert streamed.status == 200
        assert streamed.events()[-2]["error"]["code"] == "upstream_timeout"
        assert streamed.events()[-1] == "[DONE]"
        whole = await gateway.ask()
        assert (whole.status, whole.json()["error"]["code"]) == (504, "upstream_timeout")
    for call in upstream.calls:
        await asyncio.wait_for(call.closed.wait(), 5)


async def test_idle_timeout_counts_from_event_to_event_not_in_total(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async def steady(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in stream_events(*"ten pieces"):
            await exchange.chunk(one)
            await asyncio.sleep(0.1)  # 1.3 s in all
        await exchange.last_chunk()

    upstream.script = steady
    async with served(tmp_path, [upstream.url], upstream={"idle_timeout": "1s"}) as gateway:
        assert (await gateway.ask(chat(stream=True))).text == "ten pieces"


async def test_a_client_that_reads_slowly_is_not_taken_for_a_silent_upstream(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    events = [event(chunk({"role": "assistant", "content": "x" * 60_000}))] * 300  # 18 MB
    upstream.script = sends(*events, event(chunk({}, finish="stop")), DONE)
    async with (
        served(tmp_path, [upstream.url], upstream={"idle_timeout": "300ms"}) as gateway,
        gateway.send(chat(stream=True)) as response,
    ):
        got = len(await response.content.read(1000))
        response.connection.transport.pause_reading()
        await asyncio.sleep(1.0)
        response.connection.transport.resume_reading()
        body = await response.read()
    assert body.endswith(DONE)
    assert got + len(body) == sum(map(len, events)) + len(event(chunk({}, finish="stop"))) + len(DONE)
