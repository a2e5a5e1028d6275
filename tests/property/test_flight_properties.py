"""One flight under every order of joining, leaving, reading slowly, failing and ending."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.flight import Flight
from openclaw_cache.gateway.flights import Flights
from openclaw_cache.types import CacheKey, Headers

KEY = CacheKey(b"k")
LAST = b"LAST"


class ScriptedSource:
    """An upstream's reply whose every read the test decides."""

    status = 200
    is_ok = True
    is_event_stream = True

    def __init__(self) -> None:
        self.headers: Headers = []
        self.coming: deque[bytes | RequestError] = deque()
        self.arrived = asyncio.Event()
        self.num_reading = 0
        self.finished = False
        self.closed = False

    def bring(self, what: bytes | RequestError) -> None:
        self.coming.append(what)
        self.arrived.set()

    async def read(self) -> bytes:
        self.num_reading += 1
        assert self.num_reading == 1, "two readers read the upstream at once"
        try:
            while not self.coming:
                self.arrived.clear()
                await self.arrived.wait()
            what = self.coming.popleft()
        finally:
            self.num_reading -= 1
        if isinstance(what, RequestError):
            raise what
        return what

    def finish(self) -> None:
        self.finished = True

    def close(self) -> None:
        self.closed = True


class PlainTranscript:
    """Everything may be relayed; the block `LAST` is the reply's own end."""

    terminal = False
    num_pieces = 0

    def feed(self, chunk: bytes) -> bytes:
        self.terminal = self.terminal or chunk == LAST
        return chunk

    def end(self) -> bytes:
        return b""

    def forget(self) -> None:
        pass


class Client:
    """A request that reads a flight as the relay does, one block at a time, as fast as it is let."""

    def __init__(self, flight: Flight) -> None:
        self.reader = flight.join()
        self.flight = flight
        self.got: list[bytes] = []
        self.error: RequestError | None = None
        self.saw_end = False
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.task = asyncio.get_running_loop().create_task(self.run())
        self.task.add_done_callback(lambda _: self.reader.leave())  # also where it never got to run

    async def run(self) -> None:
        try:
            await self.flight.head()
            while (block := await self.reader.next()) is not None:
                self.got.append(block)
                await self.may_go_on.wait()
            self.saw_end = True
        except RequestError as e:
            self.saw_end, self.error = True, e


class FlightMachine(RuleBasedStateMachine):
    """Drives a flight by hand: nothing happens between two rules but the turns of the loop that a rule gives."""

    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.table = Flights()
        self.all: list[Client] = []
        self.left: set[Client] = set()
        self.brought: list[bytes] = []
        self.source = ScriptedSource()
        self.num_sends = 0
        self.num_ends = 0
        self.ended_with: RequestError | None = None
        self.failure: RequestError | None = None
        self.head: asyncio.Future[ScriptedSource] = self.loop.create_future()
        self.is_over = False
        """Whether the upstream has said its last word."""
        self.flight = Flight(
            self.send,
            lambda _: PlainTranscript(),
            self.on_end,
            recorder=None,  # type: ignore[arg-type]
            streamed=True,
        )
        self.table.add(KEY, self.flight)

    # The flight's surroundings.

    async def send(self) -> Any:
        self.num_sends += 1
        return await asyncio.shield(self.head)

    def on_end(self, flight: Flight, error: RequestError | None) -> None:
        self.num_ends += 1
        assert not any(client.saw_end for client in self.all), "a reader saw the end before the table did"
        assert not flight.ended
        self.ended_with = error
        self.table.remove(KEY, flight)

    def turn(self, number: int) -> None:
        async def turns() -> None:
            for _ in range(number):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    # What may happen.

    @precondition(lambda self: self.table.find(KEY) is not None)
    @rule(target=clients)
    def join(self) -> Any:
        async def joined() -> Client | None:
            flight = self.table.find(KEY)
            return Client(flight) if flight is not None else None

        client = self.loop.run_until_complete(joined())
        if client is None:  # it ended in the turn that this took
            return multiple()
        self.all.append(client)
        return client

    @rule(client=consumes(clients))
    def leave(self, client: Client) -> None:
        if not client.task.done():
            self.left.add(client)
        client.task.cancel()

    @rule(client=clients)
    def stop_reading(self, client: Client) -> None:
        client.may_go_on.clear()

    @rule(client=clients)
    def read_on(self, client: Client) -> None:
        client.may_go_on.set()

    @precondition(lambda self: not self.head.done())
    @rule()
    def head_comes(self) -> None:
        self.head.set_result(self.source)

    @precondition(lambda self: not self.head.done())
    @rule()
    def call_fails(self) -> None:
        self.failure = RequestError(502, "no")
        self.is_over = True
        self.head.set_exception(self.failure)
        self.head.exception()  # nobody may be there to see it

    @precondition(lambda self: self.head.done() and not self.is_over)
    @rule(number=st.integers(1, 3))
    def blocks_come(self, number: int) -> None:
        for _ in range(number):
            block = b"%d" % len(self.brought)
            self.brought.append(block)
            self.source.bring(block)

    @precondition(lambda self: self.head.done() and not self.is_over)
    @rule(how=st.sampled_from(["end", "last block", "failure"]))
    def upstream_ends(self, how: str) -> None:
        self.is_over = True
        if how == "end":
            self.source.bring(b"")
        elif how == "last block":
            self.brought.append(LAST)
            self.source.bring(LAST)
        else:
            self.failure = RequestError(502, "broke off")
            self.source.bring(self.failure)

    @rule(number=st.integers(1, 4))
    def time_passes(self, number: int) -> None:
        self.turn(number)

    # What always holds.

    @invariant()
    def one_call(self) -> None:
        assert self.num_sends <= 1
        assert self.num_ends <= 1

    @invariant()
    def everyone_has_a_prefix_each_block_once_in_order(self) -> None:
        for client in self.all:
            assert client.got == self.brought[: len(client.got)]
        for client in self.all:
            if client.task.done() and not client.task.cancelled():
                assert client.task.exception() is None

    @invariant()
    def an_ended_flight_is_off_the_table(self) -> None:
        assert (self.table.find(KEY) is None) == (self.num_ends == 1)

    def teardown(self) -> None:
        try:
            self.check_the_end()
        finally:
            for client in self.all:
                client.task.cancel()
            self.turn(50)
            self.loop.close()

    def check_the_end(self) -> None:
        for client in self.all:
            client.may_go_on.set()
        self.turn(50 + 10 * len(self.brought))
        stayed = [client for client in self.all if client not in self.left]
        for client in stayed:
            if self.head.done():
                assert client.got == self.brought  # nobody misses a block, whoever else left
            assert client.task.done() == self.is_over
            if self.is_over:
                assert client.error is self.failure
        if stayed and not self.is_over:  # the upstream is closed exactly when the last one leaves
            assert self.num_ends == 0
            self.leave_all(stayed)
        if self.all:
            assert self.num_ends == 1
            is_whole = self.ended_with is None
            assert self.source.finished == is_whole
            assert self.source.closed == (not is_whole and self.flight.source is not None)
        assert self.flight.num_readers == 0

    def leave_all(self, clients: list[Client]) -> None:
        for client in clients:
            client.task.cancel()
        self.turn(20)


TestFlight = FlightMachine.TestCase
TestFlight.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
