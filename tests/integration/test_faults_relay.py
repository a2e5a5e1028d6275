"""`upstreams[].relay`: what is named goes through untouched, and nothing else does."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fault_scripts import CHAT, MESSAGES, Wire, framed, stalls_after, whole_bytes
from support.scripted_upstream import Call, Exchange, Gate, ScriptedUpstream, answer, event, sends_raw
from support.served import Json, Served, served
from support.upstreams import closed_url

GLOBS = ["/v1/audio/*", "/v1/files", "/v1/files/*"]
AUDIO = "/v1/audio/speech"
KEYS = [
    {"key": "sk-free-long-enough", "namespace": "free"},
    {"key": "sk-some-long-enough", "namespace": "some", "models": ["pod-*"]},
    {"key": "sk-agent-long-enough", "namespace": "agent", "agents": ["coder"]},
    {"key": "sk-spent-long-enough", "namespace": "spent", "budgets": {"requests_per_minute": 1}},
    {"key": "sk-metered-long-enough", "namespace": "metered", "budgets": {"tokens_per_day": 10**9}},
]


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer sk-{name}-long-enough"}


class RelayedUpstream(ScriptedUpstream):
    """Takes every method for a call of its own."""

    async def run(self, call: Call, connection: Json) -> None:
        self.calls.append(call)
        script = self.next_scripts.pop(0) if self.next_scripts else self.script
        await script(Exchange(call, connection, len(self.calls)))


@pytest.fixture
async def upstream() -> AsyncIterator[RelayedUpstream]:
    async with RelayedUpstream(whole_bytes(b"\x00\xff", 200, {"content-type": "audio/mpeg"})) as pod:
        yield pod
        assert pod.failures == []


@pytest.fixture
async def gateway(tmp_path: Path, upstream: RelayedUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path, [upstream.url], upstream={"relay": GLOBS}) as running:
        yield running


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_every_method_goes_through_with_query_headers_and_body_untouched(
    gateway: Served, upstream: RelayedUpstream, method: str
) -> None:
    body = b"" if method in ("GET", "OPTIONS") else b'{ "input": 1.50,\r\n "input": "\\u00e9" }'
    headers = {"x-kept": "yes", "content-type": "application/x-odd", "authorization": "Bearer sk-client"}
    url = f"{gateway.url}{AUDIO}?a=1&a=2&empty="
    async with gateway.session.request(method, url, data=body, headers=headers) as response:
        assert (response.status, await response.read()) == (200, b"\x00\xff")
        assert response.headers["content-type"] == "audio/mpeg"
        assert response.headers["cache-status"] == "openclaw-cache; fwd=bypass; detail=relay"
        assert response.headers["x-request-id"]
    [call] = upstream.calls
    assert (call.method, call.target, call.body) == (method, f"{AUDIO}?a=1&a=2&empty=", body)
    assert {name: call.header(name) for name in headers} == headers


async def test_a_compressed_upload_goes_through_as_it_is(gateway: Served, upstream: RelayedUpstream) -> None:
    packed = gzip.compress(b"a recording")
    await gateway.ask(raw=packed, path=AUDIO, headers={"content-encoding": "gzip"})
    [call] = upstream.calls
    assert (call.header("content-encoding"), call.body) == ("gzip", packed)


async def test_what_has_changed_since_is_asked_and_told(gateway: Served, upstream: RelayedUpstream) -> None:
    upstream.script = sends_raw(b'HTTP/1.1 304 Not Modified\r\netag: "1"\r\n\r\n')
    answered = await gateway.get("/v1/files/a", headers={"if-none-match": '"1"'})
    assert (answered.status, answered.headers["etag"], answered.body) == (304, '"1"', b"")
    assert upstream.calls[0].header("if-none-match") == '"1"'


async def test_a_head_request_gets_a_head(gateway: Served, upstream: RelayedUpstream) -> None:
    upstream.script = sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nx-size: 7\r\n\r\n")
    async with gateway.session.head(gateway.url + "/v1/files/a") as response:
        assert (response.status, response.headers["x-size"], await response.read()) == (200, "7", b"")
    assert upstream.calls[0].method == "HEAD"


@pytest.mark.parametrize("status", [201, 204, 400, 429, 500])
async def test_every_status_comes_back_with_its_body_and_headers(
    gateway: Served, upstream: RelayedUpstream, status: int
) -> None:
    body = b"" if status == 204 else b"<html>as it is"
    upstream.script = whole_bytes(body, status, {"content-type": "text/html", "retry-after": "30"})
    async with gateway.session.post(gateway.url + AUDIO) as response:
        assert (response.status, await response.read()) == (status, body)
        assert response.headers["retry-after"] == "30"
    assert len(upstream.calls) == 1


async def test_a_stream_arrives_as_it_comes(gateway: Served, upstream: RelayedUpstream) -> None:
    go_on = asyncio.Event()

    async def waits(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(event({"n": 1}))
        await go_on.wait()
        await exchange.chunk(b"half an event")
        await exchange.last_chunk()

    upstream.script = waits
    async with gateway.session.post(gateway.url + AUDIO) as response:
        assert await asyncio.wait_for(response.content.readany(), 10) == event({"n": 1})
        go_on.set()
        assert await response.read() == b"half an event"


async def test_nothing_that_was_relayed_is_stored_or_shared(
    gateway: Served, upstream: RelayedUpstream
) -> None:
    gate = Gate(whole_bytes(b"one"))
    upstream.script = gate
    asking = [asyncio.create_task(gateway.ask({}, path=AUDIO)) for _ in range(3)]
    async with asyncio.timeout(20):
        while len(upstream.calls) < 3:
            await asyncio.sleep(0.005)
    gate.open()
    assert [one.body for one in await asyncio.gather(*asking)] == [b"one"] * 3
    await gateway.ask({}, path=AUDIO)
    assert len(upstream.calls) == 4


async def test_headers_of_one_hop_stay_there_in_both_directions(
    gateway: Served, upstream: RelayedUpstream
) -> None:
    told = ["connection: x-hop", "x-hop: 1", "keep-alive: timeout=5", "upgrade: h2c", "x-kept: yes"]
    upstream.script = sends_raw(framed({}, headers=told))
    sent = {
        "connection": "x-mine",
        "x-mine": "1",
        "te": "trailers",
        "proxy-authorization": "x",
        "cookie": "c=1",
    }
    answered = await gateway.ask({}, path=AUDIO, headers=sent)
    assert upstream.calls[0].names().isdisjoint({"x-mine", "te", "proxy-authorization", "cookie"})
    assert answered.headers["x-kept"] == "yes"
    assert not {"x-hop", "keep-alive", "upgrade"} & {name.lower() for name in answered.headers}


@pytest.mark.parametrize(
    "path",
    ["/v1/images/generations", "/v1/audio", "/v1/file", "/v2/audio/speech", "/", "/v1/audi%6f/speech/"],
)
async def test_other_paths_are_404_and_reach_nobody(
    gateway: Served, upstream: RelayedUpstream, path: str
) -> None:
    status, _ = await raw(gateway, path)
    assert status == 404 or path.startswith("/v1/audi%6f")
    assert upstream.calls == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/audio/../files/a",
        "/v1/audio/..",
        "/v1/audio/./speech",
        "/v1/audio/%2e%2e/files/a",
        "/v1/audio/%2E%2E%2Fadmin",
        "/v1/audio/a%2fb",
        "/v1/audio/a%00b",
        "/v1/audio//speech",
        "/v1/audio/a\\..\\b",
        "/v1/audio/a%0d%0ax-admin:%201",
        "/v1/audio/sp%65ech",
    ],
)
async def test_what_two_readers_could_take_for_two_paths_is_404(
    gateway: Served, upstream: RelayedUpstream, path: str
) -> None:
    status, body = await raw(gateway, path)
    assert status in (400, 404)
    assert upstream.calls == []
    assert status == 400 or b'"code":"not_found"' in body


async def raw(gateway: Served, path: str) -> tuple[int, bytes]:
    """GET a path as it is written, which clients would tidy up."""
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n".encode())
    async with asyncio.timeout(20):
        answered = await reader.read()
    writer.close()
    return int(answered.split(b" ")[1]), answered


async def test_our_own_paths_are_ours_whatever_the_globs_say(
    tmp_path: Path, upstream: RelayedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], upstream={"relay": ["/*"]}) as gateway:
        assert (await gateway.get("/healthz")).json() == {"status": "ok"}
        assert (await gateway.get("/admin/status")).status == 200
        assert (await gateway.get("/v1/chat/completions")).status == 405
        assert upstream.calls == []
        upstream.script = answer
        assert (await gateway.ask()).cache_status == "openclaw-cache; fwd=miss; stored"
        for path in ("/admin/none", "/admin", "/anything"):
            assert (await gateway.ask({}, path=path)).status == 200  # the operator has said so


async def test_a_key_without_limits_may_and_one_with_limits_may_not(
    tmp_path: Path, upstream: RelayedUpstream
) -> None:
    """What is relayed is not read, so that nobody can see which model or agent it names, or what it costs."""
    upstream_settings = {"relay": GLOBS}
    async with served(tmp_path, [upstream.url], upstream=upstream_settings, server__keys=KEYS) as gateway:
        assert (await gateway.ask({}, path=AUDIO)).status == 401
        for name in ("some", "agent", "metered"):
            refused = await gateway.ask({"model": "pod-1"}, path=AUDIO, headers=bearer(name))
            assert (refused.status, refused.json()["error"]["code"]) == (403, "relay_not_allowed")
        assert upstream.calls == []
        for status in (200, 429):
            assert (await gateway.ask({}, path=AUDIO, headers=bearer("spent"))).status == status
        assert (await gateway.ask({}, path=AUDIO, headers=bearer("free"))).status == 200
        assert len(upstream.calls) == 2
        assert all("authorization" not in call.names() for call in upstream.calls)


async def test_the_operators_key_goes_up_in_place_of_the_clients(
    tmp_path: Path, upstream: RelayedUpstream
) -> None:
    env = {"POD_KEY": "sk-pod"}
    settings = {"relay": GLOBS, "api_key_env": "POD_KEY"}
    async with served(tmp_path, [upstream.url], upstream=settings, env=env) as gateway:
        await gateway.ask({}, path=AUDIO, headers={"authorization": "Bearer sk-client", "x-api-key": "sk-2"})
    assert upstream.calls[0].header("authorization") == "Bearer sk-pod"
    assert "sk-2" not in str(upstream.calls[0].headers)


@pytest.mark.parametrize("wire", [CHAT, MESSAGES], ids=["openai", "anthropic"])
async def test_failures_are_told_in_the_form_of_the_upstreams_api(
    tmp_path: Path, upstream: RelayedUpstream, wire: Wire
) -> None:
    gone = {"relay": GLOBS, "kind": wire.vendor}
    async with served(tmp_path / "gone", [closed_url()], upstream=gone) as gateway:
        failed = await gateway.ask({}, path=AUDIO)
        assert failed.status == 502
        assert "cannot be reached" in wire.error(failed)
    async with served(tmp_path / "small", [upstream.url], upstream=gone, server__max_body=10) as gateway:
        failed = await gateway.ask({"x": "a" * 20}, path=AUDIO)
        assert failed.status == 413
        assert "server.max_body" in wire.error(failed)
    assert upstream.calls == []


@pytest.mark.parametrize("part", [b"", b"data: half"], ids=["before the head", "in the body"])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_reply_that_breaks_off_breaks_off_for_its_client_too(
    gateway: Served, upstream: RelayedUpstream, part: bytes, status: int
) -> None:
    head = b"HTTP/1.1 %d Status\r\ncontent-length: 100\r\n\r\n" % status if part else b""
    upstream.script = sends_raw(head + part)
    if not part:
        assert (await gateway.ask({}, path=AUDIO)).status == 502
        return
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {AUDIO} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n".encode())
    async with asyncio.timeout(20):
        answered = await reader.read()
    writer.close()
    assert answered.startswith(b"HTTP/1.1 %d " % status)
    assert answered.count(b"HTTP/1.1") == 1
    assert part in answered
    assert not answered.endswith(b"0\r\n\r\n")  # no clean end of the chunked body


@pytest.mark.parametrize("events", [[], [event({"n": 1})]], ids=["before the head", "in the body"])
async def test_a_client_that_leaves_closes_the_upstream(
    gateway: Served, upstream: RelayedUpstream, events: list[bytes]
) -> None:
    upstream.script = stalls_after(events) if events else Gate()
    task = asyncio.create_task(gateway.ask({}, path=AUDIO))
    call = await upstream.called()
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.wait_for(call.closed.wait(), 1.0)
    async with asyncio.timeout(20):
        while gateway.app.asgi._door.slots.running():
            await asyncio.sleep(0.005)


async def test_a_redirect_is_not_followed(gateway: Served, upstream: RelayedUpstream) -> None:
    upstream.script = whole_bytes(b"", 307, {"location": upstream.url + "/v1/admin"})
    assert (await gateway.ask({}, path=AUDIO)).status == 502
    assert len(upstream.calls) == 1


async def test_a_post_whose_connection_broke_is_not_sent_twice(
    gateway: Served, upstream: RelayedUpstream
) -> None:
    """Nobody knows what it does: only what HTTP calls safe is repeated."""
    upstream.script = sends_raw(b"", reset=True)
    failed = await gateway.ask({}, path=AUDIO)
    assert (failed.status, len(upstream.calls)) == (502, 1)
    assert json.loads(failed.body)["error"]["code"] == "upstream_broken"
