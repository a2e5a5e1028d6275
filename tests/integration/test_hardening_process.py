"""A gateway process that is attacked with odd connections and signals."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from openclaw_cache.app import App
from openclaw_cache.config import load
from openclaw_cache.store.lock import FileLock
from support.answering_upstream import AnsweringUpstream
from support.running import RunningGateway

BODY = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with AnsweringUpstream() as upstream:
        config = {"upstreams": [{"name": "pods", "kind": "openai", "urls": [upstream.url]}]}
        with RunningGateway(tmp_path_factory.mktemp("attacked") / "data", config) as running:
            yield running


def exchange(gateway: RunningGateway, *parts: bytes, timeout_s: float = 10.0) -> bytes:
    """Send these parts one after the other; everything that comes back until the server closes."""
    place = urlsplit(gateway.url)
    with socket.create_connection((place.hostname, place.port), timeout=timeout_s) as client:
        received = b""
        try:
            for part in parts:
                client.sendall(part)
            while data := client.recv(65536):
                received += data
        except ConnectionError:
            pass  # closed while we were still sending
        return received


def head(*fields: bytes, size: int = len(BODY)) -> bytes:
    lines = [b"POST /v1/chat/completions HTTP/1.1", b"Host: 127.0.0.1", b"Connection: close", *fields]
    return b"\r\n".join([*lines, b"Content-Length: %d" % size]) + b"\r\n\r\n"


@pytest.mark.parametrize(
    "fields",
    [
        (
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA",
        ),
        (b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-version: 13"),
        (b"UPGRADE: TLS/1.0", b"CONNECTION: UPGRADE"),
    ],
    ids=["h2c", "websocket", "tls"],
)
@pytest.mark.parametrize("in_one_packet", [True, False])
def test_an_offer_to_change_the_protocol_is_ignored_and_the_request_answered(
    gateway: RunningGateway, fields: tuple[bytes, ...], in_one_packet: bool
) -> None:
    """RFC 9110 §7.8: a server may ignore an Upgrade. Java's HTTP client sends one with every request."""
    parts = (head(*fields) + BODY,) if in_one_packet else (head(*fields), BODY)
    answered = exchange(gateway, *parts)
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert b'"chat.completion"' in answered


def test_the_word_upgrade_in_a_body_or_another_field_stays(gateway: RunningGateway) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"\\r\\nUpgrade: h2c"}]}'
    answered = exchange(
        gateway, head(b"X-Upgrade: yes", b"Upgrade-Insecure-Requests: 1", size=len(body)) + body
    )
    assert answered.startswith(b"HTTP/1.1 200 ")


def test_a_head_that_never_ends_is_refused_at_its_bound(gateway: RunningGateway) -> None:
    start = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    fields = [b"x-%d: " % number + b"v" * 1000 + b"\r\n" for number in range(2000)]
    answered = exchange(gateway, start, *fields)
    assert answered == b"" or answered.startswith(b"HTTP/1.1 431 ")  # a reset may overtake the answer


def test_a_head_of_ordinary_size_in_many_packets_is_taken(gateway: RunningGateway) -> None:
    whole = head(*(b"x-%d: %b" % (number, b"v" * 1000) for number in range(20)))
    parts = [whole[start : start + 1000] for start in range(0, len(whole), 1000)]
    assert exchange(gateway, *parts, BODY).startswith(b"HTTP/1.1 200 ")


async def test_a_start_that_is_cut_off_leaves_no_store_behind(tmp_path: Path) -> None:
    settings = load(env={}, overrides={
        "server.data_dir": str(tmp_path / "data"),
        "upstreams": [{"name": "pods", "kind": "openai", "urls": ["http://127.0.0.1:9"]}],
    }).settings  # fmt: skip
    app = App(settings, lambda _line: None, {})
    starting = asyncio.create_task(app.start())
    folder = tmp_path / "data" / "valkey"
    while not (folder / "valkey.conf").exists() and not starting.done():
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await app.stop()
    assert FileLock(folder / "server.lock").try_acquire(), "a Valkey is still running"
