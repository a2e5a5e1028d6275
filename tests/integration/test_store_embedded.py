"""The embedded Valkey through starts, crashes, leftovers and damage."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from openclaw_cache.errors import ConfigError, StoreError
from openclaw_cache.store.address import parse_url
from openclaw_cache.store.dial import dial
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.pipeline import encode
from openclaw_cache.store.valkey import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

CRASHING_GATEWAY = """
import asyncio, os, signal, sys
from pathlib import Path
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.valkey import ValkeyStore

async def main():
    server = EmbeddedValkey(Path(sys.argv[1]))
    store = ValkeyStore(await server.start(), timeout_s=10.0)
    await store.start()
    await store.put(b"k", b"from the first gateway")
    assert await store.make_durable()
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def crashed_gateway(data_dir: Path) -> int:
    """Run a gateway that kills itself -9 with its server up; return the server's pid."""
    command = [sys.executable, "-c", CRASHING_GATEWAY, str(data_dir)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    return int(done.stdout)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[ValkeyStore]:
    store = ValkeyStore(url, timeout_s=10.0, durable_timeout_s=10.0)
    await store.start()
    try:
        yield store
    finally:
        await store.aclose()


@contextlib.asynccontextmanager
async def running(
    data_dir: Path, *, max_bytes: int = 1 << 30, on_event: Callable[[str], None] | None = None
) -> AsyncIterator[tuple[EmbeddedValkey, ValkeyStore]]:
    server = EmbeddedValkey(data_dir, max_bytes=max_bytes, on_event=on_event)
    try:
        async with opened(await server.start()) as store:
            yield server, store
    finally:
        await server.stop()


def is_running(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def setting(server: EmbeddedValkey, name: str) -> str:
    link = await dial(parse_url(server.url), timeout_s=10.0)
    _, value = await link.send(encode(b"CONFIG", b"GET", name.encode()))
    link.close()
    return str(value, "utf-8")


async def test_the_server_is_private_durable_and_bounded(tmp_path: Path) -> None:
    async with running(tmp_path, max_bytes=64 << 20) as (server, store):
        socket = parse_url(server.url).path
        assert stat.S_IMODE(os.stat(socket).st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "valkey").stat().st_mode) == 0o700
        assert await setting(server, "port") == "0"
        assert await setting(server, "maxmemory-policy") == "volatile-lfu"
        assert await setting(server, "appendonly") == "yes"
        assert server.pid is not None
        assert os.getsid(server.pid) == server.pid != os.getsid(0)  # Ctrl-C does not reach it
        info = await store.info()
        assert (info.max_bytes, info.durable) == (64 << 20, True)


async def test_the_servers_environment_holds_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with running(tmp_path) as (server, _):
        assert Path(f"/proc/{server.pid}/environ").read_bytes() == b""


async def test_values_outlive_a_stop_and_the_server_does_not(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, store):
        pid = server.pid
        await store.put(b"kept", b"v", ttl_s=3600)
        await store.put(b"epoch", b"random")
    assert pid is not None
    assert not is_running(pid)
    assert server.pid is None
    async with running(tmp_path) as (again, store):
        assert await store.get_many([b"kept", b"epoch"]) == [b"v", b"random"]
        assert again.pid != pid
        assert again.restarts == 0


async def test_a_server_killed_under_us_comes_back_with_its_data(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, store):
        await store.put(b"k", b"v")
        assert await store.make_durable()
        for number in (1, 2):
            pid = server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            async with asyncio.timeout(30):
                while server.restarts < number or not store.up:
                    await asyncio.sleep(0.02)
            assert await store.get(b"k") == b"v"
            assert server.pid not in {None, pid}


async def test_a_second_gateway_on_the_data_dir_is_refused_with_the_owners_pid(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, store):
        with pytest.raises(ConfigError, match=rf"data_dir.*process {os.getpid()}\b"):
            await EmbeddedValkey(tmp_path).start()
        await store.put(b"k", b"v")  # the first is not disturbed
        assert server.restarts == 0
    async with running(tmp_path):
        pass  # and its lock ended with it


async def test_the_server_of_a_killed_gateway_is_taken_over_and_stopped_in_the_end(tmp_path: Path) -> None:
    pid = crashed_gateway(tmp_path)
    assert is_running(pid)
    async with running(tmp_path, max_bytes=32 << 20) as (server, store):
        assert server.pid == pid
        assert await store.get(b"k") == b"from the first gateway"
        assert (await store.info()).max_bytes == 32 << 20  # today's settings
    assert not is_running(pid)


async def test_a_server_taken_over_is_restarted_when_it_dies(tmp_path: Path) -> None:
    pid = crashed_gateway(tmp_path)
    async with running(tmp_path) as (server, store):
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while server.restarts == 0 or not store.up:
                await asyncio.sleep(0.02)
        assert await store.get(b"k") == b"from the first gateway"
        assert server.pid not in {None, pid}


@pytest.mark.parametrize("fault", ["socket deleted", "frozen"])
async def test_a_leftover_server_that_cannot_be_used_is_replaced_and_its_data_kept(
    tmp_path: Path, fault: str
) -> None:
    pid = crashed_gateway(tmp_path)
    if fault == "frozen":
        os.kill(pid, signal.SIGSTOP)
    else:
        (tmp_path / "valkey" / "valkey.sock").unlink()
    async with running(tmp_path) as (server, store):
        assert not is_running(pid)
        assert server.pid not in {None, pid}
        assert await store.get(b"k") == b"from the first gateway"


async def test_stale_socket_and_pid_files_are_cleared_and_no_innocent_process_is_touched(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (server, store):
        await store.put(b"k", b"v")
        assert await store.make_durable()
        pid = server.pid
    assert pid is not None
    with subprocess.Popen(["sleep", "60"]) as innocent:
        (tmp_path / "valkey" / "valkey.pid").write_text(f"{innocent.pid}\n")
        (tmp_path / "valkey" / "valkey.sock").touch()
        async with running(tmp_path) as (_, store):
            assert await store.get(b"k") == b"v"
        assert innocent.poll() is None
        innocent.terminate()


async def test_a_frozen_server_can_be_stopped(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, _):
        pid = server.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        await server.stop()
        assert not is_running(pid)


async def fill(data_dir: Path) -> Path:
    """Leave 100 keys behind; return the append-only file that holds them."""
    async with running(data_dir) as (_, store):
        for number in range(100):
            await store.put(b"%03d" % number, b"value of %03d" % number)
    (log,) = (data_dir / "valkey" / "appendonlydir").glob("*.incr.aof")
    return log


async def test_a_log_cut_off_in_a_write_gives_back_all_before_it(tmp_path: Path) -> None:
    log = await fill(tmp_path)
    log.write_bytes(log.read_bytes()[:-5])
    async with running(tmp_path) as (_, store):
        assert await store.get(b"098") == b"value of 098"
        assert await store.get(b"099") is None


@pytest.mark.parametrize("damage", ["middle", "manifest", "base"])
async def test_unreadable_data_is_set_aside_kept_and_reported(tmp_path: Path, damage: str) -> None:
    log = await fill(tmp_path)
    target = {"middle": log, "manifest": log.parent / "appendonly.aof.manifest"}.get(damage)
    if target is None:
        (target,) = log.parent.glob("*.base.rdb")
    content = bytearray(target.read_bytes())
    content[len(content) // 2 : len(content) // 2] = b"\x00garbage"
    target.write_bytes(content)
    events: list[str] = []
    async with running(tmp_path, on_event=events.append) as (_, store):
        assert await store.get(b"050") is None
        await store.put(b"new", b"v")
    (aside,) = (tmp_path / "valkey").glob("unreadable-*")
    assert (aside / target.name).read_bytes() == bytes(content)
    assert any("could not load its data" in event and str(aside) in event for event in events)
    async with running(tmp_path) as (_, store):
        assert await store.get(b"new") == b"v"


async def test_a_server_that_cannot_start_is_reported_once_and_its_data_left_alone(tmp_path: Path) -> None:
    log = await fill(tmp_path)
    before = log.read_bytes()
    events: list[str] = []
    server = EmbeddedValkey(tmp_path, eviction="nonsense", on_event=events.append)
    try:
        async with opened(await server.start()) as store, asyncio.timeout(30):
            assert not store.up
            while server.restarts < 3:
                await asyncio.sleep(0.02)
    finally:
        await server.stop()
    assert [event for event in events if "does not start" in event] == events[:1] == events
    assert log.read_bytes() == before
    async with running(tmp_path) as (_, store):
        assert await store.get(b"050") == b"value of 050"


@pytest.mark.parametrize("name", ["d" * 120, 'quote " back\\slash # %41 空 格'], ids=["long", "awkward"])
async def test_any_data_dir_path_works_and_its_server_is_found_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / name
    pid = crashed_gateway(data_dir)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # another login, another runtime folder
    async with running(data_dir) as (server, store):
        assert server.pid == pid
        assert await store.get(b"k") == b"from the first gateway"
        socket = Path(parse_url(server.url).path)
        assert len(os.fsencode(socket)) < 104
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700


async def test_eviction_takes_entries_and_never_epochs(tmp_path: Path) -> None:
    async with running(tmp_path, max_bytes=8 << 20) as (_, store):
        epochs = {b"epoch:%d" % number: b"random %d" % number for number in range(20)}
        for key, value in epochs.items():
            await store.add(key, value)
        for number in range(300):
            await store.put(b"entry:%d" % number, bytes(100_000), ttl_s=3600)
        info = await store.info()
        assert info.num_evictions > 200
        async with asyncio.timeout(30):  # what waits to be written to a slow disk is used, too
            while (await store.info()).used_bytes > 8 << 20:
                await asyncio.sleep(0.05)
        assert await store.get_many(list(epochs)) == list(epochs.values())


async def test_a_kill_in_the_middle_of_writes_leaves_values_whole_or_absent(tmp_path: Path) -> None:
    values = {b"%d" % number: b"%d:" % number * 5000 for number in range(300)}
    async with running(tmp_path) as (server, store):
        puts = [asyncio.ensure_future(store.put(key, value)) for key, value in values.items()]
        await puts[len(puts) // 2]
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert all(outcome is None or isinstance(outcome, StoreError) for outcome in outcomes)
        async with asyncio.timeout(30):
            while server.restarts == 0 or not store.up:
                await asyncio.sleep(0.02)
        for key, value in zip(values, await store.get_many(list(values)), strict=True):
            assert value in {None, values[key]}


def test_it_works_on_uvloop_as_well(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (server, store):
            await store.put(b"k", b"v")
            assert await store.make_durable()
            assert server.pid is not None
            os.kill(server.pid, signal.SIGKILL)
            async with asyncio.timeout(30):
                while server.restarts == 0 or not store.up:
                    await asyncio.sleep(0.02)
            assert await store.get(b"k") == b"v"

    uvloop.run(main())


async def test_without_a_binary_for_the_platform_the_error_names_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc64")
    with pytest.raises(ConfigError, match=r"store\.url"):
        await EmbeddedValkey(tmp_path).start()
    monkeypatch.undo()
    async with running(tmp_path) as (_, store):  # the failed start holds no lock
        assert store.up
