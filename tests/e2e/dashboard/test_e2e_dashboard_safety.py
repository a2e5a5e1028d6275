"""The dashboard under what is hostile or broken: names, keys, other hosts, a server that is gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support import dashboard_data as data
from support.dashboard_page import SAID, VIEWS, Dashboard, Worked, dashboard, get
from support.dashboard_traffic import ask
from support.running import RunningGateway

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.model, pytest.mark.timeout(900)]  # the browser may have to be installed first


def test_names_that_are_markup_stay_text(browser: Browser, worked: Worked) -> None:
    agent = data.HOSTILE[0]
    ask(worked.url, agent, "hostile", [{"role": "user", "content": "Hi."}], request_id="hostile")
    worked.counts["miss"] += 1
    with dashboard(browser, worked.url, "requests/hostile") as shown:
        shown.page.wait_for_selector(".steps")
        assert agent in shown.page.inner_text(".panel--explain")
        assert shown.page.title().endswith("openclaw-cache")
        assert shown.faults == []
    said = json.loads(json.dumps(SAID))
    said["history"]["by_agent"] = [data.line(name, 3, 2, 1, 0, None) for name in data.HOSTILE]
    said["history"]["by_model"] = [data.line(name, 3, 2, 1, 0, None) for name in data.HOSTILE]
    said["status"] = get(worked.url, "status")
    for name in data.HOSTILE:
        said["status"]["upstreams"].append(
            {"name": name, "kind": name, "is_up": False, "models": [name], "urls": [name],
             "pods": [{"url": name, "state": name, "num_failures": 1, "ejected_for_s": 1.0, "last_error": name}]}
        )  # fmt: skip
        said["requests"]["requests"].append(
            said["requests"]["requests"][0]
            | {"request_id": name, "agent": name, "model": name, "outcome": name}
        )
        said["prefixes"]["breaks"].append(
            said["prefixes"]["breaks"][0] | {"label": name, "cause": name, "request_id": name}
        )
        said["analyze"]["findings"].append(
            {"id": name, "about": name, "severity": "bad", "text": name, "advice": name}
            | {"said": [{"code": "finding.degraded", "values": {"n": 1, "what": name}}]}
        )
    said["tree"] = data.tree(5) | {"roots": [{"root": 0, "namespace": data.HOSTILE[0]}]}
    for view in VIEWS:
        with dashboard(browser, worked.url, view, said=said) as shown:
            shown.page.wait_for_selector("main .panel >> visible=true")
            shown.page.wait_for_timeout(400)
            assert shown.page.title().endswith("openclaw-cache")
            assert shown.page.locator("main img, main script, main iframe, main [onerror]").count() == 0
            hrefs = shown.page.eval_on_selector_all("main a", "all => all.map(a => a.getAttribute('href'))")
            assert all(href.startswith("#") for href in hrefs)
            assert shown.faults == []
            if view == "overview":
                assert data.HOSTILE[1] in shown.page.inner_text(".panel--by-agent")


def test_no_other_host_is_asked_and_nothing_goes_wrong_in_any_view(browser: Browser, worked: Worked) -> None:
    with dashboard(browser, worked.url) as shown:
        for view in (*VIEWS, "requests/streamed"):
            shown.go(view)
            shown.page.wait_for_timeout(2200)
        for language in ("zh", "en"):
            shown.choose("language", language)
            shown.page.wait_for_timeout(200)
        assert {url for url in shown.asked if not url.startswith((worked.url + "/", "data:"))} == set()
        assert shown.paths().count("/admin/status") >= 4
        assert shown.most_in_flight == 1
        assert shown.faults == []


def test_a_server_that_is_gone_is_told_and_one_that_is_back_is_shown_without_a_reload(
    browser: Browser, plain: RunningGateway
) -> None:
    plain.data_dir.mkdir()
    with plain as gateway, dashboard(browser, gateway.url) as shown:
        shown.page.wait_for_selector(".connection--ok")
        gateway.stop()
        shown.page.wait_for_selector(".connection--bad")
        assert "cannot be reached" in shown.page.inner_text("#connection")
        assert shown.aloud("connection") == "The server cannot be reached."
        assert shown.page.locator(".tile").count() > 0  # the last figures stay, and say how old they are
        shown.page.wait_for_function(
            "() => /figures are \\d+ s old/.test(document.getElementById('connection').textContent)"
        )
        gateway.start(wait_ready=False)
        shown.page.wait_for_selector(".connection--ok", timeout=40_000)
        assert shown.most_in_flight == 1


def test_the_admin_key_is_asked_for_kept_in_the_tab_only_and_forgotten_on_demand(
    browser: Browser, plain: RunningGateway
) -> None:
    key = "a-key-of-the-tests-0123456789"
    plain.config["server"] = {"admin_key_env": "TEST_ADMIN_KEY"}
    plain.env["TEST_ADMIN_KEY"] = key
    plain.data_dir.mkdir()
    with plain as gateway, dashboard(browser, gateway.url) as shown:
        page = shown.page
        page.wait_for_selector("#key-value")
        assert page.evaluate("() => document.activeElement.id") == "key-value"
        assert page.locator("main .panel").count() == 0
        page.fill("#key-value", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_function("() => document.getElementById('key-wrong').textContent !== ''")
        page.fill("#key-value", key)
        page.keyboard.press("Enter")
        page.wait_for_selector(".connection--ok")
        page.wait_for_selector("main .panel >> visible=true")
        kept = (
            "() => [JSON.stringify({...localStorage}), JSON.stringify({...sessionStorage}),"
            " document.cookie, location.href]"
        )
        local, session, cookies, place = page.evaluate(kept)
        assert key in session
        assert key not in local + cookies + place
        assert not any(key in url for url in shown.asked)
        page.reload()
        page.wait_for_selector("main .panel >> visible=true")  # the same tab still has it
        other = page.context.new_page()
        other.goto(f"{gateway.url}/dashboard")
        other.wait_for_selector("#key-value")  # another one does not
        page.click("#forget")
        page.wait_for_selector("#key-value")
        assert key not in page.evaluate("() => JSON.stringify({...sessionStorage})")
        assert page.locator("main .panel").count() == 0


def shows(shown: Dashboard, text: str) -> bool:
    return text in shown.page.inner_text("main")


def test_parts_that_are_off_say_so_and_how_to_switch_them_on(browser: Browser, plain: RunningGateway) -> None:
    plain.config["observe"] = {"history": False, "prefixes": False}
    plain.config["memory"] = {"enabled": False}
    plain.data_dir.mkdir()
    with plain as gateway, dashboard(browser, gateway.url, "system") as shown:
        shown.page.wait_for_selector(".panel--memory")
        assert shows(shown, "memory.enabled: true")
        assert shows(shown, "semantic_cache.enabled: true")
        assert shown.page.locator("[class*=panel--kv]").count() == 0
        shown.go("tree")
        shown.page.wait_for_selector(".panel--tree .empty")
        assert shows(shown, "embedded")  # the server's own words: no upstream has a tree of ours
        shown.go("prefixes")
        shown.page.wait_for_selector(".panel--prefixes .empty")
