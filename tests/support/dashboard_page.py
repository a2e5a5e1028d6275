"""The dashboard in a browser, as its tests use it."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import openclaw_cache
from support import dashboard_data as data

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

VIEWS = ("overview", "tree", "requests", "prefixes", "system")
_TIMEOUT_MS = 40_000  # the analysis is asked every 10 s, and a busy machine takes its time
AT = 1_796_000_000.0
SAID = {
    "history": data.history(AT),
    "requests": data.requests(AT),
    "explain/req-1041": data.explained(AT),
    "prefixes": data.prefixes(AT),
    "analyze": data.analysis(AT),
}
"""Answers that show every part of every view."""
_THEME = (Path(openclaw_cache.__file__).parent / "dashboard" / "style" / "theme.css").read_text()


@dataclass
class Worked:
    """A server with a day's work behind it."""

    url: str
    counts: dict[str, int]
    """Requests by outcome, counted where they are sent, and what the server had counted before."""


@dataclass
class Dashboard:
    """One open page. What it asked and what went wrong on it is kept."""

    page: Page
    url: str
    asked: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    in_flight: dict[str, int] = field(default_factory=dict)
    most_in_flight: int = 0

    def go(self, view: str) -> None:
        """Open a view as a reader does, and wait for its content."""
        self.page.evaluate("view => { location.hash = view }", view)
        self.page.wait_for_selector(f".views a[href='#{view.split('/', maxsplit=1)[0]}'][aria-current]")
        self.page.wait_for_selector("main .panel")

    def tile(self, name: str) -> str:
        """The value of a key figure."""
        return self.page.inner_text(f"[data-tile='{name}'] .tile__value")

    def legend(self, panel: str) -> dict[str, str]:
        """The legend's values of a panel, by their label."""
        rows = self.page.query_selector_all(f".panel--{panel} .legend li")
        return {
            str(row.query_selector("span:not(.mark)").inner_text()): str(  # type: ignore[union-attr]
                row.query_selector(".legend__value").inner_text()  # type: ignore[union-attr]
            )
            for row in rows
            if row.query_selector(".legend__value")
        }

    def aloud(self, voice: str) -> str:
        """The latest words of one voice, as a screen reader gets them; waits for the first."""
        return self.page.locator(f"#said [data-voice={voice}]").inner_text()

    def choose(self, control: str, value: str) -> None:
        """Set one of the controls in the head."""
        self.page.select_option(f"#{control}", value)

    def paths(self) -> list[str]:
        """What was asked, without the host."""
        return [urlsplit(url).path for url in self.asked]

    def _begin(self, request: Request) -> None:
        self.asked.append(request.url)
        path = urlsplit(request.url).path
        if path.startswith("/admin/"):
            self.in_flight[path] = self.in_flight.get(path, 0) + 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight[path])

    def _end(self, request: Request) -> None:
        path = urlsplit(request.url).path
        if path in self.in_flight:
            self.in_flight[path] -= 1


@contextmanager
def dashboard(
    browser: Browser, url: str, view: str = "overview", *, said: dict[str, Any] | None = None, **context: Any
) -> Iterator[Dashboard]:
    """Open a view. `said`: answers of `/admin/…` by path that stand in for the server's."""
    options = {
        "viewport": {"width": 1280, "height": 900},
        "locale": "en-US",
        "color_scheme": "light",
    } | context
    opened = browser.new_context(**options)
    page = opened.new_page()
    page.set_default_timeout(_TIMEOUT_MS)
    found = Dashboard(page, url)
    page.on("request", found._begin)
    page.on("requestfinished", found._end)
    page.on("requestfailed", found._end)
    page.on("pageerror", lambda error: found.faults.append(f"{error}"))
    page.on("dialog", lambda dialog: found.faults.append(f"dialog: {dialog.message}"))
    page.on(
        "console",
        lambda message: found.faults.append(message.text) if message.type in ("error", "warning") else None,
    )
    if said:

        def answer(route: Route) -> None:
            path = urlsplit(route.request.url).path.removeprefix("/admin/")
            if path in said:
                route.fulfill(json=said[path])
            else:
                route.continue_()

        page.route("**/admin/**", answer)
    try:
        page.goto(f"{url}/dashboard#{view}")
        yield found
    finally:
        opened.close()


def get(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/admin/{path}", timeout=30) as response:
        return json.load(response)


def metrics(url: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
        lines = [line for line in response.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def colour(theme: str, name: str) -> str:
    """A colour of the palette as a browser writes it."""
    palette = _THEME.partition(f'[data-theme="{theme}"]')[2].partition("}")[0]
    found = re.search(rf"--{name}: #(\w\w)(\w\w)(\w\w);", palette)
    assert found
    return "rgb({}, {}, {})".format(*(int(part, 16) for part in found.groups()))


def number(text: str) -> float:
    return float(text.replace(",", "").rstrip("%"))
