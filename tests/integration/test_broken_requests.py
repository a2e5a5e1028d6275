"""Odd requests, odd hosts and long replies: each is answered, and nothing is left held."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import aiohttp
import pytest

from support.running import RunningGateway
from support.scripted_upstream import Exchange, ScriptedUpstream
from support.served import Served, chat, served

MIB = 2**20


async def test_a_length_with_thousands_of_zeros_before_it_is_that_length(gateway: Served) -> None:
    body = json.dumps(chat()).encode()
    port = int(gateway.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    length = b"0" * 5000 + str(len(body)).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: "
    writer.write(head + length + b"\r\n\r\n" + body)
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_a_pod_whose_host_can_be_no_name_is_left_out_and_the_others_answer(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, ["http://a..b:80", upstream.url]) as gateway:
        statuses = [(await gateway.ask(chat(f"question {i}"))).status for i in range(4)]
        pods = (await gateway.get("/admin/status")).json()["upstreams"][0]["pods"]
    assert statuses == [200] * 4
    assert pods[0]["num_failures"] > 0
    assert pods[1]["state"] == "up"


@pytest.mark.parametrize("model", ["a\x9b31mb", "a\u2028b", "a\x1b]0;b"])
async def test_a_model_name_cannot_move_the_cursor_or_break_the_lines_of_whoever_reads_status(
    gateway: Served, model: str
) -> None:
    assert (await gateway.ask({**chat(), "model": model})).status == 200
    shown = (await gateway.get("/admin/status")).json()["savings"]["models"]
    assert [name for name in shown if not name.isprintable()] == []
    assert len(shown) == 1


async def send_40_mib_and_stall(exchange: Exchange) -> None:
    await exchange.head(200, {"content-type": "application/json", "transfer-encoding": "chunked"})
    for _ in range(40):
        await exchange.chunk(b" " * MIB)
    await exchange.until_closed()


async def test_a_long_reply_that_is_held_for_its_client_counts_as_in_flight(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = send_40_mib_and_stall
    async with served(tmp_path, [upstream.url], server__max_inflight="200MB") as gateway:
        inflight = gateway.app.gateway.inflight
        asking = asyncio.create_task(gateway.ask(chat("long")))
        async with asyncio.timeout(20):
            while inflight.held_bytes < 40 * MIB:
                await asyncio.sleep(0.01)
        asking.cancel()
        async with asyncio.timeout(20):
            while inflight.held_bytes:
                await asyncio.sleep(0.01)


async def test_a_long_reply_without_room_is_refused_and_leaves_nothing_held(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = send_40_mib_and_stall
    async with served(tmp_path, [upstream.url], server__max_inflight="20MB") as gateway:
        answered = await gateway.ask(chat("long"))
        assert answered.status == 503
        assert answered.json()["error"]["code"] == "overloaded"
        assert int(answered.headers["retry-after"]) >= 1
        assert gateway.app.gateway.inflight.held_bytes == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/audio/speech"])
async def test_a_request_that_the_end_of_a_drain_cuts_off_is_told_so(tmp_path: Path, path: str) -> None:
    async def never(exchange: Exchange) -> None:
        await exchange.until_closed()

    async with ScriptedUpstream(never) as upstream:
        pods = {"name": "u", "kind": "openai", "urls": [upstream.url], "relay": ["/v1/audio/*"]}
        config = {"server": {"drain_timeout": "1s"}, "upstreams": [pods]}
        running = RunningGateway(tmp_path / "data", config)
        await asyncio.to_thread(running.start)
        try:
            async with aiohttp.ClientSession() as session:
                asking = asyncio.create_task(
                    session.post(running.url + path, json={**chat(), "input": "one"})
                )
                await upstream.called()
                assert running.process is not None
                running.process.send_signal(signal.SIGTERM)
                response = await asking
                told = await response.json()
            assert (response.status, told["error"]["code"]) == (503, "shutting_down")
            assert await asyncio.to_thread(running.process.wait, 30) == 0
        finally:
            await asyncio.to_thread(running.__exit__)
