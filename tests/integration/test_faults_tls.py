"""The gateway's own TLS listener: a real handshake, the official SDKs, the command line, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import pytest
from cryptography.hazmat.primitives import serialization

from support.certificates import Authority, Issued
from support.fault_scripts import CHAT, TEXT, answers
from support.running import RunningGateway
from support.scripted_upstream import ScriptedUpstream

Json = Any


class TlsGateway(RunningGateway):
    """It is up when it says where it listens: whether its certificate is trusted is what the tests ask."""

    def _is_up(self, *, wait_ready: bool) -> bool:
        try:
            found = json.loads((self.data_dir / "server.json").read_bytes())
        except (OSError, ValueError):
            return False
        self.url = found["url"]
        return bool(self.process is not None and found["pid"] == self.process.pid)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("localhost", "127.0.0.1")


def config(upstream_url: str, issued: Issued) -> dict[str, Json]:
    return {
        "server": {"tls_cert": str(issued.cert_file), "tls_key": str(issued.key_file)},
        "upstreams": [{"name": "pods", "kind": "openai", "urls": [upstream_url]}],
    }


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream, issued: Issued) -> AsyncIterator[TlsGateway]:
    running = TlsGateway(tmp_path / "data", config(upstream.url, issued))
    await asyncio.to_thread(running.__enter__)
    yield running
    await asyncio.to_thread(running.__exit__)


async def status_of(data_dir: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "openclaw_cache", "status", *args],
            env=os.environ | {"OPENCLAW_CACHE_SERVER__DATA_DIR": str(data_dir)} | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return await asyncio.to_thread(run)


async def test_the_official_sdk_talks_to_it_over_tls_whole_and_streamed(
    gateway: TlsGateway, upstream: ScriptedUpstream, authority: Authority
) -> None:
    upstream.script = answers(CHAT)
    assert gateway.url.startswith("https://127.0.0.1:")
    trusting = ssl.create_default_context(cafile=authority.ca_file)
    async with openai.AsyncOpenAI(
        base_url=gateway.url + "/v1", api_key="k", http_client=httpx2.AsyncClient(verify=trusting)
    ) as sdk:
        chat: Any = sdk.chat.completions
        told = [
            part.choices[0].delta.content or ""
            async for part in await chat.create(**CHAT.body(stream=True))
            if part.choices
        ]
        assert "".join(told) == TEXT
        whole = await chat.with_raw_response.create(**CHAT.body())
        assert whole.headers["cache-status"] == "openclaw-cache; hit; detail=exact"
    assert upstream.num_calls == 1


async def test_a_client_that_does_not_know_the_authority_or_speaks_no_tls_gets_nothing(
    gateway: TlsGateway, upstream: ScriptedUpstream
) -> None:
    place = urlsplit(gateway.url)
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(place.hostname, place.port, ssl=ssl.create_default_context())
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
    async with asyncio.timeout(20):
        try:
            answered = await reader.read()
        except ConnectionError:
            answered = b""
    writer.close()
    assert b"HTTP/1.1 200" not in answered


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # that it is deprecated is what is asked here
async def test_versions_of_tls_that_are_broken_are_refused(gateway: TlsGateway, authority: Authority) -> None:
    """RFC 8996 retires TLS 1.0 and 1.1."""
    place = urlsplit(gateway.url)
    for version, is_taken in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
        context = ssl.create_default_context(cafile=authority.ca_file)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, version
        context.set_ciphers("ALL:@SECLEVEL=0")
        try:
            _, writer = await asyncio.open_connection(place.hostname, place.port, ssl=context)
            writer.close()
        except (ssl.SSLError, ConnectionError):
            assert not is_taken
        else:
            assert is_taken


async def test_the_command_line_finds_and_trusts_the_server_of_its_own_data_dir(
    gateway: TlsGateway, tmp_path: Path
) -> None:
    shown = await status_of(gateway.data_dir, "--json")
    assert shown.returncode == 0, shown.stderr
    assert gateway.process is not None
    assert json.loads(shown.stdout)["pid"] == gateway.process.pid


async def test_the_command_line_trusts_another_server_by_the_authority_it_is_given(
    gateway: TlsGateway, authority: Authority, tmp_path: Path
) -> None:
    trusting = {"OPENCLAW_CACHE_CA_FILE": str(authority.ca_file)}
    elsewhere = tmp_path / "elsewhere"
    assert (await status_of(elsewhere, "--url", gateway.url, **trusting)).returncode == 0
    elsewhere.mkdir()
    other = Authority(elsewhere)
    for ca_file in (other.ca_file, None):
        env = {"OPENCLAW_CACHE_CA_FILE": str(ca_file)} if ca_file else {}
        failed = await status_of(elsewhere, "--url", gateway.url, **env)
        assert failed.returncode == 3
        assert "certificate" in failed.stderr
    failed = await status_of(
        elsewhere, "--url", gateway.url, OPENCLAW_CACHE_CA_FILE=str(tmp_path / "none.pem")
    )
    assert failed.returncode == 2
    assert "none.pem" in failed.stderr


async def test_a_certificate_for_another_name_is_not_trusted_elsewhere(
    tmp_path: Path, upstream: ScriptedUpstream, authority: Authority
) -> None:
    """In its own data dir it is: there the server has said itself which certificate is its own."""
    issued = authority.issue("gateway.example")
    running = TlsGateway(tmp_path / "data", config(upstream.url, issued))
    await asyncio.to_thread(running.__enter__)
    try:
        assert (await status_of(running.data_dir)).returncode == 0
        trusting = {"OPENCLAW_CACHE_CA_FILE": str(authority.ca_file)}
        failed = await status_of(tmp_path / "elsewhere", "--url", running.url, **trusting)
        assert failed.returncode == 3
        assert "certificate" in failed.stderr
    finally:
        await asyncio.to_thread(running.__exit__)


async def test_a_client_that_never_finishes_its_handshake_holds_up_nobody(
    gateway: TlsGateway, upstream: ScriptedUpstream, authority: Authority
) -> None:
    place = urlsplit(gateway.url)
    assert place.hostname is not None
    silent = [socket.create_connection((place.hostname, place.port)) for _ in range(50)]
    try:
        assert (await status_of(gateway.data_dir)).returncode == 0
    finally:
        for one in silent:
            one.close()


def encrypted(issued: Issued, folder: Path) -> Path:
    key = serialization.load_pem_private_key(issued.key_file.read_bytes(), None)
    locked = folder / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    return locked


@pytest.mark.parametrize("fault", ["no key", "no such file", "another key", "no certificate", "a locked key"])
def test_files_that_cannot_serve_end_the_start_and_name_their_settings(
    tmp_path: Path, authority: Authority, issued: Issued, fault: str
) -> None:
    server: dict[str, str] = {"tls_cert": str(issued.cert_file), "tls_key": str(issued.key_file)}
    if fault == "no key":
        del server["tls_key"]
    elif fault == "no such file":
        server["tls_cert"] = str(tmp_path / "none.pem")
    elif fault == "another key":
        server["tls_key"] = str(authority.issue("localhost").key_file)
    elif fault == "no certificate":
        shutil.copy(issued.key_file, issued.cert_file)
    else:
        server["tls_key"] = str(encrypted(issued, tmp_path))
    pods = {"name": "pods", "kind": "openai", "urls": ["http://127.0.0.1:9"]}
    file = tmp_path / "config.yaml"
    file.write_text(json.dumps({"server": server, "upstreams": [pods]}))
    done = subprocess.run(
        [sys.executable, "-m", "openclaw_cache", "serve", "--config", str(file), "--port", "0"],
        env=os.environ | {"OPENCLAW_CACHE_SERVER__DATA_DIR": str(tmp_path / "data")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "tls_cert" in done.stderr
    assert "Traceback" not in done.stderr
    assert "BEGIN" not in done.stderr
