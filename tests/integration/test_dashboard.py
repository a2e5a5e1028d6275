"""The dashboard's files over HTTP: who gets them, and with which headers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.served import Served, served

KEY = "an-admin-key-of-a-test-0123456789"


@pytest.fixture
async def keyless(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path / "data", ["http://127.0.0.1:9"]) as running:
        yield running


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Served]:
    env = {"ADMIN": KEY}
    async with served(
        tmp_path / "data", ["http://127.0.0.1:9"], env=env, server__admin_key_env="ADMIN"
    ) as running:
        yield running


async def test_the_page_and_all_that_it_names_are_served(keyless: Served) -> None:
    page = await keyless.get("/dashboard")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r"(?:src|href)=\"(dashboard/[^\"]+)\"", page.body.decode())
    assert len(named) >= 5
    types = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
    for path in named:
        file = await keyless.get(f"/{path}")
        assert (file.status, file.headers["content-type"]) == (200, types[path.rpartition(".")[2]])


@pytest.mark.parametrize("path", ["/dashboard", "/dashboard/app/main.js", "/dashboard/i18n/zh.json"])
async def test_every_file_comes_with_the_policy_that_lets_in_nothing_from_elsewhere(
    keyless: Served, path: str
) -> None:
    headers = (await keyless.get(path)).headers
    policy = {
        name: sources
        for name, _, sources in (
            part.strip().partition(" ") for part in headers["content-security-policy"].split(";")
        )
    }
    assert policy["default-src"] == "'none'"
    for kind in ("script-src", "style-src", "connect-src"):
        assert policy[kind] == "'self'"
    assert policy["img-src"] == "'self' data:"
    for kind in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[kind] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


async def test_a_browser_asks_each_time_and_is_told_when_it_has_the_file_already(keyless: Served) -> None:
    first = await keyless.get("/dashboard")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    for told in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = await keyless.get("/dashboard", {"if-none-match": told})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        assert "content-security-policy" in again.headers
    assert (await keyless.get("/dashboard", {"if-none-match": '"other"'})).status == 200


async def test_head_has_the_headers_of_get_and_no_body(keyless: Served) -> None:
    async with keyless.session.head(keyless.url + "/dashboard") as response:
        assert response.status == 200
        assert int(response.headers["content-length"]) == len((await keyless.get("/dashboard")).body)
        assert await response.read() == b""


async def test_other_methods_are_refused_by_the_standard(keyless: Served) -> None:
    async with keyless.session.post(keyless.url + "/dashboard", data=b"{}") as response:
        assert (response.status, response.headers["allow"]) == (405, "GET")


async def test_a_slash_at_the_end_leads_to_the_page_wherever_it_is_mounted(keyless: Served) -> None:
    async with keyless.session.get(keyless.url + "/dashboard/", allow_redirects=False) as response:
        assert response.status == 308
        assert response.headers["location"] == "../dashboard"
    assert (await keyless.get("/dashboard/")).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/__init__.py",
        "/dashboard/index.html",
        "/dashboard/nothing.js",
        "/dashboard/..%2fapi%2fauth.py",
        "/dashboard/%2e%2e/%2e%2e/pyproject.toml",
        "/dashboard//etc/passwd",
        "/dashboard/app/main.js%00.html",
        "/dashboards",
    ],
)
async def test_nothing_but_the_page_s_own_files_can_be_had(keyless: Served, path: str) -> None:
    from yarl import URL  # noqa: PLC0415

    async with keyless.session.get(URL(keyless.url + path, encoded=True)) as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "not_found"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"x-forwarded-for": "10.0.0.9"},
        {"forwarded": "for=10.0.0.9"},
    ],
)
async def test_without_an_admin_key_only_this_machine_gets_the_page(
    keyless: Served, headers: dict[str, str]
) -> None:
    for path in ("/dashboard", "/dashboard/app/main.js", "/dashboard/"):
        answer = await keyless.get(path, headers)
        assert (answer.status, answer.json()["error"]["code"]) == (403, "keyless_loopback_only")


async def test_with_an_admin_key_anybody_gets_the_page_and_nobody_without_it_the_figures(
    keyed: Served,
) -> None:
    page = await keyed.get("/dashboard", {"host": "cache.example", "x-forwarded-for": "10.0.0.9"})
    assert page.status == 200
    assert KEY.encode() not in page.body
    for path in ("/admin/status", "/admin/tree", "/admin/history", "/admin/requests"):
        assert (await keyed.get(path)).status == 401
    assert (await keyed.get("/admin/status", {"authorization": f"Bearer {KEY}"})).status == 200
