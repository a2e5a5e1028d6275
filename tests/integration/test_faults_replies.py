"""Whole replies of every dialect that break off, are none, or come in odd wrappings.

What chat does here alone, and more of it, is in test_gateway_upstream.py; framing in test_upstream_faults.py.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import brotli  # type: ignore[import-untyped]
import pytest

from support.fault_scripts import (
    EMBEDDINGS,
    MESSAGES,
    STREAMING,
    TEXT,
    WIRES,
    Wire,
    answers,
    ask,
    framed,
    is_stored,
    text_in,
    whole_bytes,
    wired,
)
from support.scripted_upstream import Exchange, Script, ScriptedUpstream, says, sends_raw
from support.served import Served
from support.upstreams import closed_url

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

each_dialect = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
but_chat = pytest.mark.parametrize("wire", WIRES[1:], ids=lambda wire: wire.name)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url) as running:
        yield running


@but_chat
async def test_an_upstream_that_is_not_there_is_a_clear_502(tmp_path: Path, wire: Wire) -> None:
    async with wired(tmp_path, closed_url()) as gateway:
        for stream in (False, True) if wire in STREAMING else (False,):
            failed = await ask(gateway, wire, stream=stream)
            assert failed.status == 502
            assert f"'{wire.vendor}' cannot be reached" in wire.error(failed)


BREAKS: dict[str, Script] = {
    "reset before the first byte": sends_raw(b"", reset=True),
    "close before the first byte": sends_raw(b""),
    "close inside the head": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-type: app"),
    "a length that is none": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"),
    "two lengths": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}}"),
}


@but_chat
@pytest.mark.parametrize("how", BREAKS)
async def test_a_call_that_breaks_before_its_reply_is_502_and_not_repeated(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, how: str
) -> None:
    upstream.script = BREAKS[how]
    failed = await ask(gateway, wire)
    assert (failed.status, upstream.num_calls) == (502, 1)
    assert wire.error(failed)
    upstream.script = answers(wire)
    assert text_in(wire, await ask(gateway, wire)) == wire.text_of(wire.whole(TEXT))


@each_dialect
@pytest.mark.parametrize("reset", [True, False], ids=["reset", "close"])
async def test_a_reply_that_breaks_off_after_its_first_bytes_is_an_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, reset: bool
) -> None:
    upstream.script = sends_raw(framed(wire.whole(TEXT))[:-1], reset=reset)
    failed = await ask(gateway, wire)
    assert failed.status == 502
    assert "upstream" in wire.error(failed)
    assert not await is_stored(gateway, wire)


@but_chat
async def test_a_kept_connection_that_closes_just_as_we_send_is_replaced_once(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    await ask(gateway, wire, "first")
    upstream.next_scripts = [sends_raw(b"", reset=True)]
    assert text_in(wire, await ask(gateway, wire, "second")) == wire.text_of(wire.whole(TEXT))
    assert [call.connection for call in upstream.calls] == [0, 0, 1]
    assert upstream.calls[1].body == upstream.calls[2].body


# Errors.


@but_chat
@pytest.mark.parametrize("status", [400, 401, 413, 500, 529])
async def test_an_upstreams_own_error_comes_back_byte_for_byte(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, status: int
) -> None:
    body = b'{ "error": {"message": "no such thing \\u00e9", "extra": 1.50}}'
    told = {"content-type": "application/json", "request-id": "req_1", "x-ratelimit-remaining": "0"}
    upstream.script = whole_bytes(body, status, told)
    failed = await ask(gateway, wire)
    assert (failed.status, failed.body) == (status, body)
    assert {name: failed.headers[name] for name in told} == told
    assert (upstream.num_calls, await is_stored(gateway, wire)) == (1, False)


@but_chat
async def test_a_busy_upstreams_retry_after_reaches_the_client(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    told = {"retry-after": "30", "anthropic-ratelimit-requests-remaining": "0"}
    upstream.script = says({"error": {"message": "slow down"}}, status=429, headers=told)
    failed = await ask(gateway, wire)
    assert (failed.status, upstream.num_calls) == (429, 1)
    assert {name: failed.headers[name] for name in told} == told


NO_OBJECTS = {
    "empty": (b"", "application/json"),
    "HTML": (b"<html><h1>502 Bad Gateway</h1></html>", "text/html"),
    "cut JSON": (b'{"error": ', "application/json"),
    "no text": (b"\xff\xfe", "application/octet-stream"),
}


@but_chat
@pytest.mark.parametrize("what", NO_OBJECTS)
@pytest.mark.parametrize("status", [404, 502])
async def test_an_error_without_an_error_object_keeps_its_status_and_gets_one_of_the_clients_dialect(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, what: str, status: int
) -> None:
    body, kind = NO_OBJECTS[what]
    upstream.script = whole_bytes(body, status, {"content-type": kind, "x-ratelimit-remaining": "0"})
    failed = await ask(gateway, wire)
    assert (failed.status, failed.headers["x-ratelimit-remaining"]) == (status, "0")
    assert str(status) in wire.error(failed)
    assert not await is_stored(gateway, wire)


@but_chat
@pytest.mark.parametrize("what", NO_OBJECTS)
async def test_a_success_that_is_no_json_object_is_an_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, what: str
) -> None:
    body, kind = NO_OBJECTS[what]
    upstream.script = whole_bytes(body, 200, {"content-type": kind})
    for stream in (False, True) if wire in STREAMING else (False,):
        failed = await ask(gateway, wire, stream=stream)
        assert failed.status == 502
        assert wire.error(failed)
    assert not await is_stored(gateway, wire)


@each_dialect
@pytest.mark.parametrize("value", [[], {}, {"object": "list"}, "text", 7], ids=str)
async def test_a_success_that_is_no_reply_is_never_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, value: object
) -> None:
    upstream.script = says(value)
    answered = await ask(gateway, wire)
    assert answered.json() == value or wire.error(answered)
    assert not await is_stored(gateway, wire)


@but_chat
async def test_an_error_object_under_status_200_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = says({"type": "error", "error": {"type": "api_error", "message": "overloaded"}})
    failed = await ask(gateway, wire)
    assert failed.status >= 500
    assert failed.json()["error"]["message"] == "overloaded"
    assert not await is_stored(gateway, wire)


@but_chat
async def test_a_redirect_is_not_followed_and_its_query_is_not_told(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = whole_bytes(b"", 307, {"location": upstream.url + "/elsewhere?key=abc"})
    failed = await ask(gateway, wire)
    assert (failed.status, upstream.num_calls, "location" in failed.headers) == (502, 1, False)
    assert "redirect (307)" in wire.error(failed)
    assert "abc" not in wire.error(failed)


# Wrappings.


PACKED = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress}


@but_chat
@pytest.mark.parametrize("encoding", PACKED)
async def test_a_packed_reply_that_nobody_asked_for_arrives_and_is_replayed_plain(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, encoding: str
) -> None:
    async def packed(exchange: Exchange) -> None:
        asked_stream = exchange.call.json().get("stream")
        plain = b"".join(wire.events(TEXT)) if asked_stream else json.dumps(wire.whole(TEXT)).encode()
        kind = "text/event-stream" if asked_stream else "application/json"
        headers = {"content-type": kind, "content-encoding": encoding}
        await exchange.whole(PACKED[encoding](plain), 200, headers)

    upstream.script = packed
    for stream in (False, True) if wire in STREAMING else (False,):
        answered = await ask(gateway, wire, f"stream {stream}", stream=stream)
        assert "content-encoding" not in answered.headers
        assert text_in(wire, answered) == wire.text_of(wire.whole(TEXT))
        again = await ask(gateway, wire, f"stream {stream}")
        assert (again.is_hit, "content-encoding" in again.headers) == (True, False)
        assert text_in(wire, again) == wire.text_of(wire.whole(TEXT))


@but_chat
@pytest.mark.parametrize("encoding", PACKED)
async def test_a_packed_reply_that_was_cut_is_an_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, encoding: str
) -> None:
    cut = PACKED[encoding](json.dumps(wire.whole(TEXT)).encode())[:-3]
    headers = {"content-type": "application/json", "content-encoding": encoding}
    upstream.script = whole_bytes(cut, 200, headers)
    failed = await ask(gateway, wire)
    assert failed.status == 502
    assert wire.error(failed)
    assert not await is_stored(gateway, wire)


@but_chat
async def test_an_encoding_that_nobody_here_can_undo_stays_with_its_body_and_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    raw = json.dumps(wire.whole(TEXT)).encode()[::-1]
    headers = {"content-type": "application/json", "content-encoding": "x-rot"}
    upstream.script = whole_bytes(raw, 200, headers)
    answered = await ask(gateway, wire)
    assert (answered.headers.get("content-encoding"), answered.body) == ("x-rot", raw)
    assert not await is_stored(gateway, wire)


def chunked(body: bytes, trailers: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers)


def to_the_end(body: bytes) -> bytes:
    return b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + body


@each_dialect
@pytest.mark.parametrize("how", ["HTTP/1.0", "HTTP/1.0 to the end", "chunked", "trailers"])
async def test_a_reply_is_whole_however_it_is_framed(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, how: str
) -> None:
    body = json.dumps(wire.whole(TEXT)).encode()
    upstream.script = sends_raw(
        {
            "HTTP/1.0": framed(wire.whole(TEXT), status="HTTP/1.0 200 OK"),
            "HTTP/1.0 to the end": to_the_end(body),
            "chunked": chunked(body),
            "trailers": chunked(body, b"x-sum: 1\r\n"),
        }[how]
    )
    answered = await ask(gateway, wire)
    assert (answered.status, answered.body) == (200, body)
    assert "x-sum" not in answered.headers
    assert await is_stored(gateway, wire)


@each_dialect
async def test_headers_that_come_twice_reach_the_client_twice_and_in_order(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    headers = ["x-seen: b", "x-seen: a", "set-cookie: s=1", "x-hop: 1", "connection: x-hop"]
    upstream.script = sends_raw(framed(wire.whole(TEXT), headers=headers))
    answered = await ask(gateway, wire)
    assert answered.headers.getall("x-seen") == ["b", "a"]
    assert answered.headers.getall("content-type") == ["application/json"]
    assert not {"set-cookie", "x-hop"} & {name.lower() for name in answered.headers}
    hit = await ask(gateway, wire)
    assert hit.is_hit
    assert "x-seen" not in hit.headers


@each_dialect
async def test_bytes_behind_a_reply_are_never_the_next_requests_reply(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async def smuggles(exchange: Exchange) -> None:
        await exchange.send(framed(wire.whole("Paris")) + framed(wire.whole("poison")))

    upstream.next_scripts = [smuggles]
    upstream.script = answers(wire, "Rome!")
    assert text_in(wire, await ask(gateway, wire, "first")) == wire.text_of(wire.whole("Paris"))
    assert text_in(wire, await ask(gateway, wire, "second")) == wire.text_of(wire.whole("Rome!"))


async def test_anthropics_own_names_of_errors_stand_for_our_statuses(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """docs.anthropic.com/en/api/errors lists which type goes with which status."""
    upstream.script = whole_bytes(b"<html>", 529, {"content-type": "text/html"})
    async with wired(tmp_path, upstream.url) as gateway:
        failed = await ask(gateway, MESSAGES)
        assert (failed.status, failed.json()["error"]["type"]) == (529, "overloaded_error")
        refused = await gateway.ask({"model": "m"}, path=MESSAGES.path)
        assert (refused.status, refused.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_vectors_of_another_number_than_inputs_are_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(EMBEDDINGS.whole("one vector"))
    for _ in range(2):
        body = {"model": "pod-model", "input": ["one", "two"]}
        answered = await gateway.ask(body, path=EMBEDDINGS.path)
        assert not answered.is_hit
    assert upstream.num_calls >= 2
