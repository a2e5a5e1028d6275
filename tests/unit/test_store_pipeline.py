"""The pipelined connection against a scripted peer: only for faults that a real server does not commit."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.errors import StoreFullError, StoreUnavailableError
from openclaw_cache.store.pipeline import Pipeline, RedirectError, RefusedError, encode
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.testing import running_valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PING = encode(b"PING")


@contextlib.asynccontextmanager
async def connected(
    script: Script, *, timeout_s: float = 10.0, max_pending_bytes: int = 1 << 24
) -> AsyncIterator[tuple[Pipeline, list[str]]]:
    """A pipeline whose peer follows `script`; the list collects why it was lost."""
    losses: list[str] = []

    def make() -> Pipeline:
        return Pipeline(
            timeout_s=timeout_s,
            max_pending_bytes=max_pending_bytes,
            on_lost=lambda _, reason: losses.append(reason),
        )

    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        server = await asyncio.start_unix_server(script, f"{folder}/sock")
        _, link = await asyncio.get_running_loop().create_unix_connection(make, f"{folder}/sock")
        try:
            yield link, losses
        finally:
            link.close()
            server.close()


def test_commands_are_resp_arrays_of_bulk_strings() -> None:
    # The worked example of https://valkey.io/topics/protocol/
    assert encode(b"LLEN", b"mylist") == b"*2\r\n$4\r\nLLEN\r\n$6\r\nmylist\r\n"


@given(
    replies=st.lists(
        st.one_of(
            st.binary(max_size=40), st.none(), st.integers(-9, 9), st.lists(st.binary(max_size=5), max_size=3)
        ),
        min_size=1,
        max_size=8,
    ),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_replies_are_the_same_however_the_network_cuts_them(replies: list[object], cuts: list[int]) -> None:
    wire = b"".join(map(resp, replies))

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PING) * len(replies))
        at = turn = 0
        while at < len(wire):
            size = cuts[turn % len(cuts)]
            writer.write(wire[at : at + size])
            await writer.drain()
            await asyncio.sleep(0)
            at, turn = at + size, turn + 1
        writer.close()

    async def main() -> list[object]:
        async with connected(script) as (link, _):
            return list(await asyncio.gather(*(link.send(PING) for _ in replies)))

    assert asyncio.run(main()) == replies


def resp(reply: object) -> bytes:
    """RESP2 by its specification."""
    if reply is None:
        return b"$-1\r\n"
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if isinstance(reply, int):
        return b":%d\r\n" % reply
    assert isinstance(reply, list)
    return b"*%d\r\n" % len(reply) + b"".join(map(resp, reply))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)
    writer.close()


async def test_silence_fails_all_in_flight_and_ends_the_connection() -> None:
    async with connected(silent, timeout_s=0.05) as (link, losses):
        results = await asyncio.gather(*(link.send(PING) for _ in range(10)), return_exceptions=True)
        assert {type(result) for result in results} == {StoreUnavailableError}
        assert losses == ["the store gave no answer within 0.05 s"]
        with pytest.raises(StoreUnavailableError):
            link.send(PING)


async def test_an_idle_connection_is_not_silent() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(len(PING)):
            writer.write(b"+PONG\r\n")
        writer.close()

    async with connected(script, timeout_s=0.5) as (link, losses):
        assert await link.send(PING) == b"PONG"
        await asyncio.sleep(1.5)
        assert await link.send(PING) == b"PONG"
        assert losses == []


async def test_a_large_value_may_take_longer_than_the_bound_while_it_moves() -> None:
    size = 4 << 20

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PING))
        writer.write(b"$%d\r\n" % size)
        for _ in range(16):  # 16 x 0.05 s against a bound of 0.4 s
            writer.write(bytes(size // 16))
            await asyncio.sleep(0.05)
        writer.write(b"\r\n")
        await reader.read(-1)
        writer.close()

    async with connected(script, timeout_s=0.4) as (link, losses):
        assert await link.send(PING) == bytes(size)
        assert losses == []


async def test_a_trickle_is_silence() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(b"$1000000\r\n")
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.005)
        writer.close()

    async with connected(script, timeout_s=0.1) as (link, losses):
        with pytest.raises(StoreUnavailableError):
            await link.send(PING)
        assert losses == ["the store gave no answer within 0.1 s"]


async def test_a_server_that_answers_each_command_too_late_is_silent_though_it_never_rests() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                await reader.readexactly(len(PING))
                await asyncio.sleep(0.02)
                writer.write(b"+PONG\r\n")
        writer.close()

    async with connected(script, timeout_s=0.1) as (link, losses):
        results = await asyncio.gather(*(link.send(PING) for _ in range(100)), return_exceptions=True)
        assert isinstance(results[-1], StoreUnavailableError)
        assert losses == ["the store gave no answer within 0.1 s"]


async def test_a_late_reply_meets_nobody() -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PING))
        await asyncio.sleep(0.3)
        with contextlib.suppress(ConnectionError):
            writer.write(b"+late\r\n")
            await writer.drain()
        writer.close()

    async with connected(script, timeout_s=0.05) as (link, _):
        with pytest.raises(StoreUnavailableError):
            await link.send(PING)
        await asyncio.sleep(0.5)
        with pytest.raises(StoreUnavailableError):
            link.send(PING)


@pytest.mark.parametrize(
    "run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"]
)  # uvloop runs timers first
def test_a_stall_of_our_own_loop_is_not_the_servers_silence(run: Callable[..., None], tmp_path: Path) -> None:
    async def main() -> None:
        async with running_valkey(tmp_path) as (url, _):
            store = ValkeyStore(url, timeout_s=0.2)
            await store.start()
            get = asyncio.create_task(store.get(b"k"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            time.sleep(0.6)
            assert await get is None
            assert store.up
            await store.aclose()

    run(main())


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n+PONG\r\n", b"\x15\x03\x01"]
)
async def test_what_is_no_reply_to_a_command_ends_the_connection(garbage: bytes) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PING))
        writer.write(garbage)
        await reader.read(-1)
        writer.close()

    async with connected(script) as (link, losses):
        with contextlib.suppress(StoreUnavailableError):
            await link.send(PING)
        while link.lost_because is None:
            await asyncio.sleep(0.01)
        assert losses == ["the store sent something else than replies of the Redis protocol"]


async def test_bytes_beyond_the_bound_are_refused_at_once_and_those_before_are_not_lost() -> None:
    may_read = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await may_read.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(3):
            await reader.readexactly(len(put))
            writer.write(b"+OK\r\n")
        await reader.read(-1)
        writer.close()

    put = encode(b"SET", b"k", bytes(3 << 20))
    async with connected(script, max_pending_bytes=10 << 20) as (link, losses):
        accepted = [link.send(put) for _ in range(3)]
        with pytest.raises(StoreUnavailableError, match="refused"):
            link.send(put)
        await asyncio.sleep(0)
        may_read.set()
        assert await asyncio.gather(*accepted) == [b"OK"] * 3
        assert losses == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.", StoreFullError),
        (b"-MISCONF Valkey is configured to save RDB snapshots, but it is unable to persist", StoreFullError),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value", RefusedError),
        (b"-NOAUTH Authentication required.", RefusedError),
        (b"-LOADING Valkey is loading the dataset in memory", RefusedError),
        (b"-ERR unknown command 'AUTH', with args beginning with: 'secret'", RefusedError),
    ],
)
async def test_an_error_reply_fails_its_command_only_and_repeats_no_arguments(
    error: bytes, kind: type[Exception]
) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2 * len(PING))
        writer.write(error + b"\r\n+PONG\r\n")
        await reader.read(-1)
        writer.close()

    async with connected(script) as (link, _):
        failed, fine = await asyncio.gather(link.send(PING), link.send(PING), return_exceptions=True)
        assert type(failed) is kind
        assert "secret" not in str(failed)
        assert fine == b"PONG"


async def test_commands_of_one_turn_leave_together() -> None:
    arrivals: list[int] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            arrivals.append(len(data))
            writer.write(b"+PONG\r\n" * (len(data) // len(PING)))
        writer.close()

    async with connected(script) as (link, _):
        await asyncio.gather(*(link.send(PING) for _ in range(50)))
        assert arrivals == [50 * len(PING)]


@pytest.mark.parametrize(
    ("error", "told"),
    [  # https://valkey.io/topics/cluster-spec/ "MOVED redirection", "ASK redirection"
        (b"-MOVED 3999 127.0.0.1:6381", (False, 3999, "127.0.0.1", 6381)),
        (b"-ASK 3999 127.0.0.1:6381", (True, 3999, "127.0.0.1", 6381)),
        (b"-MOVED 3999 :6381", (False, 3999, "", 6381)),
        (b"-MOVED 3999 ?:6381", (False, 3999, "?", 6381)),
        (b"-MOVED 1 ::1:6381", (False, 1, "::1", 6381)),
        (b"-MOVED 1 cache-0.example:6381", (False, 1, "cache-0.example", 6381)),
    ],
)
async def test_a_redirection_is_read(error: bytes, told: tuple[bool, int, str, int]) -> None:
    failure = await failing_with(error)
    assert isinstance(failure, RedirectError)
    assert (failure.asking, failure.slot, failure.host, failure.port) == told


@pytest.mark.parametrize(
    "error",
    [b"-MOVED", b"-MOVED 1", b"-MOVED 1 host", b"-MOVED x host:1", b"-ASK 1 host:port", b"-ASKED 1 host:1"],
)
async def test_what_only_looks_like_a_redirection_is_a_refusal(error: bytes) -> None:
    assert type(await failing_with(error)) is RefusedError


async def failing_with(error: bytes) -> BaseException | None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PING))
        writer.write(error + b"\r\n")
        await reader.read(-1)
        writer.close()

    async with connected(script) as (link, _):
        [failure] = await asyncio.gather(link.send(PING), return_exceptions=True)
        return failure
