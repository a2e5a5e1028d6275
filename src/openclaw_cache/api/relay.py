"""Writes a reply that is still on its way: streamed with pings, or whole. Watches for the client leaving."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from openclaw_cache.api.whole import WholeReply, failure, readable
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.call import Following
from openclaw_cache.gateway.flight import Source
from openclaw_cache.gateway.transcript import without_usage_event
from openclaw_cache.types import Headers

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PING = b": ping\n\n"
CLIENT_GONE = 499
WATCH_AFTER_S = 0.2
"""A reply that is here sooner is written without watching for the client leaving: that takes a task."""
_EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Relay:
    """One reply on its way to one client.

    Args:
        following: The flight that this request reads.
        headers: Builds our own reply headers; called when the reply starts.
        ping_interval_s: A comment is sent to a streaming client after this much silence, also before the
            upstream's head has come: by then the status can no longer be an error's, which then comes as an
            error event.
    """

    def __init__(
        self,
        following: Following,
        headers: Callable[[], Headers],
        receive: Receive,
        send: Send,
        ping_interval_s: float,
    ) -> None:
        self.status = 0
        self.first_byte_at: float | None = None
        self._following = following
        self._reader = following.reader
        self.flight = following.reader.flight
        self._dialect = following.dialect
        self.recorder = following.reader.flight.recorder
        self._headers = headers
        self._receive = receive
        self._send = send
        self._ping_interval_s = ping_interval_s
        self._ping_timer: asyncio.TimerHandle | None = None
        self._ping_task: asyncio.Task[None] | None = None
        self._sent_at = 0.0

    async def run(self) -> int:
        """Write the reply; returns its status, `CLIENT_GONE` where the client left first.

        Raises:
            RequestError: the call failed and nothing has been sent yet.
        """
        main, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert main is not None  # noqa: S101 - always inside a task
        gone = False
        watch: asyncio.Task[None] | None = None

        def client_left(_: asyncio.Task[None]) -> None:
            nonlocal gone
            gone = True
            main.cancel()

        def start_watch() -> None:
            nonlocal watch
            watch = loop.create_task(self._until_disconnect())
            watch.add_done_callback(client_left)

        timer = loop.call_later(WATCH_AFTER_S, start_watch)
        try:
            if self._following.request.stream:
                await self._stream()
            else:
                await self._whole()
        except asyncio.CancelledError:
            if not gone or main.uncancel() > 0:
                raise
            return CLIENT_GONE
        finally:
            timer.cancel()
            if watch is not None:
                watch.remove_done_callback(client_left)
                watch.cancel()
            self._stop_pings()
            self._reader.leave()
        return self.status

    async def _until_disconnect(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _whole(self) -> None:
        source = await self.flight.head()
        body = await self._reader.rest()
        if not source.is_event_stream:
            await self._send_whole(readable(source, body, self.flight, self._dialect))
        elif self.flight.reply is None:
            is_long = self.flight.oversize
            what = (
                "is too long to be put together: ask for a stream"
                if is_long
                else "does not add up to one reply"
            )
            raise RequestError(
                502,
                f"the upstream's stream {what}",
                kind="api_error",
                code="upstream_broken",
            )
        else:
            headers: Headers = [(b"content-type", b"application/json")]
            await self._send_whole(WholeReply(200, headers, self.flight.reply))

    async def _stream(self) -> None:
        self._sent_at = time.monotonic()
        self._arm_ping(self._ping_interval_s)
        try:
            source = await self.flight.head()
            if source.is_event_stream:
                await self._stream_events(source)
            else:
                await self._stream_body(source)
        except RequestError as e:
            if not self.status:
                raise
            await self._body(self._dialect.error_event(e), more=False)

    async def _stream_events(self, source: Source) -> None:
        request, hides_usage = self._following.request, False
        if self.recorder.has_usage_event:
            hides_usage = not request.include_usage
        if not self.status:
            await self._start(source.status, header_rules.returned(source.headers))
        reader, send = self._reader, self._send
        while (block := await reader.next()) is not None:
            if hides_usage and b'"usage"' in block:
                block = without_usage_event(block, self._dialect)
            if self.first_byte_at is None:
                self.first_byte_at = time.perf_counter()
            self._sent_at = time.monotonic()
            await send({"type": "http.response.body", "body": block, "more_body": True})
        await self._body(b"", more=False)

    async def _stream_body(self, source: Source) -> None:
        """The upstream answered with one body: an error, or a reply that is streamed here."""
        body = await self._reader.rest()
        whole = readable(source, body, self.flight, self._dialect)
        events = self._as_stream() if whole.status < 300 else None
        if events is None and (self.status or (whole.status < 300 and not self.flight.streamed)):
            events = self._dialect.error_event(failure(whole))
        if events is None:
            await self._send_whole(whole)
            return
        if not self.status:
            await self._start(200, list(_EVENT_STREAM))
        self.first_byte_at = time.perf_counter()
        await self._body(events, more=False)

    def _as_stream(self) -> bytes | None:
        """A whole reply as the stream that its client asked for; None where it is no reply that can be one."""
        reply = self.recorder.reply
        if reply is None:
            return None
        try:
            return self._dialect.split(reply, self._following.request)
        except (ValueError, TypeError):  # another shape, or nested too deeply to be written
            return None

    async def _send_whole(self, whole: WholeReply) -> None:
        self._stop_pings()
        self.first_byte_at = time.perf_counter()
        length = (b"content-length", b"%d" % len(whole.body))
        await self._start(whole.status, [*whole.headers, length])
        await self._body(whole.body, more=False)

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        own = self._headers()
        await self._send({"type": "http.response.start", "status": status, "headers": headers + own})

    async def _body(self, body: bytes, *, more: bool) -> None:
        self._sent_at = time.monotonic()
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    # A timer that is almost always re-armed or cancelled: a task exists only while a ping is written.

    def _arm_ping(self, delay_s: float) -> None:
        self._ping_timer = asyncio.get_running_loop().call_later(delay_s, self._ping_due)

    def _ping_due(self) -> None:
        silent_s = time.monotonic() - self._sent_at
        if silent_s < self._ping_interval_s:
            self._arm_ping(self._ping_interval_s - silent_s)
        else:
            self._ping_task = asyncio.get_running_loop().create_task(self._ping())

    async def _ping(self) -> None:
        self._sent_at = time.monotonic()
        if not self.status:
            await self._start(200, list(_EVENT_STREAM))
        await self._body(PING, more=True)
        self._arm_ping(self._ping_interval_s)

    def _stop_pings(self) -> None:
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if self._ping_task is not None:
            self._ping_task.cancel()
