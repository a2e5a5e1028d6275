"""Random and broken replies from an upstream, through a real gateway: what its clients see, and what it stores."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fuzz import replies
from fuzz.byte_upstream import Asked, ByteUpstream, Plan
from fuzz.knob import Knob, seconds
from fuzz.relay_case import HIT, RelayCase, fault_of_reply, fault_of_stored, make
from fuzz.watched import Watched
from fuzz.wire import BadReplyError, Connection
from support.running import RunningGateway

DEFAULT_S = 20.0
NUM_AT_ONCE = 8
NUM_TO_SETTLE = 1000
SECRET = "heron-secret"
"""Begins every prompt, and stands in every reply."""


def config(url: str) -> dict[str, Any]:
    """Both kinds of upstream at one address; small bounds, so that they are met."""
    common = {"urls": [url], "idle_timeout": "5s", "retries": 0}
    return {
        "server": {"ping_interval": "200ms", "max_body": "20MB"},
        "upstreams": [
            {"name": "o", "kind": "openai", **common},
            {"name": "a", "kind": "anthropic", **common},
        ],
        "result_cache": {"max_memory": "16MB"},
        "store": {"max_memory": "32MB"},
    }


class Run:
    """Makes cases, and hands out what the upstream is to answer in each."""

    def __init__(self, knob: Knob) -> None:
        self.knob = knob
        self.counts: Counter[str] = Counter()
        self._plans: dict[str, Plan] = {}

    def answer(self, asked: Asked) -> Plan:
        """What the upstream sends."""
        return self._plans[asked.headers["x-fuzz"]]

    async def case(self, number: int, connection: Connection) -> str | None:
        """Play one case; returns what is wrong with how it was answered."""
        rng = self.knob.random(number)
        case = make(rng, f"{SECRET}-{number}")
        self._plans[str(number)] = case.delivery.plan(rng)
        told = [("content-type", "application/json"), ("x-fuzz", str(number))]
        path = replies.PATHS[case.api]
        # Some ask twice at a time: the second one reads along, or comes a little late.
        asks = [case.streams]
        if rng.random() < 0.1:
            asks.append(case.api in replies.STREAMED and rng.random() < 0.5)
        try:
            async with Connection(connection.host, connection.port) as other:
                seen = await asyncio.gather(
                    *(
                        one.exchange("POST", path, told, case.body(stream=streams))
                        for one, streams in zip((connection, other), asks, strict=False)
                    )
                )
            if case.delivery.is_pristine and any(b"no HTTP reply" in reply.body for reply in seen):
                self.counts["poisoned"] += 1
                return None
            for reply, streams in zip(seen, asks, strict=True):
                judge = fault_of_stored if reply.cache_status == HIT else fault_of_reply
                if (fault := judge(case, reply, streams=streams)) is not None:
                    return _described(fault, case, reply.status, reply.body)
            if (seen[0].cache_status or "").endswith("detail=degraded"):
                self.counts["degraded"] += 1  # the store has not answered in time: nothing may be stored then
                return None
            again = case.api in replies.STREAMED and rng.random() < 0.3
            stored = await connection.exchange(
                "POST", path, [*told, ("cache-control", "only-if-cached")], case.body(stream=again)
            )
            if (fault := fault_of_stored(case, stored, streams=again)) is not None:
                return _described(fault, case, stored.status, stored.body)
        except (TimeoutError, BadReplyError, OSError, EOFError) as e:
            return _described(f"no reply: {type(e).__name__} {e}", case, 0, b"")
        finally:
            del self._plans[str(number)]
        self._count(case, seen[0].status, is_hit=stored.cache_status == HIT)
        return None

    def _count(self, case: RelayCase, status: int, *, is_hit: bool) -> None:
        self.counts["good" if case.delivery.is_pristine else "broken"] += 1
        self.counts["stored" if is_hit else "not stored"] += 1
        self.counts[f"{status // 100}xx"] += 1
        if is_hit and not case.delivery.is_pristine:
            self.counts["strange, but stored"] += 1


def _described(fault: str, case: RelayCase, status: int, body: bytes) -> str:
    return f"{fault}\n{case.api} streams={case.streams} {case.delivery}\nseen: {status} {body[:3000]!r}"


@pytest.mark.timeout(seconds(DEFAULT_S) + 240)
async def test_whatever_an_upstream_sends_a_client_gets_that_or_an_error_and_only_whole_good_replies_are_stored(
    tmp_path: Path,
) -> None:
    knob = Knob("relay", DEFAULT_S)
    run = Run(knob)
    async with ByteUpstream(run.answer) as upstream:
        gateway = await asyncio.to_thread(RunningGateway(tmp_path / "data", config(upstream.url)).start)
        try:
            watched = Watched(gateway, SECRET)
            await _play(run, watched)
            await watched.check_at_rest()
        finally:
            await asyncio.to_thread(gateway.__exit__)
        assert upstream.failures == []
    counts = run.counts
    print(
        f"{knob.num_cases} cases, {upstream.num_calls} calls, {watched.most_bytes >> 20} MiB: {dict(counts)}"
    )
    if knob.only is None:
        assert counts["stored"] > 50
        assert counts["not stored"] > 50
        # What is no HTTP may look like a whole reply with something behind it, which the next reader of that connection
        # finds. That is rare.
        assert counts["poisoned"] <= 3 + knob.num_cases / 2000


async def _play(run: Run, watched: Watched) -> None:
    """Several cases at a time, until the time is over or one has failed."""
    numbers = run.knob.numbers()
    faults: list[str] = []

    async def worker() -> None:
        async with watched.connection() as connection:
            for number in numbers:
                found = await run.case(number, connection)
                if found is not None:
                    faults.append(f"{run.knob.how_to_repeat(number)}\n{found}")
                if faults:
                    return
                watched.visit(number, NUM_TO_SETTLE)

    await asyncio.gather(*(worker() for _ in range(NUM_AT_ONCE)))
    assert not faults, "\n\n".join([*faults, watched.last_traceback(), watched.warnings()])
