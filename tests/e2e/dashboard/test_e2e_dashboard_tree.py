"""The drawn prefix tree in a real browser, over the tree of a real engine."""

from __future__ import annotations

import json
import re
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support import dashboard_data as data
from support.dashboard_page import AT, Worked, colour, dashboard, get
from support.dashboard_traffic import ask, system

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # the browser may have to be installed first


def test_the_tree_has_every_node_in_the_colour_and_the_sign_of_its_state(
    browser: Browser, worked: Worked
) -> None:
    for theme in ("light", "dark"):
        with dashboard(browser, worked.url, "tree", color_scheme=theme) as shown:
            shown.page.wait_for_selector("[role=treeitem]")
            rows = {f"n{row['id']}": row for row in get(worked.url, "tree?limit=1000")["rows"]}
            drawn = shown.page.eval_on_selector_all(
                "[data-node^=n]",
                """all => all.map(g => ({key: g.dataset.node, state: g.dataset.state, label: g.textContent,
                     fill: getComputedStyle(g.querySelector('.node__bar')).fill,
                     width: +g.querySelector('.node__bar').getAttribute('width'),
                     sign: g.querySelector('.node__sign').getAttribute('d'), said: g.getAttribute('aria-label')}))""",
            )
            assert {node["key"] for node in drawn} == set(rows)
            assert {node["state"] for node in drawn} == {"new", "hit"}
            signs: dict[str, set[str]] = {}
            for node in drawn:
                row = rows[node["key"]]
                assert node["fill"] == colour(theme, row["state"])
                assert node["state"] == row["state"]
                assert node["label"].startswith(f"{row['num_tokens']:,}")
                assert node["said"].startswith(row["state"])
                signs.setdefault(node["state"], set()).add(node["sign"])
            assert signs["new"].isdisjoint(signs["hit"])
            by_tokens = sorted(drawn, key=lambda node: rows[node["key"]]["num_tokens"])
            widths = [node["width"] for node in by_tokens]
            assert widths == sorted(widths)


def test_the_tree_grows_live_keeps_what_is_there_in_place_and_shows_what_goes_in_red(
    browser: Browser, worked: Worked
) -> None:
    places = """all => Object.fromEntries(
      all.map(g => [g.dataset.node, g.style.transform.match(/-?[\\d.]+/g).slice(0, 2).map(Number).reverse()]))"""
    with dashboard(browser, worked.url, "tree") as shown:
        shown.page.wait_for_selector("[role=treeitem]")
        before = shown.page.eval_on_selector_all("[data-node]", places)
        question = {"role": "user", "content": "Which words rhyme with prefix and with suffix?"}
        ask(worked.url, "finance", "finance-9", [system("finance"), question])
        num = len(get(worked.url, "tree?limit=1000")["rows"])
        shown.page.wait_for_function(f"() => document.querySelectorAll('[data-node^=n]').length === {num}")
        after = shown.page.eval_on_selector_all("[data-node]", places)
        assert len(after) > len(before)
        # What stands above what is new keeps its place; what stands below it moves down as one, in the same order.
        top = min(after[key][0] for key in after.keys() - before.keys())
        added = max(y for y, _ in after.values()) - max(y for y, _ in before.values())
        assert {key: after[key] for key, (y, _) in before.items() if y < top}.items() <= before.items()
        assert {after[key][0] - y for key, (y, _) in before.items()} <= {0, added}
        assert sorted(before, key=before.__getitem__) == sorted(before, key=after.__getitem__)
        worked.counts["miss"] += 1
        order = {"type": "kv", "pattern": "*rhyme with prefix*"}
        request = urllib.request.Request(
            f"{worked.url}/admin/evict",
            data=json.dumps(order).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            assert json.load(response)["kv"]["num_blocks"] > 0
        shown.page.wait_for_selector("[data-state=evicted]")
        style = "bar => [getComputedStyle(bar).stroke, getComputedStyle(bar).strokeDasharray]"
        stroke, dashes = shown.page.eval_on_selector("[data-state=evicted] .node__bar", style)
        assert stroke == colour("light", "evicted")
        assert dashes != "none"
        assert shown.faults == []


def test_a_node_is_found_and_opened_by_keys_and_its_text_comes_only_when_asked_for(
    browser: Browser, worked: Worked
) -> None:
    with dashboard(browser, worked.url, "tree") as shown:
        shown.page.wait_for_selector("[role=treeitem]")
        shown.page.focus("#tree-host")
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight"):
            shown.page.keyboard.press(key)
        active = shown.page.get_attribute("#tree-host", "aria-activedescendant")
        assert active
        assert shown.page.get_attribute(f"#{active}", "aria-selected") == "true"
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".tree__node")
        chosen = active.removeprefix("tree-n")
        assert f"Node {chosen}" in shown.page.inner_text(".tree__node")
        assert not any("text=1" in url for url in shown.asked)
        shown.page.click("[data-action=node-text]")
        shown.page.wait_for_selector(".node-text")
        told = {str(row["id"]): row for row in get(worked.url, "tree?limit=1000&text=1")["rows"]}
        assert shown.page.eval_on_selector(".node-text", "pre => pre.textContent") == told[chosen]["text"]
        shown.page.focus("#tree-host")
        shown.page.keyboard.press("Escape")
        shown.page.wait_for_selector(".tree__node", state="detached")
        assert told[chosen]["text"] not in shown.page.content()


def test_the_tree_is_zoomed_and_moved_by_wheel_drag_keys_and_buttons(
    browser: Browser, worked: Worked
) -> None:
    with dashboard(browser, worked.url, "tree") as shown:
        shown.page.wait_for_selector("[role=treeitem]")

        def seen() -> tuple[float, float, float]:
            style = shown.page.eval_on_selector("#tree-host svg > g", "g => g.style.transform")
            x, y, zoom = map(float, re.findall(r"-?[\d.]+", style))
            return x, y, zoom

        shown.page.focus("#tree-host")
        fitted = seen()
        shown.page.keyboard.press("+")
        assert seen()[2] == pytest.approx(fitted[2] * 1.25)
        shown.page.keyboard.press("-")
        assert seen() == pytest.approx(fitted, abs=0.01)
        shown.page.keyboard.press("Shift+ArrowRight")
        assert seen()[0] == pytest.approx(fitted[0] - 60)
        shown.page.keyboard.press("0")
        assert seen() == pytest.approx(fitted)
        box = shown.page.query_selector("#tree-host").bounding_box()  # type: ignore[union-attr]
        assert box
        shown.page.mouse.move(box["x"] + 200, box["y"] + 150)
        shown.page.mouse.wheel(0, -200)
        shown.page.wait_for_function(
            "zoom => document.querySelector('#tree-host svg > g').style.transform.match(/[\\d.]+(?=\\)$)/)[0] > zoom",
            arg=fitted[2],
        )
        x, y, zoom = seen()
        # What is under the pointer stays under it.
        assert (200 - x) / zoom == pytest.approx((200 - fitted[0]) / fitted[2], abs=1)
        shown.page.mouse.down()
        shown.page.mouse.move(box["x"] + 260, box["y"] + 190, steps=4)
        shown.page.mouse.up()
        assert seen()[:2] == pytest.approx((x + 60, y + 40), abs=1)
        assert shown.page.query_selector(".tree__node") is None  # a drag is no click
        shown.page.click("[data-action=zoom-fit]")
        assert seen() == pytest.approx(fitted)


def test_of_ten_thousand_nodes_few_are_drawn_and_the_rest_can_be_opened(
    browser: Browser, worked: Worked
) -> None:
    said = {"tree": data.tree(9_900, AT, num_evicted=100)}
    with dashboard(browser, worked.url, "tree", said=said) as shown:
        shown.page.wait_for_selector("[role=treeitem]")
        num = shown.page.locator("[role=treeitem]").count()
        assert num < 400
        assert "10,000 nodes" in shown.page.inner_text(".tree__summary")
        shown.page.locator("[data-state=bundle]").first.click()
        shown.page.wait_for_function(f"() => document.querySelectorAll('[role=treeitem]').length > {num}")
        shown.page.wait_for_timeout(2500)  # a poll later it is still open
        assert shown.page.locator("[role=treeitem]").count() > num
        assert shown.faults == []
