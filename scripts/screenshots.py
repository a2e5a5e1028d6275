"""Take the pictures of docs/dashboard.md: a real server, real requests of a few agents, a real browser.

    python scripts/screenshots.py [--minutes 6] [--data-dir DIR]

Needs the embedded model, Playwright and Chromium. Takes as long as it sends requests, and a minute more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

_REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_REPO / "tests"))

from support.chromium import chromium  # noqa: E402
from support.dashboard_page import dashboard  # noqa: E402
from support.dashboard_traffic import AGENTS, MODEL, ask, converse, system, work_day  # noqa: E402
from support.running import RunningGateway  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_PICTURES = _REPO / "docs" / "images"
_MOST_BYTES = 250_000
_PRICES = {"prices": {MODEL: {"input": 0.15, "output": 0.6}}}
"""Of a small hosted model, US dollars for a million tokens: so that there is money to be seen."""

_QUESTIONS = (
    "What do you charge for express?", "Is Saturday a working day?", "Who signs an invoice?", "Name two vegetables.",
    "How long is a warranty?", "What is a balance sheet?", "Where is your shop?", "Name a river.",
)  # fmt: skip


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=6.0, help="how long requests are sent")
    parser.add_argument("--data-dir", type=Path, help="a data dir that has the converted model")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder) / "data"
        data_dir.mkdir()
        if told.data_dir is not None:
            (data_dir / "models").symlink_to((told.data_dir / "models").resolve())
        prices = Path(folder) / "prices.json"
        prices.write_text(json.dumps(_PRICES))
        config = {"savings": {"prices_file": str(prices)}, "semantic_cache": {"enabled": True}}
        with RunningGateway(data_dir, config) as gateway, chromium() as browser:
            send(gateway.url, told.minutes)
            take(gateway.url, browser)


def send(url: str, minutes: float) -> None:
    """A day's work first, then single requests until the time is over: some new, some asked before."""
    end = time.monotonic() + 60 * minutes
    work_day(url)
    for i in range(10_000):
        agents = list(AGENTS)
        agent = agents[i % len(agents)]
        if i % 4 == 3:
            converse(url, agent, f"{agent}-{10 + i}")
        else:
            question = {"role": "user", "content": _QUESTIONS[(i * i + i // 5) % len(_QUESTIONS)]}
            ask(url, agent, f"{agent}-{10 + i}", [system(agent), question], stream=i % 3 == 0)
        if time.monotonic() > end:
            break
        time.sleep(2 + 5 * (i % 3))
    post(url, "warm", {"prompts": [{"messages": [system("support")]}], "pin": "1h"})
    post(url, "evict", {"type": "kv", "pattern": "*Name a river*"})
    post(url, "evict", {"type": "kv", "pattern": "*balance sheet*"})


def post(url: str, what: str, order: Any) -> None:
    """Give an order to the server."""
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(  # noqa: S310 - the server that was just started
        f"{url}/admin/{what}", data=json.dumps(order).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        response.read()


def take(url: str, browser: Browser) -> None:
    """All pictures, each in a fresh tab."""
    shots: list[tuple[str, str, dict[str, Any]]] = [
        ("dashboard-overview", "overview", {"viewport": {"width": 1280, "height": 1010}}),
        ("dashboard-dark-zh", "overview", {"color_scheme": "dark", "locale": "zh-CN"}),
        ("dashboard-tree", "tree", {}),
        ("dashboard-request", "requests/clock-05", {"viewport": {"width": 1280, "height": 1000}}),
        (
            "dashboard-analysis",
            "prefixes",
            {"color_scheme": "dark", "viewport": {"width": 1280, "height": 1000}},
        ),
        ("dashboard-system", "system", {"viewport": {"width": 1280, "height": 1180}}),
        ("dashboard-phone", "overview", {"viewport": {"width": 390, "height": 844}, "is_mobile": True}),
    ]
    for name, view, options in shots:
        with dashboard(browser, url, view, **options) as shown:
            page = shown.page
            page.wait_for_selector("main .panel >> visible=true")
            if view == "overview":
                shown.choose("range", "last 15m")
            if view == "tree":
                look_at_a_node(page)
            page.wait_for_timeout(2500)
            file = _PICTURES / f"{name}.png"
            page.screenshot(path=file)
            size = file.stat().st_size
            print(f"{file.relative_to(_REPO)}: {size:,} bytes", *shown.faults)  # noqa: T201 - its whole output
            if size > _MOST_BYTES:
                sys.exit(f"{file} is larger than {_MOST_BYTES:,} bytes")


def look_at_a_node(page: Page) -> None:
    """Open the longest prefix."""
    page.wait_for_selector("[role=treeitem]")
    page.focus("#tree-host")
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector(".tree__node")
    page.keyboard.press("0")


if __name__ == "__main__":
    _PICTURES.mkdir(parents=True, exist_ok=True)
    main()
