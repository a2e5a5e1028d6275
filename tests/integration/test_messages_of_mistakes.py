"""What the command line and the settings say to mistakes that people make on their first day."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from openclaw_cache.admin_client import AdminClient, UnreachableError
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError

SHORT_HASH = "d4bcbceb"


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """A listener whose certificate nobody trusts. It hangs up on those who do not speak TLS."""
    certificate = trustme.CA().issue_cert("localhost", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                first = connection.recv(1, socket.MSG_PEEK)
                if first != b"\x16":  # not the start of a TLS handshake
                    connection.recv(65536)
                    return
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except (ssl.SSLError, OSError):
                    return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def test_http_to_a_tls_listener_is_told_to_write_https(tls_port: int) -> None:
    client = AdminClient.find(f"http://127.0.0.1:{tls_port}", None, {})
    with pytest.raises(UnreachableError, match="if it speaks TLS, write https://"):
        client.call("GET", "/admin/status")


def test_an_unknown_authority_is_told_which_variable_names_it(tls_port: int) -> None:
    client = AdminClient.find(f"https://127.0.0.1:{tls_port}", None, {})
    with pytest.raises(UnreachableError, match="OPENCLAW_CACHE_CA_FILE"):
        client.call("GET", "/admin/status")


def test_a_hash_that_is_none_is_told_how_to_make_one_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(f"server: {{keys: [{{key_sha256: {SHORT_HASH}}}]}}")
    with pytest.raises(ConfigError, match=r'must be the 64 hex digits that printf %s "\$KEY"') as caught:
        load(file, env={})
    assert SHORT_HASH not in str(caught.value)
