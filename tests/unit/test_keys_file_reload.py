"""The key file while the server runs: what a change does, and what a change that is wrong does not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.api.auth import Authenticator, authenticator
from openclaw_cache.api.day_counts import DayCounts
from openclaw_cache.api.key_rules import KeyRules
from openclaw_cache.api.keys_file import KeysFile
from openclaw_cache.api.new_key import new_key
from openclaw_cache.api.tenants import Tenants
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.settings import ApiKey

Log = list[MutableMapping[str, Any]]
NOON = 1_800_000_000.0
KEY_A, LINE_A = new_key("team-a")
KEY_B, LINE_B = new_key("team-b")
KEY_C, LINE_C = new_key("team-a")


def with_budget(line: str, budgets: str) -> str:
    return line.replace("}", f", budgets: {{{budgets}}}}}")


class Site:
    """A key file, its watcher driven by hand, and the door it opens."""

    def __init__(self, path: Path, keys: dict[bytes, ApiKey] | None = None) -> None:
        self.path = path
        self.file = KeysFile(path, KeyRules({}, refuses_weak=False), {})
        self.tenants = Tenants(keys or {}, self.file, DayCounts(path.parent / "budgets.json"))
        self.door = Authenticator(self.tenants, None)

    async def look(self, times: int = 2) -> None:
        """What the watcher does, `times` times."""
        for _ in range(times):
            found = await self.file.look()
            if found is not None:
                self.tenants.take(found)

    def knows(self, key: str) -> bool:
        try:
            self.door.client("10.0.0.1", [(b"authorization", b"Bearer " + key.encode())])
        except RequestError as e:
            assert e.status == 401  # noqa: PT017
            return False
        return True

    def error(self) -> str | None:
        found = self.file.state()["reload_error"]
        assert found is None or isinstance(found, str)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "keys.yaml").write_text(LINE_A)
    return Site(tmp_path / "keys.yaml")


def written_over(path: Path, text: str) -> None:
    path.write_text(text)


def renamed_onto(path: Path, text: str) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(text)
    draft.replace(path)


def removed_and_made_anew(path: Path, text: str) -> None:
    path.unlink()
    path.write_text(text)


CHANGES: list[Callable[[Path, str], None]] = [written_over, renamed_onto, removed_and_made_anew]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_file_is_taken_new_keys_get_in_and_those_gone_do_not(
    site: Site, change: Callable[[Path, str], None]
) -> None:
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (True, False)
    change(site.path, LINE_B)
    await site.look()
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (False, True)
    assert site.error() is None
    assert site.file.state()["num_keys"] == 1


async def test_a_swap_of_the_folder_behind_a_link_is_seen_as_kubernetes_swaps_secrets(tmp_path: Path) -> None:
    # A mounted secret: keys.yaml → ..data/keys.yaml, and ..data → a folder by time, swapped by rename.
    for name, line in (("..one", LINE_A), ("..two", LINE_B)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys.yaml").write_text(line)
        os.utime(tmp_path / name / "keys.yaml", (NOON, NOON))
    (tmp_path / "..data").symlink_to("..one")
    (tmp_path / "keys.yaml").symlink_to("..data/keys.yaml")
    site = Site(tmp_path / "keys.yaml")
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (True, False)
    (tmp_path / "..data_tmp").symlink_to("..two")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    await site.look()
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (False, True)


async def test_a_file_that_is_just_being_written_is_not_taken_for_a_short_one(site: Site) -> None:
    with site.path.open("w") as file:
        await site.look(1)  # emptied, as `>` does
        assert site.knows(KEY_A)
        file.write(f"{LINE_A}\n")
        file.flush()
        await site.look(1)
        file.write(f"{LINE_B}\n")
    await site.look(1)
    assert not site.knows(KEY_B)
    await site.look(1)
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (True, True)


async def test_an_emptied_file_lets_nobody_in_and_not_this_machine_either(site: Site) -> None:
    site.path.write_text("")
    await site.look()
    assert not site.knows(KEY_A)
    with pytest.raises(RequestError) as refused:
        site.door.client("127.0.0.1", [(b"host", b"127.0.0.1:8800")])
    assert refused.value.status == 401


def broken(path: Path) -> None:
    path.write_text(f"{LINE_B}\n- key: {KEY_C}\n")


def no_yaml(path: Path) -> None:
    path.write_text(f"{LINE_B}\n- {{")


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("harm", [broken, no_yaml, gone, a_folder])
async def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    site: Site, harm: Callable[[Path], None]
) -> None:
    log: Log
    with capture_logs() as log:
        harm(site.path)
        await site.look(5)
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (True, False)
    assert str(site.path) in (site.error() or "")
    assert [line["log_level"] for line in log] == ["error"]
    assert KEY_C not in str(log)
    if site.path.is_dir():
        site.path.rmdir()
    with capture_logs() as log:
        site.path.write_text(f"{LINE_A}\n{LINE_B}")
        await site.look(5)
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (True, True)
    assert site.error() is None
    assert [(line["log_level"], line["num_keys"]) for line in log] == [("info", 2)]


async def test_a_file_that_comes_back_as_it_was_ends_the_error(tmp_path: Path) -> None:
    folder, aside = tmp_path / "mounted", tmp_path / "aside"
    folder.mkdir()
    (folder / "keys.yaml").write_text(LINE_A)
    site = Site(folder / "keys.yaml")
    folder.rename(aside)  # so that nothing about the file itself changes
    await site.look(3)
    assert site.error() is not None
    assert site.knows(KEY_A)
    aside.rename(folder)
    await site.look(3)
    assert site.error() is None
    assert site.knows(KEY_A)


async def test_keys_of_the_settings_stay_whatever_the_file_says(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(LINE_A)
    fixed = ApiKey(key=KEY_B, namespace="fixed")
    digest = KeyRules({}, refuses_weak=False).digest(fixed, "server.keys.0")
    site = Site(path, {digest: fixed})
    path.write_text("")
    await site.look()
    assert (site.knows(KEY_A), site.knows(KEY_B)) == (False, True)
    assert site.door.namespaces() == {"default", "fixed"}


async def test_a_key_that_stays_goes_on_with_what_it_has_used_under_its_new_limits(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(with_budget(LINE_A, "requests_per_minute: 2, max_concurrent: 9"))
    site = Site(path)
    bearer = [(b"authorization", b"Bearer " + KEY_A.encode())]
    old = site.door.client(None, bearer)
    assert old.budget is not None
    old.budget.admit(NOON)
    path.write_text(with_budget(LINE_A, "requests_per_minute: 3, max_concurrent: 1") + "\n" + LINE_B)
    await site.look()
    new = site.door.client(None, bearer)
    assert new.budget is old.budget
    with pytest.raises(RequestError) as refused:
        new.budget.admit(NOON)
    assert refused.value.code == "too_many_concurrent"
    old.budget.release()
    new.budget.admit(NOON)
    old.budget.release()
    new.budget.admit(NOON)
    new.budget.release()
    with pytest.raises(RequestError, match=r"requests_per_minute \(3\)"):
        new.budget.admit(NOON)


async def test_a_key_that_was_removed_and_comes_back_has_no_new_day(tmp_path: Path) -> None:
    path = tmp_path / "keys.yaml"
    line = with_budget(LINE_A, "tokens_per_day: 100")
    path.write_text(line)
    site = Site(path)
    bearer = [(b"authorization", b"Bearer " + KEY_A.encode())]
    budget = site.door.client(None, bearer).budget
    assert budget is not None
    budget.spend(time.time(), 100)
    path.write_text("")
    await site.look()
    path.write_text(line)
    await site.look()
    budget = site.door.client(None, bearer).budget
    assert budget is not None
    with pytest.raises(RequestError, match="tokens_per_day"):
        budget.admit(time.time())


async def test_two_keys_of_one_namespace_come_and_go_alone(site: Site) -> None:
    site.path.write_text(f"{LINE_A}\n{LINE_C}")
    await site.look()
    assert site.door.namespaces() == {"default", "team-a"}
    site.path.write_text(LINE_C)
    await site.look()
    assert (site.knows(KEY_A), site.knows(KEY_C)) == (False, True)


async def test_the_watch_runs_from_start_to_aclose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "keys.yaml"
    path.write_text(LINE_A)
    overrides = {"server.data_dir": str(tmp_path), "server.keys_file": str(path)}
    door = authenticator(load(None, env={}, overrides=overrides).settings, {})
    await door.start()
    try:
        renamed_onto(path, LINE_B)
        async with asyncio.timeout(20):
            while door.namespaces() != {"default", "team-b"}:
                await asyncio.sleep(0.05)
    finally:
        await door.aclose()
    assert len(asyncio.all_tasks()) == 1
    status = door.status()
    assert (status["keyed"], status["num_keys"]) == (True, 1)
    assert status["keys_file"] == {
        "path": str(path),
        "num_keys": 1,
        "loaded_at": pytest.approx(path.stat().st_mtime, abs=60),
        "reload_error": None,
    }


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_server_with_a_key_file_asks_for_keys_although_the_file_has_none(tmp_path: Path, host: str) -> None:
    (tmp_path / "keys.yaml").write_text("[]")
    overrides = {
        "server.data_dir": str(tmp_path),
        "server.keys_file": str(tmp_path / "keys.yaml"),
        "server.host": host,
        "server.admin_key_env": "ADMIN",
    }
    settings = load(None, env={}, overrides=overrides).settings
    door = authenticator(settings, {"ADMIN": "oc-admin-5f3a"})
    with pytest.raises(RequestError) as refused:
        door.client("127.0.0.1", [(b"host", b"127.0.0.1:8800")])
    assert refused.value.status == 401


def test_a_server_does_not_start_without_its_key_file(tmp_path: Path) -> None:
    overrides = {"server.data_dir": str(tmp_path), "server.keys_file": str(tmp_path / "none")}
    with pytest.raises(ConfigError, match=r"server\.keys_file: .*none: cannot read it"):
        authenticator(load(None, env={}, overrides=overrides).settings, {})
