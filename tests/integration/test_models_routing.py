"""Which upstream answers for a model: its own dialect only, another one while the first is down, and as whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.every_api import (
    APIS,
    CHAT,
    COUNT_TOKENS,
    EMBEDDINGS,
    MESSAGES,
    Api,
    answer_all,
    bearer,
    named,
    two_vendors,
)
from support.scripted_upstream import ScriptedUpstream, says, sends_raw
from support.served import Answer, Served, served
from support.upstreams import closed_url

ANTHROPIC = (MESSAGES, COUNT_TOKENS)


# Only in its own dialect.


@pytest.mark.parametrize("api", APIS, ids=named)
async def test_a_model_of_the_other_dialect_is_a_clear_400_that_names_the_path_to_use(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = answer_all
    async with served(tmp_path, [], upstreams=two_vendors(upstream.url)) as gateway:
        wrong = "gpt-heron" if api in ANTHROPIC else "claude-heron"
        refused = await gateway.ask(api.body(model=wrong), path=api.path)
        assert refused.status == 400
        error = refused.json()["error"]
        assert error["type"] == "invalid_request_error"
        assert wrong in error["message"]
        if api in ANTHROPIC:
            assert refused.json()["type"] == "error"
            assert "'oa'" in error["message"]
            assert "/v1/chat/completions" in error["message"]
        else:
            assert (error["code"], error["param"]) == ("wrong_dialect", "model")
            assert "'an'" in error["message"]
            assert "/v1/messages" in error["message"]
    assert upstream.num_calls == 0


@pytest.mark.parametrize("api", APIS, ids=named)
async def test_a_model_that_nobody_serves_is_a_404_in_the_clients_dialect(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with served(tmp_path, [], upstreams=two_vendors(upstream.url)) as gateway:
        refused = await gateway.ask(api.body(model="nobody"), path=api.path)
        assert refused.status == 404
        assert "nobody" in refused.json()["error"]["message"]
        if api in ANTHROPIC:
            assert (refused.json()["type"], refused.json()["error"]["type"]) == ("error", "not_found_error")
        else:
            assert refused.json()["error"]["code"] == "model_not_found"
    assert upstream.num_calls == 0


async def test_one_upstream_may_be_set_up_in_both_dialects(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all
    upstreams = two_vendors(upstream.url)
    for one in upstreams:
        one["models"] = ["*"]
    async with served(tmp_path, [], upstreams=upstreams) as gateway:
        for api in APIS:
            answered = await gateway.ask(api.body(model="heron"), path=api.path)
            assert answered.status == 200, (api.name, answered.body)


# Another upstream while the first one is down.


def in_turn(first: str, second: str, api: Api, **of_second: Any) -> list[dict[str, Any]]:
    kind = "anthropic" if api in ANTHROPIC else "openai"
    return [
        {"name": "first", "kind": kind, "urls": [first], "models": ["*"], "retries": 0},
        {"name": "second", "kind": kind, "urls": [second], "models": ["*"], "retries": 0, **of_second},
    ]


FLOWING = [api for api in APIS if api != EMBEDDINGS]
DOWN = {
    "refuses": None,
    "resets": sends_raw(b"", reset=True),
    "is busy": says({"error": {"message": "busy"}}, status=503),
}


async def ask(gateway: Served, api: Api, prompt: str = "question", **headers: str) -> Answer:
    return await gateway.ask(api.body(prompt), path=api.path, headers=headers)


@pytest.mark.parametrize("how", DOWN)
@pytest.mark.parametrize("api", FLOWING, ids=named)
async def test_while_the_first_upstream_is_down_the_second_answers_and_its_reply_is_not_kept_as_the_firsts(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, how: str
) -> None:
    upstream.script = answer_all
    async with ScriptedUpstream(DOWN[how]) as first:
        url = closed_url() if DOWN[how] is None else first.url
        async with served(tmp_path, [], upstreams=in_turn(url, upstream.url, api)) as gateway:
            answered = await ask(gateway, api)
            assert answered.status == 200, answered.body
            assert answered.cache_status == "openclaw-cache; fwd=miss"
            assert upstream.num_calls == 1
            if DOWN[how] is None:
                return
            first.script = answer_all
            entries = [entry.upstream for _, entry, _ in gateway.app.gateway.cache._memory.items()]
            assert "first" not in entries


async def test_the_reply_of_a_first_upstream_that_is_back_is_its_own(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says({"id": "of the second"} | SECOND)
    async with (
        ScriptedUpstream(DOWN["is busy"]) as first,
        served(tmp_path, [], upstreams=in_turn(first.url, upstream.url, CHAT)) as gateway,
    ):
        assert (await ask(gateway, CHAT)).json()["id"] == "of the second"
        first.script = says({"id": "of the first"} | SECOND)
        again = await ask(gateway, CHAT)
        assert again.json()["id"] == "of the first"
        assert again.cache_status == "openclaw-cache; fwd=miss; stored"
        assert (await ask(gateway, CHAT)).is_hit
    assert upstream.num_calls == 1


SECOND = {
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "gpt-heron",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"},
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
}


async def test_an_error_that_the_client_must_see_is_not_put_to_another_upstream(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = answer_all
    for status in (400, 401, 403, 404, 500):
        async with ScriptedUpstream(says({"error": {"message": "no"}}, status=status)) as first:
            folder = tmp_path / str(status)
            async with served(folder, [], upstreams=in_turn(first.url, upstream.url, CHAT)) as gateway:
                assert (await ask(gateway, CHAT)).status == status
    assert upstream.num_calls == 0


# As whom.

CREDENTIALS = {"authorization", "x-api-key", "api-key"}


@pytest.mark.parametrize("how", DOWN)
@pytest.mark.parametrize("api", APIS, ids=named)
async def test_a_clients_own_credential_never_goes_to_another_upstream_than_the_first(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, how: str
) -> None:
    upstream.script = answer_all
    async with ScriptedUpstream(DOWN[how]) as first:
        url = closed_url() if DOWN[how] is None else first.url
        async with served(tmp_path, [], upstreams=in_turn(url, upstream.url, api)) as gateway:
            # Often enough for the first one to be known as down, so that it is not even asked.
            for number in range(5):
                answered = await ask(gateway, api, f"question {number}", **bearer("sk-of-the-first"))
                assert answered.status in (502, 503), answered.body
            assert upstream.num_calls == 0
            # Without a credential there is none to be kept back.
            if api != EMBEDDINGS or DOWN[how] is None:
                assert (await ask(gateway, api)).status == 200


@pytest.mark.parametrize("api", FLOWING, ids=named)
async def test_a_second_upstream_with_a_key_of_its_own_gets_that_and_not_the_clients(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    upstream.script = answer_all
    upstreams = in_turn(closed_url(), upstream.url, api, api_key_env="SECOND")
    async with served(tmp_path, [], upstreams=upstreams, env={"SECOND": "sk-second"}) as gateway:
        for number in range(3):
            answered = await ask(gateway, api, f"question {number}", **bearer("sk-of-the-first"))
            assert answered.status == 200
    sent = [{v for n, v in call.headers if n in CREDENTIALS} for call in upstream.calls]
    assert sent == [{"sk-second" if api in ANTHROPIC else "Bearer sk-second"}] * 3


@pytest.mark.parametrize("api", FLOWING, ids=named)
async def test_what_a_second_upstream_answered_is_given_to_no_other_credential(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    """The first one would be paid by the client, the second one is by the operator: neither entry is the other's."""
    upstream.script = answer_all
    async with ScriptedUpstream(answer_all) as first:
        upstreams = in_turn(first.url, upstream.url, api, api_key_env="SECOND")
        async with served(tmp_path, [], upstreams=upstreams, env={"SECOND": "sk-second"}) as gateway:
            assert (await ask(gateway, api, **bearer("sk-one"))).status == 200
            first.script = says({"error": {"message": "busy"}}, status=503)
            other = await ask(gateway, api, **bearer("sk-two"))
            assert (other.status, other.is_hit) == (200, False)
            assert (await ask(gateway, api, **bearer("sk-one"))).is_hit
            assert not (await ask(gateway, api, **bearer("sk-two"))).is_hit
    assert upstream.num_calls == 2
