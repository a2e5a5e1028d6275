"""The store of a gateway: our own or another's, started, and known to be our fleet's before it is believed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import structlog

from openclaw_cache.errors import ConfigError, StoreError
from openclaw_cache.result.versions import check_secret
from openclaw_cache.settings import StoreSettings
from openclaw_cache.store.embedded import EmbeddedValkey
from openclaw_cache.store.remote import RemoteStore, open_store
from openclaw_cache.store.tls import TlsFiles

_CHECK_EVERY_S: Final = 1.0
_log = structlog.get_logger()


class StorePart:
    """Starts the store, and checks that it is our fleet's: at the start, and whenever it comes up.

    It may be another one by then. Until it is checked only misses can follow, since another fleet has other keys and
    checksums, but evict would take its entries for corrupt ones, and history would be written among theirs.

    Args:
        settings: `store`.
        data_dir: Where an embedded one lives.
        secret: The fleet's.
        on_up: Told when it is back after it was down.
    """

    def __init__(
        self, settings: StoreSettings, data_dir: Path, secret: bytes, on_up: Callable[[], None]
    ) -> None:
        is_own = settings.url == "embedded"
        self.embedded = (
            EmbeddedValkey(data_dir, max_bytes=settings.max_memory, on_event=self._told) if is_own else None
        )
        self.fault: str | None = None
        """Why it may not be believed; None = it may."""
        self.store: RemoteStore
        """From `start` on."""
        self._settings = settings
        self._secret = secret
        self._on_up = on_up
        self._checking: asyncio.Task[None] | None = None
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Start and check it; `aclose` has to follow, also where this is cut off. Raises ConfigError."""
        settings = self._settings
        url = settings.url
        if self.embedded is not None:
            self._stack.push_async_callback(self.embedded.stop)  # first: a start may be cut off
            url = await self.embedded.start()
        tls = TlsFiles(settings.ca_file, settings.cert_file, settings.key_file)
        self.store = open_store(url, tls=tls, timeout_s=settings.timeout, on_change=self._changed)
        await self.store.start()
        self._stack.push_async_callback(self.store.aclose)
        await self._check()
        if self.fault is not None:
            self._begin_check()

    async def aclose(self) -> None:
        """End the connection, and the store if it is ours."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})
        await self._stack.aclose()

    async def _check(self) -> None:
        try:
            await check_secret(self.store, self._secret)
            self.fault = None
        except StoreError as e:
            self.fault = f"the store could not be checked yet, so it may be another fleet's ({e})"

    async def _check_again(self) -> None:
        """Check it until it answers: one that is full, or only reads for now, does so without coming up anew."""
        while self.fault is not None:
            try:
                await self._check()
            except ConfigError as e:
                self.fault = str(e)
                _log.error("the store belongs to another fleet", reason=str(e))
                return
            if self.fault is not None:
                await asyncio.sleep(_CHECK_EVERY_S)

    def _begin_check(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
        self._checking = asyncio.get_running_loop().create_task(self._check_again(), name="store-check")

    def _told(self, event: str) -> None:
        _log.warning("store", what=event)

    def _changed(self, up: bool, reason: str) -> None:
        if not up:
            _log.warning("store is down", reason=reason, effect="requests go on without it")
            return
        self.fault = (
            self.fault or "the store was away and has not been checked yet, so it may be another fleet's"
        )
        self._on_up()
        self._begin_check()
        _log.info("store is back")
