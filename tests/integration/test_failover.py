"""Several pods behind one upstream: who is asked, who is asked again, who is left out and comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import ejection
from openclaw_cache.gateway.upstream import Upstream
from support.scripted_upstream import (
    Gate,
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


async def who(upstream: Upstream) -> str:
    """The pod that answers."""
    reply = await ask(upstream)
    assert reply.status == 200
    name: str = json.loads(await whole(reply))["from"]
    return name


def states(upstream: Upstream) -> list[str]:
    return [pod["state"] for pod in upstream.status()]


# Who is asked.


async def test_requests_are_spread_by_weight(first: ScriptedUpstream, second: ScriptedUpstream) -> None:
    async with calling(first.url, second.url, weights=[3, 1]) as upstream:
        for _ in range(8):
            await who(upstream)
    assert (first.num_calls, second.num_calls) == (6, 2)


async def test_a_pods_own_path_stands_before_the_requests(first: ScriptedUpstream) -> None:
    async with calling(first.url + "/team/a/v1/") as upstream:
        await who(upstream)
    assert first.calls[0].target == "/team/a/v1/chat/completions"


@pytest.mark.parametrize(
    ("kind", "name", "value"), [("openai", "authorization", "Bearer k"), ("anthropic", "x-api-key", "k")]
)
async def test_the_operators_key_goes_out_as_the_api_wants_it(
    first: ScriptedUpstream, kind: str, name: str, value: str
) -> None:
    async with calling(first.url, kind=kind, api_key="k") as upstream:
        await who(upstream)
        assert "'k'" not in repr(upstream)
    assert first.calls[0].header(name) == value
    assert len({"authorization", "x-api-key"} & first.calls[0].names()) == 1


# Who is asked again.

DEAD: dict[str, Script] = {
    "reset": sends_raw(b"", reset=True),
    "close": sends_raw(b""),
    "close in the head": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-ty"),
    "502": says({"error": "bad gateway"}, status=502),
    "503": says({"error": "unavailable"}, status=503),
    "504": says({"error": "gateway timeout"}, status=504),
}


@pytest.mark.parametrize("how", DEAD)
async def test_a_request_that_is_safe_to_repeat_is_answered_by_another_pod(
    first: ScriptedUpstream, second: ScriptedUpstream, how: str
) -> None:
    retries = []
    first.script = DEAD[how]
    async with calling(first.url, second.url, on_retry=lambda: retries.append(1)) as upstream:
        assert await who(upstream) == "second"
    assert (first.num_calls, second.num_calls, len(retries)) == (1, 1, 1)
    assert first.calls[0].body == second.calls[0].body


@pytest.mark.parametrize("how", ["reset", "close", "close in the head"])
async def test_a_request_that_leaves_something_behind_is_not_repeated_where_it_may_have_been_computed(
    first: ScriptedUpstream, second: ScriptedUpstream, how: str
) -> None:
    first.script = DEAD[how]
    async with calling(first.url, second.url) as upstream:
        with pytest.raises(RequestError) as failed:
            await ask(upstream, repeatable=False)
    assert (failed.value.status, failed.value.code) == (502, "upstream_broken")
    assert (first.num_calls, second.num_calls) == (1, 0)


@pytest.mark.parametrize("status", [502, 504])
async def test_a_proxys_error_about_a_request_that_leaves_something_behind_is_passed_on(
    first: ScriptedUpstream, second: ScriptedUpstream, status: int
) -> None:
    first.script = DEAD[str(status)]
    async with calling(first.url, second.url) as upstream:
        assert (await ask(upstream, repeatable=False)).status == status
    assert second.num_calls == 0


async def test_a_request_that_reached_nobody_is_repeated_even_if_it_leaves_something_behind(
    second: ScriptedUpstream,
) -> None:
    async with calling(closed_url(), second.url, retries=0) as upstream:
        assert (await ask(upstream, repeatable=False)).status == 200


@pytest.mark.parametrize("how", ["reset", "502", "503"])
async def test_nothing_is_repeated_where_the_operator_allows_no_retries(
    first: ScriptedUpstream, second: ScriptedUpstream, how: str
) -> None:
    first.script = DEAD[how]
    async with calling(first.url, second.url, retries=0) as upstream:
        if how == "reset":
            with pytest.raises(RequestError):
                await ask(upstream)
        else:
            assert (await ask(upstream)).status == int(how)
    assert second.num_calls == 0


async def test_a_break_on_the_only_pod_is_never_repeated(first: ScriptedUpstream) -> None:
    for method in ("POST", "DELETE"):
        first.script = DEAD["reset"]
        async with calling(first.url, retries=5) as upstream:
            with pytest.raises(RequestError):
                await ask(upstream, method=method)
    assert [c.method for c in first.calls] == ["POST", "DELETE"]


async def test_a_break_after_the_head_is_never_repeated(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.script = sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")
    async with calling(first.url, second.url) as upstream:
        reply = await ask(upstream)
        assert await reply.read() == b"half"
        with pytest.raises(RequestError):
            await reply.read()
    assert second.num_calls == 0


@pytest.mark.parametrize("retry_after", ["0", "3600"])
@pytest.mark.parametrize("status", [429, 503])
async def test_another_pod_answers_at_once_for_one_that_is_busy(
    first: ScriptedUpstream, second: ScriptedUpstream, status: int, retry_after: str
) -> None:
    first.script = says({}, status=status, headers={"retry-after": retry_after})
    async with calling(first.url, second.url) as upstream:
        assert await who(upstream) == "second"
        assert states(upstream) == ["up", "up"]


async def test_where_all_pods_are_busy_the_last_answer_is_the_clients(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.script = says({"from": "first"}, status=503, headers={"retry-after": "30"})
    told = {"retry-after": "20", "x-ratelimit-remaining-requests": "0"}
    second.script = says({"from": "second"}, status=429, headers=told)
    async with calling(first.url, second.url) as upstream:
        reply = await ask(upstream)
        assert reply.status == 429
        names = dict(reply.headers)
        assert {name: names[name.encode()].decode() for name in told} == told
        assert json.loads(await whole(reply)) == {"from": "second"}
    assert (first.num_calls, second.num_calls) == (1, 1)


async def test_an_answer_is_better_than_none_where_the_other_pod_is_not_there(
    first: ScriptedUpstream,
) -> None:
    first.script = says({"error": "loading"}, status=503)
    async with calling(first.url, closed_url()) as upstream:
        reply = await ask(upstream)
        assert (reply.status, json.loads(await whole(reply))) == (503, {"error": "loading"})


async def test_a_request_visits_no_more_pods_than_the_operator_allows(first: ScriptedUpstream) -> None:
    first.script = says({}, status=503)
    urls = [f"{first.url}/{i}" for i in range(5)]  # one server that stands for five
    async with calling(*urls, retries=2) as upstream:
        assert (await ask(upstream)).status == 503
    assert [c.target.split("/")[1] for c in first.calls] == ["0", "1", "2"]


async def test_a_kept_connection_that_closed_is_replaced_by_a_new_one_and_not_by_another_kept_one(
    first: ScriptedUpstream,
) -> None:
    gate = Gate(says({"from": "first"}))
    first.script = gate
    async with calling(first.url, retries=0) as upstream:
        both = [asyncio.create_task(who(upstream)) for _ in range(2)]
        await first.called(2)
        gate.open()
        assert await asyncio.gather(*both) == ["first", "first"]
        first.next_scripts = [sends_raw(b"", reset=True)]
        assert await who(upstream) == "first"
        assert states(upstream) == ["up"]
        assert upstream.status()[0]["num_failures"] == 0  # the race is HTTP's own
    assert [c.connection for c in first.calls] == [0, 1, 0, 2]


# Who is left out.


async def test_a_pod_that_is_not_there_is_asked_once_and_then_left_out(second: ScriptedUpstream) -> None:
    retries = []
    async with calling(closed_url(), second.url, on_retry=lambda: retries.append(1)) as upstream:
        for _ in range(5):
            assert await who(upstream) == "second"
        assert states(upstream) == ["ejected", "up"]
        assert upstream.status()[0]["last_error"] == "ConnectionRefusedError"
        assert upstream.is_up
    assert len(retries) == 1


@pytest.mark.parametrize("how", DEAD)
async def test_a_pod_that_fails_three_times_in_a_row_is_left_out(
    first: ScriptedUpstream, second: ScriptedUpstream, how: str
) -> None:
    first.script = DEAD[how]
    async with calling(first.url, second.url) as upstream:
        for _ in range(12):
            assert await who(upstream) == "second"
    assert first.num_calls == 3


async def test_a_pod_that_gives_no_head_in_time_three_times_is_left_out(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.script = Gate()
    async with calling(first.url, second.url, idle_timeout_s=0.3) as upstream:
        for _ in range(3):
            with pytest.raises(RequestError) as failed:
                await ask(upstream)
            assert (failed.value.status, failed.value.code) == (504, "upstream_timeout")
            assert await who(upstream) == "second"
        assert states(upstream) == ["ejected", "up"]
        assert await who(upstream) == "second"


async def test_where_every_pod_is_left_out_they_are_tried_all_the_same(first: ScriptedUpstream) -> None:
    first.script = DEAD["502"]
    async with calling(first.url, closed_url()) as upstream:
        for _ in range(4):
            await ask(upstream)
        assert states(upstream) == ["ejected", "ejected"]
        assert not upstream.is_up
        first.script = says({"from": "first"})
        assert await who(upstream) == "first"
        assert (states(upstream), upstream.is_up) == (["up", "ejected"], True)


async def test_overload_never_takes_an_upstream_down(first: ScriptedUpstream) -> None:
    first.script = says({}, status=503, headers={"retry-after": "60"})
    async with calling(first.url) as upstream:
        for _ in range(5):
            assert (await ask(upstream)).status == 503
        assert (upstream.is_up, states(upstream)) == (True, ["up"])


async def test_a_client_that_leaves_during_a_trial_does_not_block_the_pod(
    first: ScriptedUpstream, second: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ejection, "FIRST_EJECTION_S", 0.0)
    first.script = DEAD["502"]
    async with calling(first.url, second.url) as upstream:
        for _ in range(6):
            await ask(upstream)
        assert states(upstream) == ["probing", "up"]
        first.script = Gate()
        calls = [asyncio.create_task(ask(upstream)) for _ in range(2)]
        await first.called(4)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        first.script = says({"from": "first"})
        assert {await who(upstream) for _ in range(2)} == {"first", "second"}
        assert states(upstream) == ["up", "up"]
