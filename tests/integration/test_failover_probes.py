"""Probes of the pods behind an upstream: when they are sent, and what follows from their answers."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable

import pytest

from openclaw_cache.gateway import ejection
from openclaw_cache.gateway.upstream import Upstream
from support.scripted_upstream import (
    Exchange,
    Script,
    ScriptedUpstream,
    says,
    sends_raw,
)
from support.upstreams import ask, calling, closed_url, whole


@pytest.fixture(autouse=True)
def long_ejections(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ejection that no test outlives, unless it asks for a short one."""
    monkeypatch.setattr(ejection, "FIRST_EJECTION_S", 3600.0)
    monkeypatch.setattr(ejection, "MAX_EJECTION_S", 3600.0)


@pytest.fixture
async def first() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(says({"from": "first"})) as pod:
        yield pod


@pytest.fixture
async def second() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(says({"from": "second"})) as pod:
        yield pod


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that a background task does."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


async def who(upstream: Upstream) -> str:
    """The pod that answers."""
    reply = await ask(upstream)
    assert reply.status == 200
    name: str = json.loads(await whole(reply))["from"]
    return name


def states(upstream: Upstream) -> list[str]:
    return [pod["state"] for pod in upstream.status()]


FAILS = says({"error": "bad gateway"}, status=502)


async def test_pods_are_probed_without_credentials_where_there_are_several(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    options = {"api_key": "secret", "probe_path": "/live", "probe_interval_s": 0.02}
    async with calling(first.url + "/a/v1", second.url, **options) as upstream:
        upstream.start()
        await until(lambda: min(len(first.others), len(second.others)) >= 3)
    assert {c.target for c in first.others} == {"/a/live"}
    assert {c.target for c in second.others} == {"/live"}
    assert "secret" not in str([c.headers for c in first.others + second.others])
    assert (first.num_calls, second.num_calls) == (0, 0)


async def test_a_single_healthy_pod_is_not_probed(first: ScriptedUpstream) -> None:
    async with calling(first.url, probe_interval_s=0.005) as upstream:
        upstream.start()
        for _ in range(3):
            await who(upstream)
            await asyncio.sleep(0.02)
    assert first.others == []


async def test_a_probe_finds_a_dead_pod_before_a_request_does(second: ScriptedUpstream) -> None:
    retries = []
    async with calling(closed_url(), second.url, on_retry=lambda: retries.append(1)) as upstream:
        upstream.start()
        await until(lambda: states(upstream) == ["ejected", "up"])
        assert await who(upstream) == "second"
    assert retries == []


@pytest.mark.parametrize("status", [200, 204, 301, 401, 404, 405, 429])
async def test_any_answer_below_500_to_a_probe_brings_a_pod_back(
    first: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(ejection, "FIRST_EJECTION_S", 0.05)
    first.script = FAILS

    async def answers(exchange: Exchange) -> None:
        await exchange.whole(b"", status)

    first.get_script = answers
    async with calling(first.url, probe_interval_s=0.02) as upstream:
        upstream.start()
        for _ in range(3):
            await ask(upstream)
        assert states(upstream) != ["up"]
        await until(lambda: states(upstream) == ["up"])
        num_probes = len(first.others)
        await asyncio.sleep(0.1)
        assert len(first.others) == num_probes
    assert first.num_calls == 3


PROBES_THAT_FAIL: dict[str, Script] = {
    "500": says({}, status=500),
    "503": says({}, status=503, headers={"retry-after": "1"}),
    "reset": sends_raw(b"", reset=True),
    "no HTTP": sends_raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
}


@pytest.mark.parametrize("how", PROBES_THAT_FAIL)
async def test_three_failed_probes_leave_a_pod_out(
    first: ScriptedUpstream, second: ScriptedUpstream, how: str
) -> None:
    first.get_script = PROBES_THAT_FAIL[how]
    async with calling(first.url, second.url, probe_interval_s=0.01) as upstream:
        upstream.start()
        await until(lambda: states(upstream) == ["ejected", "up"])
        assert [await who(upstream) for _ in range(3)] == ["second"] * 3
    assert len(first.others) == 3


async def test_a_pod_that_answers_probes_but_fails_requests_is_left_out(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.script = FAILS
    async with calling(first.url, second.url, probe_interval_s=0.005) as upstream:
        upstream.start()
        for num_failures in (1, 2):
            assert [await who(upstream) for _ in range(2)] == ["second", "second"]
            num_probes = len(first.others)
            await until(lambda seen=num_probes: len(first.others) > seen + 1)  # type: ignore[misc]
            assert upstream.status()[0]["num_failures"] == num_failures
        await who(upstream)
        assert states(upstream) == ["ejected", "up"]


async def test_probing_ends_with_the_upstream(first: ScriptedUpstream, second: ScriptedUpstream) -> None:
    async with calling(first.url, second.url, probe_interval_s=0.005) as upstream:
        upstream.start()
        await until(lambda: len(first.others) > 0)
    num_probes = len(first.others)
    await asyncio.sleep(0.05)
    assert len(first.others) == num_probes
    assert [t for t in asyncio.all_tasks() if "Probes" in repr(t)] == []


async def test_a_pod_that_hangs_holds_up_no_probe_of_another(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    async def hangs(exchange: Exchange) -> None:
        await exchange.call.closed.wait()

    first.get_script = hangs
    async with calling(first.url, second.url, probe_interval_s=math.inf) as upstream:
        upstream.start()
        await until(lambda: len(second.others) == 1)
        assert await who(upstream) == "first"  # it may be busy: one missing answer is no proof
