"""`/v1/models` over several upstreams: what is listed, for whom, in whose shape, and whose credential goes where."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.scripted_upstream import Script, ScriptedUpstream, says, sends_raw
from support.served import Served, served
from support.upstreams import closed_url

OPENAI_LIST: dict[str, Any] = {
    "object": "list",
    "data": [
        {"id": "gpt-heron", "object": "model", "created": 1_700_000_000, "owned_by": "system"},
        {"id": "shared-model", "object": "model", "created": 1_700_000_001, "owned_by": "system"},
        {"id": "not-routed-here", "object": "model", "created": 1_700_000_002, "owned_by": "system"},
    ],
}
ANTHROPIC_LIST: dict[str, Any] = {
    "data": [
        {
            "type": "model", "id": "claude-heron", "display_name": "Claude Heron",
            "created_at": "2025-09-29T00:00:00Z",
        },
        {
            "type": "model", "id": "shared-model", "display_name": "Shared",
            "created_at": "2025-09-30T00:00:00Z",
        },
    ],
    "has_more": False, "first_id": "claude-heron", "last_id": "shared-model",
}  # fmt: skip
VERSION = {"anthropic-version": "2023-06-01"}
KEYS = [
    {"key": "sk-all", "namespace": "all"},
    {"key": "sk-gpt", "namespace": "gpt", "models": ["gpt-*"]},
    {"key": "sk-lab", "namespace": "lab", "models": ["lab-*"]},
]


@dataclass(slots=True)
class Site:
    """A gateway before an upstream of each vendor and one that is not there."""

    gateway: Served
    openai: ScriptedUpstream
    anthropic: ScriptedUpstream

    async def ids(self, **headers: str) -> list[str]:
        listed = await self.gateway.get(
            "/v1/models", headers={n.replace("_", "-"): v for n, v in headers.items()}
        )
        assert listed.status == 200
        return [model["id"] for model in listed.json()["data"]]


async def with_upstreams(folder: Path, **settings: Any) -> AsyncIterator[Site]:
    async with ScriptedUpstream() as oa, ScriptedUpstream() as an:
        oa.get_script, an.get_script = says(OPENAI_LIST), says(ANTHROPIC_LIST)
        upstreams = [
            {"name": "gone", "kind": "openai", "urls": [closed_url()], "models": ["lost-*"]},
            {"name": "oa", "kind": "openai", "urls": [oa.url], "models": ["gpt-*", "shared-*"]},
            {"name": "an", "kind": "anthropic", "urls": [an.url], "models": ["claude-*", "shared-*"]},
        ]
        async with served(folder, [], upstreams=upstreams, **settings) as gateway:
            yield Site(gateway, oa, an)
        assert oa.failures == an.failures == []


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async for one in with_upstreams(tmp_path):
        yield one


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Site]:
    async for one in with_upstreams(tmp_path, server__keys=KEYS):
        yield one


# What is listed.


async def test_the_models_of_all_upstreams_are_one_list_in_the_order_of_the_settings(site: Site) -> None:
    told = (await site.gateway.get("/v1/models")).json()
    assert told["object"] == "list"
    # As OpenAI writes models: those of the other vendor too. 2025-09-29T00:00:00Z is 1759104000.
    assert told["data"] == [
        *OPENAI_LIST["data"][:2],
        {"id": "claude-heron", "object": "model", "created": 1_759_104_000, "owned_by": "anthropic"},
    ]


async def test_a_model_that_two_upstreams_have_is_listed_once_as_the_one_that_answers_for_it(
    site: Site,
) -> None:
    one = (await site.gateway.get("/v1/models/shared-model")).json()
    assert one == OPENAI_LIST["data"][1]


async def test_a_client_of_anthropics_api_sees_what_it_can_use_in_that_apis_shape(site: Site) -> None:
    told = (await site.gateway.get("/v1/models", headers=VERSION)).json()
    assert told == ANTHROPIC_LIST
    one = await site.gateway.get("/v1/models/claude-heron", headers=VERSION)
    assert one.json() == ANTHROPIC_LIST["data"][0]
    missing = await site.gateway.get("/v1/models/gpt-heron", headers=VERSION)
    assert (missing.status, missing.json()["type"], missing.json()["error"]["type"]) == (
        404,
        "error",
        "not_found_error",
    )


async def test_the_official_sdks_read_the_list_and_one_of_it(site: Site) -> None:
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{site.gateway.url}/v1", max_retries=0) as client:
        assert [m.id async for m in client.models.list()] == ["gpt-heron", "shared-model", "claude-heron"]
        assert (await client.models.retrieve("gpt-heron")).created == 1_700_000_000
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("nobody")
    async with anthropic.AsyncAnthropic(api_key="k", base_url=site.gateway.url, max_retries=0) as other:
        assert [m.id async for m in other.models.list()] == ["claude-heron", "shared-model"]
        assert (await other.models.retrieve("claude-heron")).display_name == "Claude Heron"
        with pytest.raises(anthropic.NotFoundError):
            await other.models.retrieve("nobody")


FAULTY: dict[str, Script] = {
    "an error": says({"error": {"message": "no"}}, status=500),
    "no JSON": sends_raw(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n<html>"),
    "no list": says({"data": "gpt-heron"}),
    "models without names": says({"data": [{"object": "model"}, {"id": 5}, "gpt-heron", None]}),
    "a reset": sends_raw(b"", reset=True),
}


@pytest.mark.parametrize("how", FAULTY)
async def test_an_upstream_with_a_faulty_list_is_left_out_and_the_others_are_listed(
    site: Site, how: str
) -> None:
    site.openai.get_script = FAULTY[how]
    assert await site.ids() == ["claude-heron", "shared-model"]


# For whom.


async def test_a_key_limited_to_models_sees_those_only_and_is_told_of_no_other(keyed: Site) -> None:
    assert await keyed.ids(authorization="Bearer sk-all") == ["gpt-heron", "shared-model", "claude-heron"]
    limited = {"authorization": "Bearer sk-gpt"}
    assert await keyed.ids(**limited) == ["gpt-heron"]
    assert (await keyed.gateway.get("/v1/models/gpt-heron", headers=limited)).status == 200
    # A model that it may not use and one that does not exist are told alike, but for the name.
    hidden = await keyed.gateway.get("/v1/models/claude-heron", headers=limited)
    absent = await keyed.gateway.get("/v1/models/claude-nobody", headers=limited)
    assert (hidden.status, absent.status) == (404, 404)
    assert hidden.json()["error"] == {
        **absent.json()["error"],
        "message": absent.json()["error"]["message"].replace("claude-nobody", "claude-heron"),
    }
    assert await keyed.ids(**limited, **VERSION) == []


async def test_the_refusal_of_a_model_tells_a_limited_key_of_no_other(keyed: Site) -> None:
    async def refusal(key: str) -> str:
        body = {"model": "lab-heron", "messages": [{"role": "user", "content": "hi"}]}
        refused = await keyed.gateway.ask(body, headers={"authorization": f"Bearer {key}"})
        assert (refused.status, refused.json()["error"]["code"]) == (404, "model_not_found")
        message: str = refused.json()["error"]["message"]
        return message

    assert "claude-*" in await refusal("sk-all")
    assert "*" not in await refusal("sk-lab")


# Whose credential goes where.


async def test_a_credential_goes_to_the_vendor_whose_api_its_client_speaks_and_to_no_other(
    site: Site,
) -> None:
    await site.ids(authorization="Bearer sk-of-openai")
    assert site.openai.others[-1].header("authorization") == "Bearer sk-of-openai"
    assert site.anthropic.others[-1].names().isdisjoint({"authorization", "x-api-key", "api-key"})
    num_calls = len(site.openai.others)
    await site.ids(**VERSION, x_api_key="sk-of-anthropic")
    assert site.anthropic.others[-1].header("x-api-key") == "sk-of-anthropic"
    assert len(site.openai.others) == num_calls


async def test_a_key_of_ours_goes_to_no_upstream_and_the_operators_own_goes_to_its_own(
    tmp_path: Path,
) -> None:
    async with ScriptedUpstream() as oa, ScriptedUpstream() as an:
        oa.get_script, an.get_script = says(OPENAI_LIST), says(ANTHROPIC_LIST)
        upstreams = [
            {"name": "oa", "kind": "openai", "urls": [oa.url], "models": ["gpt-*"], "api_key_env": "OA"},
            {
                "name": "an",
                "kind": "anthropic",
                "urls": [an.url],
                "models": ["claude-*"],
                "api_key_env": "AN",
            },
        ]
        env = {"OA": "sk-oa", "AN": "sk-an"}
        async with served(tmp_path, [], upstreams=upstreams, env=env, server__keys=KEYS) as gateway:
            for headers in ({}, VERSION):
                listed = await gateway.get(
                    "/v1/models", headers={"authorization": "Bearer sk-all", **headers}
                )
                assert listed.status == 200
    credentials = ("authorization", "x-api-key", "api-key")
    assert [(n, v) for n, v in oa.others[0].headers if n in credentials] == [
        ("authorization", "Bearer sk-oa")
    ]
    for call in an.others:
        assert [(n, v) for n, v in call.headers if n in credentials] == [("x-api-key", "sk-an")]
        assert call.header("anthropic-version") == "2023-06-01"
