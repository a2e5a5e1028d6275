"""A store that answers, but too late: all that one request asks of it has one bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from openclaw_cache.result.cache import ResultCache
from openclaw_cache.result.versions import Epochs
from support.scripted_upstream import ScriptedUpstream
from support.served import Served, chat, served


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path, [upstream.url], store__timeout="200ms") as running:
        yield running


async def forever(*_: object) -> None:
    await asyncio.Event().wait()


async def test_a_look_up_that_does_not_end_becomes_a_counted_miss(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResultCache, "find", forever)
    answered = await gateway.ask()
    assert (answered.status, answered.cache_status) == (200, "openclaw-cache; fwd=miss; stored")
    assert gateway.app.metrics.degraded.labels("store_unavailable")._value.get() == 1


async def test_an_epoch_that_does_not_come_bypasses_the_cache(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Epochs, "held", lambda _self, _model: None)
    monkeypatch.setattr(Epochs, "current", forever)
    answered = await gateway.ask()
    assert (answered.status, answered.cache_status) == (200, "openclaw-cache; fwd=bypass; detail=degraded")
    assert gateway.app.metrics.degraded.labels("epoch_unknown")._value.get() == 1


async def test_what_the_epoch_has_used_up_is_not_given_to_the_look_up_again(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up's own bound would let it succeed; the request's does not."""
    await gateway.ask(chat("stored before"))

    async def late(self: Epochs, _model: str) -> bytes:
        await asyncio.sleep(0.15)
        return b"e" * 16

    async def slow(*_: object) -> None:
        await asyncio.sleep(0.15)
        raise AssertionError("the look-up went on after the request's time was up")

    monkeypatch.setattr(Epochs, "held", lambda _self, _model: None)
    monkeypatch.setattr(Epochs, "current", late)
    monkeypatch.setattr(ResultCache, "find", slow)
    assert (await gateway.ask(chat("another"))).status == 200


async def test_a_slow_store_is_logged_once_however_often_it_is_counted(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ResultCache, "find", forever)
    with structlog.testing.capture_logs() as lines:
        for number in range(3):
            await gateway.ask(chat(f"question {number}"))
    assert gateway.app.metrics.degraded.labels("store_unavailable")._value.get() == 3
    assert [line["what"] for line in lines if line["event"] == "degraded"] == ["store_unavailable"]
