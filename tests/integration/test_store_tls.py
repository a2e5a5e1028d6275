"""A store over TLS: what is trusted, what is refused, and that time bounds hold there too."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import threading
from typing import TYPE_CHECKING

import pytest
import uvloop

from openclaw_cache.errors import ConfigError, StoreUnavailableError
from openclaw_cache.store.address import parse_url
from openclaw_cache.store.remote import RemoteStore, open_store
from openclaw_cache.store.tls import TlsFiles
from openclaw_cache.testing import running_valkey
from support.certificates import Authority
from support.tls_front import tls_front

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


async def tried(
    tmp_path: Path, context: ssl.SSLContext, files: TlsFiles | None, host: str = "localhost"
) -> None:
    """Start a store on a server behind `context`, use it, and close it."""
    async with (
        running_valkey(tmp_path, tcp=True) as (url, _),
        tls_front(parse_url(url).port, context) as port,
    ):
        store = open_store(f"rediss://{host}:{port}", tls=files, timeout_s=5.0)
        try:
            await store.start()
            await store.put(b"k", b"v")
            assert await store.get(b"k") == b"v"
        finally:
            await store.aclose()


async def until_up(store: RemoteStore) -> None:
    async with asyncio.timeout(30):
        while not store.up:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_name_or_address_that_the_certificate_has_is_taken(tmp_path: Path, host: str) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("localhost", "127.0.0.1").server_context()
    await tried(tmp_path, context, TlsFiles(ca_file=authority.ca_file), host)


@pytest.mark.parametrize("files", [None, "other"], ids=["the system's authorities", "another authority"])
async def test_an_authority_that_is_not_ours_is_a_configuration_error(
    tmp_path: Path, files: str | None
) -> None:
    (tmp_path / "other").mkdir()
    other = TlsFiles(ca_file=Authority(tmp_path / "other").ca_file) if files else None
    with pytest.raises(ConfigError, match=r"^store\.ca_file: rediss://localhost:\d+/0: .*not trusted"):
        await tried(tmp_path, Authority(tmp_path).issue("localhost").server_context(), other)


async def test_an_expired_certificate_is_a_configuration_error(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("localhost", expired=True).server_context()
    with pytest.raises(ConfigError, match=r"^store\.ca_file: .*expired.*renew"):
        await tried(tmp_path, context, TlsFiles(ca_file=authority.ca_file))


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_certificate_of_another_host_is_a_configuration_error(tmp_path: Path, host: str) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("elsewhere", "127.0.0.9").server_context()
    with pytest.raises(ConfigError, match=r"^store\.url: .*another one's"):
        await tried(tmp_path, context, TlsFiles(ca_file=authority.ca_file), host)


async def test_a_client_certificate_is_shown_where_the_server_wants_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("localhost").server_context(client_ca=authority.ca_file)
    mine = authority.issue("gateway")
    await tried(tmp_path, context, TlsFiles(authority.ca_file, mine.cert_file, mine.key_file))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("shown", ["none", "of another authority"])
def test_a_missing_or_foreign_client_certificate_is_a_configuration_error(
    tmp_path: Path, shown: str, run: Callable[..., None]
) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("localhost").server_context(client_ca=authority.ca_file)
    files = TlsFiles(authority.ca_file)
    if shown != "none":
        (tmp_path / "other").mkdir()
        foreign = Authority(tmp_path / "other", "foreign").issue("gateway")
        files = TlsFiles(authority.ca_file, foreign.cert_file, foreign.key_file)

    async def main(port: int) -> None:
        with pytest.raises(ConfigError, match=r"^store\.cert_file: .*client certificate"):
            await open_store(f"rediss://localhost:{port}", tls=files, timeout_s=5.0).start()

    with refusing_server(context) as port:
        run(main(port))


@contextlib.contextmanager
def refusing_server(context: ssl.SSLContext) -> Iterator[int]:
    """OpenSSL on a plain socket, as C servers use it: a handshake that fails ends with an alert.

    (asyncio's own TLS servers hang up without one.)
    """

    def serve() -> None:
        connection, _ = listener.accept()
        connection.settimeout(10)
        secured = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with pytest.raises(ssl.SSLError):
            secured.do_handshake()
        with socket.socket(fileno=secured.detach()) as plain, contextlib.suppress(OSError):
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(1 << 16):  # else the kernel may send a reset that overtakes the alert
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


async def test_a_server_that_hangs_up_on_us_without_an_alert_leaves_a_hint(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.issue("localhost").server_context(client_ca=authority.ca_file)
    with pytest.raises(StoreUnavailableError, match=r"store\.cert_file"):
        await tried(tmp_path, context, TlsFiles(authority.ca_file))


async def test_a_server_without_tls_is_never_spoken_to_in_the_clear(tmp_path: Path) -> None:
    async with running_valkey(tmp_path, tcp=True, password="correct") as (url, _):
        store = open_store(url.replace("redis://", "rediss://"), timeout_s=0.5)
        try:
            await store.start()
        except ConfigError as error:
            assert "no TLS is spoken there" in str(error)  # noqa: PT017 - either way is right, see below
        else:  # a server may also keep silent
            with pytest.raises(StoreUnavailableError, match="TLS"):
                await store.get(b"k")
        await store.aclose()


async def test_a_peer_that_answers_a_handshake_with_plain_text_is_a_configuration_error() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"-ERR Protocol error: unauthenticated multibulk length\r\n")
        writer.close()

    server = await asyncio.start_server(script, "127.0.0.1", 0)
    store = open_store(f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(ConfigError, match=r"^store\.url: .*no TLS is spoken there"):
        await store.start()
    server.close()


async def test_a_peer_that_hangs_up_in_the_handshake_is_unavailable_not_misconfigured() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.close()

    server = await asyncio.start_server(script, "127.0.0.1", 0)
    store = open_store(f"rediss://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await store.start()
    assert not store.up
    await store.aclose()
    server.close()


async def test_a_server_that_comes_back_with_an_untrusted_certificate_stays_down(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    reasons: list[str] = []
    async with running_valkey(tmp_path, tcp=True) as (url, _):
        below = parse_url(url).port
        async with tls_front(below, authority.issue("localhost").server_context()) as port:
            store = open_store(
                f"rediss://localhost:{port}", tls=TlsFiles(authority.ca_file), timeout_s=5.0,
                on_change=lambda _, reason: reasons.append(reason),
            )  # fmt: skip
            await store.start()
            assert store.up
        async with tls_front(below, other.issue("localhost").server_context(), port=port):
            async with asyncio.timeout(20):
                while True:
                    with pytest.raises(StoreUnavailableError) as caught:
                        await store.get(b"k")
                    if "not trusted" in str(caught.value):
                        break
                    await asyncio.sleep(0.02)
        async with tls_front(below, authority.issue("localhost").server_context(), port=port):
            await until_up(store)
            assert await store.get(b"k") is None
        await store.aclose()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_frozen_server_behind_tls_fails_calls_and_heals(run: Callable[..., None], tmp_path: Path) -> None:
    async def main() -> None:
        authority = Authority(tmp_path)
        context = authority.issue("localhost").server_context()
        async with (
            running_valkey(tmp_path, tcp=True) as (url, process),
            tls_front(parse_url(url).port, context) as port,
        ):
            store = open_store(f"rediss://localhost:{port}", tls=TlsFiles(authority.ca_file), timeout_s=0.25)
            await store.start()
            await store.put(b"k", b"v")
            process.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(10):
                answers = await asyncio.gather(*(store.get(b"k") for _ in range(50)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {StoreUnavailableError}
            process.send_signal(signal.SIGCONT)
            await until_up(store)
            assert await store.get(b"k") == b"v"
            await store.aclose()

    run(main())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_untrusted_certificate_is_refused_on_both_event_loops(
    run: Callable[..., None], tmp_path: Path
) -> None:
    context = Authority(tmp_path).issue("localhost").server_context()
    with pytest.raises(ConfigError, match=r"^store\.ca_file: "):
        run(tried(tmp_path, context, None))


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_large_put_over_tls_may_take_longer_than_the_bound_while_it_moves(
    run: Callable[..., None], tmp_path: Path
) -> None:
    size = 48 << 20
    authority = Authority(tmp_path)
    context = authority.issue("localhost").server_context()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A server that takes a large command at no more than 40 MB/s."""
        received = 0
        served.append(writer)
        while data := await reader.read(1 << 18):
            if received == 0 and len(data) < 100:  # CLIENT SETNAME and PING, one after the other
                writer.write(b"+PONG\r\n")
                continue
            received += len(data)
            await asyncio.sleep(len(data) / 40e6)
            if received > size:
                writer.write(b"+OK\r\n")
                received = 0
        writer.close()
        served.clear()

    served: list[asyncio.StreamWriter] = []

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        server = await asyncio.start_server(slow, sock=listener, ssl=context)
        store = open_store(
            f"rediss://localhost:{listener.getsockname()[1]}", tls=TlsFiles(authority.ca_file), timeout_s=0.4
        )
        await store.start()
        await store.put(b"k", bytes(size))  # 1.2 s or more
        assert store.up
        await store.aclose()
        while served:
            await asyncio.sleep(0.01)
        server.close()

    run(main())
