"""A real, throw-away Valkey for tests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import tempfile
from typing import TYPE_CHECKING

from openclaw_cache.errors import StoreError
from openclaw_cache.store.address import Address, parse_url
from openclaw_cache.store.dial import dial
from openclaw_cache.store.process import find_binary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@contextlib.asynccontextmanager
async def running_valkey(
    folder: Path, *options: str, tcp: bool = False, password: str | None = None
) -> AsyncIterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a throw-away Valkey that works in `folder`; give its URL (with the password) and its process.

    `options` are further command-line options such as `--appendonly`, `yes`.
    """
    with tempfile.TemporaryDirectory(
        prefix="valkey-"
    ) as short:  # a test's own folder may be too long for a socket
        if tcp:
            port = free_port()
            secret = f":{password}@" if password else ""
            url, place = f"redis://{secret}127.0.0.1:{port}/0", ["--port", str(port), "--bind", "127.0.0.1"]
        else:
            url, place = f"unix://{short}/sock?db=0", ["--port", "0", "--unixsocket", f"{short}/sock"]
        if password:
            place += ["--requirepass", password]
        process = start_valkey(folder, *place, *options)
        try:
            await until_answering(parse_url(url), process)
            yield url, process
        finally:
            process.kill()
            process.wait()


def start_valkey(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start a Valkey that works in `folder`; whoever starts it ends it. `until_answering` waits for it."""
    with (folder / "valkey.log").open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - our own binary, no shell
            [find_binary(), "--dir", str(folder), "--save", "", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def until_answering(address: Address, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server takes commands; raises RuntimeError when it ends instead."""
    while process.poll() is None:
        with contextlib.suppress(StoreError):
            (await dial(address, timeout_s=5.0)).close()
            return
        await asyncio.sleep(0.01)
    raise RuntimeError(f"the test server ended with status {process.returncode}")


def free_port() -> int:
    """A TCP port on loopback that nothing listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
