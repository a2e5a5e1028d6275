"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")
_UPDATE = ("apt-get", "update")
_TIMEOUT_S = 270.0


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser; skips the test where there is none and none can be had.

    Playwright's event loop runs in this thread for as long: no asyncio test may run in between.
    """
    path = chromium_path()
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - may not be installed

    # As root there is no sandbox; the pages are our own. A small /dev/shm, as in containers, would end the browser.
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def chromium_path() -> str:
    """The browser in $PATH, where Playwright is installed too; as root it is installed on first use."""
    if find_spec("playwright") is None:
        pytest.skip("Playwright is not installed: pip install playwright")
    found = _found()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        try:
            for command in (_INSTALL, _UPDATE, _INSTALL):  # a new machine has no list of packages yet
                subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
                if (found := _found()) is not None:
                    break
        except subprocess.TimeoutExpired:
            pytest.skip(f"not installed within {_TIMEOUT_S:g} s: {' '.join(_INSTALL)}")
    if found is None:
        pytest.skip(f"no Chromium in $PATH: as root, {' '.join(_INSTALL)}")
    return found


def _found() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)
