"""Whose the store is: known before it is believed, at the start and whenever it comes back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import redis.asyncio as redis

from openclaw_cache.config import load
from openclaw_cache.result.versions import check_secret
from openclaw_cache.settings import StoreSettings
from openclaw_cache.store.address import parse_url
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.remote import open_store
from openclaw_cache.store_part import StorePart
from openclaw_cache.testing.valkey import running_valkey, start_valkey, until_answering
from support.own_valkey import own_valkey

OURS, THEIRS = b"o" * 32, b"t" * 32
KEEPING = ("--appendonly", "yes")


@pytest.fixture
def url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"redis://127.0.0.1:{free.getsockname()[1]}/0"


@pytest.fixture
async def part(tmp_path: Path, url: str) -> AsyncIterator[StorePart]:
    """One whose store is not there yet."""
    settings = load(env={}, overrides={"store.url": url}).settings.store
    part = StorePart(settings, tmp_path, OURS, lambda: None)
    await part.start()
    yield part
    await part.aclose()


async def filled(folder: Path, secret: bytes) -> None:
    """What a server left that belongs to the fleet of this secret."""
    async with running_valkey(folder, *KEEPING, "--appendfsync", "always") as (url, _):
        store = open_store(url, timeout_s=5.0)
        await store.start()
        await check_secret(store, secret)
        await store.aclose()


@contextlib.asynccontextmanager
async def up(folder: Path, url: str) -> AsyncIterator[None]:
    """A server over what is in a folder, where the gateway looks for it."""
    folder.mkdir(exist_ok=True)
    port = url.rpartition(":")[2].removesuffix("/0")
    process = start_valkey(folder, *KEEPING, "--port", port, "--bind", "127.0.0.1")
    try:
        await until_answering(parse_url(url), process)
        yield
    finally:
        process.kill()
        process.wait()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_store_that_comes_up_late_is_believed_once_it_is_known_to_be_ours(
    part: StorePart, tmp_path: Path, url: str
) -> None:
    assert "could not be checked yet" in str(part.fault)
    async with up(tmp_path / "empty", url):
        await until(lambda: part.store.up)
        await until(lambda: part.fault is None)
    await until(lambda: not part.store.up)
    assert part.fault is None


async def test_a_store_of_another_fleet_is_looked_at_again_each_time_that_it_comes_back(
    part: StorePart, tmp_path: Path, url: str
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, secret in ((ours, OURS), (theirs, THEIRS)):
        folder.mkdir()
        await filled(folder, secret)
    for _ in range(2):
        async with up(theirs, url):
            await until(lambda: part.store.up)
            await until(lambda: "another secret" in str(part.fault))
        await until(lambda: not part.store.up)
    async with up(ours, url):
        await until(lambda: part.fault is None)


async def test_a_store_that_is_there_and_refuses_to_tell_whose_it_is_is_asked_again(tmp_path: Path) -> None:
    async with running_valkey(tmp_path) as (url, _):
        admin = redis.Redis(unix_socket_path=url.removeprefix("unix://").partition("?")[0])
        await admin.execute_command("ACL", "SETUSER", "default", "-get")
        part = StorePart(
            load(env={}, overrides={"store.url": url}).settings.store, tmp_path, OURS, lambda: None
        )
        await part.start()
        assert (part.store.up, "could not be checked yet" in str(part.fault)) == (True, True)
        await admin.execute_command("ACL", "SETUSER", "default", "+get")
        await until(lambda: part.fault is None)
        await part.aclose()
        await admin.aclose()


async def given_to(secret: bytes, server: EmbeddedValkey) -> None:
    """Make it the store of another fleet, as where its address leads to another one."""
    store = open_store(server.url, timeout_s=5.0)
    await store.start()
    await store.delete(b"s:fingerprint")
    await check_secret(store, secret)
    assert await store.make_durable()
    await store.aclose()


@pytest.mark.parametrize("owner", [OURS, THEIRS], ids=["ours", "another fleet's"])
async def test_a_store_that_comes_back_is_believed_only_where_it_is_still_our_fleets(
    tmp_path: Path, owner: bytes
) -> None:
    faults: list[str | None] = []
    async with own_valkey(tmp_path) as server:
        part = StorePart(
            StoreSettings(url=server.url), tmp_path / "ours", OURS, lambda: faults.append(part.fault)
        )
        await part.start()
        assert part.fault is None
        await given_to(owner, server)
    try:
        await until(lambda: not part.store.up)
        async with own_valkey(tmp_path):
            await until(lambda: bool(faults))
            assert "not been checked yet" in (faults[0] or "")
            if owner == OURS:
                await until(lambda: part.fault is None)
            else:
                await until(lambda: "another secret" in (part.fault or ""))
    finally:
        await part.aclose()
