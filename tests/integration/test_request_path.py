"""What each request went through, and why it missed, as operators see it: on a real gateway with a real store."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.gateway.misses import Misses
from support.scripted_upstream import Exchange, Gate, ScriptedUpstream, reply, says
from support.served import Answer, Served, chat, served

SECRET = "the harbour master's password is heron"
KEYS = [{"key": "sk-alpha", "namespace": "alpha"}, {"key": "sk-beta", "namespace": "beta"}]
AS_ALPHA, AS_BETA = ({"authorization": f"Bearer {key['key']}"} for key in KEYS)


async def vectors(exchange: Exchange) -> None:
    """A pod that embeds."""
    inputs = exchange.call.json()["input"]
    data = [{"object": "embedding", "index": i, "embedding": [0.5]} for i, _ in enumerate(inputs)]
    usage = {"prompt_tokens": len(inputs), "total_tokens": len(inputs)}
    await exchange.json({"object": "list", "model": "pod-model", "data": data, "usage": usage})


async def rows(gateway: Served, query: str = "") -> list[dict[str, Any]]:
    answer = await gateway.get(f"/admin/requests{query}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json()["requests"]
    return found


async def row_of(gateway: Served, answer: Answer) -> dict[str, Any]:
    mine = answer.headers["x-request-id"]
    return next(row for row in await rows(gateway) if row["request_id"] == mine)


async def miss_of(gateway: Served, *args: Any, **fields: Any) -> str:
    miss: str = (await row_of(gateway, await gateway.ask(*args, **fields)))["miss"]
    return miss


async def test_a_new_prompt_misses_as_new_and_a_hit_has_no_reason(gateway: Served) -> None:
    first, second = await gateway.ask(), await gateway.ask()
    told = [await row_of(gateway, answer) for answer in (first, second)]
    assert [(row["outcome"], row["miss"]) for row in told] == [("miss", "new"), ("exact", "")]
    assert told[0]["prompt_id"] == told[1]["prompt_id"]
    assert len(bytes.fromhex(told[0]["prompt_id"])) == 8


async def test_a_reply_that_became_too_old_has_expired(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path, [upstream.url], result_cache__ttl="300ms") as gateway:
        await gateway.ask()
        await asyncio.sleep(0.4)
        assert await miss_of(gateway) == "expired"


async def test_an_entry_that_only_the_store_had_has_expired_too(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """As after a restart: what the process knows of it, it knows from the store."""
    async with served(tmp_path, [upstream.url], result_cache__ttl="1s") as gateway:
        await gateway.ask()
        await gateway.written()
        gateway.forget_memory()
        gateway.app.gateway.missed.misses = Misses()
        assert (await gateway.ask()).is_hit
        await asyncio.sleep(1.1)
        assert await miss_of(gateway) == "expired"


async def test_a_reply_that_an_operator_removed_was_evicted(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url]) as gateway:
        await gateway.ask(chat("the first"))
        order = {"pattern": "*the first*"}
        async with gateway.session.post(gateway.url + "/admin/evict", json=order) as response:
            assert (await response.json())["num_matched"] == 1
        assert await miss_of(gateway, chat("the first")) == "evicted"


async def test_a_reply_that_left_memory_for_want_of_space_and_is_in_no_store_was_evicted(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply("x" * 500))
    async with served(tmp_path, [upstream.url], result_cache__max_memory="16kB") as gateway:
        for i in range(40):
            await gateway.ask(chat(f"question {i}"))
        assert gateway.app.gateway.cache.stats().num_evictions > 0
        await gateway.written()
        store = gateway.app.gateway.cache._store
        keys = [key async for key in store.scan(b"r:")]
        await store.delete(*keys)
        assert await miss_of(gateway, chat("question 0")) == "evicted"


async def lies_broken(gateway: Served) -> None:
    """Only the store has the entries, and each has lost its last byte."""
    await gateway.written()
    gateway.forget_memory()
    store = gateway.app.gateway.cache._store
    for key in [key async for key in store.scan(b"r:")]:
        stored = await store.get(key)
        assert stored is not None
        await store.put(key, stored[:-1], ttl_s=60)


async def test_a_stored_reply_that_is_damaged_is_corrupt_and_the_next_one_takes_its_place(
    gateway: Served,
) -> None:
    await gateway.ask()
    await lies_broken(gateway)
    answer = await gateway.ask()
    shown = (await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")).json()
    assert (shown["request"]["outcome"], shown["request"]["miss"]) == ("miss", "corrupt")
    assert ("result", "miss (corrupt)") in [(step["name"], step["result"]) for step in shown["steps"]]
    assert await gateway.metric('openclaw_cache_misses_total{reason="corrupt"}') == 1
    assert await gateway.metric('openclaw_cache_degraded_total{what="entry_corrupt"}') == 1
    await gateway.written()
    gateway.forget_memory()
    assert await miss_of(gateway) == ""


async def test_a_damaged_vector_is_corrupt_and_others_of_the_request_have_their_own_reason(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = vectors

    async def miss(*inputs: str) -> str:
        return await miss_of(gateway, {"model": "pod-model", "input": list(inputs)}, path="/v1/embeddings")

    await miss("one")
    await lies_broken(gateway)
    assert await miss("two", "one") == "new"  # of the first that is not there
    await miss("one")
    await lies_broken(gateway)
    assert await miss("one", "two") == "corrupt"


async def test_a_store_that_fails_during_the_look_up_is_told_and_not_that_the_reply_was_evicted(
    gateway: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gateway.ask()
    await gateway.written()
    gateway.forget_memory()

    async def fails(_store: object, _key: bytes) -> bytes | None:
        raise StoreUnavailableError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(type(gateway.app.gateway.cache._store), "get", fails)
        assert await miss_of(gateway) == "store"
    assert await gateway.metric('openclaw_cache_misses_total{reason="store"}') == 1


async def test_an_invalidated_reply_is_of_another_version(gateway: Served) -> None:
    await gateway.ask()
    await gateway.session.post(gateway.url + "/admin/invalidate", json={"model": "pod-model"})
    assert await miss_of(gateway) == "version"


async def test_other_headers_that_can_change_a_reply_are_told_and_others_are_not(gateway: Served) -> None:
    await gateway.ask(headers={"openai-beta": "one"})
    assert await miss_of(gateway, headers={"openai-beta": "two"}) == "headers"
    assert await miss_of(gateway, headers={"openai-beta": "two", "user-agent": "another"}) == ""


async def test_a_reply_that_was_cut_at_its_length_is_unstored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply("cut", finish="length"))
    await gateway.ask()
    again = await gateway.ask()
    assert (await row_of(gateway, again))["miss"] == "unstored"
    shown = (await gateway.get(f"/admin/explain/{again.headers['x-request-id']}")).json()
    assert ("store", "refused (truncated)") in [(step["name"], step["result"]) for step in shown["steps"]]


async def test_a_reply_that_its_client_wanted_kept_nowhere_is_unstored(gateway: Served) -> None:
    assert await miss_of(gateway, headers={"cache-control": "no-store"}) == "new"
    assert await miss_of(gateway) == "unstored"


async def test_a_reply_that_failed_is_unstored(gateway: Served, upstream: ScriptedUpstream) -> None:
    upstream.script = says({"error": {"message": "no"}}, status=400)
    await gateway.ask()
    assert await miss_of(gateway) == "unstored"


async def test_cache_control_that_does_not_take_a_stored_reply_is_told(gateway: Served) -> None:
    await gateway.ask()
    assert await miss_of(gateway, headers={"cache-control": "max-age=0"}) == "control"
    # What asks for no look-up has none, and so no reason.
    assert await miss_of(gateway, headers={"cache-control": "no-cache"}) == ""


async def test_only_if_cached_tells_why_it_could_not_be_met(gateway: Served) -> None:
    answer = await gateway.ask(headers={"cache-control": "only-if-cached"})
    told = await row_of(gateway, answer)
    assert (answer.status, told["outcome"], told["miss"], told["error"]) == (
        504,
        "error",
        "new",
        "not_cached",
    )
    assert await miss_of(gateway) == "new"  # nobody was asked for it


async def test_a_store_that_cannot_be_asked_is_the_reason(gateway: Served) -> None:
    await gateway.ask(chat("known"))
    await gateway.written()
    gateway.forget_memory()
    pid = gateway.app.asgi._admin._embedded.pid  # type: ignore[union-attr] # it is embedded here
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        assert await miss_of(gateway, chat("known")) == "store"
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_that_another_namespace_has_asked_is_told_to_the_operator_and_to_no_client(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], server__keys=KEYS) as gateway:
        known, fresh = chat("asked by alpha"), chat("asked by nobody")
        await gateway.ask(known, headers=AS_ALPHA)
        second, third = [await gateway.ask(body, headers=AS_BETA) for body in (known, fresh)]
        told = [await row_of(gateway, answer) for answer in (second, third)]
        assert [row["miss"] for row in told] == ["namespace", "new"]
        seen = [{k.lower(): v for k, v in answer.headers.items()} for answer in (second, third)]
        ids = [headers.pop("x-request-id") for headers in seen]
        assert seen[0] == seen[1]
        assert len(set(ids)) == 2
        # Where clients have keys, anybody may read the metrics.
        shown = (await gateway.get("/metrics")).body.decode()
        assert 'openclaw_cache_misses_total{reason="namespace"}' not in shown
        assert await gateway.metric('openclaw_cache_misses_total{reason="new"}') == 3


async def test_who_joins_the_first_flight_of_a_prompt_finds_it_new_and_leaves_an_upstream_out(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    gate = Gate()
    upstream.script = gate
    first = asyncio.create_task(gateway.ask())
    await upstream.called()
    second = asyncio.create_task(gateway.ask())
    while len(gateway.app.gateway.flights) and gateway.app.gateway.flights._by_key:
        (flight,) = gateway.app.gateway.flights._by_key.values()
        if flight.num_readers == 2:
            break
        await asyncio.sleep(0.01)
    gate.open()
    told = [await row_of(gateway, answer) for answer in (await first, await second)]
    assert [(row["outcome"], row["miss"]) for row in told] == [("miss", "new"), ("collapsed", "new")]
    joined = (await gateway.get(f"/admin/explain/{told[1]['request_id']}")).json()
    steps = {step["name"]: step["result"] for step in joined["steps"]}
    assert steps["flight"] == "joined"
    assert "upstream" not in steps


async def test_the_sum_over_all_reasons_is_the_number_of_look_ups_that_missed(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], result_cache__ttl="300ms") as gateway:
        for control in ({}, {}, {"cache-control": "max-age=0"}, {"cache-control": "no-cache"}):
            await gateway.ask(headers=control)
        await gateway.ask(chat("other"), headers={"cache-control": "only-if-cached"})
        await gateway.ask(chat("other", n=2))  # bypasses
        await gateway.ask(headers={"x-mode": "b"})
        await asyncio.sleep(0.4)
        await gateway.ask()
        counted = [row["miss"] for row in await rows(gateway) if row["miss"]]
        hits, lookups = gateway.app.metrics.hit_window.counts(__import__("time").monotonic())
        assert (hits, lookups) == (1, 6)
        assert sorted(counted) == ["control", "expired", "headers", "new", "new"]
        assert lookups - hits == len(counted)
        assert await gateway.metric("openclaw_cache_misses_total") == len(counted)


async def test_a_hit_names_each_room_it_went_through_with_the_time_it_took(gateway: Served) -> None:
    await gateway.ask()
    hit = await gateway.ask()
    shown = (await gateway.get(f"/admin/explain/{hit.headers['x-request-id']}")).json()
    steps = [(step["name"], step["result"]) for step in shown["steps"]]
    assert steps == [("door", "in"), ("read", "known"), ("plan", "cacheable"), ("result", "hit")]
    assert all(0 <= step["took_s"] < 5 for step in shown["steps"])
    assert shown["request"]["outcome"] == "exact"
    assert (shown["outcome"], shown["score"], shown["checks"]) == (None, None, [])
    assert (shown["prefix_break"], shown["canonical"]) == (None, [])


async def test_a_miss_names_the_upstream_and_what_was_done_with_its_reply(gateway: Served) -> None:
    miss = await gateway.ask()
    shown = (await gateway.get(f"/admin/explain/{miss.headers['x-request-id']}")).json()
    steps = [(step["name"], step["result"]) for step in shown["steps"]]
    assert steps == [
        ("door", "in"),
        ("read", "new"),
        ("plan", "cacheable"),
        ("result", "miss (new)"),
        ("flight", "leads"),
        ("upstream", "200"),
        ("store", "stored"),
    ]


async def test_a_bypass_names_its_reason_and_looks_nothing_up(gateway: Served) -> None:
    answer = await gateway.ask(chat(tools=[{"type": "function", "function": {"name": "f"}}]))
    shown = (await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")).json()
    steps = {step["name"]: step["result"] for step in shown["steps"]}
    assert steps["plan"] == "bypass (tools)"
    assert not {"result", "semantic", "store"} & steps.keys()
    assert shown["request"]["detail"] == "tools"


async def test_errors_before_and_at_the_door_have_a_row_of_their_own(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], server__keys=KEYS) as gateway:
        stranger = await gateway.ask()
        broken = await gateway.ask(raw=b"{", headers=AS_ALPHA)
        told = [await row_of(gateway, answer) for answer in (stranger, broken)]
    assert [(row["status"], row["outcome"]) for row in told] == [(401, "error"), (400, "error")]
    assert told[0]["error"] == "invalid_api_key"
    assert [row["namespace"] for row in told] == ["", "alpha"]


async def test_what_is_passed_through_and_embeddings_have_rows_too(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says({"object": "list", "data": []})
    async with served(tmp_path, [upstream.url], upstream={"relay": ["/v1/files"]}) as gateway:
        async with gateway.session.get(gateway.url + "/v1/files") as response:
            assert response.status == 200
        await gateway.ask({"model": "pod-model", "input": "a text"}, path="/v1/embeddings")
        told = await rows(gateway)
    assert [(row["api"], row["upstream"]) for row in told] == [("embeddings", "pods"), ("relay", "pods")]
    assert told[1]["outcome"] == "bypass"


async def test_a_batch_of_inputs_misses_for_the_reason_of_its_first_one_that_is_not_stored(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = vectors

    async def miss(*inputs: str, **headers: str) -> str:
        body = {"model": "pod-model", "input": list(inputs)}
        return await miss_of(gateway, body, path="/v1/embeddings", headers=headers)

    assert await miss("one") == "new"
    assert await miss("one") == ""
    assert await miss("one", "two") == "new"
    assert await miss("one", **{"cache-control": "max-age=0"}) == "control"
    await gateway.session.post(gateway.url + "/admin/invalidate", json={"model": "pod-model"})
    assert await miss("two", "three") == "version"
    upstream.script = says({"error": {"message": "no"}}, status=400)
    assert await miss("four") == "new"
    assert await miss("four") == "unstored"


async def test_rows_can_be_chosen_by_their_fields_newest_first(gateway: Served) -> None:
    for agent in ("main", "ops", "main"):
        await gateway.ask(headers={"x-openclaw-agent": agent, "x-session-affinity": f"s-{agent}:0"})
    assert [row["agent"] for row in await rows(gateway)] == ["main", "ops", "main"]
    assert [row["outcome"] for row in await rows(gateway, "?agent=main&outcome=")] == ["exact", "miss"]
    assert len(await rows(gateway, "?limit=1&outcome=exact")) == 1
    assert [row["session"] for row in await rows(gateway, "?session=s-ops")] == ["s-ops"]
    assert await rows(gateway, "?model=another") == []


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("?limit=0", "limit"),
        ("?limit=", "limit"),
        ("?limit=x", "limit"),
        ("?limit=%D9%A3", "limit"),
        ("?text=1", "text"),
    ],
)
async def test_a_query_that_means_nothing_is_refused_by_name(gateway: Served, query: str, named: str) -> None:
    for path in ("requests", "prefixes"):
        answer = await gateway.get(f"/admin/{path}{query}")
        assert answer.status == 400
        assert named in answer.json()["error"]["message"]


async def test_no_more_rows_are_kept_than_is_set_and_none_where_that_is_0(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path / "a", [upstream.url], observe__requests=2) as gateway:
        for i in range(4):
            await gateway.ask(chat(f"question {i}"))
        assert len(await rows(gateway)) == 2
    async with served(tmp_path / "b", [upstream.url], observe__requests=0) as gateway:
        await gateway.ask()
        assert await rows(gateway) == []


async def test_no_text_of_prompt_or_reply_is_in_a_row_an_explanation_or_the_log(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(reply(SECRET[::-1]))
    with capture_logs() as lines:
        answer = await gateway.ask(chat(SECRET))
    explained = await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")
    seen = str(lines) + str(await rows(gateway)) + explained.body.decode()
    assert "heron" not in seen
    assert "noreh" not in seen
    (line,) = [line for line in lines if line["event"] == "request" and line["api"] == "chat"]
    assert line["miss"] == "new"
