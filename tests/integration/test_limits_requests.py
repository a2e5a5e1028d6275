"""Requests that are too large, too deep, too many or too slow, in every dialect: a clear error in its own form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fault_scripts import EMBEDDINGS, TEXT, WIRES, Wire, answers, ask, text_in, wired
from support.scripted_upstream import ScriptedUpstream
from support.served import Answer, Json, Served

MAX_BODY = 100_000
each_dialect = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    limits: Json = {"server__max_body": MAX_BODY, "server__body_timeout": "400ms", "server__max_messages": 3}
    async with wired(tmp_path, upstream.url, **limits) as running:
        yield running


async def connect(gateway: Served) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = gateway.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


def head(wire: Wire, *headers: str) -> bytes:
    lines = [f"POST {wire.path} HTTP/1.1", "host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode()


def refused(wire: Wire, answered: Answer, status: int) -> str:
    assert answered.status == status
    assert answered.headers["x-request-id"]
    return wire.error(answered)


@each_dialect
async def test_a_body_over_max_body_is_413_and_one_of_exactly_that_size_is_taken(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    raw = json.dumps(wire.body()).encode()
    raw += b" " * (MAX_BODY - len(raw))
    assert text_in(wire, await gateway.ask(raw=raw, path=wire.path)) == wire.text_of(wire.whole(TEXT))
    assert upstream.calls[0].body == raw
    message = refused(wire, await gateway.ask(raw=raw + b" ", path=wire.path), 413)
    assert "server.max_body" in message
    assert upstream.num_calls == 1


@each_dialect
async def test_a_body_that_comes_byte_by_byte_has_the_same_time_as_any_other(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    reader, writer = await connect(gateway)
    writer.write(head(wire, "content-length: 100000"))

    async def drip() -> None:
        while True:
            writer.write(b" ")
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    try:
        async with asyncio.timeout(20):
            top = await reader.readuntil(b"\r\n\r\n")
            body = json.loads(await reader.readuntil(b"}}"))
            rest = await reader.read()
    finally:
        dripping.cancel()
        writer.close()
    assert top.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in top
    assert "server.body_timeout" in body["error"]["message"]
    assert rest == b""  # the connection is closed
    assert upstream.num_calls == 0


def nested(depth: int) -> Json:
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


@each_dialect
async def test_json_nested_deeper_than_can_be_written_again_is_400(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    good = {**wire.body("deep"), "extra": nested(250)}
    assert (await gateway.ask(good, path=wire.path)).status == 200
    for depth in (300, 40_000):
        raw = json.dumps(wire.body())[:-1] + ', "extra": ' + "[" * depth + "]" * depth + "}"
        assert "nested" in refused(wire, await gateway.ask(raw=raw.encode(), path=wire.path), 400)
    assert upstream.num_calls == 1


@each_dialect
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff", b'"text"', b'{"model": 1}'], ids=repr)
async def test_a_body_that_is_no_request_is_400(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, raw: bytes
) -> None:
    assert refused(wire, await gateway.ask(raw=raw, path=wire.path), 400)
    assert upstream.num_calls == 0


def with_messages(wire: Wire, number: int) -> Json:
    turns = [{"role": "user", "content": "x"}] * number
    return {
        "completions": {"model": "pod-model", "prompt": ["x"] * number},
        "responses": {"model": "pod-model", "store": False, "input": turns},
    }.get(wire.name, {**wire.body(), "messages": turns})


@pytest.mark.parametrize("wire", [w for w in WIRES if w is not EMBEDDINGS], ids=lambda wire: wire.name)
async def test_more_messages_than_max_messages_are_413(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    assert (await gateway.ask(with_messages(wire, 3), path=wire.path)).status == 200
    message = refused(wire, await gateway.ask(with_messages(wire, 4), path=wire.path), 413)
    assert "server.max_messages" in message
    assert upstream.num_calls == 1


@each_dialect
async def test_a_client_that_leaves_inside_its_body_holds_nothing(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    _, writer = await connect(gateway)
    writer.write(head(wire, "content-length: 1000") + b"{" * 500)
    inflight = gateway.app.asgi._door.inflight
    async with asyncio.timeout(20):
        while inflight.held_bytes < 500:
            await asyncio.sleep(0.005)
        writer.close()
        while inflight.held_bytes:
            await asyncio.sleep(0.005)
    assert gateway.app.asgi._door.slots.running() == {}
    assert upstream.num_calls == 0


@each_dialect
async def test_another_method_is_405_in_the_clients_dialect(gateway: Served, wire: Wire) -> None:
    answered = await gateway.get(wire.path)
    assert (answered.status, answered.headers["allow"]) == (405, "POST")
    assert wire.error(answered)


@each_dialect
async def test_a_header_cannot_smuggle_another_one_upstream(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """A lone CR or NUL is what parsers disagree about (RFC 9112 §2.2): such a request never goes on."""
    body = json.dumps(wire.body()).encode()
    for bad in ("x-a: 1\rx-admin: 1", "x-a: 1\0", "x-a : 1", "transfer-encoding: xchunked"):
        reader, writer = await connect(gateway)
        writer.write(head(wire, bad, f"content-length: {len(body)}", "connection: close") + body)
        async with asyncio.timeout(20):
            answered = await reader.read()
        writer.close()
        assert answered == b"" or answered.startswith(b"HTTP/1.1 400 ")
    assert upstream.num_calls == 0


async def test_requests_with_two_lengths_or_a_length_and_chunks_are_refused(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    for framing in (
        ("content-length: 2", "content-length: 30"),
        ("content-length: 30", "transfer-encoding: chunked"),
    ):
        reader, writer = await connect(gateway)
        writer.write(head(WIRES[0], *framing) + b"{}")
        async with asyncio.timeout(20):
            answered = await reader.read()
        writer.close()
        assert answered == b"" or answered.startswith(b"HTTP/1.1 400 ")
    assert upstream.num_calls == 0


async def test_unknown_fields_of_any_kind_are_part_of_the_key_in_every_dialect(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """A key of known fields answers one request with another one's reply (BerriAI/litellm#42400)."""
    fields: list[Json] = [{"guided_json": {}}, {"cache_salt": "a"}, {"min_p": 0.1}, {"extra_body": {"x": 1}}]
    fields += [{"metadata": {"user": "a"}}, {"zz_unknown": None}, {"zz_unknown": 0}, {"zz_unknown": 0.0}, {}]
    for wire in WIRES:
        upstream.script = answers(wire)
        before = upstream.num_calls
        for _ in range(2):
            for more in fields:
                await gateway.ask({**wire.body(), **more}, path=wire.path)
        assert upstream.num_calls == before + len(fields), wire.name
        hit = await ask(gateway, wire)
        assert hit.is_hit
