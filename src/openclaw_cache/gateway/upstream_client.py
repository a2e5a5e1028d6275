"""The HTTP client of one upstream: its connections, timeouts and TLS, and what its failures mean."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from multidict import CIMultiDict
from yarl import URL

from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.gateway.retry import Cause

KEEPALIVE_S = 4.0
"""Idle connections are dropped after this. Uvicorn, which serves most pods, closes them after 5 s."""

MAX_HEADER_BYTES = 64 * 1024
"""Of one line of a reply's head. Some APIs explain themselves at length in a header."""

READ_BUFFER_BYTES = 16 * 1024
"""Where reading ahead of the client stops. A client that reads nothing costs half of what it does with 64 kB."""

PROBE_TIMEOUT_S = 5.0

_NO_CONNECTION = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    UnicodeError,  # a host that no name can be: the pod's own fault too, and others may have a better one
)


class AttemptError(Exception):
    """One attempt got no reply.

    Attributes:
        error: What the client sees where no other attempt follows.
        code: The class of what happened, for an operator; never text of the request or reply.
        was_new: Whether the attempt had opened its connection itself.
    """

    def __init__(self, cause: Cause, error: RequestError, code: str, *, was_new: bool) -> None:
        super().__init__(error.message)
        self.cause = cause
        self.error = error
        self.code = code
        self.was_new = was_new


class UpstreamClient:
    """Connections to the pods of the upstream `name`. Made lazily, inside the event loop.

    Args:
        ca_file: PEM file of the only authorities to trust; the system's where None.

    Raises:
        ConfigError: `ca_file` cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        ca_file: Path | None,
        connect_timeout_s: float,
        idle_timeout_s: float,
        request_timeout_s: float,
    ) -> None:
        self._name = name
        self._tls = _trusting(ca_file, name)
        self._timeout = aiohttp.ClientTimeout(
            total=request_timeout_s, sock_connect=connect_timeout_s, sock_read=idle_timeout_s
        )
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        body: bytes | None,
        *,
        on_new_connection: bool = False,
    ) -> aiohttp.ClientResponse:
        """Send one request; returns when the reply's head has come.

        Raises:
            AttemptError: No reply came.
            RequestError: The request could not be sent at all.
        """
        dial = _Dial(on_new_connection)
        _dial.set(dial)
        session = self._session or self._open()
        try:
            response = await session.request(method, url, data=body, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise self._failure(e, dial) from None
        if not 200 <= response.status < 600:
            response.close()
            # 101: it wants to speak something else from now on. 600 and more: HTTP has no such status.
            is_upgrade = response.status < 200
            what = "leaves HTTP without being asked to" if is_upgrade else f"answers {response.status}"
            raise AttemptError(Cause.BROKEN, self._bad(what), str(response.status), was_new=dial.has_opened)
        return response

    async def probe(self, url: str) -> int:
        """The status of a GET without credentials on a connection of its own. Raises as `request` does."""
        dial = _Dial(must_open=True)
        _dial.set(dial)
        session = self._session or self._open()
        headers = CIMultiDict({"Accept-Encoding": "identity", "Connection": "close"})
        timeout = aiohttp.ClientTimeout(total=PROBE_TIMEOUT_S)
        try:
            response = await session.get(url, headers=headers, allow_redirects=False, timeout=timeout)
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise self._failure(e, dial) from None
        response.close()
        return response.status

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=_Connector(limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=30, ssl=self._tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=self._timeout,
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            trust_env=False,
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        # It would repeat a GET or DELETE by itself, even one whose new connection broke. There is no public switch.
        self._session._retry_connection = False
        return self._session

    def _failure(self, e: Exception, dial: _Dial) -> AttemptError | RequestError:
        """What an exception of the HTTP client means."""
        if isinstance(e, aiohttp.ClientConnectorCertificateError):
            cause, error = Cause.UNREACHED, self._untrusted(e)
        elif isinstance(e, _NO_CONNECTION):
            cause, error = Cause.UNREACHED, self._unreachable(e)
        elif isinstance(e, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)):
            cause = Cause.BROKEN if dial.has_opened else Cause.STALE
            error = self._bad(f"closed the connection without a reply ({type(e).__name__})")
        elif isinstance(e, TimeoutError):
            cause, error = Cause.SLOW, slow(self._name)
        elif isinstance(e, ValueError):
            return self._bad(f"cannot be asked ({type(e).__name__}): is its key well-formed?")
        else:
            cause = Cause.BROKEN
            error = self._bad(f"sent what is no HTTP reply ({type(e).__name__})")
        return AttemptError(cause, error, _code(e), was_new=dial.has_opened)

    def _untrusted(self, e: aiohttp.ClientConnectorCertificateError) -> RequestError:
        why = getattr(e.certificate_error, "verify_message", "") or type(e.certificate_error).__name__
        message = (
            f"upstream {self._name!r} shows a certificate that is not trusted ({why}): "
            f"give the file of its authority as upstreams.{self._name}.ca_file"
        )
        return RequestError(502, message, kind="api_error", code="upstream_unreachable")

    def _unreachable(self, e: Exception) -> RequestError:
        return unreachable(self._name, type(e).__name__)

    def _bad(self, what: str) -> RequestError:
        return RequestError(502, f"upstream {self._name!r} {what}", kind="api_error", code="upstream_broken")


class _Dial:
    """How the current attempt gets its connection. Tells what an early close means."""

    __slots__ = ("has_opened", "must_open")

    def __init__(self, must_open: bool) -> None:
        self.must_open = must_open
        self.has_opened = False


_dial: ContextVar[_Dial] = ContextVar("dial")


class _Connector(aiohttp.TCPConnector):
    """Opens a connection where the attempt wants a new one, and notes when it does.

    Tracing tells the same, at a sixth of what a whole call costs.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        loop = asyncio.get_running_loop()
        self._factory = functools.partial(_Handler, loop=loop)  # type: ignore[assignment] # it is one of them

    async def _get(self, key: Any, traces: list[Any]) -> Any:  # aiohttp does not export the types
        return None if _dial.get().must_open else await super()._get(key, traces)

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Any:
        _dial.get().has_opened = True
        return await super()._create_connection(req, traces, timeout)


class _Handler(ResponseHandler):
    """Ends a body that breaks HTTP's framing. aiohttp only closes the connection: its reader would wait for ever."""

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        super().set_exception(exc, *cause)
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            is_known = isinstance(exc, (aiohttp.ClientError, OSError))
            body.set_exception(exc if is_known else aiohttp.ClientPayloadError(type(exc).__name__))


def unreachable(name: str, why: str) -> RequestError:
    """502: there is no connection to the upstream."""
    return RequestError(
        502,
        f"upstream {name!r} cannot be reached ({why}): is it running, is its url right?",
        kind="api_error",
        code="upstream_unreachable",
    )


def slow(name: str) -> RequestError:
    """504: no head in time."""
    return RequestError(
        504, f"upstream {name!r} did not answer in time", kind="api_error", code="upstream_timeout"
    )


def _trusting(ca_file: Path | None, name: str) -> ssl.SSLContext:
    """Trust the system's authorities, or those of `ca_file` alone."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # the default is what a machine's OpenSSL was set to
        return context
    except (OSError, ssl.SSLError) as e:
        why = e.strerror if not isinstance(e, ssl.SSLError) else "it is no PEM file with certificates"
        raise ConfigError(
            f"upstreams.{name}.ca_file: {ca_file} cannot be used: {why}. Name a PEM file of the authority "
            "that signed the upstream's certificate"
        ) from None


def _code(e: Exception) -> str:
    """The class of the failure; of a failed connection what the system said."""
    inner = getattr(e, "os_error", None)
    return type(e if inner is None else inner).__name__
