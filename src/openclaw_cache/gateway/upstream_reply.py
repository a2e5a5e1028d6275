"""An upstream's reply, read piece by piece."""

from __future__ import annotations

import asyncio
import contextlib

import aiohttp

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import encoding
from openclaw_cache.types import Headers

FINISH_WAIT_S = 1.0

READ_BYTES = 64 * 1024
"""Most that is taken at once. Each slow client holds such a piece, and the copy of it that is being sent."""


class UpstreamReply:
    """A reply whose body is read piece by piece. `close` is safe at any time, more than once.

    Its body comes plain: an encoding that we know is undone, and its header is gone. Where `is_encoded`, it could
    not be undone: header and body are a pair to pass on, and nobody may read anything into them.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        headers = [(name.lower(), value) for name, value in response.raw_headers]
        self._decoder, self.is_encoded = encoding.undo(headers)
        self.headers: Headers = (
            headers if self.is_encoded else [h for h in headers if h[0] != b"content-encoding"]
        )
        self.retry_after: str | None = response.headers.get("Retry-After")
        self.is_ok = 200 <= response.status < 300
        self.is_event_stream = (
            self.is_ok and not self.is_encoded and response.content_type == "text/event-stream"
        )
        self._rest: asyncio.Task[None] | None = None

    async def read(self) -> bytes:
        """The next bytes as they arrive; b"" at the end.

        Raises:
            RequestError: 502 when the connection broke or the body's encoding does, 504 after the idle timeout.
        """
        if self._decoder is None:
            return await self._received()
        return await self._decoded(self._decoder)

    async def _decoded(self, decoder: encoding.Decoder) -> bytes:
        # Little input may stand for much: let others go on between its pieces. A reader that leaves takes none along.
        await asyncio.sleep(0)
        try:
            while not (piece := decoder.take()):
                data = await self._received()
                if not data:
                    decoder.check_whole()
                    return b""
                decoder.feed(data)
        except encoding.EncodingError as e:
            self.close()
            raise _broken(str(e)) from None
        return piece

    async def _received(self) -> bytes:
        content = self._response.content
        try:
            return await content.read(READ_BYTES)
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


def with_body(reply: UpstreamReply, upstream: str) -> UpstreamReply:
    """The reply, where its status lets it have a body. Raises RequestError (502): a model's answer has one.

    What we wrote after such a head would be taken for the beginning of the connection's next reply.
    """
    if reply.status not in (204, 205, 304):
        return reply
    reply.close()
    raise RequestError(
        502,
        f"upstream {upstream!r} answered with status {reply.status}, which has no body",
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
    return _broken(type(e).__name__)


def _broken(why: str) -> RequestError:
    return RequestError(
        502, f"the upstream broke off its reply ({why})", kind="api_error", code="upstream_broken"
    )
