"""Single flight: identical requests in the air make one upstream call, and nobody pays for another's ways."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import (
    DONE,
    Exchange,
    Gate,
    ScriptedUpstream,
    answer,
    chunk,
    event,
    says,
    wants_usage,
)
from support.served import Answer, Served, chat, served

COLLAPSED = "openclaw-cache; fwd=miss; collapsed"


async def readers(gateway: Served, number: int) -> None:
    """Wait until this many requests read the one flight in the air."""
    flights = gateway.app.gateway.flights._by_key
    async with asyncio.timeout(20):
        while sum(flight.num_readers for flight in flights.values()) != number:
            await asyncio.sleep(0.005)


async def asked(gateway: Served, gate: Gate, bodies: list[Any]) -> list[Answer]:
    """Send all bodies at once, open the gate when all of them read the same flight."""
    tasks = [asyncio.create_task(gateway.ask(body)) for body in bodies]
    await readers(gateway, len(bodies))
    gate.open()
    return await asyncio.gather(*tasks)


class Live:
    """A stream that a test advances event by event."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self._started = asyncio.Event()
        self._over = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        await exchange.start_stream()
        self._started.set()
        await self._over.wait()

    async def say(self, *events: bytes) -> None:
        await self._started.wait()
        assert self.exchange is not None
        for one in events:
            await self.exchange.chunk(one)

    async def end(self) -> None:
        assert self.exchange is not None
        await self.exchange.last_chunk()
        self._over.set()

    def give_up(self) -> None:
        self._over.set()


def said(text: str) -> bytes:
    return event(chunk({"role": "assistant", "content": text}))


FINISH = event(chunk({}, finish="stop"))


async def read_until(response: Any, marker: bytes) -> bytes:
    """Read a streamed response until a marker has come."""
    got = b""
    async with asyncio.timeout(20):
        while marker not in got:
            part = await response.content.readany()
            assert part, f"ended without {marker!r}: {got!r}"
            got += part
    return got


@pytest.mark.parametrize("kind", ["whole", "stream", "mixed"])
async def test_twenty_identical_requests_make_one_call_and_get_one_reply(
    gateway: Served, upstream: ScriptedUpstream, kind: str
) -> None:
    gate = Gate()
    upstream.script = gate
    streams = {"whole": [False] * 20, "stream": [True] * 20, "mixed": [False, True] * 10}[kind]
    answers = await asked(gateway, gate, [chat(stream=s) for s in streams])
    assert upstream.num_calls == 1
    assert {a.status for a in answers} == {200}
    assert {a.text for a in answers} == {"answer 1"}
    assert sorted((a.cache_status or "").partition("; stored")[0] for a in answers) == (
        ["openclaw-cache; fwd=miss"] + [COLLAPSED] * 19
    )
    for answered, streamed in zip(answers, streams, strict=True):
        if streamed:
            assert answered.events()[-1] == "[DONE]"
            assert not any(e.get("usage") for e in answered.events()[:-1])
        else:
            assert answered.json()["usage"]["completion_tokens"] == 3
    assert gateway.num_flights == 0
    assert await gateway.metric('openclaw_cache_requests_total{api="chat",outcome="collapsed"}') == 19
    assert (await gateway.ask()).is_hit


async def test_a_late_follower_gets_everything_from_the_first_event_then_follows_live(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    live = Live()
    upstream.script = live
    async with gateway.send(chat(stream=True)) as first:
        await live.say(said("one "), said("two "))
        early = await read_until(first, b"two ")
        async with gateway.send(chat(stream=True)) as second:
            late = await read_until(second, b"two ")
            assert late == early
            assert second.headers["cache-status"] == COLLAPSED
            await live.say(said("three"))
            early += await read_until(first, b"three")
            late += await read_until(second, b"three")
            await live.say(FINISH, DONE)
            await live.end()
            assert early + await first.read() == late + await second.read()
    assert upstream.num_calls == 1


async def test_the_leader_may_leave_before_the_head(gateway: Served, upstream: ScriptedUpstream) -> None:
    gate = Gate()
    upstream.script = gate
    leader = asyncio.create_task(gateway.ask())
    await upstream.called()
    followers = [asyncio.create_task(gateway.ask(chat(stream=s))) for s in (False, True)]
    await readers(gateway, 3)
    leader.cancel()
    await readers(gateway, 2)
    gate.open()
    assert {a.text for a in await asyncio.gather(*followers)} == {"answer 1"}
    assert upstream.num_calls == 1
    assert (await gateway.ask()).is_hit


@pytest.mark.parametrize("events_before", [0, 1])
async def test_the_leader_may_leave_before_the_first_token_and_in_mid_stream(
    gateway: Served, upstream: ScriptedUpstream, events_before: int
) -> None:
    live = Live()
    upstream.script = live
    leader = await gateway.send(chat(stream=True))
    async with gateway.send(chat(stream=True)) as follower:
        await readers(gateway, 2)
        if events_before:
            await live.say(said("one "))
            await read_until(leader, b"one ")
        leader.close()
        await readers(gateway, 1)
        await live.say(said("two"), FINISH, DONE)
        await live.end()
        rest = await follower.read()
    assert (b"one " in rest) is bool(events_before)
    assert rest.endswith(said("two") + FINISH + DONE)
    assert upstream.num_calls == 1
    assert not upstream.calls[0].closed.is_set()
    assert (await gateway.ask(chat(stream=True))).is_hit


@pytest.mark.parametrize("streams", [False, True])
async def test_the_last_one_to_leave_before_the_head_closes_the_upstream_within_a_second(
    gateway: Served, upstream: ScriptedUpstream, streams: bool
) -> None:
    upstream.script = Gate()
    tasks = [asyncio.create_task(gateway.ask(chat(stream=streams))) for _ in range(3)]
    await readers(gateway, 3)
    call = await upstream.called()
    for task in tasks[:-1]:
        task.cancel()
    await readers(gateway, 1)
    assert not call.closed.is_set()
    left_at = time.monotonic()
    tasks[-1].cancel()
    async with asyncio.timeout(20):
        await call.closed.wait()
    assert call.closed_at is not None
    assert call.closed_at - left_at < 1.0
    assert gateway.num_flights == 0
    assert upstream.num_calls == 1


@pytest.mark.parametrize("before_first_token", [True, False])
async def test_the_last_one_to_leave_a_stream_closes_the_upstream_within_a_second(
    gateway: Served, upstream: ScriptedUpstream, before_first_token: bool
) -> None:
    live = Live()
    upstream.script = live
    response = await gateway.send(chat(stream=True))
    call = await upstream.called()
    if not before_first_token:
        await live.say(said("one"))
        await read_until(response, b"one")
    left_at = time.monotonic()
    response.close()
    async with asyncio.timeout(20):
        await call.closed.wait()
    assert call.closed_at is not None
    assert call.closed_at - left_at < 1.0
    live.give_up()
    await readers(gateway, 0)
    upstream.script = answer
    assert (await gateway.ask(chat(stream=True))).text == "answer 2"


async def test_a_whole_reply_whose_client_left_closes_the_upstream_in_mid_body(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async def half_a_body(exchange: Exchange) -> None:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        )
        await exchange.until_closed()

    upstream.script = half_a_body
    task = asyncio.create_task(gateway.ask())
    call = await upstream.called()
    await asyncio.sleep(0.05)
    left_at = time.monotonic()
    task.cancel()
    async with asyncio.timeout(20):
        await call.closed.wait()
    assert call.closed_at is not None
    assert call.closed_at - left_at < 1.0


async def test_a_bypassing_request_whose_client_left_closes_its_upstream_too(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = Gate()
    task = asyncio.create_task(gateway.ask(chat(n=2)))
    call = await upstream.called()
    task.cancel()
    async with asyncio.timeout(1.5):
        await call.closed.wait()


async def test_an_upstream_failure_reaches_every_follower_once_and_is_not_shared_with_later_ones(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    error = {"error": {"message": "overloaded", "type": "server_error"}}
    gate = Gate(says(error, status=500))
    upstream.script = gate
    answers = await asked(gateway, gate, [chat(stream=s) for s in (False, True) * 5])
    assert upstream.num_calls == 1
    assert [(a.status, a.json()) for a in answers] == [(500, error)] * 10
    upstream.script = answer
    assert (await gateway.ask()).text == "answer 2"


async def test_a_connection_that_breaks_before_the_head_fails_every_follower_alike(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async def reset(exchange: Exchange) -> None:
        exchange.reset()

    gate = Gate(reset)
    upstream.script = gate
    answers = await asked(gateway, gate, [chat(stream=s) for s in (False, True) * 3])
    assert upstream.num_calls == 1
    assert {(a.status, a.json()["error"]["code"]) for a in answers} == {(502, "upstream_broken")}
    upstream.script = answer
    assert (await gateway.ask()).text == "answer 2"


async def test_a_stream_that_breaks_fails_every_follower_after_the_same_events(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    live = Live()
    upstream.script = live
    tasks = [asyncio.create_task(gateway.ask(chat(stream=True))) for _ in range(5)]
    whole = asyncio.create_task(gateway.ask())
    await readers(gateway, 6)
    await live.say(said("one "), said("two"))
    assert live.exchange is not None
    live.exchange.reset()
    live.give_up()
    answers = await asyncio.gather(*tasks)
    assert len({a.body for a in answers}) == 1
    events = answers[0].events()
    assert answers[0].text == "one two"
    assert events[-2]["error"]["code"] == "upstream_broken"
    assert events[-1] == "[DONE]"
    assert (await whole).status == 502
    assert upstream.num_calls == 1
    upstream.script = answer
    assert (await gateway.ask(chat(stream=True))).text == "answer 2"


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"temperature": 0.7}, {}),
        ({"n": 2}, {}),
        ({}, {"cache-control": "no-cache"}),
        ({}, {"cache-control": "no-store"}),
    ],
    ids=["temperature without seed", "n", "no-cache", "no-store"],
)
async def test_requests_that_want_their_own_sample_never_join(
    gateway: Served, upstream: ScriptedUpstream, fields: Any, headers: Any
) -> None:
    gate = Gate()
    upstream.script = gate
    tasks = [asyncio.create_task(gateway.ask(chat(**fields), headers=headers)) for _ in range(4)]
    await upstream.called(4)
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert len({a.text for a in answers}) == 4
    assert not any("collapsed" in (a.cache_status or "") for a in answers)


async def test_a_seed_makes_a_sampled_request_joinable(gateway: Served, upstream: ScriptedUpstream) -> None:
    gate = Gate()
    upstream.script = gate
    await asked(gateway, gate, [chat(temperature=0.7, seed=1)] * 3)
    assert upstream.num_calls == 1


async def test_a_no_cache_request_does_not_join_a_flight_that_was_there_before(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    gate = Gate()
    upstream.script = gate
    first = asyncio.create_task(gateway.ask())
    await upstream.called()
    fresh = asyncio.create_task(gateway.ask(headers={"cache-control": "no-cache"}))
    await upstream.called(2)
    gate.open()
    assert {(await first).text, (await fresh).text} == {"answer 1", "answer 2"}


async def test_different_namespaces_never_share_a_flight(gateway: Served, upstream: ScriptedUpstream) -> None:
    gate = Gate()
    upstream.script = gate
    tasks = [
        asyncio.create_task(gateway.ask(headers={"authorization": f"Bearer {key}"})) for key in ("a", "b")
    ]
    await upstream.called(2)
    gate.open()
    assert len({(await task).text for task in tasks}) == 2


async def test_who_wants_usage_does_not_follow_a_stream_that_will_not_tell_it(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    gate = Gate()
    upstream.script = gate
    async with served(tmp_path, [upstream.url], upstream={"ask_usage": False}) as gateway:
        silent = asyncio.create_task(gateway.ask(chat(stream=True)))
        await upstream.called()
        telling = asyncio.create_task(gateway.ask(chat(stream=True, stream_options={"include_usage": True})))
        await upstream.called(2)
        assert [wants_usage(c) for c in upstream.calls] == [False, True]
        whole = asyncio.create_task(gateway.ask(chat()))  # follows the one that tells
        await readers(gateway, 2)
        gate.open()
        assert not any(e.get("usage") for e in (await silent).events()[:-1])
        assert any(e.get("usage") for e in (await telling).events()[:-1])
        assert (await whole).json()["usage"]["prompt_tokens"] == 9
    assert upstream.num_calls == 2


def unread_request(port: int, body: bytes) -> socket.socket:
    """A client that sends a request and then reads nothing, with a small receive buffer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    client.connect(("127.0.0.1", port))
    client.sendall(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n" % len(body)
        + body
    )
    return client


def stream_body() -> bytes:
    import json  # noqa: PLC0415

    return json.dumps(chat(stream=True)).encode()


async def test_a_slow_reader_does_not_hold_up_a_fast_one(gateway: Served, upstream: ScriptedUpstream) -> None:
    events = [said("x" * 10_000)] * 1500 + [FINISH, DONE]  # 15 MB: more than the sockets hold

    async def much(exchange: Exchange) -> None:
        await exchange.stream(events)

    gate = Gate(much)
    upstream.script = gate
    slow = unread_request(int(gateway.url.rpartition(":")[2]), stream_body())
    fast = asyncio.create_task(gateway.ask(chat(stream=True)))
    await readers(gateway, 2)
    gate.open()
    async with asyncio.timeout(60):
        assert len((await fast).body) == sum(map(len, events))
    assert upstream.num_calls == 1
    slow.setblocking(False)
    got = 0
    async with asyncio.timeout(60):  # and the slow one misses nothing
        while got < sum(map(len, events)):
            got += len(await asyncio.get_running_loop().sock_recv(slow, 1 << 20))
    slow.close()


async def test_a_client_that_does_not_read_bounds_what_is_read_from_the_upstream(tmp_path: Path) -> None:
    total = 200_000_000

    async def endless(exchange: Exchange) -> None:
        await exchange.start_stream()
        block = said("x" * 60_000)
        while exchange.sent_bytes < total:
            await exchange.chunk(block)

    async with (
        ScriptedUpstream(endless, send_buffer_bytes=64 * 1024) as upstream,
        served(tmp_path, [upstream.url]) as gateway,
    ):
        client = unread_request(int(gateway.url.rpartition(":")[2]), stream_body())
        await upstream.called()
        await asyncio.sleep(0)
        exchange, before = upstream.exchanges[0], -1
        while exchange.sent_bytes != before:  # until nothing moves any more
            before = exchange.sent_bytes
            await asyncio.sleep(0.5)
        # The sockets' buffers (6 MB for receiving, 4 MB for sending, by Linux's defaults) and a little.
        assert 0 < exchange.sent_bytes < 20_000_000
        client.close()
        async with asyncio.timeout(20):
            await upstream.calls[0].closed.wait()


async def test_a_reply_too_long_to_hold_is_relayed_but_not_held(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.gateway.flight.MAX_HELD_BYTES", 100_000)
    live = Live()
    upstream.script = live
    flights = gateway.app.gateway.flights._by_key
    async with gateway.send(chat(stream=True)) as first:
        await upstream.called()
        (flight,) = flights.values()
        total = b""
        for _ in range(100):
            await live.say(said("y" * 5_000))
            total += await read_until(first, b'y"}')
        assert flight.oversize
        assert sum(map(len, flight.blocks)) < 250_000
        assert sum(map(len, flight.transcript.events)) < 250_000  # type: ignore[union-attr]
        second = asyncio.create_task(
            gateway.ask(chat(stream=True))
        )  # its beginning is gone: a call of its own
        upstream.script = answer
        assert (await second).text == "answer 2"
        await live.say(FINISH, DONE)
        await live.end()
        total += await first.read()
    assert total.count(b"y" * 5_000) == 100
    assert total.endswith(FINISH + DONE)


async def test_a_failing_recorder_does_not_leave_a_flight_behind(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("openclaw_cache.gateway.recorder.Recorder.record", broken)
        with contextlib.suppress(Exception):
            await gateway.ask(chat(stream=True))
    assert gateway.num_flights == 0
    assert (await gateway.ask(chat(stream=True))).text == "answer 2"


async def test_the_store_is_asked_before_a_flight_but_a_flight_that_lands_meanwhile_is_seen(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = gateway.app.gateway.cache
    find, asked_store, go_on = cache.find, asyncio.Event(), asyncio.Event()

    async def slow_find(*args: Any) -> Any:
        found = await find(*args)
        asked_store.set()
        await go_on.wait()
        return found

    gate = Gate()
    upstream.script = gate
    first = asyncio.create_task(gateway.ask())
    await upstream.called()
    monkeypatch.setattr(cache, "find", slow_find)
    second = asyncio.create_task(gateway.ask())
    await asked_store.wait()
    gate.open()
    await first
    go_on.set()
    assert (await second).is_hit
    assert upstream.num_calls == 1
