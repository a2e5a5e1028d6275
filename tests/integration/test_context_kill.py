"""A process that is killed while it commits a turn: the retry keeps it once, with its memories."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("apsw")

from openclaw_cache.memory import capturing
from openclaw_cache.memory.context.engine import Committed, ContextEngine, Ended, RecallRules
from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.memory.record import Message, Turn
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.store import MemoryStore

T = TypeVar("T")
TURN = Ended(
    "k", "s", [HostMessage("user", "Remember that the deadline is 3 March.", 1000.0)], "agent:main:s"
)
NEVER = 99


class MortalAgent:
    """An agent's memory whose process is killed when its store has done so many pieces of work."""

    def __init__(self, store: MemoryStore, num_left: int) -> None:
        self.store, self.num_left = store, num_left

    async def run(self, work: Callable[[MemoryStore], T]) -> T:
        done = work(self.store)
        self.num_left -= 1
        if self.num_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    async def capture(self, session: str, messages: Sequence[Message], now: float, turn: str) -> Any:
        return await self.run(lambda store: capturing.capture(store, session, messages, now, turn))

    def cleaned(self, turn: Turn) -> Turn:
        return turn

    def touched(self) -> None:
        pass


def commit(path: Path, num_left: int) -> Committed:
    store = SqliteStore.open(path, key=None)
    try:
        agent: Any = MortalAgent(store, num_left)
        return asyncio.run(ContextEngine(RecallRules()).commit(agent, TURN, 5.0))
    finally:
        store.close()


@pytest.mark.parametrize(("num_done", "status"), [(1, "committed"), (2, "committed"), (3, "duplicate")])
def test_a_retry_after_a_kill_keeps_the_turn_once(tmp_path: Path, num_done: int, status: str) -> None:
    path = tmp_path / "agent.db"
    dies = subprocess.run([sys.executable, __file__, str(path), str(num_done)], timeout=60, check=False)
    assert dies.returncode == -signal.SIGKILL
    assert commit(path, NEVER).status == status
    assert commit(path, NEVER).status == "duplicate"
    store = SqliteStore.open(path, key=None)
    stats = store.stats(None)
    store.close()
    assert (stats.num_turns, stats.num_messages, stats.num_memories) == (1, 1, 1)


if __name__ == "__main__":
    commit(Path(sys.argv[1]), int(sys.argv[2]))
