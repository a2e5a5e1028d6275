"""Clients that ask again and again while their upstream fails: what reaches it, and what they get."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, answer
from support.served import Answer, Served, chat, served

TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
NEGATIVE = "openclaw-cache; hit; detail=negative"
LIMITED = (
    b'{"error": {"message": "Rate limit reached", "type": "tokens", "param": null, "code": "rate_limit"}}'
)
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "session_id": "1234:0"}
NEXT_SPAN = {**TRACE, "traceparent": TRACE["traceparent"].replace("b7ad", "00f0")}


class Time:
    """The clock of the gateway's memory of failures, which stands still."""

    def __init__(self, gateway: Served) -> None:
        self.now = 1000.0
        gateway.app.gateway.negative.clock = lambda: self.now


@pytest.fixture
def time(gateway: Served) -> Time:
    return Time(gateway)


def failing(status: int, headers: dict[str, str] | None = None, body: bytes = LIMITED) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(body, status, {"content-type": "application/json", **(headers or {})})

    return script


def agent(**fields: Any) -> dict[str, Any]:
    """A request with tools, which bypasses the result cache."""
    body: dict[str, Any] = chat(tools=TOOLS, **fields)
    return body


async def asked(gateway: Served, number: int, body: Any, **options: Any) -> list[Answer]:
    return [await gateway.ask(body, **options) for _ in range(number)]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 529])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_retry_gets_the_upstreams_own_error_while_that_asks_to_be_left_alone(
    gateway: Served, upstream: ScriptedUpstream, time: Time, status: int, stream: bool
) -> None:
    upstream.script = failing(status, {"retry-after": "20", "x-ratelimit-remaining-requests": "0"})
    [first] = await asked(gateway, 1, agent(stream=stream))
    time.now += 7.5
    [second] = await asked(gateway, 1, agent(stream=stream))
    assert upstream.num_calls == 1
    assert (first.status, first.body, first.headers["retry-after"]) == (status, LIMITED, "20")
    assert (second.status, second.body) == (status, LIMITED)
    assert second.headers["retry-after"] == "13"  # 12.5 s are left
    assert second.headers["x-ratelimit-remaining-requests"] == "0"
    assert second.headers["content-type"] == "application/json"
    assert (second.cache_status, second.headers["age"]) == (NEGATIVE, "7")
    assert first.cache_status == "openclaw-cache; fwd=bypass; detail=tools"
    assert "age" not in first.headers
    time.now += 12.5
    upstream.script = answer
    [third] = await asked(gateway, 1, agent(stream=stream))
    assert (third.status, upstream.num_calls) == (200, 2)


async def test_without_a_word_from_the_upstream_the_first_retry_reaches_it_and_a_burst_of_them_does_not(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500)
    answers = await asked(gateway, 10, agent())
    assert upstream.num_calls == 2
    assert [one.status for one in answers] == [500] * 10
    assert [one.cache_status == NEGATIVE for one in answers] == [False, False] + [True] * 8
    assert all("retry-after" not in one.headers for one in answers)
    time.now += 0.5
    await asked(gateway, 3, agent())
    assert upstream.num_calls == 3


async def test_a_repeated_failure_is_counted_as_an_error_and_in_a_metric_of_its_own(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500, {"retry-after": "5"})
    await asked(gateway, 3, agent())
    assert await gateway.metric('openclaw_cache_requests_total{api="chat",outcome="error"}') == 3
    assert await gateway.metric("openclaw_cache_negative_hits_total") == 2


async def test_an_upstream_that_has_recovered_is_asked_within_the_bound_whatever_happened_before(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500)
    for _ in range(20):
        time.now += 5.0
        await gateway.ask(agent())
    assert upstream.num_calls == 20
    upstream.script = answer
    time.now += 4.9
    assert (await gateway.ask(agent())).cache_status == NEGATIVE
    time.now += 0.1
    assert (await gateway.ask(agent())).status == 200


async def test_a_success_makes_the_next_failure_a_first_one(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500)
    await asked(gateway, 2, agent())
    time.now += 1
    upstream.script = answer
    assert (await gateway.ask(agent())).status == 200
    upstream.script = failing(500)
    await asked(gateway, 2, agent())
    assert upstream.num_calls == 5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 413, 422, 501])
async def test_what_is_the_clients_own_fault_is_asked_every_time(
    gateway: Served, upstream: ScriptedUpstream, time: Time, status: int
) -> None:
    upstream.script = failing(status, {"retry-after": "20"})
    answers = await asked(gateway, 3, agent())
    assert [one.status for one in answers] == [status] * 3
    assert upstream.num_calls == 3


async def test_a_cacheable_request_is_spared_too_and_a_stored_reply_comes_first(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500, {"retry-after": "20"})
    await asked(gateway, 2, chat("one"))
    assert upstream.num_calls == 1
    upstream.script = answer
    await gateway.ask(chat("two"))
    upstream.script = failing(500, {"retry-after": "20"})
    await gateway.ask(chat("two"), headers={"cache-control": "no-cache"})
    assert (await gateway.ask(chat("two"))).is_hit


@pytest.mark.parametrize(
    "other",
    [
        {"body": agent(temperature=0.1)},
        {"body": agent(), "query": "?api-version=2"},
        {"body": agent(), "headers": {"anthropic-beta": "x"}},
        {"body": agent(), "headers": {"authorization": "Bearer other"}},
        {"body": agent(), "headers": {"cache-control": "no-cache"}},
        {"body": agent(), "headers": {"cache-control": "max-age=0"}},
    ],
)
async def test_another_request_or_client_or_one_that_wants_none_of_the_past_reaches_the_upstream(
    gateway: Served, upstream: ScriptedUpstream, time: Time, other: dict[str, Any]
) -> None:
    upstream.script = failing(429, {"retry-after": "30"})
    await gateway.ask(agent())
    again = await gateway.ask(**other)
    assert again.cache_status != NEGATIVE
    assert upstream.num_calls == 2


async def test_what_says_who_or_how_makes_no_other_request(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(429, {"retry-after": "30"})
    await gateway.ask(agent(), headers=TRACE)
    assert (await gateway.ask(agent(), headers=NEXT_SPAN)).cache_status == NEGATIVE


async def test_nothing_of_a_no_store_request_is_kept(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(429, {"retry-after": "30"})
    await asked(gateway, 2, agent(), headers={"cache-control": "no-store"})
    assert upstream.num_calls == 2


async def test_an_upstream_out_of_reach_is_tried_again_once_and_then_left_alone_for_a_moment(
    tmp_path: Path, free_port: int
) -> None:
    async with served(tmp_path, [f"http://127.0.0.1:{free_port}"]) as gateway:
        time = Time(gateway)
        answers = await asked(gateway, 4, agent())
        assert [one.status for one in answers] == [502] * 4
        assert {one.json()["error"]["code"] for one in answers} == {"upstream_unreachable"}
        assert [one.cache_status == NEGATIVE for one in answers] == [False, False, True, True]
        pod = await ScriptedUpstream(answer).start(free_port)
        time.now += 0.5
        assert (await gateway.ask(agent())).status == 200
        await pod.stop()


async def test_a_gateway_repeats_a_refused_request_only_where_its_client_has_not_begun_to(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(429)
    for _ in range(4):
        await gateway.ask(agent())
        time.now += 10
    assert upstream.num_calls == 2 + 3  # upstreams.retries: 1


async def test_with_negative_ttl_0_every_request_reaches_the_upstream(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = failing(500, {"retry-after": "20"})
    async with served(tmp_path, [upstream.url], result_cache__negative_ttl="0s") as gateway:
        await asked(gateway, 3, agent())
    assert upstream.num_calls == 3


async def test_with_the_result_cache_off_so_is_the_memory_of_failures(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = failing(500, {"retry-after": "20"})
    async with served(tmp_path, [upstream.url], result_cache__enabled=False) as gateway:
        await asked(gateway, 3, agent())
    assert upstream.num_calls == 3


async def test_an_error_of_more_than_64_kb_is_passed_on_and_not_kept(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    long = json.dumps({"error": {"message": "x" * 70_000}}).encode()
    upstream.script = failing(500, {"retry-after": "20"}, long)
    answers = await asked(gateway, 2, agent())
    assert [one.body for one in answers] == [long, long]
    assert upstream.num_calls == 2


async def test_an_invalidation_forgets_failures(
    gateway: Served, upstream: ScriptedUpstream, time: Time
) -> None:
    upstream.script = failing(500, {"retry-after": "20"})
    await gateway.ask(agent())
    await gateway.app.gateway.invalidate("pod-model")
    await gateway.ask(agent())
    assert upstream.num_calls == 2


# A retry of a run whose first attempt is still in the air


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_retry_of_the_same_run_reads_the_flight_in_the_air(
    gateway: Served, upstream: ScriptedUpstream, stream: bool, fails: bool
) -> None:
    gate = Gate(failing(500) if fails else answer)
    upstream.script = gate
    tasks = [
        asyncio.create_task(gateway.ask(agent(stream=stream), headers=headers))
        for headers in (TRACE, NEXT_SPAN, NEXT_SPAN)
    ]
    flights = gateway.app.gateway.flights._by_key
    async with asyncio.timeout(20):
        while sum(flight.num_readers for flight in flights.values()) != 3:
            await asyncio.sleep(0.005)
    gate.open()
    answers = await asyncio.gather(*tasks)
    assert upstream.num_calls == 1
    assert len({one.body for one in answers}) == 1
    assert {one.status for one in answers} == {500 if fails else 200}
    statuses = sorted(one.cache_status or "" for one in answers)
    alone, joined = (
        "openclaw-cache; fwd=bypass; detail=tools",
        "openclaw-cache; fwd=bypass; detail=tools; collapsed",
    )
    assert statuses == [alone, joined, joined]
    again = await gateway.ask(agent(stream=stream), headers=NEXT_SPAN)  # nothing of it was stored
    assert upstream.num_calls == 2
    assert again.cache_status == alone


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (agent(), {"traceparent": TRACE["traceparent"]}),
        (agent(), {"session_id": "1234:0"}),
        (agent(), {**TRACE, "traceparent": TRACE["traceparent"].replace("0af7", "1af7")}),
        (agent(), {**TRACE, "authorization": "Bearer other"}),
        (agent(temperature=1), TRACE),
        (agent(stream=True), TRACE),
    ],
)
async def test_any_other_request_with_tools_gets_a_reply_of_its_own(
    gateway: Served, upstream: ScriptedUpstream, body: Any, headers: dict[str, str]
) -> None:
    gate = Gate(answer)
    upstream.script = gate
    tasks = [asyncio.create_task(gateway.ask(agent(), headers=TRACE))]
    await upstream.called(1)
    tasks.append(asyncio.create_task(gateway.ask(body, headers=headers)))
    await upstream.called(2)
    gate.open()
    assert [one.status for one in await asyncio.gather(*tasks)] == [200, 200]


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (agent(), {"traceparent": TRACE["traceparent"]}),
        (agent(), {"session_id": "1234:0"}),
        (agent(), TRACE | {"cache-control": "no-cache"}),
        (agent(temperature=1), TRACE),
    ],
    ids=["no session", "no trace", "no cache", "chance"],
)
async def test_the_same_bytes_twice_are_two_requests_where_they_cannot_be_known_for_a_retry(
    gateway: Served, upstream: ScriptedUpstream, body: Any, headers: dict[str, str]
) -> None:
    gate = Gate(answer)
    upstream.script = gate
    tasks = [asyncio.create_task(gateway.ask(body, headers=headers)) for _ in range(2)]
    await upstream.called(2)
    gate.open()
    assert [one.status for one in await asyncio.gather(*tasks)] == [200, 200]


# The storms that OpenClaw really makes


@pytest.mark.parametrize(
    ("label", "status", "retry_after", "num_asked", "num_calls"),
    [
        ("err.500", 500, None, 7, 7),
        ("err.500", 500, "30", 7, 4),
        # The gateway itself repeats a 429 once, but no more for a body that it has seen fail: 20 calls without that.
        ("err.429", 429, None, 10, 14),
        ("err.429", 429, "30", 10, 5),
    ],
)
async def test_a_captured_storm_reaches_the_upstream_as_often_as_that_allows(
    gateway: Served,
    upstream: ScriptedUpstream,
    time: Time,
    data_root: Path,
    label: str,
    status: int,
    retry_after: str | None,
    num_asked: int,
    num_calls: int,
) -> None:
    upstream.script = failing(status, {"retry-after": retry_after} if retry_after else None)
    captured = json.loads((data_root / "openclaw" / "err.json").read_bytes())["requests"]
    storm = [one for one in captured if one["label"] == label]
    for one in storm:
        time.now = one["t"]
        raw = json.dumps(one["body"], ensure_ascii=False, separators=(",", ":")).encode()
        headers = {n: v for n, v in one["headers"] if n in ("authorization", "traceparent", "content-type")}
        got = await gateway.ask(raw=raw, headers=headers)
        assert (got.status, got.body) == (status, LIMITED)
    assert (len(storm), upstream.num_calls) == (num_asked, num_calls)
