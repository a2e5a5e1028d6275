"""All client keys: those of the settings and those of the key file, with what each has used of its budgets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from openclaw_cache.api.budget import Budget
from openclaw_cache.api.day_counts import DayCounts
from openclaw_cache.api.keys_file import KeysFile
from openclaw_cache.api.principal import Principal
from openclaw_cache.settings import ApiKey, Budgets

MOST_SHOWN = 20


class Tenants:
    """Who may come in. `start` and `aclose`; between them the key file is watched and budgets are kept.

    Where the file changed, all principals are built anew and swapped at once: a key that has vanished is unknown
    from the next request on, and a key that stays goes on with what it has used.

    Args:
        keys: SHA-256 → key, of the settings.
        file: The key file, None = there is none.
        day_counts: Tokens of the day.

    Raises:
        ConfigError: the key file cannot be used.
    """

    def __init__(self, keys: Mapping[bytes, ApiKey], file: KeysFile | None, day_counts: DayCounts) -> None:
        self._keys = dict(keys)
        self._file = file
        self._day_counts = day_counts
        self._tasks: list[asyncio.Task[None]] = []
        self._budgets: dict[bytes, Budget] = {}
        self._principals: dict[bytes, Principal] = {}
        self.take(file.load() if file else {})

    def find(self, digest: bytes) -> Principal | None:
        """The principal of the key with this SHA-256. The time it takes says nothing about a key."""
        return self._principals.get(digest)

    def namespaces(self) -> set[str]:
        """The namespaces of all keys. O(keys)."""
        return {principal.tenant for principal in self._principals.values()}

    def take(self, of_file: Mapping[bytes, ApiKey]) -> None:
        """These are the key file's keys from now on. O(keys)."""
        keys = {**self._keys, **of_file}
        self._budgets = {d: self._budget(d, key) for d, key in keys.items() if key.budgets != Budgets()}
        self._principals = {d: Principal.of_key(d, key, self._budgets.get(d)) for d, key in keys.items()}
        self._day_counts.keep_only(self._budgets.keys(), time.time())

    async def start(self) -> None:
        """Read what was used before, and begin to watch and to save."""
        self._day_counts.load(time.time())
        self._tasks = [asyncio.create_task(self._day_counts.keep_saving())]
        if self._file is not None:
            self._tasks.append(asyncio.create_task(self._file.watch(self.take)))

    async def aclose(self) -> None:
        """Stop, and save what was used."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._day_counts.save(time.time())

    def status(self, now: float) -> dict[str, Any]:
        """Numbers of keys, the key file's state, and the budgets that are used up most. O(keys).

        Args:
            now: Unix time.
        """
        shares: list[tuple[float, dict[str, Any]]] = []
        for digest, budget in self._budgets.items():
            state = budget.state(now)
            share = max(part["used"] / part["limit"] for part in state.values())
            principal = self._principals[digest]
            row = {"key_id": principal.key_id, "namespace": principal.tenant, "budgets": state}
            shares.append((share, row))
        shares.sort(key=lambda found: -found[0])
        return {
            "num_keys": len(self._principals),
            "keys_file": self._file.state() if self._file else None,
            "fullest_budgets": [row for share, row in shares[:MOST_SHOWN] if share > 0],
        }

    def _budget(self, digest: bytes, key: ApiKey) -> Budget:
        budget = self._budgets.get(digest)
        if budget is None:
            return Budget(key.budgets, self._day_counts.of(digest))
        budget.limits = key.budgets
        return budget
