"""Upstreams behind TLS, with certificates of an authority that the system does not know."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.gateway.upstream import Upstream
from support.scripted_upstream import ScriptedUpstream
from support.upstreams import ask, calling, whole


def serving(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
async def pod(authority: trustme.CA) -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(tls=serving(authority, "localhost")) as running:
        yield running


async def refused(upstream: Upstream) -> RequestError:
    with pytest.raises(RequestError) as failed:
        await ask(upstream)
    return failed.value


async def test_an_upstream_of_an_authority_that_is_named_answers_over_kept_connections(
    pod: ScriptedUpstream, ca_file: Path
) -> None:
    async with calling(pod.url, ca_file=ca_file) as upstream:
        for i in (1, 2):
            assert b"answer %d" % i in await whole(await ask(upstream))
    assert pod.num_connections == 1


async def test_an_unknown_authority_is_a_502_that_names_the_setting(pod: ScriptedUpstream) -> None:
    async with calling(pod.url) as upstream:
        failed = await refused(upstream)
        assert (failed.status, failed.code) == (502, "upstream_unreachable")
        assert "not trusted" in failed.message
        assert "upstreams.pods.ca_file" in failed.message
        assert not upstream.is_up
    assert pod.num_calls == 0


async def test_only_the_authority_that_is_named_is_trusted(pod: ScriptedUpstream, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    async with calling(pod.url, ca_file=other) as upstream:
        assert "not trusted" in (await refused(upstream)).message
    assert pod.num_calls == 0


async def test_a_certificate_for_another_host_is_not_trusted(authority: trustme.CA, ca_file: Path) -> None:
    async with (
        ScriptedUpstream(tls=serving(authority, "pods.example")) as pod,
        calling(pod.url, ca_file=ca_file) as upstream,
    ):
        failed = await refused(upstream)
        assert "not trusted" in failed.message
        assert "localhost" in failed.message
        assert pod.num_calls == 0


async def test_a_server_without_tls_is_a_502(ca_file: Path) -> None:
    async def speaks_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speaks_plainly, "127.0.0.1", 0) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        async with calling(url, ca_file=ca_file) as upstream:
            failed = await refused(upstream)
            assert (failed.status, failed.code) == (502, "upstream_unreachable")


async def test_another_pod_answers_for_one_that_is_not_trusted(pod: ScriptedUpstream, ca_file: Path) -> None:
    async with (
        ScriptedUpstream(tls=serving(trustme.CA(), "localhost")) as stranger,
        calling(stranger.url, pod.url, ca_file=ca_file) as upstream,
    ):
        for _ in range(3):
            await whole(await ask(upstream))
        assert (stranger.num_calls, pod.num_calls) == (0, 3)
        assert upstream.status()[0]["last_error"] == "SSLCertVerificationError"


@pytest.mark.parametrize("content", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_of_no_authority_is_refused_at_once_and_by_its_name(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"upstreams\.pods\.ca_file: .*ca\.pem"):
        Upstream(name="pods", urls=["https://localhost"], ca_file=path)


def test_a_folder_is_no_file_of_an_authority(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"upstreams\.pods\.ca_file"):
        Upstream(name="pods", urls=["https://localhost"], ca_file=tmp_path)
