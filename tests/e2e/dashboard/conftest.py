"""Servers and a browser for the dashboard's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.chromium import chromium, chromium_path
from support.dashboard_page import Worked, get
from support.dashboard_traffic import work_day
from support.running import RunningGateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Where the browser is; without one nothing else needs to be started."""
    return chromium_path()


@pytest.fixture(scope="module")  # not longer: while it is open no asyncio test can run
def browser(browser_path: str) -> Iterator[Browser]:
    """Headless Chromium."""
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="session")
def begun(browser_path: str, fresh_data_dir: Callable[[], Path]) -> Iterator[RunningGateway]:
    """A server with the embedded model that nobody has asked anything yet, if its test is the first."""
    with RunningGateway(fresh_data_dir(), {}) as running:
        yield running


@pytest.fixture(scope="session")
def worked(begun: RunningGateway) -> Worked:
    """The same after requests of a few agents."""
    before = get(begun.url, "status")["requests"]
    sent = work_day(begun.url)
    return Worked(begun.url, {outcome: before[outcome] + num for outcome, num in sent.items()})


@pytest.fixture
def plain(browser_path: str, tmp_path: Path, free_port: int) -> RunningGateway:
    """A server without a model, not started yet, whose port is always the same."""
    upstream = {"name": "pods", "kind": "openai", "urls": ["http://127.0.0.1:9"], "models": ["*"]}
    return RunningGateway(tmp_path / "data", {"upstreams": [upstream]}, port=free_port)
