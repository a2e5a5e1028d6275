"""Replies in content encodings, which we never ask for: undone, or passed on as a pair with their header."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import sys
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable

import brotli  # type: ignore[import-untyped]
import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.upstream import Upstream
from support.scripted_upstream import Exchange, Script, ScriptedUpstream, stream_events
from support.upstreams import ask, calling, whole

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}
every_encoding = pytest.mark.parametrize("name", ENCODERS)
TEXT = '{"answer": "巴黎"}'.encode() * 50


@pytest.fixture
async def pod() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as running:
        yield running


@pytest.fixture
async def upstream(pod: ScriptedUpstream) -> AsyncIterator[Upstream]:
    async with calling(pod.url) as made:
        yield made


def sends_encoded(name: str, body: bytes, kind: str = "application/json") -> Script:
    async def script(exchange: Exchange) -> None:
        assert exchange.call.header("accept-encoding") == "identity"
        await exchange.whole(body, 200, {"content-type": kind, "content-encoding": name})

    return script


@every_encoding
async def test_an_encoded_body_arrives_plain_and_without_the_header(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    pod.script = sends_encoded(name, ENCODERS[name](TEXT))
    reply = await ask(upstream)
    assert (b"content-encoding" in dict(reply.headers), reply.is_encoded) == (False, False)
    assert await whole(reply) == TEXT


async def test_each_event_of_an_encoded_stream_arrives_as_it_is_flushed(
    upstream: Upstream, pod: ScriptedUpstream
) -> None:
    events = stream_events("a", "b")

    async def script(exchange: Exchange) -> None:
        packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        await exchange.start_stream({"content-encoding": "gzip"})
        for i, one in enumerate(events):
            await exchange.chunk(packer.compress(one) + packer.flush(zlib.Z_SYNC_FLUSH))
            await read[i]
        await exchange.chunk(packer.flush())
        await exchange.last_chunk()

    read = [asyncio.get_running_loop().create_future() for _ in events]
    pod.script = script
    reply = await ask(upstream)
    assert reply.is_event_stream
    for one, told in zip(events, read, strict=True):
        assert await reply.read() == one
        told.set_result(None)
    assert await reply.read() == b""


@every_encoding
@pytest.mark.parametrize("cut", [1, 8, -8, -1])
async def test_a_body_that_was_cut_short_is_502_though_its_length_is_right(
    upstream: Upstream, pod: ScriptedUpstream, name: str, cut: int
) -> None:
    pod.script = sends_encoded(name, ENCODERS[name](TEXT)[:cut])
    with pytest.raises(RequestError) as failed:
        await whole(await ask(upstream))
    assert (failed.value.status, failed.value.code) == (502, "upstream_broken")


@every_encoding
async def test_a_body_that_is_not_what_it_claims_is_502(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    pod.script = sends_encoded(name, b"\xff" + TEXT)
    with pytest.raises(RequestError) as failed:
        await whole(await ask(upstream))
    assert (failed.value.status, failed.value.code) == (502, "upstream_broken")
    assert "answer" not in failed.value.message


@pytest.mark.parametrize("name", ["gzip, br", "x-rot", "aws-chunked"])
async def test_an_encoding_that_is_not_undone_stays_with_its_body_and_marks_the_reply(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    body = brotli.compress(gzip.compress(TEXT))
    pod.script = sends_encoded(name, body, "text/event-stream")
    reply = await ask(upstream)
    assert dict(reply.headers)[b"content-encoding"] == name.encode()
    assert (reply.is_encoded, reply.is_event_stream, reply.is_ok) == (True, False, True)
    assert await whole(reply) == body


async def test_identity_is_no_encoding(upstream: Upstream, pod: ScriptedUpstream) -> None:
    pod.script = sends_encoded("identity", TEXT)
    reply = await ask(upstream)
    assert (b"content-encoding" in dict(reply.headers), reply.is_encoded) == (False, False)
    assert await whole(reply) == TEXT


@every_encoding
async def test_a_reply_without_a_body_may_claim_any_encoding(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    pod.script = sends_encoded(name, b"")
    assert await whole(await ask(upstream)) == b""


@every_encoding
async def test_a_small_body_that_stands_for_a_huge_one_fills_no_memory_and_holds_nobody_up(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    size, num_turns = 20_000_000, 0

    async def others() -> None:
        nonlocal num_turns
        while True:
            num_turns += 1
            await asyncio.sleep(0)

    pod.script = sends_encoded(name, ENCODERS[name](bytes(size)))
    reply = await ask(upstream)
    running = asyncio.create_task(others())
    tracemalloc.start()
    try:
        num_bytes = num_pieces = 0
        while part := await reply.read():
            num_bytes += len(part)
            num_pieces += 1
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        running.cancel()
    assert num_bytes == size
    assert num_pieces >= 30
    assert num_turns >= num_pieces
    assert peak_bytes < 4_000_000


@every_encoding
async def test_a_reader_that_leaves_in_the_middle_of_a_read_takes_nothing_along(
    upstream: Upstream, pod: ScriptedUpstream, name: str
) -> None:
    body = ENCODERS[name](TEXT)

    async def drips(exchange: Exchange) -> None:
        await exchange.head(200, {"content-encoding": name, "content-length": str(len(body))})
        for i in range(len(body)):
            await exchange.send(body[i : i + 1])
            await asyncio.sleep(0)

    pod.script = drips
    reply = await ask(upstream)
    parts = []
    for num_turns in itertools.cycle(range(4)):
        reading = asyncio.create_task(reply.read())
        for _ in range(num_turns):
            await asyncio.sleep(0)
        if not reading.done():
            reading.cancel()
            await asyncio.wait([reading])
        if not reading.cancelled():
            if not reading.result():
                break
            parts.append(reading.result())
    assert b"".join(parts) == TEXT
