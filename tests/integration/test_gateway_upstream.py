"""The way to an upstream and back: failures, retries, headers, encodings."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import sys
import zlib
from pathlib import Path
from typing import Any

import brotli  # type: ignore[import-untyped]
import pytest

from support.scripted_upstream import (
    Exchange,
    ScriptedUpstream,
    answer,
    reply,
    says,
    sends,
    sends_raw,
    stream_events,
)
from support.served import Served, chat, served

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("streams", [False, True])
async def test_an_upstream_that_is_not_there_is_a_clear_502(tmp_path: Path, streams: bool) -> None:
    async with served(tmp_path, [f"http://127.0.0.1:{closed_port()}"]) as gateway:
        failed = await gateway.ask(chat(stream=streams))
        assert failed.status == 502
        assert failed.json()["error"]["code"] == "upstream_unreachable"
        assert "'pods'" in failed.json()["error"]["message"]
        assert failed.headers["x-request-id"]
        assert await gateway.metric("openclaw_cache_upstream_retries_total") == 1
        assert (await gateway.get("/v1/models")).json() == {"object": "list", "data": []}


async def test_another_pod_of_the_upstream_answers_where_one_is_not_there(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    gone = [f"http://127.0.0.1:{closed_port()}" for _ in range(2)]
    async with served(tmp_path, [*gone, upstream.url], upstream={"retries": 0}) as gateway:
        for i in range(3):
            assert (await gateway.ask(chat(f"question {i}"))).status == 200
    assert upstream.num_calls == 3


async def test_a_pod_that_does_not_accept_in_time_counts_as_not_there(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    with socket.socket() as full:  # a listener whose queue is full: connecting to it waits
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        urls = [f"http://127.0.0.1:{port}", upstream.url]
        async with served(tmp_path, urls, upstream={"connect_timeout": "200ms"}) as gateway:
            for i in range(2):
                assert (await gateway.ask(chat(f"question {i}"))).status == 200
        for filler in fillers:
            filler.close()
    assert upstream.num_calls == 2


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_busy_upstream_is_asked_again_once_and_then_its_own_words_come_back(
    gateway: Served, upstream: ScriptedUpstream, status: int, streams: bool
) -> None:
    error = {"error": {"message": "slow down", "type": "rate_limit_error", "param": None, "code": "busy"}}
    told = {
        "retry-after": "0",
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "6m0s",
    }
    upstream.script = says(error, status=status, headers=told)
    failed = await gateway.ask(chat(stream=streams))
    assert (failed.status, failed.json()) == (status, error)
    assert {name: failed.headers[name] for name in told} == told
    assert upstream.num_calls == 2
    assert await gateway.metric("openclaw_cache_upstream_retries_total") == 1


async def test_a_busy_upstream_that_recovers_is_not_seen_by_the_client(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.next_scripts = [says({"error": {}}, status=503, headers={"retry-after": "0"})]
    assert (await gateway.ask()).text == "answer 2"


@pytest.mark.parametrize("wait", ["3", "3600", "Wed, 21 Oct 2026 07:28:00 GMT", "-1", "nan"])
async def test_a_pause_that_is_long_or_unreadable_is_the_clients_to_see_at_once(
    gateway: Served, upstream: ScriptedUpstream, wait: str
) -> None:
    upstream.script = says({"error": {}}, status=429, headers={"retry-after": wait})
    failed = await gateway.ask()
    assert (failed.status, failed.headers["retry-after"], upstream.num_calls) == (429, wait, 1)


async def test_retries_are_bounded_by_the_operator(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = says({"error": {}}, status=503, headers={"retry-after": "0"})
    for retries in (0, 3):
        before = upstream.num_calls
        async with served(tmp_path, [upstream.url], upstream={"retries": retries}) as gateway:
            await gateway.ask()
        assert upstream.num_calls == before + 1 + retries


@pytest.mark.parametrize("status", [400, 404, 408, 409, 500, 502, 504, 529])
async def test_other_errors_are_never_repeated(
    gateway: Served, upstream: ScriptedUpstream, status: int
) -> None:
    upstream.script = says({"error": {"message": "no"}}, status=status)
    assert (await gateway.ask()).status == status
    assert upstream.num_calls == 1


BREAKS = {
    "reset before the first byte": sends_raw(b"", reset=True),
    "close before the first byte": sends_raw(b""),
    "close inside the head": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-type: app"),
    "not HTTP": sends_raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "impossible framing": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n{}"),
}


@pytest.mark.parametrize("how", BREAKS)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_fresh_connection_that_breaks_is_502_and_the_call_is_not_repeated(
    gateway: Served, upstream: ScriptedUpstream, how: str, streams: bool
) -> None:
    upstream.script = BREAKS[how]
    failed = await gateway.ask(chat(stream=streams))
    assert failed.status == 502
    assert failed.json()["error"]["code"] == "upstream_broken"
    assert upstream.num_calls == 1
    upstream.script = answer
    assert (await gateway.ask(chat(stream=streams))).status == 200


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("reset", [True, False])
async def test_a_kept_alive_connection_that_closes_as_we_send_is_replaced_once(
    tmp_path: Path, upstream: ScriptedUpstream, retries: int, reset: bool
) -> None:
    async with served(tmp_path, [upstream.url], upstream={"retries": retries}) as gateway:
        await gateway.ask(chat("first"))
        upstream.next_scripts = [sends_raw(b"", reset=reset)]
        assert (await gateway.ask(chat("second"))).text == "answer 3"
        assert [c.connection for c in upstream.calls] == [0, 0, 1]
        assert upstream.calls[1].body == upstream.calls[2].body


async def test_connections_are_kept_and_reused(gateway: Served, upstream: ScriptedUpstream) -> None:
    for i in range(5):
        await gateway.ask(chat(f"question {i}", stream=i % 2 == 0))
    assert upstream.num_connections == 1


# Errors of other shapes.


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"<html><h1>502 Bad Gateway</h1></html>", "text/html"),
        (b"{broken", "application/json"),
        (b"\xff\xfe", "application/octet-stream"),
    ],
)
@pytest.mark.parametrize("status", [401, 500])
async def test_an_error_without_an_error_object_keeps_its_status_and_headers_and_gets_one(
    gateway: Served, upstream: ScriptedUpstream, body: bytes, kind: str, status: int
) -> None:
    async def fails(exchange: Exchange) -> None:
        await exchange.whole(body, status, {"content-type": kind, "x-ratelimit-remaining": "0"})

    upstream.script = fails
    for streams in (False, True):
        failed = await gateway.ask(chat(stream=streams))
        assert (failed.status, failed.headers["content-type"]) == (status, "application/json")
        assert failed.headers["x-ratelimit-remaining"] == "0"
        assert failed.json()["error"]["code"] == "upstream_error"
        assert str(status) in failed.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"{broken"])
async def test_a_success_that_is_no_json_is_an_error_and_not_stored(
    gateway: Served, upstream: ScriptedUpstream, body: bytes
) -> None:
    async def odd(exchange: Exchange) -> None:
        await exchange.whole(body, 200, {"content-type": "text/plain"})

    upstream.script = odd
    for streams in (False, True):
        answered = await gateway.ask(chat(stream=streams))
        assert (answered.status, answered.json()["error"]["code"]) == (502, "upstream_broken")
        assert "text/plain" in answered.json()["error"]["message"]
    assert upstream.num_calls == 2


async def test_a_redirect_is_the_operators_to_correct_and_takes_no_client_elsewhere(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async def moves(exchange: Exchange) -> None:
        await exchange.whole(b"", 307, {"location": "http://127.0.0.1:1/elsewhere?key=abc"})

    upstream.script = moves
    for streams in (False, True):
        async with gateway.session.post(
            gateway.url + "/v1/chat/completions", json=chat(stream=streams), allow_redirects=False
        ) as moved:
            assert (moved.status, "location" in moved.headers) == (502, False)
            text = await moved.text()
            assert json.loads(text)["error"]["code"] == "upstream_redirect"
            assert "abc" not in text


# Headers.


async def test_hop_by_hop_headers_stay_on_their_hop_in_both_directions(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    raw = json.dumps(reply()).encode()

    async def hops(exchange: Exchange) -> None:
        headers = {
            "connection": "x-up-hop, keep-alive",
            "x-up-hop": "1",
            "keep-alive": "timeout=5",
            "proxy-authenticate": "Basic",
            "trailer": "x-t",
            "upgrade": "h2c",
            "server": "pod/1",
            "x-kept": "yes",
            "openai-processing-ms": "12",
        }
        await exchange.whole(raw, 200, {"content-type": "application/json", **headers})

    upstream.script = hops
    hop_headers = {
        "connection": "x-foo, keep-alive",
        "x-foo": "1",
        "keep-alive": "timeout=5",
        "proxy-authorization": "Basic eA==",
        "te": "trailers",
        "proxy-connection": "keep-alive",
        "x-bar": "2",
    }
    answered = await gateway.ask(headers=hop_headers)
    sent = upstream.calls[0]
    assert sent.names().isdisjoint({"x-foo", "keep-alive", "proxy-authorization", "te", "proxy-connection"})
    assert "x-foo" not in (sent.header("connection") or "")
    assert sent.header("x-bar") == "2"
    for name in ("x-up-hop", "keep-alive", "proxy-authenticate", "trailer", "upgrade", "server"):
        assert name not in answered.headers
    assert answered.headers["x-kept"] == "yes"
    assert answered.headers["openai-processing-ms"] == "12"
    assert answered.body == raw


async def test_our_own_request_headers_stay_here(gateway: Served, upstream: ScriptedUpstream) -> None:
    own = {
        "x-openclaw-agent": "a",
        "x-openclaw-semantic": "off",
        "x-openclaw-domain": "d",
        "x-openclaw-fingerprint": "f",
    }
    await gateway.ask(headers=own)
    assert upstream.calls[0].names().isdisjoint(own)


async def test_header_values_go_up_byte_for_byte_and_repeated_ones_in_order(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask(headers=[("x-name", "Köln 東京"), ("x-list", "b"), ("x-list", "a")])
    sent = upstream.calls[0]
    assert (sent.header("x-name") or "").encode("latin-1").decode() == "Köln 東京"
    assert [v for n, v in sent.headers if n == "x-list"] == ["b", "a"]


async def test_an_upstreams_own_cache_status_stands_beside_ours(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply(), headers={"cache-status": "edge; hit"})
    answered = await gateway.ask()
    # RFC 9211 §2: a list, the cache closest to the origin first.
    assert answered.headers.getall("cache-status") == ["edge; hit", "openclaw-cache; fwd=miss; stored"]


# Encodings.


def encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "zstd":
        return zstd.compress(body)
    packed: bytes = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[encoding](body)
    return packed


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "GZIP"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_compressed_reply_that_nobody_asked_for_arrives_plain_and_so_is_its_replay(
    gateway: Served, upstream: ScriptedUpstream, encoding: str, streams: bool
) -> None:
    plain = b"".join(stream_events("Paris")) if streams else json.dumps(reply("Paris")).encode()
    kind = "text/event-stream" if streams else "application/json"

    async def compressed(exchange: Exchange) -> None:
        assert exchange.call.header("accept-encoding") == "identity"
        headers = {"content-type": kind, "content-encoding": encoding}
        await exchange.whole(encoded(plain, encoding.lower()), 200, headers)

    upstream.script = compressed
    first = await gateway.ask(chat(stream=streams), headers={"accept-encoding": "gzip, br"})
    assert "content-encoding" not in first.headers
    assert (first.status, first.text) == (200, "Paris")
    again = await gateway.ask(chat(stream=streams))
    assert (again.is_hit, again.text, "content-encoding" in again.headers) == (True, "Paris", False)


async def test_an_encoding_that_nobody_here_can_undo_keeps_its_header_and_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    raw = json.dumps(reply()).encode()[::-1]

    async def odd(exchange: Exchange) -> None:
        await exchange.whole(raw, 200, {"content-type": "application/json", "content-encoding": "x-rot"})

    upstream.script = odd
    for _ in range(2):
        answered = await gateway.ask()
        assert (answered.headers["content-encoding"], answered.body) == ("x-rot", raw)
    assert upstream.num_calls == 2


@pytest.mark.parametrize("streams", [False, True])
async def test_a_body_that_is_not_in_the_encoding_it_claims_is_502(
    gateway: Served, upstream: ScriptedUpstream, streams: bool
) -> None:
    async def lies(exchange: Exchange) -> None:
        await exchange.whole(
            b"not gzip", 200, {"content-type": "application/json", "content-encoding": "gzip"}
        )

    upstream.script = lies
    failed = await gateway.ask(chat(stream=streams))
    assert (failed.status, failed.json()["error"]["code"]) == (502, "upstream_broken")


async def test_a_body_framed_by_the_end_of_its_connection_is_whole(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    raw = json.dumps(reply("Paris")).encode()
    upstream.script = sends_raw(b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + raw)
    assert (await gateway.ask()).text == "Paris"
    assert (await gateway.ask()).is_hit


async def test_a_slow_first_byte_is_waited_for(gateway: Served, upstream: ScriptedUpstream) -> None:
    async def thinks(exchange: Exchange) -> None:
        await exchange.send(b"HTTP/1.1 200")
        await asyncio.sleep(0.5)
        body = json.dumps(reply("Paris")).encode()
        await exchange.send(
            b" OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )

    upstream.script = thinks
    assert (await gateway.ask()).text == "Paris"


async def test_models_of_all_upstreams_are_listed_and_a_silent_one_is_left_out(
    tmp_path: Path, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.api.models.LIST_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        upstreams = [
            {"name": "silent", "kind": "openai", "urls": [f"http://127.0.0.1:{silent.getsockname()[1]}"],
             "models": ["quiet"]},
            {"name": "pods", "kind": "openai", "urls": [upstream.url + "/v1"], "models": ["pod-*"]},
        ]  # fmt: skip
        async with served(tmp_path, [], upstreams=upstreams) as gateway:
            listed: Any = (await gateway.get("/v1/models")).json()
            assert [m["id"] for m in listed["data"]] == ["pod-model"]
            assert (await gateway.ask()).status == 200
            missing = await gateway.ask(chat(model="nobody"))
            assert (missing.status, missing.json()["error"]["code"]) == (404, "model_not_found")
            assert "pod-*" in missing.json()["error"]["message"]


async def test_both_spellings_of_a_base_url_reach_the_same_path(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    for i, suffix in enumerate(("", "/", "/v1", "/v1/")):
        async with served(tmp_path, [upstream.url + suffix]) as gateway:
            await gateway.ask(chat(f"question {i}"))
    assert {c.target for c in upstream.calls} == {"/v1/chat/completions"}
    assert upstream.num_calls == 4


async def test_an_upstreams_events_reach_the_client_as_they_arrive(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    events, go_on = stream_events("a", "b"), asyncio.Event()

    async def waits(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(events[0])
        await go_on.wait()
        for one in events[1:]:
            await exchange.chunk(one)
        await exchange.last_chunk()

    upstream.script = waits
    async with gateway.send(chat(stream=True)) as response:
        assert await asyncio.wait_for(response.content.readany(), 10) == events[0]
        go_on.set()
        assert await response.read() == b"".join(events[1:])
    upstream.script = sends()


async def test_the_clients_cache_control_reaches_the_caches_behind_us(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """RFC 9111 §5.2.1: request directives are for all caches on the way."""
    await gateway.ask(headers={"cache-control": "no-cache"})
    assert ("cache-control", "no-cache") in upstream.calls[0].headers
