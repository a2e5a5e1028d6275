"""Clients that leave: their upstream is let go within a second, their place is free, and what they used is counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.fault_scripts import (
    CHAT,
    EMBEDDINGS,
    STREAMING,
    TEXT,
    USED,
    WIRES,
    Wire,
    answers,
    ask,
    framed,
    stalls_after,
    text_in,
    whole_bytes,
    wired,
)
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, answer
from support.served import Served

each_dialect = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
each_stream = pytest.mark.parametrize("wire", STREAMING, ids=lambda wire: wire.name)

BUDGETS = {"tokens_per_day": 10**9, "requests_per_minute": 10**6, "max_concurrent": 1000}
KEYS = [{"key": f"sk-{name}-long-enough", "namespace": "team", "budgets": BUDGETS} for name in ("one", "two")]
ONE, TWO = ({"authorization": f"Bearer {key['key']}"} for key in KEYS)

KEY_IDS = {"one": "031a4c5f", "two": "d2212c86"}
"""The first 8 hex digits of each key's SHA-256, as `sha256sum` prints them."""


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url, server__keys=KEYS) as running:
        yield running


async def status(gateway: Served) -> Any:
    return (await gateway.get("/admin/status")).json()


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not what():
            await asyncio.sleep(0.005)


async def used(gateway: Served) -> dict[str, int]:
    """Tokens that each key has used today, by its number."""
    rows = (await status(gateway))["keys"]["fullest_budgets"]
    counted = {row["key_id"]: row["budgets"]["tokens_per_day"]["used"] for row in rows}
    return {name: counted.get(key_id, 0) for name, key_id in KEY_IDS.items()}


async def nothing_is_held(gateway: Served) -> None:
    """All that the request had taken has been given back."""
    slots, inflight = gateway.app.asgi._door.slots, gateway.app.asgi._door.inflight
    await until(lambda: not slots.running() and inflight.held_bytes == 0 and gateway.num_flights == 0)
    rows = (await status(gateway))["keys"]["fullest_budgets"]
    assert [row["budgets"]["max_concurrent"]["used"] for row in rows] == [0] * len(rows)


async def half_a_body(exchange: Exchange) -> None:
    await exchange.send(framed({"half": "a body"})[:-3])
    await exchange.until_closed()


@each_dialect
@pytest.mark.parametrize("reply", [Gate, lambda: half_a_body], ids=["before the head", "inside the body"])
async def test_a_client_that_leaves_closes_its_upstream_within_a_second_and_frees_its_place(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, reply: Any
) -> None:
    upstream.script = reply()
    task = asyncio.create_task(ask(gateway, wire, headers=ONE))
    call = await upstream.called()
    await asyncio.sleep(0.1)
    left_at = time.monotonic()
    task.cancel()
    await asyncio.wait_for(call.closed.wait(), 20)
    assert call.closed_at is not None
    assert call.closed_at - left_at < 1.0
    await nothing_is_held(gateway)
    assert upstream.num_calls == 1


@each_stream
@pytest.mark.parametrize("num_events", [0, 1, 2], ids=["before an event", "after one", "after two"])
async def test_a_client_that_leaves_a_stream_closes_its_upstream_within_a_second_and_frees_its_place(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, num_events: int
) -> None:
    events = wire.events(TEXT)[:num_events]
    upstream.script = stalls_after(events)
    response = await gateway.send(wire.body(stream=True), path=wire.path, headers=ONE)
    call = await upstream.called()
    if events:
        await response.content.readexactly(len(b"".join(events)))
    left_at = time.monotonic()
    response.close()
    await asyncio.wait_for(call.closed.wait(), 20)
    assert call.closed_at is not None
    assert call.closed_at - left_at < 1.0
    await nothing_is_held(gateway)
    upstream.script = answers(wire)
    assert not await is_stored_for_one(gateway, wire)


async def is_stored_for_one(gateway: Served, wire: Wire) -> bool:
    headers = {**ONE, "cache-control": "only-if-cached"}
    return (await ask(gateway, wire, headers=headers)).status == 200


@each_dialect
async def test_a_reply_costs_its_tokens_and_a_stored_one_nothing(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    for _ in range(3):
        text_in(wire, await ask(gateway, wire, headers=ONE))
    tokens = {"embeddings": USED[0], "count_tokens": 0}.get(wire.name, sum(USED))
    assert await used(gateway) == {"one": tokens, "two": 0}


async def test_of_a_batch_that_is_stored_in_part_only_what_was_computed_is_counted(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = answers(EMBEDDINGS)
    await ask(gateway, EMBEDDINGS, "first", headers=ONE)
    both = {"model": "pod-model", "input": ["first", "second"]}
    answered = await gateway.ask(both, path=EMBEDDINGS.path, headers=TWO)
    assert len(answered.json()["data"]) == 2
    assert upstream.calls[1].json()["input"] in ("second", ["second"])
    assert await used(gateway) == {"one": USED[0], "two": USED[0]}


@each_dialect
async def test_an_upstream_that_is_refused_or_refuses_costs_nothing(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = whole_bytes(b'{"error": {"message": "no"}}', 400, {"content-type": "application/json"})
    await ask(gateway, wire, headers=ONE)
    assert await used(gateway) == {"one": 0, "two": 0}


@each_stream
async def test_the_tokens_of_a_stream_whose_client_left_are_estimated_and_counted(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """As documented: four bytes of the request are a token, and so is each event that came."""
    events = wire.events(TEXT)[:3]
    upstream.script = stalls_after(events)
    response = await gateway.send(wire.body("x" * 400, stream=True), path=wire.path, headers=ONE)
    await response.content.readexactly(len(b"".join(events)))
    response.close()
    await nothing_is_held(gateway)
    [call] = upstream.calls
    counted = (await used(gateway))["one"]
    # Chat and completions are asked for their usage: their request is some bytes longer on its way up.
    assert 100 + len(events) <= counted <= len(call.body) // 4 + len(events)


@each_dialect
async def test_the_tokens_of_a_request_whose_client_left_before_the_head_are_estimated_and_counted(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """A reply that is not streamed has no head before it is whole: all of it may have been computed by then."""
    upstream.script = Gate()
    task = asyncio.create_task(ask(gateway, wire, "x" * 400, headers=ONE))
    call = await upstream.called()
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.wait_for(call.closed.wait(), 20)
    await nothing_is_held(gateway)
    expected = 0 if wire.name == "count_tokens" else len(call.body) // 4
    assert (await used(gateway))["one"] == expected


async def test_who_asked_first_pays_though_it_left_and_another_one_got_the_reply(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """Else two clients of one team could take turns to leave, and pay for nothing."""
    events = CHAT.events(TEXT)
    go_on = asyncio.Event()

    async def pauses(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(events[0])
        await go_on.wait()
        for one in events[1:]:
            await exchange.chunk(one)
        await exchange.last_chunk()

    upstream.script = pauses
    leader = await gateway.send(CHAT.body("x" * 400, stream=True), headers=ONE)
    await leader.content.readexactly(len(events[0]))
    follower = await gateway.send(CHAT.body("x" * 400, stream=True), headers=TWO)
    await follower.content.readexactly(len(events[0]))
    leader.close()
    await asyncio.sleep(0.3)
    go_on.set()
    assert (await follower.read()).endswith(b"[DONE]\n\n")
    await nothing_is_held(gateway)
    assert upstream.num_calls == 1
    counted = await used(gateway)
    assert counted["one"] >= 100
    assert counted["two"] == 0


@each_stream
async def test_a_stream_that_broke_off_is_estimated_and_counted_too(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(b"".join(wire.events(TEXT)[:2]))
        exchange.close()

    upstream.script = breaks
    await ask(gateway, wire, "x" * 400, stream=True, headers=ONE)
    assert (await used(gateway))["one"] >= 100


async def test_a_client_that_leaves_among_twenty_disturbs_nobody(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    gate = Gate(answer)
    upstream.script = gate
    tasks = [asyncio.create_task(ask(gateway, CHAT, headers=ONE)) for _ in range(20)]
    await upstream.called()
    await asyncio.sleep(0.3)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.sleep(0.1)
    gate.open()
    left = await asyncio.gather(*tasks[1::2])
    assert {answered.text for answered in left} == {"answer 1"}
    assert upstream.num_calls == 1
    await nothing_is_held(gateway)
