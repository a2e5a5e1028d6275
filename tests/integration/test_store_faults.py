"""ValkeyStore when its server freezes, dies, fills up or refuses us."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from openclaw_cache.errors import ConfigError, StoreError, StoreFullError, StoreUnavailableError
from openclaw_cache.store.address import parse_url
from openclaw_cache.store.dial import dial
from openclaw_cache.store.pipeline import encode
from openclaw_cache.store.valkey import ValkeyStore
from openclaw_cache.testing import running_valkey

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path


class Changes(list[bool]):
    """Records what on_change tells."""

    def __call__(self, up: bool, reason: str) -> None:
        assert reason
        self.append(up)


def fails_without_waiting(call: Coroutine[Any, Any, object]) -> bool:
    """Whether the call raises StoreUnavailableError before it awaits anything."""
    try:
        call.send(None)
    except StoreUnavailableError:
        return True
    call.close()
    return False


async def until_up(store: ValkeyStore) -> None:
    async with asyncio.timeout(30):
        while not store.up:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_a_frozen_server_costs_one_wait_then_none_and_heals_by_itself(
    tmp_path: Path, tcp: bool
) -> None:
    changes = Changes()
    async with running_valkey(tmp_path, tcp=tcp) as (url, process):
        store = ValkeyStore(url, timeout_s=0.25, on_change=changes)
        await store.start()
        await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(100)))
        process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(10):
            answers = await asyncio.gather(
                *(store.get(b"%d" % n) for n in range(100)), return_exceptions=True
            )
        assert {type(answer) for answer in answers} == {StoreUnavailableError}
        assert not store.up
        for call in (store.get(b"1"), store.put(b"1", b"x"), store.delete(b"1"), store.add(b"1", b"x")):
            assert fails_without_waiting(call)
        assert changes == [False]
        process.send_signal(signal.SIGCONT)
        await until_up(store)
        assert await asyncio.gather(*(store.get(b"%d" % n) for n in range(100))) == [
            b"v%d" % n for n in range(100)
        ]
        assert changes == [False, True]
        await store.aclose()


async def test_a_server_frozen_in_a_storm_never_swaps_replies(tmp_path: Path) -> None:
    async with running_valkey(tmp_path) as (url, process):
        store = ValkeyStore(url, timeout_s=0.05)
        await store.start()
        await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(500)))
        answers: list[tuple[int, bytes | None]] = []
        finished = asyncio.Event()

        async def reader(number: int) -> None:
            while not finished.is_set():
                try:
                    answers.append((number, await store.get(b"%d" % number)))
                except StoreUnavailableError:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.001)

        readers = [asyncio.create_task(reader(number)) for number in range(100)]
        for _ in range(4):
            await asyncio.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(0.2)
            process.send_signal(signal.SIGCONT)
            await until_up(store)
        await asyncio.sleep(0.1)
        finished.set()
        await asyncio.gather(*readers)
        assert len(answers) > 100
        assert all(answer == b"v%d" % number for number, answer in answers)
        await store.aclose()


async def test_a_large_put_into_a_frozen_server_fails_too(tmp_path: Path) -> None:
    async with running_valkey(tmp_path) as (url, process):
        store = ValkeyStore(url, timeout_s=0.1)
        await store.start()
        process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(10):
            with pytest.raises(StoreUnavailableError):
                await store.put(b"big", bytes(32 << 20))
        process.send_signal(signal.SIGCONT)
        await until_up(store)
        assert await store.get(b"big") is None  # half a command is none
        await store.aclose()


async def test_a_dead_server_opens_the_circuit_and_its_successor_closes_it(tmp_path: Path) -> None:
    changes = Changes()
    async with running_valkey(tmp_path) as (url, process):
        store = ValkeyStore(url, timeout_s=5.0, on_change=changes)
        await store.start()
        path = parse_url(url).path
        gets = [asyncio.ensure_future(store.get(b"k")) for _ in range(100)]
        process.kill()
        process.wait()
        await asyncio.wait(gets)
        async with asyncio.timeout(10):
            while store.up:
                await asyncio.sleep(0.01)
        assert fails_without_waiting(store.get(b"k"))
        async with running_valkey(tmp_path) as (other_url, _):
            os.unlink(path)
            os.symlink(parse_url(other_url).path, path)
            await until_up(store)
            await store.put(b"k", b"v")
            assert await store.get(b"k") == b"v"
            assert changes == [False, True]
            await store.aclose()


async def test_a_connection_that_the_server_drops_is_made_again(tmp_path: Path) -> None:
    async with running_valkey(tmp_path) as (url, _):
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        await store.put(b"k", b"v")
        operator = await dial(parse_url(url), timeout_s=5.0)
        await operator.send(encode(b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes"))
        operator.close()
        async with asyncio.timeout(10):
            while store.up:
                await asyncio.sleep(0.001)
        await until_up(store)
        assert await store.get(b"k") == b"v"
        await store.aclose()


async def test_a_server_that_is_not_there_at_start_is_no_error(tmp_path: Path) -> None:
    changes = Changes()
    store = ValkeyStore(f"unix://{tmp_path}/nobody.sock", on_change=changes)
    await store.start()
    assert not store.up
    assert changes == [False]
    with pytest.raises(StoreUnavailableError, match=r"nobody\.sock"):
        await store.get(b"k")
    await store.aclose()


async def test_a_full_server_refuses_writes_as_full_and_still_reads(tmp_path: Path) -> None:
    async with running_valkey(tmp_path, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction") as (url, _):
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        await store.put(b"k", b"v")
        fill = [store.put(b"fill:%d" % number, bytes(100_000)) for number in range(100)]
        refusals = [
            answer for answer in await asyncio.gather(*fill, return_exceptions=True) if answer is not None
        ]
        assert {type(refusal) for refusal in refusals} == {StoreFullError}
        with pytest.raises(StoreFullError):
            await store.add(b"epoch", b"v")
        assert await store.get(b"k") == b"v"
        assert store.up
        assert await store.delete(*[key async for key in store.scan(b"fill:")]) > 10
        await store.put(b"k", b"fits")
        await store.aclose()


async def test_a_wrong_password_is_a_configuration_error_that_does_not_show_it(tmp_path: Path) -> None:
    async with running_valkey(tmp_path, tcp=True, password="correct") as (url, _):
        for wrong in ("redis://:battery@", "redis://", "redis://me:battery@"):
            store = ValkeyStore(url.replace("redis://:correct@", wrong))
            with pytest.raises(ConfigError, match=r"store\.url") as caught:
                await store.start()
            assert "battery" not in str(caught.value)
            assert "battery" not in repr(store)
            await store.aclose()


async def test_a_password_or_database_that_the_server_does_not_have_is_a_configuration_error(
    tmp_path: Path,
) -> None:
    async with running_valkey(tmp_path, tcp=True) as (url, _):
        for wrong in (url.replace("redis://", "redis://:battery@"), url.removesuffix("/0") + "/99"):
            store = ValkeyStore(wrong)
            with pytest.raises(ConfigError) as caught:
                await store.start()
            assert "battery" not in str(caught.value)


async def test_a_foreign_type_under_a_key_fails_that_call_only(tmp_path: Path) -> None:
    async with running_valkey(tmp_path) as (url, _):
        operator = await dial(parse_url(url), timeout_s=5.0)
        await operator.send(encode(b"RPUSH", b"list", b"x"))
        operator.close()
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        with pytest.raises(StoreUnavailableError, match="WRONGTYPE"):
            await store.get(b"list")
        assert store.up
        await store.aclose()


async def test_durable_means_there_after_a_power_cut_of_the_process(tmp_path: Path) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "everysec")
    async with running_valkey(tmp_path, *options) as (url, process):
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        epoch = await store.add(b"epoch", b"random")
        assert await store.make_durable() is True
        process.kill()
        await store.aclose()
    async with running_valkey(tmp_path, *options) as (url, _):
        store = ValkeyStore(url, timeout_s=5.0)
        await store.start()
        assert await store.get(b"epoch") == epoch
        await store.aclose()


async def test_waiting_for_the_disk_does_not_hold_up_reads(tmp_path: Path) -> None:
    async with running_valkey(tmp_path, "--appendonly", "yes", "--appendfsync", "no") as (url, _):
        store = ValkeyStore(url, timeout_s=5.0, durable_timeout_s=1.0)
        await store.start()
        waiting = asyncio.create_task(store.make_durable())
        num_reads = 0
        while not waiting.done():
            await store.get(b"k")
            num_reads += 1
        with pytest.raises(StoreUnavailableError, match="fsync"):  # `appendfsync no` never promises
            waiting.result()
        assert num_reads > 10
        assert store.up
        await store.aclose()


async def test_a_cancellation_storm_over_a_freeze_leaves_no_shifted_reply_and_no_stray_task(
    tmp_path: Path,
) -> None:
    async with running_valkey(tmp_path) as (url, process):
        store = ValkeyStore(url, timeout_s=0.2)
        await store.start()
        await asyncio.gather(*(store.put(b"%d" % number, b"v%d" % number) for number in range(100)))
        for _ in range(3):
            gets = [asyncio.create_task(store.get(b"%d" % number)) for number in range(100)]
            await asyncio.sleep(0)
            process.send_signal(signal.SIGSTOP)
            for get in gets[::2]:
                get.cancel()
            await asyncio.sleep(0.02)
            process.send_signal(signal.SIGCONT)
            for number, answer in enumerate(await asyncio.gather(*gets, return_exceptions=True)):
                assert answer == b"v%d" % number or isinstance(answer, StoreError | asyncio.CancelledError)
            await until_up(store)
        assert await asyncio.gather(*(store.get(b"%d" % n) for n in range(100))) == [
            b"v%d" % n for n in range(100)
        ]
        await store.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
