"""Epochs: random versions of a model's replies, hashed into every key. A new one hides all that is older.

Models share a fixed number of slots, each with its own epoch in the store. Many model names therefore cost
bounded space here and there; two models that meet in a slot (1 in 16,384) are invalidated together, which
only costs misses. An epoch is random and a missing one is made anew: whatever the store loses, nothing older
comes back. The only write of a value that was ever in use is set-if-absent, so no late write can bring an old
epoch back either.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from dataclasses import dataclass
from secrets import token_bytes
from typing import TYPE_CHECKING, Final

from blake3 import blake3

from openclaw_cache.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.store.store import Store

NUM_SLOTS: Final = 1 << 14
_EPOCH_BYTES: Final = 16
_SECRET_KEY: Final = b"s:fingerprint"
# A bump waits this much longer than a lease, for clocks that do not run at exactly the same speed.
_LEASE_MARGIN: Final = 1.1


@dataclass(frozen=True, slots=True)
class Bump:
    """An epoch was changed. `durable` is False where the store cannot promise to survive a crash."""

    durable: bool


@dataclass(slots=True)
class _Held:
    """What we know of a slot. `valid_until` bounds its use, `check_at` says when to look again."""

    epoch: bytes
    valid_until: float
    check_at: float


class Epochs:
    """Knows the current epoch of each model.

    An epoch that was read is used for `lease_s` counted from before the read, and read again in the
    background from half of that on, so that steady traffic never waits for the store.

    Args:
        store: where epochs live.
        exclusive: whether only this process changes them (embedded store). What we know then stays valid
            while the store is down, and is written back when the store has lost it.
        lease_s: how long another node may go on with an epoch after a bump.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        *,
        exclusive: bool,
        lease_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._exclusive = exclusive
        self._lease_s = lease_s
        self._clock = clock
        self._held: dict[int, _Held] = {}
        self._reads: dict[int, asyncio.Task[bytes | None]] = {}
        self._num_bumps = 0

    async def current(self, model: str) -> bytes | None:
        """The epoch of a model, or None where it cannot be known now: then nothing may be read or stored.

        Suspends only where no valid lease is held. Cost: 0.5 µs with one.
        """
        return self.held(model) or await asyncio.shield(self._reading(_slot(model)))

    def held(self, model: str) -> bytes | None:
        """The epoch of a model where a valid lease on it is held, else None. Never waits."""
        slot, now = _slot(model), self._clock()
        held = self._held.get(slot)
        if held is None or now >= held.valid_until:
            return None
        if now >= held.check_at:
            self._reading(slot)
        return held.epoch

    async def bump(self, model: str) -> Bump:
        """Give a model a new epoch: when this returns, no reply from before is served by any node.

        Effects: writes the store and waits for its disk; on a shared store also waits until every lease on
            the old epoch has lapsed. Bumps may run at the same time on any number of nodes.

        Raises:
            StoreError: it could not be written or made durable. The old epoch may then be current or not.
        """
        slot = _slot(model)
        try:
            await self._store.put(_store_key(slot), token_bytes(_EPOCH_BYTES))
            durable = await self._store.make_durable()
        finally:
            # Whatever became of the write, what we held is in doubt, and so is any read that is under way.
            self._num_bumps += 1
            self._held.pop(slot, None)
        await asyncio.shield(self._reading(slot))
        if not self._exclusive:
            await asyncio.sleep(self._lease_s * _LEASE_MARGIN)
        return Bump(durable)

    def _reading(self, slot: int) -> asyncio.Task[bytes | None]:
        """The one read of a slot that is under way."""
        read = self._reads.get(slot)
        if read is None:
            read = self._reads[slot] = asyncio.create_task(self._read(slot), name="epoch-read")
            read.add_done_callback(lambda _: self._reads.pop(slot))
        return read

    async def _read(self, slot: int) -> bytes | None:
        """Ask the store for a slot's epoch, making one where there is none, and hold it."""
        while True:
            asked_at, num_bumps = self._clock(), self._num_bumps
            known = self._held.get(slot)
            mine = known.epoch if known and self._exclusive else None
            try:
                epoch = await self._store.add(_store_key(slot), mine or token_bytes(_EPOCH_BYTES))
                if mine and epoch != mine and num_bumps == self._num_bumps:
                    # Nobody else writes, so the store went back to an earlier state. Neither value is safe to
                    # write.
                    epoch = token_bytes(_EPOCH_BYTES)
                    await self._store.put(_store_key(slot), epoch)
            except StoreError:
                if known and num_bumps == self._num_bumps:
                    known.check_at = asked_at + self._lease_s / 2
                    return mine
                return None
            if num_bumps == self._num_bumps:
                valid_until = float("inf") if self._exclusive else asked_at + self._lease_s
                self._held[slot] = _Held(epoch, valid_until, asked_at + self._lease_s / 2)
                return epoch


async def check_secret(store: Store, secret: bytes) -> None:
    """Make sure that this store belongs to the fleet of `secret`, claiming it where it is nobody's.

    Raises:
        ConfigError: the store was filled under another secret.
        StoreUnavailableError: it cannot be told now.
    """
    fingerprint = blake3(secret, derive_key_context="openclaw-cache store fingerprint v1").digest()
    if await store.add(_SECRET_KEY, fingerprint) != fingerprint:
        raise ConfigError(
            "server.secret_file: the store belongs to a fleet with another secret. Give every node the same "
            "secret file, or this fleet a store (or database number) of its own."
        )


def _slot(model: str) -> int:
    # crc32: the same in every process, and nothing is gained by meeting another model in its slot.
    return zlib.crc32(model.encode("utf-8", "surrogatepass")) % NUM_SLOTS


def _store_key(slot: int) -> bytes:
    return b"e:%04x" % slot
