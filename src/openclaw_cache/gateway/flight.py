"""Single flight: one upstream call that every identical request in the air reads.

Pull-based: no task pumps. The reader that wants a block nobody has read yet reads it for all, so the
upstream is paced by the fastest reader, a slow reader holds nobody up, and when a reader leaves in the
middle of a read the next one goes on from there. When the last reader leaves, the upstream is closed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.inflight import InFlightBytes, overloaded
from openclaw_cache.gateway.pace import Pace
from openclaw_cache.types import Headers

if TYPE_CHECKING:
    from openclaw_cache.dialects.request import Request
    from openclaw_cache.gateway.recorder import Recorder

MAX_HELD_BYTES = 32 * 2**20
"""A reply longer than this is relayed, but neither stored nor open to late joiners."""

MAX_WHOLE_BYTES = 256 * 2**20
"""Of a reply that its client gets in one piece: more would fill the memory."""


class Source(Protocol):
    """The upstream's reply (`upstream.UpstreamReply`)."""

    status: int
    headers: Headers
    is_ok: bool
    """Whether the status is 2xx."""
    is_event_stream: bool
    """Whether it is OK, and a stream of events: an error is one body, whatever type it claims."""
    is_encoded: bool
    """Whether its bytes are compressed in a way that we cannot undo: passed on, never read."""

    async def read(self) -> bytes:
        """The next bytes; b"" at the end. Raises RequestError."""

    def finish(self) -> None:
        """Nothing more is wanted; the connection may be reused."""

    def close(self) -> None:
        """Drop the connection."""


class Transcript(Protocol):
    """Understands one reply as it arrives (`transcript`)."""

    def feed(self, chunk: bytes) -> bytes:
        """Take raw bytes; return those that may be relayed now (whole events only)."""

    def end(self) -> bytes:
        """The upstream closed its reply: the rest to relay. Raises RequestError if it is not whole."""

    def forget(self) -> None:
        """Keep nothing of the reply: it is too long to be stored."""

    @property
    def terminal(self) -> bool:
        """Whether the reply's own end has come, so that nothing more need be read."""

    @property
    def num_pieces(self) -> int:
        """Events so far that brought something of the reply; 0 where it is no stream."""


class Flight:
    """One upstream call and its readers.

    Args:
        send: Makes the call; returns when the reply's head has come.
        transcript: Builds the transcript for a reply's head.
        on_end: Called once, before any reader can see the end: the reply is complete (None) or failed.
            The owner stores the reply and takes the flight off its table here.
        recorder: The owner's note-taker, shared by all readers.
        streamed: Whether the request that started it asked for a stream.
        budget: What all flights and bodies may hold together; a flight that finds it used up keeps no more than its
            readers need.
        pace: Follows how fast a stream's tokens come.
    """

    def __init__(
        self,
        send: Callable[[], Awaitable[Source]],
        transcript: Callable[[Source], Transcript],
        on_end: Callable[[Flight, RequestError | None], None],
        *,
        recorder: Recorder,
        streamed: bool,
        budget: InFlightBytes | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.streamed = streamed
        self.pace = pace or Pace()
        self._budget = budget or InFlightBytes(sys.maxsize)
        self.recorder = recorder
        self.reply: bytes | None = None
        """The dialect's non-streaming JSON reply; set by the owner in `on_end`."""
        self.source: Source | None = None
        self.transcript: Transcript | None = None
        self.error: RequestError | None = None
        self.ended = False
        self.oversize = False
        self.blocks: list[bytes] = []
        self._first_block = 0
        self._held_bytes = 0
        self._send = send
        self._make_transcript = transcript
        self._on_end = on_end
        self._readers: set[Reader] = set()
        self._waiters: list[asyncio.Future[None]] = []
        self._reading = False
        self._call: asyncio.Task[None] | None = None

    @property
    def num_readers(self) -> int:
        """Readers that have joined and not left."""
        return len(self._readers)

    def tells_usage_to(self, request: Request) -> bool:
        """Whether its reply will have the usage that `request` wants, if it wants any."""
        return not request.wants_usage or not self.streamed or self.recorder.has_usage_event

    def join(self) -> Reader:
        """A new reader, which starts from the first block."""
        reader = Reader(self)
        self._readers.add(reader)
        return reader

    def leave(self, reader: Reader) -> None:
        """The reader wants no more. The last one to leave an unfinished flight closes the upstream."""
        self._readers.discard(reader)
        if self._readers:
            if self.oversize:
                self._trim()
            return
        if not self.ended:
            if self._call is not None:
                self._call.cancel()
            self._settle(_abandoned())
        self._budget.give(self._held_bytes)
        self._held_bytes = 0

    async def head(self) -> Source:
        """The reply's status and headers. Raises RequestError when the call failed."""
        if self._call is None:
            # A task, so that the leader may leave without the call being made again for the others.
            self._call = asyncio.get_running_loop().create_task(self._start())
            self._call.add_done_callback(self._wake)
        while not self._call.done():
            await self._wait()
        if self.source is None:
            if not self._call.cancelled():
                self._call.result()  # a defect in the call itself surfaces here
            raise self.error or _abandoned()
        return self.source

    async def block(self, index: int) -> bytes | None:
        """Block `index` of the reply, None after the last. Raises RequestError where it broke off."""
        while index >= self._first_block + len(self.blocks):
            if self.ended:
                if self.error is not None:
                    raise self.error
                return None
            if self._reading:
                await self._wait()
            else:
                await self._read()
        return self.blocks[index - self._first_block]

    async def _start(self) -> None:
        send, understand = self._send, self._make_transcript
        # Used once, and they refer to this flight: kept, they would make it garbage that waits for a collection.
        del self._send, self._make_transcript
        try:
            self.source = await send()
            self.transcript = understand(self.source)
        except RequestError as e:
            self._settle(e)

    async def _read(self) -> None:
        source, transcript = self.source, self.transcript
        assert source is not None and transcript is not None  # noqa: S101, PT018 - head() came first
        self._reading = True
        try:
            chunk = await source.read()
            if chunk:
                self._append(transcript.feed(chunk))
                self.pace.note(transcript.num_pieces)
                if transcript.terminal:
                    self._settle(None)
            else:
                self._append(transcript.end())
                self._settle(None)
        except RequestError as e:
            self._settle(e)
        except Exception:
            self._settle(_defect())  # no other reader may go on behind a block that is missing
            raise
        finally:
            self._reading = False
            self._wake()

    def _append(self, block: bytes) -> None:
        if not block:
            return
        self.blocks.append(block)
        self._held_bytes += len(block)
        self._budget.add(len(block))
        if self._held_bytes > MAX_HELD_BYTES or self._budget.is_full:
            if self.transcript is not None and not self.oversize:
                self.transcript.forget()
            self.oversize = True
            self._trim()

    def _trim(self) -> None:
        """Let go of what every reader has read; give up readers that lag a whole buffer behind."""
        while self._readers:
            slowest = min(self._readers, key=_position)
            read = self.blocks[: max(0, slowest.position - self._first_block)]
            del self.blocks[: len(read)]  # at once: one by one it is quadratic in the number of blocks
            read_bytes = sum(map(len, read))
            self._held_bytes -= read_bytes
            self._budget.give(read_bytes)
            self._first_block += len(read)
            if self._held_bytes <= 2 * MAX_HELD_BYTES or len(self._readers) == 1:
                return
            self._readers.discard(slowest)
            slowest.dropped = True

    def _settle(self, error: RequestError | None) -> None:
        """The end, once: tell the owner first, then release the connection and wake every reader."""
        if self.ended:
            return
        self.error = error
        on_end = self._on_end
        del self._on_end  # see _start
        try:
            on_end(self, error)
        finally:
            self.ended = True
            if self.source is not None:
                if error is None:
                    self.source.finish()
                else:
                    self.source.close()
            self._wake()

    async def _wait(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _wake(self, _call: object = None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Reader:
    """One request's place in a flight. Leave it exactly when done, in a `finally`."""

    __slots__ = ("_held_bytes", "dropped", "flight", "position")

    def __init__(self, flight: Flight) -> None:
        self._held_bytes = 0
        self.flight = flight
        self.position = 0
        self.dropped = False

    async def next(self) -> bytes | None:
        """The next block; None at the end. Raises RequestError where the reply broke off."""
        if self.dropped:
            raise RequestError(
                503, "this client reads too slowly for the reply it shares", kind="api_error", code="too_slow"
            )
        block = await self.flight.block(self.position)
        if block is not None:
            self.position += 1
            if self.flight.oversize:
                self.flight._trim()
        return block

    async def rest(self) -> bytes:
        """Everything from here to the end. Raises RequestError where the reply broke off, or is too long to be held."""
        parts, num_bytes = [], 0
        while (block := await self.next()) is not None:
            parts.append(block)
            num_bytes += len(block)
            if num_bytes > MAX_WHOLE_BYTES:
                raise _too_long()
            if self.flight.oversize:  # which keeps, and counts, no more than its readers lag behind
                self._hold(num_bytes)
        return b"".join(parts)

    def _hold(self, num_bytes: int) -> None:
        """Count what this reader has collected. Raises RequestError where there is no room for so long a reply."""
        budget = self.flight._budget
        budget.add(num_bytes - self._held_bytes)
        self._held_bytes = num_bytes
        if num_bytes > MAX_HELD_BYTES and budget.is_full:
            raise overloaded("too much is in flight for so long a reply that is no stream")

    def leave(self) -> None:
        """Give up this place."""
        self.flight._budget.give(self._held_bytes)
        self._held_bytes = 0
        self.flight.leave(self)


def _position(reader: Reader) -> int:
    return reader.position


def _defect() -> RequestError:
    return RequestError(500, "the gateway failed on this reply", kind="api_error", code="internal_error")


def _too_long() -> RequestError:
    return RequestError(
        502,
        f"the upstream's reply is longer than {MAX_WHOLE_BYTES >> 20} MiB: ask for a stream",
        kind="api_error",
        code="upstream_too_long",
    )


def _abandoned() -> RequestError:
    return RequestError(499, "every reader left", kind="api_error", code="client_gone")
