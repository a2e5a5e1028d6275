"""A small client for `/admin`: finds the server, sends one order, says what went wrong."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError, OpenClawCacheError

TIMEOUT_S = 120.0
LINE_TIMEOUT_S = 900.0
"""Silence between two lines of an answer that comes line by line: longer than the server itself would wait."""
_PIECE_BYTES = 1 << 20


class NotFoundError(OpenClawCacheError):
    """No running server is known here."""


class UnreachableError(OpenClawCacheError):
    """The server does not answer."""


class RefusedError(OpenClawCacheError):
    """The server answered with an error; `status` is its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class WholeReply:
    """A reply of the server."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class AdminClient:
    """Talks to one server. Blocking; one connection per call."""

    url: str
    admin_key: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """Certificates to trust instead of the system's, where `url` has https."""
    is_here: bool = False
    """Whether the server said itself, in our data dir, where it listens: then its own certificate is enough."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every order."""

    @classmethod
    def find(cls, url: str | None, data_dir: Path | None, env: Mapping[str, str]) -> Self:
        """The server of `url`, or the one that runs in the data dir.

        Raises:
            ConfigError: `url` is none.
            NotFoundError: neither is there; the message says how to name one.
        """
        admin_key = env.get("OPENCLAW_CACHE_ADMIN_KEY")
        if url is not None:
            if not _is_http(url):
                raise ConfigError(f"--url {url!r} is not an http URL such as http://127.0.0.1:8800")
            return cls(url.rstrip("/").removesuffix("/v1"), admin_key, env.get("OPENCLAW_CACHE_CA_FILE"))
        chosen = data_dir or Path(
            env.get("OPENCLAW_CACHE_SERVER__DATA_DIR") or load(env={}).settings.server.data_dir
        )
        server_file = chosen.expanduser() / "server.json"
        try:
            found = json.loads(server_file.read_bytes())
            found_url = str(found["url"])
        except (OSError, ValueError, KeyError, TypeError):
            raise NotFoundError(
                f"no server runs in {chosen}: start one with `openclaw-cache serve`, or name it with --url "
                "or OPENCLAW_CACHE_URL"
            ) from None
        return cls(found_url, admin_key, found.get("certificate"), is_here=True)

    def call(self, method: str, path: str, order: Mapping[str, object] | None = None) -> Any:
        """Send one order and return the decoded answer.

        Raises:
            UnreachableError, RefusedError.
        """
        with self._asked(method, path, order, TIMEOUT_S) as reply:
            return self._decoded(_whole(reply))

    def upload(self, path: str, body: bytes) -> Any:
        """Send bytes and return the decoded answer.

        Raises:
            UnreachableError, RefusedError.
        """
        with self._asked("POST", path, body, LINE_TIMEOUT_S) as reply:
            return self._decoded(_whole(reply))

    def download(self, path: str) -> Iterator[bytes]:
        """Ask for something and give each line of the answer as it comes, as it is.

        Raises:
            UnreachableError, RefusedError.
        """
        with self._asked("GET", path, None, LINE_TIMEOUT_S) as reply:
            yield from reply

    def lines(self, path: str, order: Mapping[str, object]) -> Iterator[Any]:
        """Send one order and give each line of the answer as it comes, decoded.

        Raises:
            UnreachableError, RefusedError.
        """
        with self._asked("POST", path, order, LINE_TIMEOUT_S) as reply:
            for line in reply:
                if line.strip():
                    yield self._decoded(line)

    def exchange(self, path: str, body: bytes) -> WholeReply:
        """Send bytes and return the reply as it is, an error of the server too.

        Raises:
            UnreachableError.
        """
        with self._replied("POST", path, body, LINE_TIMEOUT_S) as reply:
            headers = {name.lower(): value for name, value in reply.getheaders()}
            return WholeReply(reply.status, headers, _whole(reply))

    @contextmanager
    def _asked(
        self, method: str, path: str, order: Mapping[str, object] | bytes | None, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """A reply that is no error, to be read inside."""
        with self._replied(method, path, order, timeout_s) as reply:
            if reply.status >= 400:
                raise self._refused(reply)
            yield reply

    @contextmanager
    def _replied(
        self, method: str, path: str, order: Mapping[str, object] | bytes | None, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        """A reply, to be read inside."""
        parts = urlsplit(self.url)
        host = parts.hostname or "127.0.0.1"
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, parts.port, timeout=timeout_s, context=self._context()
            )
        headers = {"Content-Type": "application/json", **self.headers}
        if self.admin_key:
            headers["Authorization"] = f"Bearer {self.admin_key}"
        try:
            body = order if isinstance(order, bytes) else json.dumps(order).encode() if order else None
            connection.request(method, parts.path + path, body, headers)
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as e:
            raise UnreachableError(f"cannot reach {self.url}: {e}{_advice(e)}") from None
        finally:
            connection.close()

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError(f"cannot read certificates from {self.ca_file}: {e}") from None
        if self.is_here:
            context.check_hostname = False  # it is made out to a name, and we go to loopback
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # its authority need not be known here
        return context

    def _refused(self, reply: http.client.HTTPResponse) -> RefusedError:
        answer = self._decoded(_whole(reply))
        error = answer.get("error") if isinstance(answer, dict) else None
        message = error.get("message") if isinstance(error, dict) else str(answer)
        return RefusedError(reply.status, str(message))

    def _decoded(self, raw: bytes) -> Any:
        try:
            return json.loads(raw)
        except ValueError:  # something else listens there now
            raise UnreachableError(f"{self.url} is not an openclaw-cache server") from None


def _whole(reply: http.client.HTTPResponse) -> bytes:
    """A reply's body, by and by: its server says how long it will be, and may name any number."""
    pieces: list[bytes] = []
    while piece := reply.read(_PIECE_BYTES):
        pieces.append(piece)
    if reply.length:  # what is missing; only a read of all of it would raise this
        raise http.client.IncompleteRead(b"", reply.length)
    return b"".join(pieces)


def _advice(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ": OPENCLAW_CACHE_CA_FILE can name the file of the authority that signed it"
    if isinstance(error, http.client.RemoteDisconnected):
        return ": if it speaks TLS, write https://"
    return ""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket left open
        return False
