"""Embeddings when the upstream misbehaves, when requests meet in the air, and when clients leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import RequestError
from support.embeddings_site import (
    COLLAPSED,
    HIT,
    MISS,
    STORED,
    Site,
    embed,
    inputs_of,
    reply_to,
    running_site,
    vectors_for,
    vectors_in,
)
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, says, sends_raw


@pytest.fixture
async def pod() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(embed) as running:
        yield running
        assert running.failures == []


@pytest.fixture
async def site(tmp_path: Path, pod: ScriptedUpstream) -> AsyncIterator[Site]:
    async with running_site(tmp_path, pod) as running:
        yield running
        assert len(running.embeddings.fetches) == 0


def whole(body: bytes, status: int = 200, **headers: str) -> Callable[[Exchange], Awaitable[None]]:
    async def script(exchange: Exchange) -> None:
        await exchange.whole(body, status, {"content-type": "application/json", **headers})

    return script


async def waiting(site: Site, num_waiting: int) -> None:
    """Until this many requests wait for calls that may be joined."""
    async with asyncio.timeout(10):
        while sum(f._num_waiting for f in set(site.embeddings.fetches._by_key.values())) < num_waiting:
            await asyncio.sleep(0.002)


TWO = {"input": ["a", "bb"]}
GOOD = reply_to({"model": "m", **TWO})
SWAPPED = GOOD.replace(b'"index": 0', b'"index": 9').replace(b'"index": 1', b'"index": 0')
FAULTY = {
    "out of order": SWAPPED.replace(b'"index": 9', b'"index": 1'),
    "an index twice": GOOD.replace(b'"index": 1', b'"index": 0'),
    "too few": reply_to({"model": "m", "input": ["a"]}),
    "too many": reply_to({"model": "m", "input": ["a", "bb", "ccc"]}),
    "NaN": GOOD.replace(b"[0.", b"[NaN, 0."),
    "null": GOOD.replace(b"[0.", b"[null, 0.", 1),
    "unequal": GOOD.replace(b"[0.", b"[1, 0.", 1),
    "an error object": b'{"error":{"message":"model is loading"}}',
    "HTML": b"<html>busy</html>",
    "nothing": b"",
    "cut off": GOOD[:-20],
}


@pytest.mark.parametrize("reply", FAULTY.values(), ids=FAULTY.keys())
async def test_a_faulty_reply_is_passed_on_as_it_is_and_not_kept(site: Site, reply: bytes) -> None:
    site.pod.next_scripts = [whole(reply)]
    answered = await site.ask(TWO)
    assert (answered.status, answered.body, answered.cache_status) == (200, reply, MISS)
    again = await site.ask(TWO)
    assert (again.cache_status, vectors_in(again.body)) == (STORED, vectors_for(TWO))


@pytest.mark.parametrize("reply", FAULTY.values(), ids=FAULTY.keys())
async def test_a_faulty_reply_to_a_part_makes_the_request_go_upstream_as_it_came(
    site: Site, reply: bytes
) -> None:
    """Nobody could tell whose vectors those are; what the upstream says to the whole is the client's to judge."""
    await site.ask({"input": "ccc"})
    site.pod.next_scripts = [whole(reply), whole(b'{"whole":1}')]
    answered = await site.ask({"input": ["ccc", "a", "bb"]})
    assert site.asked[1:] == [["a", "bb"], ["ccc", "a", "bb"]]
    assert (answered.status, answered.body, answered.cache_status) == (200, b'{"whole":1}', MISS)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b'{"error":{"message":"too long"}}'),
        (401, b""),
        (429, b'{"error":{}}'),
        (500, b"<html>"),
    ],
)
async def test_a_refusal_reaches_the_client_as_it_is_and_nothing_is_kept(
    site: Site, status: int, body: bytes
) -> None:
    site.pod.next_scripts = [whole(body, status, **{"retry-after": "30", "x-ratelimit-reset": "9"})]
    answered = await site.ask(TWO)
    assert (answered.status, answered.body, answered.cache_status) == (status, body, MISS)
    assert {(b"retry-after", b"30"), (b"x-ratelimit-reset", b"9")} <= set(answered.headers)
    assert (await site.ask(TWO)).cache_status == STORED


async def test_a_refusal_of_the_missing_inputs_is_the_refusal_of_the_request(site: Site) -> None:
    await site.ask({"input": "a"})
    site.pod.next_scripts = [whole(b'{"error":{"message":"no"}}', 400)]
    answered = await site.ask(TWO)
    assert (answered.status, answered.body) == (400, b'{"error":{"message":"no"}}')
    assert site.asked == ["a", ["bb"]]


async def test_a_reply_that_breaks_off_is_an_error_and_not_kept(site: Site) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(GOOD)
    site.pod.next_scripts = [sends_raw(head + GOOD[:-9])]
    with pytest.raises(RequestError) as failed:
        await site.ask(TWO)
    assert (failed.value.status, failed.value.code) == (502, "upstream_broken")
    assert (await site.ask(TWO)).cache_status == STORED


async def test_vectors_of_two_models_never_stand_in_one_reply(site: Site) -> None:
    """A name that moves on to another model: what the old one gave is asked for anew."""

    async def moved_on(exchange: Exchange) -> None:
        await exchange.whole(reply_to(exchange.call.json(), model="embedder-2"))

    await site.ask({"input": "a"})
    site.pod.script = moved_on
    answered = await site.ask(TWO)
    assert site.asked == ["a", ["bb"], ["a", "bb"]]
    assert answered.body == reply_to({"model": "m", **TWO}, model="embedder-2")
    assert (await site.ask({"input": "a"})).cache_status == HIT
    assert json.loads((await site.ask({"input": "a"})).body)["model"] == "embedder-2"


async def test_of_stored_vectors_of_two_models_those_of_the_older_are_asked_for_anew(site: Site) -> None:
    site.pod.next_scripts = [whole(reply_to({"model": "m", "input": "a"}, model="embedder-0"))]
    await site.ask({"input": "a"})
    site.now += 1
    await site.ask({"input": "bb"})
    answered = await site.ask(TWO)
    assert site.asked == ["a", "bb", ["a"]]
    assert (json.loads(answered.body)["model"], vectors_in(answered.body)) == ("embedder-1", vectors_for(TWO))


async def test_vectors_of_two_lengths_never_stand_in_one_reply(site: Site) -> None:
    site.pod.next_scripts = [whole(b'{"data":[{"index":0,"embedding":[1,2]}],"model":"embedder-1"}')]
    await site.ask({"input": "a"})
    answered = await site.ask(TWO)
    assert site.asked == ["a", ["bb"], ["a", "bb"]]
    assert vectors_in(answered.body) == vectors_for(TWO)


async def test_a_reply_to_what_was_invalidated_meanwhile_is_not_kept(site: Site) -> None:
    gate = Gate(embed)
    site.pod.next_scripts = [gate]
    asking = asyncio.create_task(site.ask(TWO))
    await site.pod.called()
    outdated_at = site.embeddings.outdated_at
    assert isinstance(outdated_at, dict)
    outdated_at["embedder-1"] = asyncio.get_running_loop().time()  # monotonic, as the gateway's own
    site.embeddings.fetches.close()
    late = asyncio.create_task(site.ask(TWO))
    await site.pod.called(2)  # nobody joins what was asked before
    gate.open()
    assert (await asking).cache_status == MISS
    assert (await late).cache_status == STORED


# In the air.


async def test_twenty_identical_requests_at_once_are_one_call(site: Site) -> None:
    gate = Gate(embed)
    site.pod.script = gate
    asking = [asyncio.create_task(site.ask(TWO)) for _ in range(20)]
    await waiting(site, 20)
    gate.open()
    answers = await asyncio.gather(*asking)
    assert site.pod.num_calls == 1
    assert {answer.body for answer in answers} == {GOOD}
    assert sorted(answer.cache_status for answer in answers) == [COLLAPSED] * 19 + [STORED]
    assert sorted(answer.cached_tokens for answer in answers) == [0] + [7] * 19


async def test_requests_that_overlap_fetch_each_input_once(site: Site) -> None:
    gate = Gate(embed)
    site.pod.script = gate
    bodies = [
        {"input": ["a", "bb"]},
        {"input": ["ccc", "bb"]},
        {"input": ["bb", "ccc", "a"]},
        {"input": "ccc"},
    ]
    asking = []
    for i, body in enumerate(bodies):
        asking.append(asyncio.create_task(site.ask(body)))
        await waiting(site, [1, 3, 5, 6][i])
    gate.open()
    answers = await asyncio.gather(*asking)
    assert site.asked == [["a", "bb"], ["ccc"]]
    assert [vectors_in(answer.body) for answer in answers] == [vectors_for(body) for body in bodies]
    assert [answer.cache_status for answer in answers] == [STORED, STORED, COLLAPSED, COLLAPSED]
    assert [answer.prompt_tokens for answer in answers] == [7, 10, 12, 5]  # bb: 5 of 7 by bytes
    assert [answer.cached_tokens for answer in answers] == [0, 5, 12, 5]


async def test_the_first_to_ask_may_leave_without_harm_to_those_who_joined(site: Site) -> None:
    gate = Gate(embed)
    site.pod.script = gate
    leader = asyncio.create_task(site.ask(TWO))
    await waiting(site, 1)
    follower = asyncio.create_task(site.ask(TWO))
    await waiting(site, 2)
    leader.cancel()
    await asyncio.wait({leader})
    gate.open()
    assert vectors_in((await follower).body) == vectors_for(TWO)
    assert (leader.cancelled(), site.pod.num_calls) == (True, 1)


async def test_when_all_have_left_the_upstream_is_let_go_and_the_next_one_asks_anew(site: Site) -> None:
    site.pod.next_scripts = [Gate(embed)]
    asking = [asyncio.create_task(site.ask(TWO)) for _ in range(3)]
    await waiting(site, 3)
    call = await site.pod.called()
    for task in asking:
        task.cancel()
    async with asyncio.timeout(5):
        await call.closed.wait()
    assert (await site.ask(TWO)).cache_status == STORED


async def test_a_failed_call_fails_all_who_asked_the_same_and_nobody_after_them(site: Site) -> None:
    gate = Gate(whole(b'{"error":{"message":"down"}}', 500))
    site.pod.next_scripts = [gate]
    asking = [asyncio.create_task(site.ask(TWO)) for _ in range(5)]
    await waiting(site, 5)
    gate.open()
    answers = await asyncio.gather(*asking)
    assert [(a.status, a.body) for a in answers] == [(500, b'{"error":{"message":"down"}}')] * 5
    assert (await site.ask(TWO)).cache_status == STORED
    assert site.pod.num_calls == 2


async def test_a_broken_call_is_the_same_error_to_all_who_asked_the_same(site: Site) -> None:
    gate = Gate(sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{"))
    site.pod.next_scripts = [gate]
    asking = [asyncio.create_task(site.ask(TWO)) for _ in range(3)]
    await waiting(site, 3)
    gate.open()
    failures = await asyncio.gather(*asking, return_exceptions=True)
    assert [f.code for f in failures if isinstance(f, RequestError)] == ["upstream_broken"] * 3
    assert site.pod.num_calls == 1


@pytest.mark.parametrize(
    "failure",
    [whole(b'{"error":{"message":"input 0 is too long"}}', 400), sends_raw(b"", reset=True)],
    ids=["refused", "broken"],
)
async def test_the_fault_of_another_requests_input_is_not_ours(site: Site, failure: Any) -> None:
    """One batch with an input that the upstream refuses; another request waits for its good one."""
    gate = Gate(failure)
    site.pod.next_scripts = [gate]
    theirs = asyncio.create_task(site.ask({"input": ["much too long", "bb"]}))
    await waiting(site, 1)
    ours = asyncio.create_task(site.ask({"input": ["bb"]}))
    await waiting(site, 2)
    gate.open()
    answered = await ours
    assert (answered.status, vectors_in(answered.body)) == (200, vectors_for({"input": ["bb"]}))
    assert site.asked[1] == ["bb"]
    outcomes = await asyncio.gather(theirs, return_exceptions=True)
    assert [
        o.status for o in outcomes if not isinstance(o, BaseException) or isinstance(o, RequestError)
    ] in ([400], [502])


async def test_a_strange_reply_to_identical_requests_reaches_them_all_by_one_call(site: Site) -> None:
    strange = b'{"data":[{"index":0,"embeddings":[[1],[2]]}]}'
    gate = Gate(whole(strange))
    site.pod.next_scripts = [gate]
    asking = [asyncio.create_task(site.ask({"input": ["a"]})) for _ in range(4)]
    await waiting(site, 4)
    gate.open()
    assert {a.body for a in await asyncio.gather(*asking)} == {strange}
    assert site.pod.num_calls == 1


@pytest.mark.parametrize("value", [b"no-cache", b"no-store"])
async def test_who_wants_no_cache_joins_nobody_and_is_joined_by_nobody(site: Site, value: bytes) -> None:
    gate = Gate(embed)
    site.pod.script = gate
    asking = [asyncio.create_task(site.ask(TWO, headers=[(b"cache-control", value)]))]
    await site.pod.called()
    asking.append(asyncio.create_task(site.ask(TWO)))
    await waiting(site, 1)
    asking.append(asyncio.create_task(site.ask(TWO, headers=[(b"cache-control", value)])))
    await site.pod.called(3)
    gate.open()
    assert all(vectors_in(a.body) == vectors_for(TWO) for a in await asyncio.gather(*asking))
    assert site.pod.num_calls == 3


async def test_namespaces_do_not_wait_for_each_other(site: Site) -> None:
    gate = Gate(embed)
    site.pod.script = gate
    asking = [asyncio.create_task(site.ask(TWO, namespace=name)) for name in ("one", "two")]
    await site.pod.called(2)
    gate.open()
    assert [a.cache_status for a in await asyncio.gather(*asking)] == [STORED, STORED]


async def test_a_reply_without_usage_has_none_when_it_is_told_again(site: Site) -> None:
    data = [{"object": "embedding", "index": i, "embedding": [i, 0.5]} for i, _ in enumerate(inputs_of(TWO))]
    site.pod.script = says({"object": "list", "data": data, "model": "e"})
    await site.ask(TWO)
    answered = await site.ask(TWO)
    assert (answered.cache_status, answered.prompt_tokens) == (HIT, None)
    assert "usage" not in json.loads(answered.body)


async def test_what_was_computed_anew_meanwhile_is_not_replaced_by_what_was_asked_for_before(
    site: Site,
) -> None:
    gate = Gate(embed)
    site.pod.next_scripts = [gate]
    asking = asyncio.create_task(site.ask(TWO))
    await site.pod.called()
    site.now += 1
    await site.ask(TWO, headers=[(b"cache-control", b"no-cache")])
    site.now += 4
    gate.open()
    assert (await asking).cache_status == MISS
    site.now += 4
    assert (await site.ask(TWO)).age_s == 8


async def test_what_lands_while_the_store_is_asked_is_not_fetched_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = asyncio.Event()

    async def late(*_: object) -> None:
        await answers.wait()

    with monkeypatch.context() as patch:
        patch.setattr(site.embeddings.cache, "find", late)
        asking = asyncio.create_task(site.ask(TWO))
        await asyncio.sleep(0.05)  # by then it asks the store
    await site.ask(TWO)
    answers.set()
    assert (await asking).cache_status == HIT
    assert site.pod.num_calls == 1
