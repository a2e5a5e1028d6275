"""`result_cache.screen` over HTTP and a real Valkey: what is found is not stored, or only encrypted, and counted."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis
from structlog.testing import capture_logs

from support.entries import embedded_valkey
from support.every_api import APIS, CHAT, EMBEDDINGS, MESSAGES, Api, answer_all, named, two_vendors
from support.scripted_upstream import Gate, ScriptedUpstream, reply, says, sends, stream_events
from support.served import Answer, Served, served

# The key of AWS's own documentation, and an IBAN of the standard's (ISO 13616, Germany's example).
SECRET = "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY and AKIAIOSFODNN7EXAMPLE"
PERSONAL = "Please pay to DE89 3704 0044 0532 0130 00 today."
HARMLESS = "Where do herons sleep in winter?"
ENV = {"KEYS": f"k1:{base64.b64encode(hashlib.sha256(b'k1').digest()).decode()}"}


@contextlib.asynccontextmanager
async def screening(
    folder: Path, upstream: ScriptedUpstream, *rules: Any, **settings: Any
) -> AsyncIterator[Served]:
    upstream.script = answer_all
    upstreams = two_vendors(upstream.url)
    async with served(
        folder, [], upstreams=upstreams, env=ENV, result_cache__screen=list(rules), **settings
    ) as running:
        yield running


def lies(folder: Path) -> dict[bytes, bytes]:
    """The result entries in the gateway's own Valkey."""
    client: redis.Redis = embedded_valkey(folder)
    with client:
        return {name: client.get(name) for name in client.scan_iter(match=b"r:*")}  # type: ignore[misc]


def kept(gateway: Served) -> int:
    """Entries in memory."""
    num_entries: int = gateway.app.gateway.cache.stats().num_entries
    return num_entries


async def screened(gateway: Served) -> dict[str, float]:
    """`openclaw_cache_screened_total` by its two labels."""
    return {
        f"{what} {action}": count
        for what in ("secrets", "personal")
        for action in ("skip", "encrypt", "store")
        if (
            count := await gateway.metric(f'openclaw_cache_screened_total{{action="{action}",what="{what}"}}')
        )
    }


async def ask(gateway: Served, api: Api, prompt: str, **fields: Any) -> Answer:
    answered = await gateway.ask(api.body(prompt, **fields), path=api.path)
    assert answered.status == 200, answered.body
    return answered


@pytest.mark.parametrize("api", APIS, ids=named)
@pytest.mark.parametrize(("find", "prompt"), [("secrets", SECRET), ("personal", PERSONAL)])
async def test_a_prompt_in_which_something_is_found_is_answered_and_kept_nowhere(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, find: str, prompt: str
) -> None:
    with capture_logs() as log:
        async with screening(tmp_path, upstream, find) as gateway:
            for number in (1, 2):
                answered = await ask(gateway, api, prompt)
                assert answered.cache_status == "openclaw-cache; fwd=miss"
                assert upstream.num_calls == number
            await gateway.written()
            assert (kept(gateway), lies(tmp_path)) == (0, {})
            # The request for embeddings has two inputs, each with it.
            assert await screened(gateway) == {f"{find} skip": 4 if api == EMBEDDINGS else 2}
    assert SECRET[-20:] not in str(log)
    assert PERSONAL[:20] not in str(log)


@pytest.mark.parametrize("api", [api for api in APIS if api.can_stream], ids=named)
async def test_a_stream_is_looked_through_too(tmp_path: Path, upstream: ScriptedUpstream, api: Api) -> None:
    async with screening(tmp_path, upstream, "secrets") as gateway:
        for _ in range(2):
            await ask(gateway, api, SECRET, stream=True)
        assert upstream.num_calls == 2
        await gateway.written()
        assert (kept(gateway), lies(tmp_path)) == (0, {})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_reply_in_which_something_is_found_is_not_kept(
    tmp_path: Path, upstream: ScriptedUpstream, stream: bool
) -> None:
    async with screening(tmp_path, upstream, "secrets") as gateway:
        # In two pieces: no event has the whole of it.
        pieces = stream_events("Use AKIAIOSFOD", "NN7EXAMPLE for it.", usage=True)
        upstream.script = sends(*pieces) if stream else says(reply("Use AKIAIOSFODNN7EXAMPLE for it."))
        for _ in range(2):
            assert not (await ask(gateway, CHAT, HARMLESS, stream=stream)).is_hit
        assert (kept(gateway), await screened(gateway)) == (0, {"secrets skip": 2})


@pytest.mark.parametrize("api", APIS, ids=named)
async def test_what_nothing_is_found_in_is_stored_as_ever(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    async with screening(tmp_path, upstream, "secrets", "personal") as gateway:
        await ask(gateway, api, HARMLESS)
        assert (await ask(gateway, api, HARMLESS)).is_hit
        assert await screened(gateway) == {}


async def test_what_no_rule_looks_for_is_stored(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with screening(tmp_path, upstream, "personal") as gateway:
        await ask(gateway, CHAT, SECRET)
        assert (await ask(gateway, CHAT, SECRET)).is_hit


async def test_of_a_batch_for_embeddings_the_harmless_inputs_are_kept(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with screening(tmp_path, upstream, "secrets") as gateway:
        for _ in range(2):
            await ask(gateway, EMBEDDINGS, "", input=[HARMLESS, SECRET])
        assert [call.json()["input"] for call in upstream.calls] == [[HARMLESS, SECRET], [SECRET]]


async def test_a_secret_that_a_reply_calls_a_tool_with_is_found_behind_its_escapes(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with screening(tmp_path, upstream, "secrets", result_cache__tools="cache") as gateway:
        arguments = json.dumps({"line": f'export KEY="{SECRET}"'})
        call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": arguments}}
        told = reply(finish="tool_calls")
        told["choices"][0]["message"] |= {"content": None, "tool_calls": [call]}
        upstream.script = says(told)
        for _ in range(2):
            assert not (await ask(gateway, CHAT, HARMLESS)).is_hit
        assert kept(gateway) == 0


async def test_what_a_tool_was_called_with_in_a_prompt_is_no_part_of_what_is_stored(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with screening(tmp_path, upstream, "secrets", result_cache__tools="cache") as gateway:
        called = {"type": "tool_use", "id": "t1", "name": "run", "input": {"line": SECRET}}
        told = [
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": [called]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
        ]
        await ask(gateway, MESSAGES, "", messages=told)
        assert (await ask(gateway, MESSAGES, "", messages=told)).is_hit
        await gateway.written()
        [value] = lies(tmp_path).values()
        assert b"Look." in value
        assert b"AKIA" not in value


async def test_requests_in_the_air_are_shared_whatever_is_found_since_nothing_is_kept_of_them(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with screening(tmp_path, upstream, "secrets") as gateway:
        upstream.script = gate = Gate(answer_all)
        async with asyncio.TaskGroup() as group:
            told = [group.create_task(ask(gateway, CHAT, SECRET))]
            await upstream.called(1)
            told.append(group.create_task(ask(gateway, CHAT, SECRET)))
            group.create_task(ask(gateway, CHAT, HARMLESS))
            await upstream.called(2)
            gate.open()
        assert [one.result().cache_status for one in told] == [
            "openclaw-cache; fwd=miss",
            "openclaw-cache; fwd=miss; collapsed",
        ]
        assert not (await ask(gateway, CHAT, SECRET)).is_hit


async def test_what_may_be_stored_only_encrypted_is_a_hit_and_cannot_be_read_in_the_store(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    rules = ({"find": "secrets", "action": "encrypt"}, "personal")
    async with screening(tmp_path, upstream, *rules, result_cache__encryption_key_env="KEYS") as gateway:
        await ask(gateway, CHAT, SECRET)
        await gateway.written()
        gateway.forget_memory()
        assert (await ask(gateway, CHAT, SECRET)).is_hit
        [value] = lies(tmp_path).values()
        assert b"AKIA" not in value
        assert b"wJalr" not in value
        # Both are found: the stricter rule counts.
        for _ in range(2):
            assert not (await ask(gateway, CHAT, SECRET + PERSONAL)).is_hit
        assert await screened(gateway) == {"secrets encrypt": 1, "secrets skip": 2, "personal skip": 2}
        assert len(lies(tmp_path)) == 1
