"""Whatever only looks on may break: the request is answered all the same, and its place is free again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from openclaw_cache.history.keeping import Keeping
from openclaw_cache.history.rollup import Rollup
from support.scripted_upstream import ScriptedUpstream
from support.served import chat, served

PARTS = [
    ("openclaw_cache.gateway.canonical.canonicalise", "canonical"),
    ("openclaw_cache.gateway.prefix_watch.outline", "prefix_watch"),
    ("openclaw_cache.prefix.lineage.Found.prefix_break", "prefix_watch"),
    ("openclaw_cache.gateway.prefix_watch.PrefixWatch.count", "prefix_watch"),
    ("openclaw_cache.gateway.misses.Misses.why", "misses"),
    ("openclaw_cache.gateway.misses.Misses._note", "misses"),
    ("openclaw_cache.history.history.History.add", "record"),
    ("openclaw_cache.history.durations.Durations.learn", "record"),
    ("openclaw_cache.history.durations.Durations.saved_s", "record"),
]


def fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(("part", "what"), PARTS)
async def test_a_part_that_only_looks_on_fails_no_request(
    part: str, what: str, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], server__namespace_concurrency=2) as gateway:
        with mock.patch(part, fails):
            for stream in (False, True):
                for _ in range(3):
                    answer = await gateway.ask(chat(f"stream: {stream}", stream=stream))
                    assert answer.status == 200
        assert await gateway.metric(f'openclaw_cache_degraded_total{{what="{what}"}}') > 0
        assert gateway.app.asgi._door.slots.running() == {}
        assert gateway.app.gateway.inflight.held_bytes == 0


@pytest.mark.parametrize("role", [[], {}, ["user"], 7, None])
async def test_a_role_of_any_shape_goes_to_the_upstream_to_judge(
    role: Any, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        body = chat()
        body["messages"].append({"role": role, "content": "hi"})
        assert (await gateway.ask(body)).status == 200
        assert upstream.calls[-1].json() == body
        assert await gateway.metric('openclaw_cache_degraded_total{what="canonical"}') == 0


async def test_history_goes_on_after_a_record_that_it_cannot_add_and_a_flush_that_failed(
    tmp_path: Path, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_cache.history.keeping.FLUSH_S", 0.02)
    async with served(tmp_path, [upstream.url]) as gateway:
        with mock.patch.object(Rollup, "add", fails):
            await gateway.ask()
            await asyncio.sleep(0.1)
        with mock.patch.object(Keeping, "_take_figures", fails), mock.patch.object(Keeping, "flush", fails):
            await asyncio.sleep(0.1)
        assert await gateway.metric('openclaw_cache_degraded_total{what="history"}') >= 2
        await gateway.ask(chat("another"))
        store, found = gateway.app.gateway.cache._store, []
        for _ in range(100):
            found = [key async for key in store.scan(b"h:m:")]
            if found:
                break
            await asyncio.sleep(0.02)
        assert found
        shown = (await gateway.get("/admin/history")).json()
        assert shown["total"]["requests"] == {"miss": 1}


async def test_a_request_that_went_on_to_another_upstream_tells_what_that_one_was_sent(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """The first is at `full`, and cannot; the second gets the bytes as they came."""
    levels = [("first", "http://127.0.0.1:9", "full"), ("second", upstream.url, "off")]
    upstreams = [
        {"name": name, "kind": "openai", "urls": [url], "models": ["*"], "canonical": level}
        for name, url, level in levels
    ]
    body = chat()
    system = "Current date: 2026-11-29\nYou watch herons."
    body["messages"] = [{"role": "system", "content": system}, *body["messages"]]
    async with served(tmp_path, [], upstreams=upstreams) as gateway:
        answer = await gateway.ask(body)
        assert (answer.status, upstream.calls[-1].json()) == (200, body)
        told = (await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")).json()
        assert (told["request"]["upstream"], told["canonical"]) == ("second", [])


async def test_a_request_that_is_not_known_any_more_is_not_found_whatever_is_off(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        answer = await gateway.get("/admin/explain/never-seen")
        assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")
