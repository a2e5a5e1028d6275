"""The dashboard in a real browser: a newcomer's first minute, its numbers, and a request's path."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from support.dashboard_page import SAID, Worked, dashboard, get, metrics, number
from support.dashboard_traffic import AGENTS
from support.running import RunningGateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # the browser may have to be installed first


def test_before_the_first_request_the_page_shows_a_command_that_makes_one(
    browser: Browser, begun: RunningGateway
) -> None:
    with dashboard(browser, begun.url) as shown:
        command = shown.page.inner_text(".panel--first pre")
        subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=120)
        shown.page.wait_for_selector(".panel--outcomes")  # by itself, without a reload
        assert shown.tile("requests") == "1"
        assert shown.faults == []


def test_the_figures_since_the_start_are_those_of_metrics_and_of_what_was_sent(
    browser: Browser, worked: Worked
) -> None:
    with dashboard(browser, worked.url) as shown:
        shown.choose("range", "start")
        shown.page.wait_for_selector(".panel--outcomes .share")
        counted = metrics(worked.url)
        legend = shown.legend("outcomes")
        names = {
            "exact": "exact hit",
            "miss": "miss",
            "bypass": "bypass",
            "error": "error",
            "collapsed": "shared",
        }
        for outcome, name in names.items():
            told = sum(
                num for key, num in counted.items()
                if key.startswith("openclaw_cache_requests_total{") and f'outcome="{outcome}"' in key
            )  # fmt: skip
            assert number(legend[name]) == told == worked.counts[outcome], outcome
        assert number(shown.tile("requests")) == sum(worked.counts.values())
        saved = {
            layer: counted.get(f'openclaw_cache_saved_tokens_total{{layer="{layer}"}}', 0.0)
            for layer in ("result", "semantic", "flight", "kv")
        }
        assert number(shown.tile("saved-tokens")) == sum(saved.values())
        tokens = shown.legend("tokens")
        for source, name in (("computed", "computed"), ("device", "device KV or provider")):
            told = counted[f'openclaw_cache_prompt_tokens_total{{source="{source}"}}']
            assert number(tokens[name]) == told


def test_the_figures_of_the_last_hour_are_those_of_history_and_of_what_was_sent(
    browser: Browser, worked: Worked
) -> None:
    with dashboard(browser, worked.url) as shown:
        shown.page.wait_for_selector(".panel--outcomes .columns")
        total = get(worked.url, "history?time_range=last%201h&points=60")["total"]
        legend = shown.legend("outcomes")
        names = {"exact": "exact hit", "miss": "miss", "bypass": "bypass", "error": "error"}
        for outcome, name in names.items():
            assert number(legend[name]) == total["requests"].get(outcome, 0) == worked.counts[outcome]
        ratio = worked.counts["exact"] / (worked.counts["exact"] + worked.counts["miss"])
        assert number(shown.tile("hit-ratio")) == pytest.approx(100 * ratio, abs=0.05)
        rows = shown.page.query_selector_all(".panel--by-agent tbody tr")
        told = {row.query_selector("th").inner_text(): row.query_selector("td").inner_text() for row in rows}  # type: ignore[union-attr]
        assert {agent: told[agent] for agent in AGENTS} == {"support": "8", "finance": "6", "research": "8"}


def test_a_chart_s_table_has_the_numbers_of_its_picture(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, said=SAID) as shown:
        shown.page.click(".panel--outcomes summary")
        cells = shown.page.eval_on_selector_all(
            ".panel--outcomes tbody tr",
            "rows => rows.map(row => [...row.cells].slice(1).map(c => +c.textContent))",
        )
        order = ("exact", "semantic", "collapsed", "miss", "bypass", "error")
        sums = [sum(row[i] for row in cells) for i in range(6)]
        assert sums == [SAID["history"]["total"]["requests"][outcome] for outcome in order]
        last = SAID["history"]["points"][-1]["requests"]
        heights = shown.page.eval_on_selector(
            ".panel--outcomes .column:last-child",
            "column => [...column.children].map(c => c.getBoundingClientRect().height).reverse()",
        )
        visible = [last[outcome] for outcome in order if last[outcome]]
        assert heights == pytest.approx([heights[0] * num / visible[0] for num in visible], rel=0.05)


def test_the_cursor_of_a_chart_is_moved_by_keys_and_says_one_point(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, said=SAID) as shown:
        shown.page.focus("[data-chart='chart-outcomes']")
        shown.page.keyboard.press("Home")
        first = SAID["history"]["points"][0]["requests"]
        shown.page.wait_for_function(
            "text => document.querySelector('[data-readout=chart-outcomes]').textContent.includes(text)",
            arg=f"exact hit {first['exact']}",
        )
        assert f"exact hit {first['exact']}" in shown.aloud("readout")


def test_a_request_s_path_names_what_each_layer_said(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, "requests") as shown:
        shown.page.click("a[href='#requests/clock-05']")
        shown.page.wait_for_selector(".steps")
        told = get(worked.url, "explain/clock-05")
        names = shown.page.eval_on_selector_all(".step__name", "all => all.map(one => one.textContent)")
        assert len(names) == len(told["steps"]) > 4
        results = shown.page.eval_on_selector_all(".step__result", "all => all.map(one => one.textContent)")
        assert results[names.index("exact replies")] == "miss (new)"
        assert results[names.index("upstream")] == "200"
        lost = told["prefix_break"]["lost_tokens"]
        assert told["prefix_break"]["cause"] == "date"
        assert f"{lost:,}" in shown.page.inner_text(".panel--explain")
        assert "date or time" in shown.page.inner_text(".panel--explain")
        shown.go("prefixes")
        shown.page.wait_for_selector(".panel--breaks")
        assert f"{lost:,}" in shown.page.inner_text(".panel--breaks")
        assert shown.faults == []


def test_the_list_is_filtered_by_the_server(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, "requests") as shown:
        shown.page.select_option("[data-filter=outcome]", "bypass")
        shown.page.wait_for_function("() => document.querySelectorAll('.request').length === 1")
        assert "tools" in shown.page.inner_text(".request")
        shown.page.fill("[data-filter=agent]", "nobody")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".panel--requests .empty")
