"""Embeddings, input by input: what goes upstream, what comes back, what is kept. A real Valkey is the store."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers
from support.embeddings_site import (
    HIT,
    MISS,
    STORED,
    Site,
    embed,
    reply_to,
    running_site,
    site_over,
    vectors_for,
    vectors_in,
)
from support.scripted_upstream import Exchange, ScriptedUpstream

# Each text costs 2 tokens and one for each character (see the site): a 3, bb 4, ccc 5.


@pytest.fixture
async def pod() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(embed) as running:
        yield running
        assert running.failures == []


@pytest.fixture
async def site(tmp_path: Path, pod: ScriptedUpstream) -> AsyncIterator[Site]:
    async with running_site(tmp_path, pod) as running:
        yield running


def usage(body: bytes) -> Any:
    return json.loads(body)["usage"]


def indexes(body: bytes) -> list[int]:
    return [item["index"] for item in json.loads(body)["data"]]


async def test_a_first_request_goes_upstream_byte_for_byte_and_its_reply_comes_back_so(site: Site) -> None:
    raw = b'{ "input" : ["a","bb"], "model":"m" ,"dimensions":4e0}'
    answered = await site.ask(raw=raw)
    assert [call.body for call in site.pod.calls] == [raw]
    assert answered.body == reply_to(json.loads(raw))
    assert (answered.status, answered.cache_status, answered.age_s) == (200, STORED, None)
    assert (answered.prompt_tokens, answered.cached_tokens) == (7, 0)


async def test_the_same_batch_is_answered_from_the_cache_with_every_digit_and_the_original_usage(
    site: Site,
) -> None:
    body = {"input": ["a", "bb", "猫" * 40]}
    first = await site.ask(body)
    site.now += 61.9
    again = await site.ask(body)
    assert site.pod.num_calls == 1
    assert vectors_in(again.body) == vectors_in(first.body) == vectors_for(body)
    assert json.loads(again.body) == json.loads(first.body)
    assert (again.cache_status, again.outcome, again.age_s) == (HIT, "exact", 61)
    assert again.headers == [(b"content-type", b"application/json")]
    assert (again.prompt_tokens, again.cached_tokens) == (49, 49)


async def test_only_missing_inputs_go_upstream_with_all_other_fields_in_their_order(site: Site) -> None:
    fields = {"dimensions": 4, "x_unknown": {"deep": [1.0, None]}, "user": "u"}
    await site.ask({"input": ["bb", "ccc"], **fields})
    site.now += 5
    body = {"input": ["a", "bb", "dddd", "ccc"], **fields}
    answered = await site.ask(body)
    sent = site.pod.calls[1].json()
    assert sent == {"model": "m", "input": ["a", "dddd"], **fields}
    assert list(sent) == ["model", "input", "dimensions", "x_unknown", "user"]
    assert vectors_in(answered.body) == vectors_for(body)
    assert indexes(answered.body) == [0, 1, 2, 3]
    assert (answered.cache_status, answered.age_s) == (STORED, 5)
    assert (b"x-ratelimit-remaining-requests", b"2") in answered.headers
    # bb and ccc have shares of 9 by 2 and 3 bytes: 4 and 5. a and dddd cost 3 and 6.
    assert usage(answered.body) == {"prompt_tokens": 18, "total_tokens": 18}
    assert (answered.prompt_tokens, answered.cached_tokens) == (18, 9)


async def test_an_input_that_stands_twice_goes_upstream_once_and_comes_back_twice(site: Site) -> None:
    body = {"input": ["a", "bb", "a", "a"]}
    answered = await site.ask(body)
    assert site.asked == [["a", "bb"]]
    assert vectors_in(answered.body) == vectors_for(body)
    assert indexes(answered.body) == [0, 1, 2, 3]
    # 7 tokens for 1 and 2 bytes: shares of 2 and 5.
    assert usage(answered.body) == {"prompt_tokens": 11, "total_tokens": 11}
    assert usage((await site.ask(body)).body) == {"prompt_tokens": 11, "total_tokens": 11}


async def test_one_text_and_a_list_of_that_text_are_one_input(site: Site) -> None:
    await site.ask({"input": "a"})
    assert (await site.ask({"input": ["a"]})).cache_status == HIT
    assert (await site.ask({"input": "a"})).cache_status == HIT
    assert site.asked == ["a"]


async def test_tokens_in_their_two_forms_are_one_input_and_no_text(site: Site) -> None:
    await site.ask({"input": [1, 2]})
    assert (await site.ask({"input": [[1, 2]]})).cache_status == HIT
    assert (await site.ask({"input": [[2, 1], [1, 2]]})).cache_status == STORED
    assert (await site.ask({"input": "[1,2]"})).cache_status == STORED
    assert site.asked == [[1, 2], [[2, 1]], "[1,2]"]


@pytest.mark.parametrize(
    "fields",
    [
        {"dimensions": 4}, {"encoding_format": "base64"}, {"encoding_format": "float"}, {"user": "u"},
        {"task_type": "RETRIEVAL_QUERY"}, {"truncate": None}, {"model": "n"},
    ],
)  # fmt: skip
async def test_any_other_field_asks_for_another_vector(site: Site, fields: dict[str, Any]) -> None:
    await site.ask({"input": ["a", "bb"]})
    answered = await site.ask({"input": ["a", "bb"], **fields})
    assert (answered.cache_status, site.pod.num_calls) == (STORED, 2)
    assert vectors_in(answered.body) == vectors_for({"input": ["a", "bb"], **fields})


async def test_the_same_value_spelled_otherwise_is_the_same_request(site: Site) -> None:
    await site.ask(raw=b'{"model":"m","input":["\\u00e9"],"dimensions":4}')
    answered = await site.ask(raw='{"dimensions": 4, "input": "é",\n "model": "m"}'.encode())
    assert answered.cache_status == HIT


async def test_namespaces_and_headers_that_may_change_a_vector_are_kept_apart(site: Site) -> None:
    await site.ask({"input": "a"})
    assert (await site.ask({"input": "a"}, namespace="other")).cache_status == STORED
    assert (await site.ask({"input": "a"}, headers=[(b"openai-beta", b"x")])).cache_status == STORED
    assert (await site.ask({"input": "a"}, headers=[(b"user-agent", b"x")])).cache_status == HIT


async def test_a_header_of_the_whole_body_does_not_go_with_a_part_of_it(site: Site) -> None:
    await site.ask({"input": ["a"]})
    await site.ask({"input": ["a", "bb"]}, headers=[(b"idempotency-key", b"k-1")])
    await site.ask({"input": ["ccc"]}, headers=[(b"idempotency-key", b"k-2")])
    assert [call.header("idempotency-key") for call in site.pod.calls] == [None, None, "k-2"]


async def test_vectors_outlive_the_memory_and_are_shared_by_the_nodes_of_a_fleet(site: Site) -> None:
    body = {"input": ["a", "bb"]}
    await site.ask(body)
    assert await site.embeddings.cache.flush(10.0)
    site.forget_memory()
    assert vectors_in((await site.ask(body)).body) == vectors_for(body)
    async with site_over(site.store, site.pod) as node:
        answered = await node.ask({"input": ["bb"]})
        assert (answered.cache_status, vectors_in(answered.body)) == (HIT, vectors_for({"input": ["bb"]}))
    assert site.pod.num_calls == 1


async def test_a_batch_of_2048_is_one_call_and_then_none(site: Site) -> None:
    body = {"input": [f"text {i}" for i in range(2048)]}
    first = await site.ask(body)
    assert await site.embeddings.cache.flush(30.0)
    site.forget_memory()
    again = await site.ask(body)
    assert (site.pod.num_calls, again.cache_status) == (1, HIT)
    assert json.loads(again.body) == json.loads(first.body)


async def test_bodies_of_megabytes_take_the_same_way(site: Site) -> None:
    body = {"input": ["x" * 1_500_000, "y" * 1_500_000]}
    assert vectors_in((await site.ask(body)).body) == vectors_for(body)
    assert site.asked == [body["input"]]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (json.dumps({"model": "m", "input": ["a"] * 2049}).encode(), "unkeyable"),
        (b'{"model":"m","input":""}', "unkeyable"),
        (b'{"model":"m","input":[]}', "unkeyable"),
        (b'{"model":"m","input":["a",[1]]}', "unkeyable"),
        (b'{"model":"m","messages":[{"role":"user","content":"a"}]}', "unkeyable"),
        (b'{"model":"m","input":"a","input":"b"}', "duplicate-key"),
        (b'{"model":"m","input":"a","seed":99999999999999999999}', "number-range"),
        (b'{"model":"m","input":"\\ud800"}', "lone-surrogate"),
    ],
)
async def test_what_cannot_be_taken_apart_goes_upstream_as_it_is_and_is_not_kept(
    site: Site, raw: bytes, reason: str
) -> None:
    async def judge(exchange: Exchange) -> None:
        await exchange.whole(b'{"judged":true,"usage":{"total_tokens":7}}', 200)

    site.pod.script = judge
    for _ in range(2):
        answered = await site.ask(raw=raw)
        assert answered.cache_status == f"openclaw-cache; fwd=bypass; detail={reason}"
        assert (answered.body, answered.prompt_tokens) == (b'{"judged":true,"usage":{"total_tokens":7}}', 7)
    assert [call.body for call in site.pod.calls] == [raw, raw]


async def test_a_cache_that_is_switched_off_is_passed_by(tmp_path: Path, pod: ScriptedUpstream) -> None:
    async with running_site(tmp_path, pod, enabled=False) as site:
        for _ in range(2):
            answered = await site.ask({"input": ["a", "a"]})
            assert answered.cache_status == "openclaw-cache; fwd=bypass; detail=disabled"
    assert site.asked == [["a", "a"], ["a", "a"]]


async def test_a_request_without_a_model_is_refused(site: Site) -> None:
    with pytest.raises(RequestError) as refused:
        await site.ask(raw=b'{"input":"a"}')
    assert (refused.value.status, refused.value.param) == (400, "model")


def control(value: bytes) -> Headers:
    return [(b"cache-control", value)]


async def test_no_cache_computes_anew_and_replaces_what_is_stored(site: Site) -> None:
    await site.ask({"input": "a"})
    site.now += 100
    answered = await site.ask({"input": "a"}, headers=control(b"no-cache"))
    assert answered.cache_status == "openclaw-cache; fwd=bypass; detail=no-cache; stored"
    assert site.pod.num_calls == 2
    site.now += 3
    assert (await site.ask({"input": "a"})).age_s == 3


async def test_no_store_may_be_answered_by_what_is_stored_and_keeps_nothing(site: Site) -> None:
    await site.ask({"input": "a"})
    assert (await site.ask({"input": "a"}, headers=control(b"no-store"))).cache_status == HIT
    for _ in range(2):
        answered = await site.ask({"input": ["a", "bb"]}, headers=control(b"no-store"))
        assert answered.cache_status == "openclaw-cache; fwd=bypass; detail=no-store"
        assert vectors_in(answered.body) == vectors_for({"input": ["a", "bb"]})
    assert site.asked == ["a", ["bb"], ["bb"]]


async def test_only_if_cached_takes_all_inputs_or_none(site: Site) -> None:
    await site.ask({"input": "a"})
    assert (await site.ask({"input": ["a", "a"]}, headers=control(b"only-if-cached"))).cache_status == HIT
    with pytest.raises(RequestError) as refused:
        await site.ask({"input": ["a", "bb"]}, headers=control(b"only-if-cached"))
    assert (refused.value.status, refused.value.code, site.pod.num_calls) == (504, "not_cached", 1)


async def test_max_age_asks_anew_for_those_inputs_only_that_are_older(site: Site) -> None:
    await site.ask({"input": "a"})
    site.now += 50
    await site.ask({"input": "bb"})
    site.now += 5
    answered = await site.ask({"input": ["a", "bb"]}, headers=control(b"max-age=10"))
    assert (site.asked, answered.age_s) == (["a", "bb", ["a"]], 5)


async def test_vectors_end_with_their_time_to_live(site: Site) -> None:
    await site.ask({"input": "a"})
    site.now += 599
    assert (await site.ask({"input": "a"})).cache_status == HIT
    site.now += 1
    assert (await site.ask({"input": "a"})).cache_status == STORED


async def test_a_key_without_rights_reads_nothing_or_writes_nothing(site: Site) -> None:
    rights = "openclaw-cache; fwd=bypass; detail=key-rights"
    assert (await site.ask({"input": "a"}, may_write=False)).cache_status == rights
    assert (await site.ask({"input": "a"})).cache_status == STORED
    assert (await site.ask({"input": "a"}, may_write=False)).cache_status == HIT
    assert (await site.ask({"input": "a"}, may_read=False)).cache_status == f"{rights}; stored"
    assert (await site.ask({"input": "bb"}, may_read=False, may_write=False)).cache_status == rights
    assert site.asked == ["a", "a", "a", "bb"]


async def test_an_operator_can_evict_by_the_text_of_an_input(site: Site) -> None:
    await site.ask({"input": ["salary of Ann", "weather"]})
    report = await site.embeddings.cache.evict("*Ann*")
    assert report.num_matched == 1
    await site.ask({"input": ["weather", "salary of Ann"]})
    assert site.asked[1] == ["salary of Ann"]


async def test_a_new_epoch_hides_all_vectors_of_the_model(site: Site) -> None:
    await site.ask({"input": ["a", "bb"]})
    await site.embeddings.keys.epochs.bump("m")
    assert (await site.ask({"input": ["a", "bb"]})).cache_status == STORED
    assert site.pod.num_calls == 2


async def test_a_store_that_is_gone_costs_misses_and_no_request(site: Site) -> None:
    await site.ask({"input": "a"})
    await site.embeddings.cache.flush(10.0)
    site.forget_memory()
    await site.store.aclose()
    answered = await site.ask({"input": ["a", "bb"]})
    assert (answered.status, vectors_in(answered.body)) == (200, vectors_for({"input": ["a", "bb"]}))
    assert set(site.degraded) == {"store_unavailable"}
    assert (await site.ask({"input": ["bb", "a"]})).cache_status == HIT  # memory still serves


async def test_look_ups_and_tokens_are_counted(site: Site) -> None:
    await site.ask({"input": ["a", "bb"]})
    await site.ask({"input": ["a", "ccc"]})
    text = site.metrics.text().decode()
    assert 'openclaw_cache_prompt_tokens_total{source="computed"} 12.0' in text  # 3 + 4, then 5
    assert 'openclaw_cache_hit_ratio{layer="result"} 0.25' in text  # one of two and two look-ups


async def test_a_reply_that_is_not_stored_says_so(site: Site) -> None:
    async def no_vectors(exchange: Exchange) -> None:
        await exchange.json({"object": "list", "data": [], "model": "m"})

    site.pod.script = no_vectors
    answered = await site.ask({"input": "a"})
    assert (answered.cache_status, answered.outcome) == (MISS, "miss")


async def test_members_that_we_do_not_know_are_those_of_the_newest_part(site: Site) -> None:
    async def numbered(exchange: Exchange) -> None:
        reply = json.loads(reply_to(exchange.call.json()))
        await exchange.json({"id": f"embd-{exchange.number}", **reply, "created": None})

    site.pod.script = numbered
    for i, body in enumerate([{"input": "a"}, {"input": ["a", "bb"]}, {"input": ["a", "bb"]}]):
        answered = json.loads((await site.ask(body)).body)
        assert list(answered) == ["id", "object", "data", "model", "usage", "created"]
        assert answered["id"] == ["embd-1", "embd-2", "embd-2"][i]
        site.now += 1
