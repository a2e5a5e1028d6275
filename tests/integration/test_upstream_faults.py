"""Replies that no good server gives, straight from the wire: right, or a clear error."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.upstream import Upstream
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, sends_raw, stream_events
from support.upstreams import ask, calling, whole


@pytest.fixture
async def pod() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        yield running
        assert running.failures == []


@pytest.fixture
async def upstream(pod: ScriptedUpstream) -> AsyncIterator[Upstream]:
    async with calling(pod.url) as made:
        yield made


async def failure(upstream: Upstream) -> RequestError:
    """What the client is told: the head or the body fails."""
    with pytest.raises(RequestError) as failed:
        await whole(await ask(upstream))
    return failed.value


# Framing.

WHOLE = {
    "HTTP/1.0, to the end of the connection": b"HTTP/1.0 200 OK\r\n\r\nParis",
    "HTTP/1.1, to the end of the connection": b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nParis",
    "HTTP/1.0 with its length": b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nParis",
    "no reason phrase": b"HTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nParis",
    "trailers": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n"
    b"2\r\nPa\r\n3\r\nris\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",
    "chunk extensions": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"2;a=b\r\nPa\r\n3;c\r\nris\r\n0\r\n\r\n",
    "hexadecimal sizes with zeros": b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    b"0005\r\nParis\r\n000\r\n\r\n",
    "a 100 before it": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nParis",
    "hints before it": b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
    b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nParis",
}


@pytest.mark.parametrize("how", WHOLE)
@pytest.mark.parametrize("bytewise", [False, True])
async def test_a_body_is_whole_however_it_is_framed(
    upstream: Upstream, pod: ScriptedUpstream, how: str, bytewise: bool
) -> None:
    async def script(exchange: Exchange) -> None:
        raw = WHOLE[how]
        for piece in [raw[i : i + 1] for i in range(len(raw))] if bytewise else [raw]:
            await exchange.send(piece)
            if bytewise:
                await asyncio.sleep(0)
        exchange.close()

    pod.script = script
    reply = await ask(upstream)
    assert (reply.status, await whole(reply)) == (200, b"Paris")
    assert b"x-sum" not in dict(reply.headers)


BROKEN = {
    "a body shorter than its length": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nParis",
    "chunks without an end": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nParis\r\n",
    "a chunk without its end": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nParis",
    "a size that is none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"5\r\nParis\r\nparis\r\n0\r\n\r\n",
    "a negative size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nParis\r\n0\r\n\r\n",
    "a chunk longer than its size": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nParis\r\n0\r\n\r\n",
    "two different lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nParis!",
    "a length that is none": b"HTTP/1.1 200 OK\r\ncontent-length: five\r\n\r\nParis",
    "no head": b"Paris",
    "a status that is none": b"HTTP/1.1 2OO OK\r\ncontent-length: 5\r\n\r\nParis",
    "HTTP/2": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + bytes(18),
    "a header without a colon": b"HTTP/1.1 200 OK\r\nParis\r\n\r\n",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\nx-a: b\0c\r\ncontent-length: 0\r\n\r\n",
    "another protocol from now on": b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x81\x05Paris",
    "only a 100": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_reply_is_a_clear_502_and_never_a_short_one(
    upstream: Upstream, pod: ScriptedUpstream, how: str
) -> None:
    pod.script = sends_raw(BROKEN[how])
    failed = await failure(upstream)
    assert (failed.status, failed.code, failed.kind) == (502, "upstream_broken", "api_error")
    assert "Paris" not in failed.message
    assert pod.num_calls == 1


async def test_what_came_before_a_break_is_relayed(upstream: Upstream, pod: ScriptedUpstream) -> None:
    pod.script = sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nParis", reset=True)
    reply = await ask(upstream)
    assert await reply.read() == b"Paris"
    with pytest.raises(RequestError):
        await reply.read()


async def test_bytes_after_a_reply_are_never_taken_for_the_next(
    upstream: Upstream, pod: ScriptedUpstream
) -> None:
    async def smuggles(exchange: Exchange) -> None:
        await exchange.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nParis"
            b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison"
        )

    pod.next_scripts = [smuggles]
    assert await whole(await ask(upstream)) == b"Paris"
    assert b"answer 2" in await whole(await ask(upstream))
    assert pod.num_connections == 2


# Heads.


async def test_repeated_headers_stay_repeated_and_in_order(upstream: Upstream, pod: ScriptedUpstream) -> None:
    pod.script = sends_raw(
        b"HTTP/1.1 200 OK\r\nX-A: 2\r\nx-b: \xc3\xa9\xff\r\nx-a: 1\r\nX-A:\r\ncontent-length: 0\r\n\r\n"
    )
    reply = await ask(upstream)
    assert reply.headers == [
        (b"x-a", b"2"),
        (b"x-b", b"\xc3\xa9\xff"),
        (b"x-a", b"1"),
        (b"x-a", b""),
        (b"content-length", b"0"),
    ]


@pytest.mark.parametrize("num_bytes", [9_000, 60_000])
async def test_a_long_header_arrives(upstream: Upstream, pod: ScriptedUpstream, num_bytes: int) -> None:
    value = b"a" * num_bytes
    pod.script = sends_raw(b"HTTP/1.1 200 OK\r\nx-long: " + value + b"\r\ncontent-length: 0\r\n\r\n")
    assert dict((await ask(upstream)).headers)[b"x-long"] == value


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nx-long: " + b"a" * 80_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: 1\r\n" % i for i in range(5_000)),
        b"HTTP/1.1 200 " + b"O" * 80_000,
        b"HTTP/1.1 200 OK\r\n" + b"n" * 80_000,
    ],
    ids=["value", "number", "reason", "name"],
)
async def test_a_head_without_end_is_a_502(upstream: Upstream, pod: ScriptedUpstream, head: bytes) -> None:
    async def goes_on(exchange: Exchange) -> None:
        await exchange.send(head)
        await exchange.until_closed()

    pod.script = goes_on
    assert (await failure(upstream)).status == 502
    await asyncio.wait_for(pod.calls[0].closed.wait(), 10)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("https://user:pw@pods.example:8443/v2/x?key=abc#f", "'https://pods.example:8443/v2/x'"),
        ("/v2/?key=abc", "'/v2/'"),
        ("http://[broken", "'elsewhere'"),
        ("http://pods.example:port/", "'elsewhere'"),
        ("", "'elsewhere'"),
    ],
)
async def test_a_redirect_names_the_setting_and_the_place_without_its_secrets(
    upstream: Upstream, pod: ScriptedUpstream, status: int, location: str, shown: str
) -> None:
    head = b"HTTP/1.1 %d Moved\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n"
    pod.script = sends_raw(head % (status, location.encode()))
    failed = await failure(upstream)
    assert (failed.status, failed.code) == (502, "upstream_redirect")
    assert "upstreams.pods.urls" in failed.message
    assert shown in failed.message
    assert "abc" not in failed.message
    assert "pw" not in failed.message
    assert pod.num_calls == 1


async def test_not_modified_is_no_redirect(upstream: Upstream, pod: ScriptedUpstream) -> None:
    pod.script = sends_raw(b'HTTP/1.1 304 Not Modified\r\netag: "a"\r\n\r\n')
    assert (await ask(upstream)).status == 304


# Time.


async def test_the_idle_timeout_runs_anew_with_every_event(pod: ScriptedUpstream) -> None:
    events = stream_events(*"abcdef")

    async def drips(exchange: Exchange) -> None:
        await exchange.start_stream()
        for event in events:
            await asyncio.sleep(0.3)
            await exchange.chunk(event)
        await exchange.last_chunk()

    pod.script = drips
    async with calling(pod.url, idle_timeout_s=0.9) as upstream:
        assert await whole(await ask(upstream)) == b"".join(events)  # 2.7 s in all


async def test_a_stream_that_stalls_ends_with_a_504_that_names_the_setting(pod: ScriptedUpstream) -> None:
    pod.script = Gate(first=b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n")
    async with calling(pod.url, idle_timeout_s=0.2) as upstream:
        reply = await ask(upstream)
        assert await reply.read() == b"data: {}\n\n"
        with pytest.raises(RequestError) as failed:
            await reply.read()
        assert (failed.value.status, failed.value.code) == (504, "upstream_timeout")
        assert "upstreams.idle_timeout" in failed.value.message
        await asyncio.wait_for(pod.calls[0].closed.wait(), 10)


async def test_a_stream_that_never_ends_ends_with_the_requests_time(pod: ScriptedUpstream) -> None:
    async def drips(exchange: Exchange) -> None:
        await exchange.start_stream()
        while True:
            await exchange.chunk(b": ping\n\n")
            await asyncio.sleep(0.02)

    pod.script = drips
    async with calling(pod.url, request_timeout_s=0.3) as upstream:
        failed = await failure(upstream)
        assert (failed.status, "server.request_timeout" in failed.message) == (504, True)


async def test_a_stream_that_nobody_reads_waits_and_does_not_time_out(pod: ScriptedUpstream) -> None:
    """A slow client is not the upstream's fault, and does not make us hold its whole reply."""
    size = 4_000_000
    pod.script = sends_raw(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(size))
    async with calling(pod.url, idle_timeout_s=0.2) as upstream:
        reply = await ask(upstream)
        await asyncio.sleep(0.5)
        assert len(await whole(reply)) == size


# Connections.


async def test_small_writes_go_out_at_once(upstream: Upstream, pod: ScriptedUpstream) -> None:
    gate = Gate(first=b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")
    pod.script = gate
    reply = await ask(upstream)
    connection = reply._response.connection
    assert connection is not None
    assert connection.transport is not None
    sock = connection.transport.get_extra_info("socket")
    assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    reply.close()


async def test_a_reply_that_is_given_up_closes_its_connection(
    upstream: Upstream, pod: ScriptedUpstream
) -> None:
    pod.script = Gate(first=b"HTTP/1.1 200 OK\r\n\r\nParis")
    (await ask(upstream)).close()
    await asyncio.wait_for(pod.calls[0].closed.wait(), 10)


async def test_a_caller_that_leaves_before_the_head_closes_its_connection(
    upstream: Upstream, pod: ScriptedUpstream
) -> None:
    pod.script = Gate()
    call = asyncio.create_task(ask(upstream))
    await pod.called()
    call.cancel()
    await asyncio.wait_for(pod.calls[0].closed.wait(), 10)
