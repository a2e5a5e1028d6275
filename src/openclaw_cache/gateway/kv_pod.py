"""The KV cache of one embedded engine, asked and ordered over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol

import aiohttp
import orjson

from openclaw_cache.errors import RequestError
from openclaw_cache.types import Json

CONNECT_TIMEOUT_S: Final = 2.0
READ_TIMEOUT_S: Final = 10.0
EVICT_TIMEOUT_S: Final = 60.0
HINT_TIMEOUT_S: Final = 2.0
WARM_IDLE_S: Final = 600.0
"""The longest that one prompt of a warm-up may take."""


class Engine(Protocol):
    """What is known here of an engine's process (`engine.pod.EmbeddedPod`)."""

    @property
    def url(self) -> str | None:
        """Base URL of the running process; None while there is none."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered now."""

    @property
    def state(self) -> str:
        """One word for where in its life it is."""

    @property
    def reason(self) -> str | None:
        """Why it is not ready."""

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""


class KvPod:
    """Orders for one engine. None of them waits for an engine that is not ready.

    Every method raises RequestError: 503 where the engine is loading, dead or too slow, else its own refusal.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine
        self._session: aiohttp.ClientSession | None = None

    @property
    def pid(self) -> int | None:
        """Which process answers: another one counts from 0 again."""
        return self._engine.pid

    async def status(self, timeout_s: float) -> dict[str, Json]:
        """Tiers, blocks, hits, pins."""
        return await self._call("GET", "/kv/status", timeout_s)

    async def tree(self, *, limit: int, with_text: bool) -> dict[str, Json]:
        """At most `limit` nodes of the prefix tree as `rows`; their text where asked."""
        return await self._call("GET", f"/kv/tree?limit={limit}&text={int(with_text)}", READ_TIMEOUT_S)

    async def evict(
        self, *, pattern: str | None, salt: str | None, dry_run: bool, pinned: bool
    ) -> dict[str, Json]:
        """Remove cached prefixes whose text matches `pattern` (None: all), of one salt or (None) of all.

        What is pinned stays, unless `pinned` ends its pins.
        """
        order = {"dry_run": dry_run, "pattern": pattern, "salt": salt, "pinned": pinned}
        return await self._call("POST", "/kv/evict", EVICT_TIMEOUT_S, order)

    @asynccontextmanager
    async def warm(
        self, prompts: Sequence[Json], *, pin_s: float | None, salt: str
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Compute and keep prompts; gives the engine's progress, one line of JSON each. Leaving ends the work."""
        order = {"prompts": prompts, "pin_s": pin_s, "salt": salt}
        timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT_S, sock_read=WARM_IDLE_S)
        async with self._asked("POST", "/kv/warm", timeout, order) as response:
            yield self._lines(response)

    async def hint(self, prompt: Json, known: str, *, salt: str) -> dict[str, Json]:
        """Say what is known of the next call of the conversations that begin with `prompt`: tool, idle or ended."""
        return await self._call(
            "POST", "/kv/hint", HINT_TIMEOUT_S, {"prompt": prompt, "hint": known, "salt": salt}
        )

    async def aclose(self) -> None:
        """Close the client and its connections."""
        if self._session is not None:
            await self._session.close()

    async def _call(
        self, method: str, path: str, timeout_s: float, order: Mapping[str, Json] | None = None
    ) -> dict[str, Json]:
        async with self._asked(method, path, aiohttp.ClientTimeout(total=timeout_s), order) as response:
            with self._failures():
                answer = _object(await response.read())
        if answer is None:
            raise self._unavailable("its engine's answer is no JSON object")
        return answer

    @asynccontextmanager
    async def _asked(
        self, method: str, path: str, timeout: aiohttp.ClientTimeout, order: Mapping[str, Json] | None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        engine = self._engine
        if not engine.is_ready or engine.url is None:
            reason = f" ({engine.reason})" if engine.reason else ""
            raise self._unavailable(f"its engine is {engine.state}{reason}", code="model_not_ready")
        try:
            body = None if order is None else orjson.dumps(order)
        except orjson.JSONEncodeError as e:  # a number beyond 64 bits, or nested too deeply
            raise RequestError(400, f"the order cannot be passed on to the engine: {e}") from None
        if self._session is not None and self._session.closed:  # what asks last, at the end, learns nothing
            raise self._unavailable("the gateway is stopping")
        if self._session is None:
            # A connection each time: these calls are rare, and a kept one could have gone stale in between.
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"content-type": "application/json"},
            )
        with self._failures():
            response = await self._session.request(method, engine.url + path, data=body, timeout=timeout)
        try:
            if response.status >= 400:
                with self._failures():
                    raw = await response.read()
                raise self._refused(response.status, raw)
            yield response
        finally:
            response.close()

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Whole lines as they come, several together where they come so; what breaks off inside one is left out."""
        held = b""
        while True:
            with self._failures():
                piece = await response.content.readany()
            if not piece:
                return
            whole, newline, rest = piece.rpartition(b"\n")
            if newline:
                yield held + whole + newline
                held = rest
            else:
                held += piece

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Tell what the line did as a RequestError."""
        try:
            yield
        except TimeoutError:
            raise self._unavailable("its engine did not answer in time") from None
        except (aiohttp.ClientError, OSError) as e:
            raise self._unavailable(f"its engine cannot be reached ({type(e).__name__})") from None

    def _refused(self, status: int, raw: bytes) -> RequestError:
        error = (_object(raw) or {}).get("error")
        said = error.get("message") if isinstance(error, dict) else None
        message = str(said or f"its engine answered with status {status}")
        if status in (404, 405) or status >= 500:
            return self._unavailable(message)
        return RequestError(status, f"upstream {self.name!r}: {message}")

    def _unavailable(self, what: str, *, code: str = "engine_unavailable") -> RequestError:
        message = f"upstream {self.name!r}: {what}"
        return RequestError(503, message, kind="api_error", code=code, retry_after_s=5)


async def statuses(pods: Sequence[KvPod], timeout_s: float) -> dict[str, dict[str, Json] | RequestError]:
    """Every pod's status, or why it has none, by the upstream's name; all within `timeout_s`."""

    async def one(pod: KvPod) -> dict[str, Json] | RequestError:
        try:
            return await pod.status(timeout_s)
        except RequestError as e:
            return e

    found = await asyncio.gather(*map(one, pods))
    return {pod.name: answer for pod, answer in zip(pods, found, strict=True)}


def _object(raw: bytes) -> dict[str, Json] | None:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
