"""An upstream: one HTTP client per configured upstream, and the reply that it streams back."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.types import Headers

KEEPALIVE_S = 4.0
"""Idle connections are dropped after this. Uvicorn, which serves most pods, closes them after 5 s."""

MAX_RETRY_WAIT_S = 2.0
"""A 429 or 503 that asks for a longer pause is the client's to see."""

FINISH_WAIT_S = 1.0
STALE_WAIT_S = 0.2
POD_END_WAIT_S = 10.0
"""An embedded engine that broke a connection has mostly died: by then that has been noticed."""

READY_WAIT_S = 30.0

_UNDONE_ENCODINGS = frozenset({b"gzip", b"deflate", b"br", b"zstd", b"identity"})
"""The HTTP client undoes these by itself. Any other encoding stays on the body, so its header stays too."""


class UpstreamReply:
    """A reply whose body is read piece by piece. `close` is safe at any time, more than once."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Headers = [
            (name, value)
            for name, value in ((n.lower(), v) for n, v in response.raw_headers)
            if name != b"content-encoding" or value.lower() not in _UNDONE_ENCODINGS
        ]
        self.is_ok = 200 <= response.status < 300
        self.is_event_stream = self.is_ok and response.content_type == "text/event-stream"
        self._rest: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """The next bytes as they arrive; b"" at the end.

        Raises:
            RequestError: 502 when the connection broke, 504 after the idle timeout.
        """
        content = self._response.content
        try:
            return await content.readany()
        except (aiohttp.ClientError, OSError) as e:
            failure = _ended_early(e)
        with contextlib.suppress(TimeoutError):
            # What came just before the break still counts; the client library has no public way to it.
            if rest := content._read_nowait(-1):
                return rest
        self.close()
        raise failure

    def finish(self) -> None:
        """Nothing more is wanted: let the connection end cleanly in the background so it can be reused."""
        if self._response.content.at_eof():
            self._response.release()
        elif self._rest is None:
            self._rest = asyncio.get_running_loop().create_task(self._read_rest())

    async def _read_rest(self) -> None:
        try:
            async with asyncio.timeout(FINISH_WAIT_S):
                while await self._response.content.readany():
                    pass
        except (TimeoutError, aiohttp.ClientError, OSError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Drop the connection unless the reply was read to its end."""
        self._response.close()


class Pod(Protocol):
    """What an embedded engine offers the gateway (`engine.pod.EmbeddedPod`)."""

    @property
    def url(self) -> str | None:
        """Base URL of the running process; None while there is none."""

    @property
    def model_ids(self) -> list[str]:
        """The served model's name, then its aliases."""

    @property
    def fingerprint(self) -> str | None:
        """Hash of the weights; None until known."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered now."""

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once requests are answered. Raises TimeoutError, or ConfigError where they never will be."""


@dataclass(kw_only=True)
class Upstream:
    """Where requests for some models go.

    Args:
        urls: Base URLs; a trailing `/v1` is dropped since request paths carry it.
        pod: The embedded engine behind it instead of `urls`.
        models: Glob patterns of the models that it serves; an embedded pod serves its own names only.
        api_key: Sent instead of the client's credential.
        on_retry: Called for each repeated call.
    """

    name: str
    urls: list[str] = field(default_factory=list)
    pod: Pod | None = None
    models: list[str] = field(default_factory=lambda: ["*"])
    api_key: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 5.0
    idle_timeout_s: float = 600.0
    request_timeout_s: float = 1800.0
    retries: int = 1
    ask_usage: bool = True
    on_retry: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.urls = [u.rstrip("/").removesuffix("/v1") for u in self.urls]
        self._turn = 0
        self._session: aiohttp.ClientSession | None = None

    def serves(self, model: str) -> bool:
        """Whether requests for `model` may go here."""
        if self.pod is not None:
            return model in self.pod.model_ids
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)

    async def model_identity(self) -> str:
        """What the weights are, as far as they can be known: part of the key.

        Waits for an embedded engine that has not been up yet: without its weights' hash a reply of other weights
        could be taken for one of these. Raises RequestError (503) where it does not come up.
        """
        if self.pod is None:
            return ""
        if self.pod.fingerprint is None:
            await self._ready(self.pod)
        return self.pod.fingerprint or ""

    def identity_check(self) -> Callable[[], bool]:
        """Tells later whether the model is still the one of now."""
        pod = self.pod
        if pod is None:
            return lambda: True
        fingerprint = pod.fingerprint
        return lambda: pod.fingerprint == fingerprint

    def canonical_model(self, model: str) -> str:
        """The name under which epochs are kept: the pod's own name for any of its aliases."""
        if self.pod is not None and model in self.pod.model_ids:
            return self.pod.model_ids[0]
        return model

    async def send(
        self, method: str, path: str, query: str, headers: list[tuple[str, str]], body: bytes | None
    ) -> UpstreamReply:
        """Send one request; returns when the reply's head has come.

        Repeats at most `retries` times, and only where nothing can have been computed: the connection
        could not be made, a kept-alive connection was closed before it answered, the pod said 429/503, or
        the embedded engine died, and what it had computed with it.

        Raises:
            RequestError: 502 unreachable or broken, 503 embedded model not ready, 504 too slow.
        """
        target = f"{path}?{query}" if query else path
        for attempt in itertools.count():
            try:
                response = await self._attempt(method, target, headers, body)
            except _NothingComputedError as e:
                if attempt >= max(self.retries, len(self.urls) - 1, e.min_retries):
                    raise e.failure from None
                await self._until_pod_ended()
                pause_s = 0.0
            else:
                asked_s = _retry_pause_s(response)
                if asked_s is None or attempt >= self.retries:
                    break
                response.close()
                pause_s = asked_s
            self.on_retry()
            await asyncio.sleep(pause_s)
        return UpstreamReply(response)

    async def _until_pod_ended(self) -> None:
        """After a failed call: give the end of the embedded engine time to be noticed.

        A new connection that fails means that it dies, and the system frees gigabytes of its memory before it tells
        us; a kept one may just have been stale.
        """
        if self.pod is None:
            return
        url = self.pod.url
        until = time.monotonic() + (POD_END_WAIT_S if _is_new.get() else STALE_WAIT_S)
        while self.pod.is_ready and self.pod.url == url and time.monotonic() < until:  # noqa: ASYNC110 - a pod has no event for its end
            await asyncio.sleep(0.05)

    async def _attempt(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | None
    ) -> aiohttp.ClientResponse:
        """One try. Raises _NothingComputedError where another may follow, else RequestError."""
        # As it came: the client would otherwise spell the query's escapes in its own way.
        url = URL(await self._base_url() + target, encoded=target.isascii())
        _is_new.set(False)
        try:
            return await self._client().request(
                method,
                url,
                data=body,
                headers=self._headers(headers),
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as e:
            # A dying engine: first its kept connections break, then new ones, then its successor answers.
            raise _NothingComputedError(
                _unreachable(self.name, e), min_retries=0 if self.pod is None else 2
            ) from None
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as e:
            if not _is_new.get() or self.pod is not None:
                raise _NothingComputedError(
                    _broken(self.name, e), min_retries=1 if self.pod is None else 2
                ) from None
            raise _broken(self.name, e) from None
        except TimeoutError:
            raise _too_slow(self.name) from None
        except (aiohttp.ClientError, OSError, ValueError) as e:
            raise _broken(self.name, e) from None

    async def aclose(self) -> None:
        """Close the client and its connections."""
        if self._session is not None:
            await self._session.close()

    async def _base_url(self) -> str:
        if self.pod is None:
            self._turn += 1
            return self.urls[self._turn % len(self.urls)]
        await self._ready(self.pod)
        if self.pod.url is None:
            raise _unreachable(self.name, ConnectionError("the engine has just ended"))
        return self.pod.url

    async def _ready(self, pod: Pod) -> None:
        """Wait for the engine. Raises RequestError (503) where it does not come up."""
        if pod.is_ready:
            return
        try:
            await pod.wait_ready(READY_WAIT_S)
        except (TimeoutError, ConfigError) as e:
            raise RequestError(
                503,
                f"upstream {self.name!r}: {e}",
                kind="api_error",
                code="model_not_ready",
                retry_after_s=5,
            ) from None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(limit=0, keepalive_timeout=KEEPALIVE_S, ttl_dns_cache=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(
                    total=self.request_timeout_s,
                    sock_connect=self.connect_timeout_s,
                    sock_read=self.idle_timeout_s,
                ),
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
                trust_env=False,
            )
        return self._session

    def _headers(self, headers: list[tuple[str, str]]) -> CIMultiDict[str]:
        sent = CIMultiDict(headers)
        sent["Accept-Encoding"] = "identity"
        if self.api_key is not None:
            sent["Authorization"] = f"Bearer {self.api_key}"
        return sent


class _NothingComputedError(Exception):
    """A call failed in a way that cannot have cost the upstream anything.

    `min_retries` is 1 where a kept-alive connection was stale: that is HTTP's own race, not a sick upstream,
    so the call is repeated once even under `retries: 0`.
    """

    def __init__(self, failure: RequestError, *, min_retries: int = 0) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.min_retries = min_retries


_is_new: ContextVar[bool] = ContextVar("is_new")
"""Whether the current call opened its connection itself. Tells what an early close means."""


class _Connector(aiohttp.TCPConnector):
    """Notes when a call gets a new connection. Tracing tells the same, at a sixth of what a whole call costs."""

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout
    ) -> Any:  # aiohttp does not export the type
        _is_new.set(True)
        return await super()._create_connection(req, traces, timeout)


def _retry_pause_s(response: aiohttp.ClientResponse) -> float | None:
    """Seconds to wait before repeating a refused call; None where it must not be repeated."""
    if response.status not in (429, 503):
        return None
    try:
        pause_s = float(response.headers.get("Retry-After", "0.25"))
    except ValueError:
        return None
    return pause_s if 0 <= pause_s <= MAX_RETRY_WAIT_S else None


def _unreachable(name: str, e: Exception) -> RequestError:
    return RequestError(
        502,
        f"upstream {name!r} cannot be reached ({type(e).__name__}): is it running, is its url right?",
        kind="api_error",
        code="upstream_unreachable",
    )


def _broken(name: str, e: Exception) -> RequestError:
    return RequestError(
        502,
        f"upstream {name!r} closed the connection without a reply ({type(e).__name__})",
        kind="api_error",
        code="upstream_broken",
    )


def _ended_early(e: Exception) -> RequestError:
    if isinstance(e, TimeoutError):
        setting = (
            "upstreams.idle_timeout"
            if isinstance(e, aiohttp.SocketTimeoutError)
            else "server.request_timeout"
        )
        return RequestError(
            504, f"the upstream's reply took longer than {setting}", kind="api_error", code="upstream_timeout"
        )
    return RequestError(
        502,
        f"the upstream broke off its reply ({type(e).__name__})",
        kind="api_error",
        code="upstream_broken",
    )


def _too_slow(name: str) -> RequestError:
    return RequestError(
        504, f"upstream {name!r} did not answer in time", kind="api_error", code="upstream_timeout"
    )
