"""The dashboard for all who read it: both languages, both themes, keys, screen readers, phones."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import openclaw_cache
from support.dashboard_page import SAID, VIEWS, Dashboard, Worked, colour, dashboard
from support.dashboard_traffic import ask
from support.every_sentence import every_finding, every_label, every_step

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # the browser may have to be installed first


TEXTS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = node.data.trim();
    const parent = node.parentElement;
    if (!text || parent.closest("code, noscript, [hidden]")) continue;
    found.push(text);
  }
  for (const node of document.querySelectorAll("[aria-label], [title]"))
    found.push(node.getAttribute("aria-label") ?? node.title);
  return [document.documentElement.lang, document.title, found];
}"""
NAMES = {
    "openclaw-cache", "English", "main", "research", "faq", "support", "finance", "smollm2-135m", "gpt-4o-mini",
    "Token", "token", "no-store", "no-cache", "chat", "agent", "local", "default", "upstream_unreachable", "KV",
    "model_not_found", "research-3", "MEMORY.md",
    "s-1", "SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", "http", "MB", "KB", "GB", "TB", "API",
}  # fmt: skip


def left_in_english(shown: Dashboard) -> list[str]:
    """Texts of a page that have no Chinese, names and numbers aside."""
    language, title, texts = shown.page.evaluate(TEXTS)
    assert language == "zh-CN"
    assert re.search(r"[一-鿿]", title)
    return [
        text for text in texts
        if re.search(r"[A-Za-z]{3}", text) and not re.search(r"[一-鿿]", text)
        and not NAMES.issuperset(re.findall(r"[\w./-]*[A-Za-z]{3}[\w./-]*", text))
        and not text.startswith("http://127.0.0.1")
    ]  # fmt: skip


@pytest.mark.parametrize("said", [SAID, None], ids=["made", "real"])
def test_in_chinese_nothing_is_left_in_english_but_names(
    browser: Browser, worked: Worked, said: dict[str, Any] | None
) -> None:
    request = "req-1041" if said else "clock-05"
    for view in ("overview", "tree", "requests", f"requests/{request}", "prefixes", "system"):
        with dashboard(browser, worked.url, view, said=said, locale="zh-CN") as shown:
            shown.page.wait_for_selector("main .panel >> visible=true")
            shown.page.wait_for_timeout(600)
            assert left_in_english(shown) == [], view
            assert shown.page.locator("main [lang=en]").count() == 0, view


def test_in_chinese_all_that_an_analysis_can_say_is_chinese(browser: Browser, worked: Worked) -> None:
    findings, steps, labels = every_finding(), every_step(), list(every_label())
    one_break = SAID["prefixes"]["breaks"][0]
    breaks = [{**one_break, "label": label, "said": told} for label, told in labels]
    assert len(findings) > 10
    for i in range(len(breaks) // 50 + 1):
        said = SAID | {
            "analyze": {
                **SAID["analyze"],
                "findings": findings,
                "diagnosis": steps if i == 0 else [],
            },
            "prefixes": {**SAID["prefixes"], "breaks": breaks[50 * i : 50 * i + 50]},
        }
        with dashboard(browser, worked.url, "prefixes", said=said, locale="zh-CN") as shown:
            shown.page.wait_for_selector(".panel--prefixes")
            assert left_in_english(shown) == []
            assert shown.page.locator(".panel--findings [lang=en], .panel--breaks [lang=en]").count() == 0
            assert shown.page.locator(".findings > li").count() == len(findings)
            if i == 0:
                assert shown.page.locator(".diagnosis > li").count() == len(steps)
                assert shown.page.locator(".diagnosis [lang=en]").count() == 0


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_what_the_page_does_not_know_is_said_in_the_server_s_words(
    browser: Browser, worked: Worked, locale: str
) -> None:
    new = [{"code": "finding.of_tomorrow", "values": {}}]
    finding = {
        "id": "new",
        "about": "x",
        "severity": "bad",
        "text": "something new",
        "advice": "do something",
    }
    said = SAID | {
        "analyze": {
            **SAID["analyze"],
            "findings": [
                finding | {"said": new, "advised": new},
                finding | {"id": "old", "text": "something old"},
            ],
        }
    }
    with dashboard(browser, worked.url, "prefixes", said=said, locale=locale) as shown:
        shown.page.wait_for_selector(".findings")
        told = shown.page.locator(".findings [lang=en]").all_inner_texts()
        assert told == ["something new", "do something", "something old", "do something"]


def test_no_message_is_missing_in_either_language(browser: Browser, worked: Worked) -> None:
    groups = {
        key.split(".")[0]
        for key in json.loads(
            (Path(openclaw_cache.__file__).parent / "dashboard" / "i18n" / "en.json").read_text()
        )
    }
    for locale in ("en-US", "zh-CN"):
        for view in (*VIEWS, "requests/req-1041"):
            with dashboard(browser, worked.url, view, said=SAID, locale=locale) as shown:
                shown.page.wait_for_selector("main .panel >> visible=true")
                words = re.findall(r"\b([a-z]+)\.[a-z]\w*", shown.page.inner_text("body"))
                assert [word for word in words if word in groups - {"memory", "server", "store"}] == []


def test_the_language_can_be_chosen_and_is_remembered(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url) as shown:
        shown.choose("language", "zh")
        shown.page.wait_for_function("() => document.documentElement.lang === 'zh-CN'")
        shown.page.reload()
        shown.page.wait_for_function("() => document.documentElement.lang === 'zh-CN'")
        shown.page.wait_for_selector("text=请求数")


def test_the_theme_is_the_system_s_until_one_is_chosen_and_that_is_remembered(
    browser: Browser, worked: Worked
) -> None:
    with dashboard(browser, worked.url, color_scheme="dark") as shown:
        ground = "() => getComputedStyle(document.body).backgroundColor"
        assert shown.page.evaluate(ground) == colour("dark", "page")
        shown.choose("theme", "light")
        assert shown.page.evaluate(ground) == colour("light", "page")
        shown.page.reload()
        shown.page.wait_for_selector("main .panel >> visible=true")
        assert shown.page.evaluate(ground) == colour("light", "page")
        shown.choose("theme", "auto")
        assert shown.page.evaluate(ground) == colour("dark", "page")


def test_all_can_be_reached_by_keys_and_the_focus_is_always_seen(browser: Browser, worked: Worked) -> None:
    focused = """() => {
      const node = document.activeElement;
      const style = getComputedStyle(node);
      return [node.id || node.getAttribute("href") || node.className || node.tagName,
              style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
    }"""
    with dashboard(browser, worked.url, "overview", said=SAID) as shown:
        shown.page.wait_for_selector(".panel--by-agent")
        stops: list[str] = []
        for _ in range(60):
            shown.page.keyboard.press("Tab")
            name, is_seen = shown.page.evaluate(focused)
            if name == "BODY":
                break
            assert is_seen, name
            stops.append(name)
        assert stops[:6] == ["#main", "#overview", "#tree", "#requests", "#prefixes", "#system"]
        assert stops[6:9] == ["range", "theme", "language"]
        assert stops.count("plot") == 2
        shown.page.keyboard.press("Tab")
        shown.page.focus(".views a[href='#requests']")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".request")
        shown.page.keyboard.press("Tab")
        shown.page.focus(".request")
        shown.page.keyboard.press("Enter")
        shown.page.wait_for_selector(".panel--explain .back", state="attached")


def test_the_focus_is_not_lost_when_new_figures_come(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, "requests") as shown:
        shown.page.focus("a[href='#requests/streamed']")
        ask(worked.url, "support", "support-3", [{"role": "user", "content": "Hello?"}], request_id="newer")
        worked.counts["miss"] += 1
        shown.page.wait_for_selector("a[href='#requests/newer']")
        assert (
            shown.page.evaluate("() => document.activeElement.getAttribute('href')") == "#requests/streamed"
        )


def test_the_ratio_that_is_read_out_is_told_as_what_it_is_of(browser: Browser, worked: Worked) -> None:
    """It is of look-ups, which are fewer than the requests that it stands beside."""
    total = SAID["history"]["total"]
    num, ratio = sum(total["requests"].values()), total["hit_ratio"]["result"]
    with dashboard(browser, worked.url, said=SAID) as shown:
        shown.page.wait_for_selector("[data-voice=summary]", state="attached")
        assert shown.aloud("summary").startswith(
            f"{num:,} requests, hit ratio {100 * ratio:.1f}".removesuffix(".0")
        )


def test_on_a_phone_no_column_of_chinese_is_one_character_wide(browser: Browser, worked: Worked) -> None:
    phone = {"width": 390, "height": 844}
    with dashboard(browser, worked.url, "prefixes", said=SAID, locale="zh-CN", viewport=phone) as shown:
        shown.page.wait_for_selector(".panel--breaks td")
        narrow = shown.page.evaluate(
            "() => [...document.querySelectorAll('.panel--breaks td:not(.number)')]"
            ".filter(cell => cell.getBoundingClientRect().width < 4 * parseFloat(getComputedStyle(cell).fontSize))"
            ".map(cell => cell.textContent)"
        )
        assert narrow == []


def test_an_alert_that_comes_up_does_not_silence_what_was_asked_for(browser: Browser, worked: Worked) -> None:
    said = SAID | {"analyze": SAID["analyze"] | {"findings": []}}
    with dashboard(browser, worked.url, said=said) as shown:
        shown.page.focus("[data-chart='chart-outcomes']")
        assert shown.aloud("summary").endswith(" alerts: 0.")
        shown.page.keyboard.press("Home")
        point = shown.aloud("readout")
        said["analyze"] = SAID["analyze"]  # one of its findings is worth an alert
        shown.page.wait_for_function(
            "() => document.querySelector('[data-voice=summary]').textContent.endsWith(' alerts: 1.')"
        )
        assert shown.aloud("readout") == point != ""
        shown.page.keyboard.press("End")
        shown.page.wait_for_function(
            "before => document.querySelector('[data-voice=readout]').textContent !== before", arg=point
        )
        assert shown.page.locator("#said > *").count() == 2  # the latest of each, nothing piles up


def test_a_checker_of_accessibility_finds_nothing(browser: Browser, worked: Worked) -> None:
    from support.axe import axe, violations  # noqa: PLC0415

    program = axe()
    for theme in ("light", "dark"):
        for view in (*VIEWS, "requests/req-1041"):
            with dashboard(browser, worked.url, view, said=SAID, color_scheme=theme) as shown:
                shown.page.wait_for_selector("main .panel >> visible=true")
                if view == "tree":
                    shown.page.wait_for_selector("[role=treeitem]")
                    shown.page.focus("#tree-host")
                    shown.page.keyboard.press("ArrowDown")
                    shown.page.keyboard.press("Enter")
                    shown.page.wait_for_selector(".tree__node")
                assert violations(shown.page, program) == [], (theme, view)


def test_landmarks_and_headings_are_in_order(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, said=SAID) as shown:
        shown.page.wait_for_selector(".panel--tokens")
        for landmark in ("header", "nav", "main", "footer", "h1"):
            assert shown.page.locator(landmark).count() == 1, landmark
        levels = shown.page.eval_on_selector_all("h1, h2, h3", "all => all.map(h => +h.tagName[1])")
        assert levels[0] == 1
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        charts = shown.page.eval_on_selector_all(
            "[data-chart]", "all => all.map(c => c.getAttribute('aria-label'))"
        )
        assert all(len(label) > 20 for label in charts)
        assert shown.page.locator("figure details table").count() == shown.page.locator("figure").count()


@pytest.mark.parametrize("locale", ["en-US", "zh-CN"])
def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, worked: Worked, locale: str) -> None:
    for view in (*VIEWS, "requests/req-1041"):
        phone = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
        with dashboard(browser, worked.url, view, said=SAID, locale=locale, **phone) as shown:
            shown.page.wait_for_selector("main .panel >> visible=true")
            shown.page.wait_for_timeout(300)
            width = shown.page.evaluate("() => document.documentElement.scrollWidth")
            assert width <= 360, view


def test_who_wants_no_motion_gets_none(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url, "tree", reduced_motion="reduce") as shown:
        shown.page.wait_for_selector("[data-node]")
        duration = "g => getComputedStyle(g).transitionDuration"
        assert shown.page.eval_on_selector("[data-node]", duration) == "0s"
