"""Streams of every dialect that break, stall, lie or are cut oddly: the client gets what is right, or a clear error.

What chat does here alone, and more of it, is in test_gateway_streams.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fault_scripts import (
    COMPLETIONS,
    ERRORS,
    RESPONSES,
    STREAMING,
    TEXT,
    Wire,
    answers,
    ask,
    breaks_after,
    is_stored,
    stalls_after,
    text_in,
    whole_bytes,
    wired,
)
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, event, says, sends
from support.served import Served

each_dialect = pytest.mark.parametrize("wire", STREAMING, ids=lambda wire: wire.name)
but_chat = pytest.mark.parametrize("wire", STREAMING[1:], ids=lambda wire: wire.name)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url) as running:
        yield running


@but_chat
@pytest.mark.parametrize("how", ["reset", "close", "framed as whole"])
async def test_a_stream_without_its_last_event_ends_in_an_error_and_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, how: str
) -> None:
    *events, _ = wire.events(TEXT)
    upstream.script = breaks_after(events, how)
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.status == 200
    assert streamed.body.startswith(b"".join(events))
    assert "upstream" in wire.error_at_end(streamed)
    assert wire.stream_text(streamed) == TEXT  # all of its text came: it is the end that is missing
    whole = await ask(gateway, wire)
    assert whole.status == 502
    assert "upstream" in wire.error(whole)
    assert not await is_stored(gateway, wire)


@but_chat
async def test_a_stream_that_ends_before_any_event_is_an_error(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = breaks_after([], "framed as whole")
    assert "upstream" in wire.error_at_end(await ask(gateway, wire, stream=True))
    assert (await ask(gateway, wire)).status == 502
    assert not await is_stored(gateway, wire)


@but_chat
async def test_an_event_that_was_cut_is_not_relayed(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    first, second, *_ = wire.events(TEXT)
    upstream.script = breaks_after([first, second[:30]], "close")
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.body.startswith(first)
    assert not streamed.body.removeprefix(first).startswith(second[:30])
    assert wire.error_at_end(streamed)


@but_chat
async def test_a_stream_that_stalls_ends_in_an_error_after_the_idle_timeout_and_its_upstream_is_let_go(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = stalls_after(wire.events(TEXT)[:-1])
    async with wired(tmp_path, upstream.url, upstream={"idle_timeout": "200ms"}) as gateway:
        streamed = await ask(gateway, wire, stream=True)
        assert "idle_timeout" in wire.error_at_end(streamed)
        whole = await ask(gateway, wire)
        assert whole.status == 504
        assert "idle_timeout" in wire.error(whole)
        assert not await is_stored(gateway, wire)
    for call in upstream.calls:
        await asyncio.wait_for(call.closed.wait(), 5)


@but_chat
async def test_the_idle_timeout_runs_from_event_to_event(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async def steady(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in wire.events(TEXT):
            await exchange.chunk(one)
            await asyncio.sleep(0.25)
        await exchange.last_chunk()

    upstream.script = steady
    idle = {"idle_timeout": "800ms"}  # and 1 s or more in all
    async with wired(tmp_path, upstream.url, upstream=idle) as gateway:
        assert text_in(wire, await ask(gateway, wire, stream=True)) == TEXT


@but_chat
@pytest.mark.parametrize("named", [True, False], ids=["event: error", "data alone"])
@pytest.mark.parametrize("goes_on", [True, False], ids=["then its end", "then nothing"])
async def test_an_error_event_reaches_the_client_and_its_stream_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, named: bool, goes_on: bool
) -> None:
    *events, last = wire.events(TEXT)
    failure = (b"event: error\n" if named else b"") + event(ERRORS[wire.vendor])
    upstream.script = sends(*events, failure, *([last] if goes_on else []))
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.body.startswith(b"".join(events) + failure)
    assert streamed.body.count(b"out of memory") == 1
    if wire is COMPLETIONS:
        assert streamed.events()[-1] == "[DONE]"
        assert streamed.body.count(b"[DONE]") == 1
    whole = await ask(gateway, wire)
    assert whole.status >= 500
    assert wire.error(whole)
    assert not await is_stored(gateway, wire)


async def test_a_response_that_failed_reaches_the_client_and_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    *events, last = RESPONSES.events(TEXT)
    failed = json.loads(last.partition(b"data: ")[2])
    failed["type"] = "response.failed"
    failed["response"] |= {"status": "failed", "error": {"code": "server_error", "message": "out of memory"}}
    end = b"event: response.failed\n" + event(failed)
    upstream.script = sends(*events, end)
    assert (await ask(gateway, RESPONSES, stream=True)).body == b"".join([*events, end])
    assert not await is_stored(gateway, RESPONSES)


@but_chat
@pytest.mark.parametrize("wants_stream", [True, False], ids=["stream", "whole"])
async def test_an_error_object_under_status_200_is_an_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, wants_stream: bool
) -> None:
    upstream.script = says(ERRORS[wire.vendor])
    answered = await ask(gateway, wire, stream=wants_stream)
    if answered.headers["content-type"].startswith("text/event-stream"):
        assert wire.error_at_end(answered) == "out of memory"
    else:
        assert answered.status >= 500
        assert wire.error(answered) == "out of memory"
    assert not await is_stored(gateway, wire)


@but_chat
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
async def test_line_ends_comments_and_cuts_change_nothing(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, end: bytes, size: int
) -> None:
    first, *rest = wire.events(TEXT)
    sent = b"".join([b": hello\n\n", first, b":\n\n", *rest]).replace(b"\n", end)
    upstream.script = sends(*(sent[i : i + size] for i in range(0, len(sent), size)))
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.body.removesuffix(b"\n") == sent.removesuffix(b"\n")
    again = await ask(gateway, wire)
    assert again.is_hit
    assert text_in(wire, again) == TEXT
    assert text_in(wire, await ask(gateway, wire, stream=True)) == TEXT
    assert upstream.num_calls == 1


@but_chat
async def test_each_byte_in_a_packet_of_its_own_makes_no_difference(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    sent = b"".join(wire.events(TEXT))

    async def drip(exchange: Exchange) -> None:
        await exchange.start_stream()
        for i in range(len(sent)):
            await exchange.chunk(sent[i : i + 1])
            await asyncio.sleep(0)
        await exchange.last_chunk()

    upstream.script = drip
    assert (await ask(gateway, wire, stream=True)).body == sent
    assert text_in(wire, await ask(gateway, wire)) == TEXT


@but_chat
@pytest.mark.parametrize("in_one_packet", [True, False])
async def test_what_follows_the_end_is_no_part_of_the_reply(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, in_one_packet: bool
) -> None:
    more = wire.events("Paris, not London")
    parts = [*wire.events("Paris"), *more, b"data: garbage\n\n"]
    upstream.script = sends(b"".join(parts)) if in_one_packet else sends(*parts)
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.body.startswith(b"".join(wire.events("Paris")))
    stored = await ask(gateway, wire)
    assert stored.is_hit
    assert text_in(wire, stored) == "Paris"


@but_chat
async def test_silence_is_bridged_by_comments_before_the_head_and_an_error_after_them_is_an_event(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async with wired(tmp_path, upstream.url, server__ping_interval="50ms") as gateway:
        for number, then in enumerate((answers(wire), says(ERRORS[wire.vendor], status=529)), 1):
            upstream.script = gate = Gate(then)
            asking = asyncio.create_task(ask(gateway, wire, f"question {number}", stream=True))
            await upstream.called(number)
            await asyncio.sleep(0.3)
            gate.open()
            streamed = await asking
            assert streamed.status == 200
            assert streamed.body.startswith(b": ping\n\n: ping\n\n")
            if number == 1:
                assert streamed.body.replace(b": ping\n\n", b"") == b"".join(wire.events(TEXT))
            else:
                assert wire.error_at_end(streamed) == "out of memory"
        assert await is_stored(gateway, wire, "question 1")
        assert not await is_stored(gateway, wire, "question 2")


@but_chat
async def test_the_upstream_may_keep_its_connection_open_after_the_end(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = stalls_after(wire.events(TEXT))
    async with asyncio.timeout(10):
        assert text_in(wire, await ask(gateway, wire, stream=True)) == TEXT
        await upstream.calls[0].closed.wait()
    assert await is_stored(gateway, wire)


@but_chat
async def test_one_event_of_ten_megabytes_passes_and_is_replayed(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    text = (
        "ö" * 5_000_000 if wire is not RESPONSES else "ö" * 2_500_000
    )  # its last event says all of it again
    sent = b"".join(wire.events(text))
    upstream.script = sends(*(sent[i : i + 65_536] for i in range(0, len(sent), 65_536)))
    async with asyncio.timeout(60):
        assert (await ask(gateway, wire, stream=True)).body == sent
        assert text_in(wire, await ask(gateway, wire)) == text


@but_chat
async def test_a_line_without_end_is_bounded(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.gateway.transcript.MAX_EVENT_BYTES", 100_000)

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b"data: ")
        while True:
            await exchange.chunk(b"x" * 50_000)

    upstream.script = endless
    assert "larger than" in wire.error_at_end(await ask(gateway, wire, stream=True))
    async with asyncio.timeout(10):
        await upstream.calls[0].closed.wait()


@but_chat
async def test_a_whole_reply_to_a_streaming_request_is_streamed(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = says(wire.whole(TEXT))
    streamed = await ask(gateway, wire, stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert wire.stream_text(streamed) == TEXT
    assert (await ask(gateway, wire)).json() == wire.whole(TEXT)
    assert upstream.num_calls == 1


@but_chat
async def test_a_stream_to_a_request_that_wanted_none_becomes_one_reply(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = sends(*wire.events(TEXT))
    whole = await ask(gateway, wire)
    assert whole.headers["content-type"] == "application/json"
    assert text_in(wire, whole) == TEXT


@each_dialect
@pytest.mark.parametrize("wants_stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/html; charset=utf-8", ""])
async def test_events_under_another_content_type_are_a_clear_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, wants_stream: bool, kind: str
) -> None:
    upstream.script = whole_bytes(b"".join(wire.events(TEXT)), headers={"content-type": kind} if kind else {})
    answered = await ask(gateway, wire, stream=wants_stream)
    assert answered.status == 502
    assert "JSON" in wire.error(answered)
    assert not await is_stored(gateway, wire)


@each_dialect
@pytest.mark.parametrize("wants_stream", [True, False], ids=["stream", "whole"])
async def test_a_json_reply_that_claims_to_be_a_stream_is_a_clear_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, wants_stream: bool
) -> None:
    upstream.script = says(wire.whole(TEXT), headers={"content-type": "text/event-stream"})
    answered = await ask(gateway, wire, stream=wants_stream)
    assert wire.error_at_end(answered) if wants_stream else (answered.status, wire.error(answered))
    assert wants_stream or answered.status == 502
    assert not await is_stored(gateway, wire)


@each_dialect
async def test_a_payload_that_is_no_json_passes_as_it_came_and_its_stream_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    events = wire.events(TEXT)
    events.insert(-1, b'data: {"choices": [\n\n')
    upstream.script = sends(*events)
    assert (await ask(gateway, wire, stream=True)).body == b"".join(events)
    assert not await is_stored(gateway, wire)


@each_dialect
@pytest.mark.parametrize("lost", [1, -2])
async def test_a_stream_in_which_an_event_was_lost_or_doubled_is_never_stored_as_another_text(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, lost: int
) -> None:
    """A proxy that drops or repeats an event: what is stored, if anything, is what its client saw."""
    for prompt, events in (("lost", wire.events(TEXT)), ("doubled", wire.events(TEXT))):
        events[lost : lost + 1 or None] = [] if prompt == "lost" else [events[lost]] * 2
        upstream.script = sends(*events)
        seen = wire.stream_text(await ask(gateway, wire, prompt, stream=True))
        upstream.script = says(wire.whole("asked again"))
        after = text_in(wire, await ask(gateway, wire, prompt))
        assert after in (seen, "asked again")


@each_dialect
@pytest.mark.parametrize("wants_stream", [True, False], ids=["stream", "whole"])
async def test_a_reply_that_was_cut_at_a_length_nobody_asked_for_is_given_but_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, wants_stream: bool
) -> None:
    assert wire.cut is not None
    upstream.script = says(wire.cut(TEXT))
    assert text_in(wire, await ask(gateway, wire, stream=wants_stream)) == TEXT
    assert not await is_stored(gateway, wire)


@each_dialect
async def test_a_good_stream_is_stored_and_replayed(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """What all of the above is held against: the same replies without a fault are stored."""
    upstream.script = answers(wire)
    assert (await ask(gateway, wire, stream=True)).body == b"".join(wire.events(TEXT))
    assert await is_stored(gateway, wire)
    assert text_in(wire, await ask(gateway, wire, stream=True)) == TEXT
