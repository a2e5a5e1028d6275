"""The file that carries the day's tokens over a restart."""

from __future__ import annotations

import asyncio
import json
import stat
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.api.auth import Authenticator, authenticator
from openclaw_cache.api.budget import Budget
from openclaw_cache.api.day_counts import DayCounts
from openclaw_cache.config import load
from openclaw_cache.errors import RequestError

NOON = 1_800_000_000.0
QUARTER = 2_000_000  # of an hour since 1970, at noon
A, B = bytes(range(32)), bytes(range(32, 64))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budgets.json"


async def test_what_was_used_is_read_again_by_the_next_process(path: Path) -> None:
    first = DayCounts(path)
    first.of(A).add(NOON, 70)
    first.of(A).add(NOON + 3600, 5)
    first.of(B)
    await first.save(NOON + 3600)
    assert json.loads(path.read_bytes()) == {
        "tokens_per_day": {A.hex(): {str(QUARTER): 70, str(QUARTER + 4): 5}}
    }
    second = DayCounts(path)
    second.load(NOON + 7200)
    assert second.of(A).sum(NOON + 7200) == 75
    assert second.of(B).sum(NOON + 7200) == 0
    assert second.of(A).sum(NOON + 86_400 + 900) == 5


async def test_the_file_is_its_owners_alone_and_nothing_else_is_left(path: Path) -> None:
    path.with_name("budgets.json.new").write_text("left by a process that was killed")
    counts = DayCounts(path)
    counts.of(A).add(NOON, 1)
    await counts.save(NOON)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["budgets.json"]


async def test_it_is_written_only_where_something_was_added(path: Path) -> None:
    counts = DayCounts(path)
    await counts.save(NOON)
    assert not path.exists()
    counts.of(A).add(NOON, 1)
    await counts.save(NOON)
    path.unlink()
    await counts.save(NOON)
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"tokens_per_day": {"zz": {"1": 1}}}',
        '{"tokens_per_day": {"KEY": {"1": -1}}}',
        '{"tokens_per_day": {"KEY": {"a": 1}}}',
        '{"tokens_per_day": {"KEY": {"1": 1.5}}}',
        '{"tokens_per_day": {}, "more": 1}',
        "[" * 10_000,
    ],
)
def test_a_damaged_file_is_told_once_and_counts_as_none(path: Path, text: str) -> None:
    path.write_text(text.replace("KEY", A.hex()))
    counts = DayCounts(path)
    log: list[MutableMapping[str, Any]]
    with capture_logs() as log:
        counts.load(NOON)
    assert [line["log_level"] for line in log] == ["warning"]
    assert counts.of(A).sum(NOON) == 0


def test_a_file_of_a_clock_that_ran_ahead_is_forgotten_after_a_day(path: Path) -> None:
    path.write_text(json.dumps({"tokens_per_day": {A.hex(): {str(QUARTER + 10**6): 9}}}))
    counts = DayCounts(path)
    counts.load(NOON)
    assert counts.of(A).sum(NOON + 86_400) == 9
    assert counts.of(A).sum(NOON + 87_300) == 0


async def test_a_file_that_cannot_be_written_is_told_once_and_tried_again(path: Path) -> None:
    path.mkdir()
    (path / "in the way").touch()
    counts = DayCounts(path)
    counts.of(A).add(NOON, 3)
    log: list[MutableMapping[str, Any]]
    with capture_logs() as log:
        for _ in range(3):
            await counts.save(NOON)
    assert [line["log_level"] for line in log] == ["warning"]
    (path / "in the way").unlink()
    path.rmdir()
    await counts.save(NOON)
    assert json.loads(path.read_bytes())["tokens_per_day"] == {A.hex(): {str(QUARTER): 3}}


def test_keys_that_are_gone_are_forgotten_once_their_day_has_passed(path: Path) -> None:
    counts = DayCounts(path)
    gone, kept = counts.of(A), counts.of(B)
    gone.add(NOON, 1)
    counts.keep_only({B}, NOON + 3600)
    assert counts.of(A) is gone
    counts.keep_only({B}, NOON + 87_300)
    assert counts.of(A) is not gone
    assert counts.of(B) is kept


async def test_a_save_that_is_cut_off_does_not_break_the_last_one(path: Path) -> None:
    counts = DayCounts(path)
    for i in range(20):
        counts.of(A).add(NOON, 1)
        cut = asyncio.create_task(counts.save(NOON))
        await asyncio.sleep(0)
        cut.cancel()
        counts.of(A).add(NOON, 1)
        await counts.save(NOON)
        saved = DayCounts(path)
        saved.load(NOON)
        assert saved.of(A).sum(NOON) == 2 * (i + 1)


# The whole of it.


def door_of(tmp_path: Path) -> Authenticator:
    key = {"key": "oc-1", "namespace": "team", "budgets": {"tokens_per_day": 1000, "requests_per_minute": 50}}
    overrides = {"server.data_dir": str(tmp_path), "server.keys": [key]}
    return authenticator(load(None, env={}, overrides=overrides).settings, {})


def budget_of(door: Authenticator) -> Budget:
    budget = door.client(None, [(b"authorization", b"Bearer oc-1")]).budget
    assert budget is not None
    return budget


async def test_a_restart_gives_no_key_a_new_day(tmp_path: Path) -> None:
    door = door_of(tmp_path)
    await door.start()
    budget_of(door).spend(time.time(), 1000)
    await door.aclose()
    door = door_of(tmp_path)
    await door.start()
    with pytest.raises(RequestError, match=r"tokens_per_day \(1000\)"):
        budget_of(door).admit(time.time())
    await door.aclose()
    assert "oc-1" not in (tmp_path / "budgets.json").read_text()


async def test_status_shows_the_budgets_that_are_used_most_and_no_key(tmp_path: Path) -> None:
    door = door_of(tmp_path)
    assert door.status()["fullest_budgets"] == []
    budget_of(door).spend(time.time(), 400)
    assert door.status() == {
        "keyed": True,
        "num_keys": 1,
        "keys_file": None,
        "fullest_budgets": [
            {
                "key_id": "3ac64d5e",  # printf %s oc-1 | sha256sum
                "namespace": "team",
                "budgets": {
                    "requests_per_minute": {"used": 0, "limit": 50},
                    "tokens_per_day": {"used": 400, "limit": 1000},
                },
            }
        ],
    }
    keyless: dict[str, Any] = {"keyed": False, "num_keys": 0, "keys_file": None, "fullest_budgets": []}
    assert Authenticator(None, None).status() == keyless
