"""Requests that are too large, too slow, or no requests at all."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import ScriptedUpstream
from support.served import Served, chat, served

MAX_BODY = 100_000


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    limits: dict[str, Any] = {"server__max_body": MAX_BODY, "server__body_timeout": "300ms"}
    async with served(tmp_path, [upstream.url], **limits) as running:
        yield running


async def raw_exchange(
    gateway: Served, *parts: bytes, pause_s: float = 0.0
) -> tuple[int, dict[str, str], bytes]:
    """Send raw bytes, read one reply: status, headers, body."""
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in parts:
            writer.write(part)
            await asyncio.sleep(pause_s)
        async with asyncio.timeout(20):
            top = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = top.split("\r\n")
            headers = {
                n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines[1:] if line)
            }
            body = await reader.readexactly(int(headers["content-length"]))
        return int(lines[0].split(" ")[1]), headers, body
    finally:
        writer.close()


def post(*headers: str) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def code(body: bytes) -> str:
    error: str = json.loads(body)["error"]["code"]
    return error


async def test_a_body_over_max_body_is_refused_by_its_length_before_it_is_sent(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    status, headers, body = await raw_exchange(gateway, post(f"content-length: {MAX_BODY + 1}"))
    assert (status, code(body)) == (413, "body_too_large")
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]
    assert upstream.num_calls == 0


async def test_a_chunked_body_over_max_body_is_refused_once_it_is_too_large(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    chunk = b"%x\r\n%b\r\n" % (60_000, b" " * 60_000)
    status, _, body = await raw_exchange(gateway, post("transfer-encoding: chunked"), chunk, chunk)
    assert (status, code(body)) == (413, "body_too_large")


async def test_an_ordinary_client_gets_the_413_of_a_body_it_has_sent_whole(gateway: Served) -> None:
    refused = await gateway.ask(raw=b" " * (20 * MAX_BODY))
    assert (refused.status, code(refused.body)) == (413, "body_too_large")


async def test_a_body_of_exactly_max_body_is_taken_in_one_piece_or_in_chunks(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    raw = json.dumps(chat("x")).encode()
    raw += b" " * (MAX_BODY - len(raw))
    assert (await gateway.ask(raw=raw)).status == 200

    async def pieces() -> AsyncIterator[bytes]:
        for i in range(0, MAX_BODY, 9_999):
            yield raw[i : i + 9_999]

    async with gateway.session.post(gateway.url + "/v1/chat/completions", data=pieces()) as response:
        assert response.status == 200
    assert upstream.calls[0].body == raw


async def test_a_body_that_does_not_arrive_in_time_is_408(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    status, headers, body = await raw_exchange(gateway, post("content-length: 100"), b"{")
    assert (status, code(body)) == (408, "body_timeout")
    assert headers["connection"] == "close"
    assert upstream.num_calls == 0


async def test_a_client_that_leaves_inside_its_body_is_no_call_and_breaks_nothing(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(post("content-length: 100") + b"{")
    await writer.drain()
    writer.close()
    assert (await gateway.ask()).status == 200
    assert upstream.num_calls == 1


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "identity, gzip"])
async def test_a_compressed_body_is_415(gateway: Served, upstream: ScriptedUpstream, encoding: str) -> None:
    raw = gzip.compress(json.dumps(chat()).encode())
    refused = await gateway.ask(raw=raw, headers={"content-encoding": encoding})
    assert refused.status == 415
    assert upstream.num_calls == 0


async def test_identity_is_no_compression(gateway: Served) -> None:
    assert (await gateway.ask(headers={"content-encoding": "identity"})).status == 200


BROKEN = {
    "empty": b"",
    "not JSON": b"hello",
    "cut": b'{"model":"m","messages":[',
    "trailing comma": b'{"model":"m","messages":[],}',
    "an array": b"[]",
    "a string": b'"hi"',
    "null": b"null",
    "NaN": b'{"model":"m","messages":[],"temperature":NaN}',
    "not UTF-8": b'{"model":"m","messages":[],"x":"\xff"}',
    "byte order mark": b'\xef\xbb\xbf{"model":"m","messages":[]}',
    "nested too deeply": b'{"model":"m","messages":' + b"[" * 300 + b"]" * 300 + b"}",
    "nested absurdly": b'{"model":"m","messages":' + b"[" * 40_000 + b"]" * 40_000 + b"}",
    "no model": b'{"messages":[]}',
    "empty model": b'{"model":"","messages":[]}',
    "model no string": b'{"model":7,"messages":[]}',
    "no messages": b'{"model":"m"}',
    "messages no array": b'{"model":"m","messages":{}}',
    "stream no boolean": b'{"model":"m","messages":[],"stream":"yes"}',
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_body_that_is_no_chat_request_is_400_with_an_openai_error(
    gateway: Served, upstream: ScriptedUpstream, what: str
) -> None:
    refused = await gateway.ask(raw=BROKEN[what])
    assert refused.status == 400
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert refused.headers["x-request-id"]
    assert upstream.num_calls == 0


async def test_odd_messages_are_the_upstreams_to_judge(gateway: Served, upstream: ScriptedUpstream) -> None:
    odd = [
        [None],
        [7],
        ["text"],
        [{"role": 7}],
        [{"content": {"a": 1}}],
        [{"role": "user", "content": [None, 1]}],
    ]
    for messages in odd:
        assert (await gateway.ask({"model": "m", "messages": messages})).status == 200, messages
    assert upstream.num_calls == len(odd)


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/chat/completions/", "/v2/chat/completions", "/admin", "/x%00y"]
)
async def test_an_unknown_path_is_a_404_in_json(gateway: Served, path: str) -> None:
    answered = await gateway.get(path)
    assert (answered.status, answered.headers["content-type"]) == (404, "application/json")
    assert code(answered.body) == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/chat/completions", "POST"),
        ("POST", "/v1/models", "GET"),
        ("POST", "/healthz", "GET"),
        ("GET", "/admin/evict", "POST"),
        ("POST", "/admin/status", "GET"),
    ],
)
async def test_a_wrong_method_is_405_and_names_the_right_one(
    gateway: Served, method: str, path: str, allowed: str
) -> None:
    async with gateway.session.request(method, gateway.url + path) as refused:
        assert (refused.status, refused.headers["allow"]) == (405, allowed)
        assert (await refused.json())["error"]["code"] == "method_not_allowed"


async def test_head_is_get_without_its_body(gateway: Served) -> None:
    async with gateway.session.head(gateway.url + "/healthz") as answered:
        assert (answered.status, await answered.read()) == (200, b"")


async def test_health_and_readiness(gateway: Served) -> None:
    assert (await gateway.get("/healthz")).json() == {"status": "ok"}
    assert (await gateway.get("/readyz")).json() == {"status": "ready"}
    gateway.app.draining = True
    drained = await gateway.get("/readyz")
    assert (drained.status, drained.json()["status"]) == (503, "not ready")
    assert (await gateway.get("/healthz")).status == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"{",
        b"{}",
        b'{"pattern":7}',
        b'{"pattern":"*","type":"everything"}',
        b'{"patern":"*"}',
        b"\xff",
    ],
)
async def test_a_wrong_admin_order_is_400_and_does_nothing(gateway: Served, raw: bytes) -> None:
    await gateway.ask()
    refused = await gateway.ask(raw=raw, path="/admin/evict")
    assert refused.status == 400
    if b"patern" in raw:
        assert "did you mean 'pattern'" in refused.json()["error"]["message"]
    assert (await gateway.ask()).is_hit
