"""The prefix canonicaliser through the gateway: what goes upstream, and that nothing else here knows of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.errors import ConfigError
from openclaw_cache.result.entry import prompt_text
from support.every_api import APIS, CHAT, MESSAGES, RESPONSES, Api, answer_all, named, two_vendors
from support.scripted_upstream import Exchange, ScriptedUpstream
from support.served import Answer, Served, served

BILLING = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;"
DATE = "Current date: 2026-11-29"
PROMPT = f"{BILLING}\n{DATE}\nYou watch herons."
MARKS = ("cc_version", "2026-11-29")


@contextlib.asynccontextmanager
async def canonical(
    folder: Path, upstream: ScriptedUpstream, level: object, **settings: Any
) -> AsyncIterator[Served]:
    if upstream.script is not refuse_late_system:
        upstream.script = answer_all
    fields = {"ask_usage": False, "canonical": level, **settings.pop("fields", {})}
    async with served(
        folder, [], upstreams=two_vendors(upstream.url, **fields), result_cache__tools="cache", **settings
    ) as running:
        yield running


async def refuse_late_system(exchange: Exchange) -> None:
    """A server whose chat template wants the system message first."""
    roles = [message["role"] for message in exchange.call.json().get("messages", ())]
    if "system" in roles[1:]:
        error = {"message": "System message must be at the beginning.", "type": "BadRequestError"}
        await exchange.json({"error": error}, 400)
    else:
        await answer_all(exchange)


def body_of(api: Api, **fields: Any) -> dict[str, Any]:
    if api == MESSAGES:
        return api.body("question", system=PROMPT, **fields)
    if api == RESPONSES:
        asked = [{"role": "user", "content": "question"}]
        return api.body("question", **{"instructions": PROMPT, "input": asked, **fields})
    told = [{"role": "system", "content": PROMPT}, {"role": "user", "content": "question"}]
    return api.body("question", messages=told, **fields)


def expected(api: Api, body: dict[str, Any], level: str) -> dict[str, Any]:
    rest = f"{DATE}\nYou watch herons." if level == "safe" else "You watch herons."
    late = [] if level == "safe" else [{"role": "system", "content": DATE}]
    if api == MESSAGES:
        blocks = [{"type": "text", "text": "You watch herons."}, {"type": "text", "text": DATE}]
        return {**body, "system": rest if level == "safe" else blocks}
    if api == RESPONSES:
        return {**body, "instructions": rest, "input": [*body["input"], *late]}
    return {**body, "messages": [{"role": "system", "content": rest}, body["messages"][1], *late]}


def raw(body: dict[str, Any]) -> bytes:
    """As SDKs write it."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


async def send(gateway: Served, api: Api, body: bytes) -> Answer:
    answered = await gateway.ask(raw=body, path=api.path)
    assert answered.status == 200, answered.body
    return answered


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("level", ["safe", "full"])
@pytest.mark.parametrize("api", [CHAT, RESPONSES, MESSAGES], ids=named)
async def test_the_upstream_gets_the_canonical_prompt_and_the_client_its_reply(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, level: str, stream: bool
) -> None:
    body = body_of(api, stream=stream)
    async with canonical(tmp_path, upstream, level) as gateway:
        await send(gateway, api, raw(body))
    [call] = upstream.calls
    assert call.json() == expected(api, body, level)
    assert call.header("content-length") == str(len(call.body))


@pytest.mark.parametrize("level", [False, "off", "report"])
@pytest.mark.parametrize("api", APIS, ids=named)
async def test_off_and_report_send_every_byte_as_it_came(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, level: object
) -> None:
    body = raw(body_of(api) if api in (CHAT, RESPONSES, MESSAGES) else api.body(PROMPT))
    body = body.replace(b'{"model":', b'{ "mode\\u006c" :\n', 1)
    async with canonical(tmp_path, upstream, level) as gateway:
        await send(gateway, api, body)
    assert upstream.calls[0].body == body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", [CHAT, RESPONSES, MESSAGES], ids=named)
async def test_after_a_changed_miss_the_clients_own_bytes_are_a_hit_and_nothing_else_knows_the_change(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api, stream: bool
) -> None:
    body = raw(body_of(api, stream=stream))
    with capture_logs() as log:
        async with canonical(tmp_path, upstream, "full") as gateway:
            await send(gateway, api, body)
            again = await send(gateway, api, body)
            assert again.is_hit
            entries = [entry for _, entry, _ in gateway.app.gateway.cache._memory.items()]
            # Another nonce is another request: keys are made of the client's own bytes.
            other = await send(gateway, api, body.replace(b"36ee5", b"0aaa9"))
            assert not other.is_hit
            await gateway.written()
        # The level is no part of the key: it stays a hit where nothing is changed.
        async with canonical(tmp_path, upstream, "off") as gateway:
            assert (await send(gateway, api, body)).is_hit
    assert upstream.num_calls == 2
    assert upstream.calls[0].body == upstream.calls[1].body  # one prefix for the provider's cache
    assert len(entries) == 1
    assert "question" in prompt_text(entries[0])
    assert not any(mark in str(log) for mark in MARKS)  # no text of prompts, changed or not


async def test_effects_are_noted_on_the_request_and_counted_as_what_they_were(
    tmp_path: Path, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openclaw_cache.gateway.canonical import Canonical  # noqa: PLC0415 - to look on

    seen: list[Any] = []
    plain = Canonical.of

    def watched(self: Any, prompt: Any, api: str, of: Any, outcome: Any) -> Any:
        changed = plain(self, prompt, api, of, outcome)
        seen.append(outcome)
        return changed

    monkeypatch.setattr(Canonical, "of", watched)
    async with canonical(tmp_path, upstream, "safe") as gateway:
        await send(gateway, CHAT, raw(body_of(CHAT)))
    [outcome] = seen
    assert [(e.rule, e.num_places, e.num_bytes, e.applied) for e in outcome.canonical] == [
        ("claude-code-billing", 1, len(BILLING) + 1, True),
        ("date-line", 1, len(DATE) + 1, False),
    ]
    assert outcome.sent == upstream.calls[0].body
    assert [(step.name, step.result) for step in outcome.steps if step.name == "canonical"] == [
        ("canonical", "applied")
    ]


async def test_a_server_that_wants_its_system_message_first_is_asked_again_without_a_late_one_and_known_then(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = refuse_late_system
    body = body_of(CHAT)
    async with canonical(tmp_path, upstream, "full") as gateway:
        first = await send(gateway, CHAT, raw(body))
        assert first.cache_status == "openclaw-cache; fwd=miss; stored"
        assert (await send(gateway, CHAT, raw(body))).is_hit
        await send(gateway, CHAT, raw({**body, "n": 1}))
    sent = [call.json() for call in upstream.calls]
    assert sent[0] == expected(CHAT, body, "full")
    assert sent[1] == expected(CHAT, body, "safe")
    assert sent[2:] == [{**expected(CHAT, body, "safe"), "n": 1}]  # not tried again


async def test_a_request_that_is_refused_either_way_gets_the_servers_own_error(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": f"no. {exchange.number}"}}, 400)

    async with canonical(tmp_path, upstream, "full") as gateway:
        upstream.script = refuse
        answered = await gateway.ask(raw=raw(body_of(CHAT)))
        assert (answered.status, answered.json()["error"]["message"]) == (400, "no. 2")
        upstream.script = answer_all
        await send(gateway, CHAT, raw({**body_of(CHAT), "n": 1}))
    assert upstream.calls[-1].json()["messages"][-1] == {
        "role": "system",
        "content": DATE,
    }  # nothing was learnt


async def test_usage_that_is_asked_for_on_a_clients_behalf_is_still_asked_for(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with canonical(tmp_path, upstream, "full", fields={"ask_usage": True}) as gateway:
        await send(gateway, CHAT, raw(body_of(CHAT, stream=True)))
    [call] = upstream.calls
    assert call.json()["stream_options"] == {"include_usage": True}
    assert call.json()["messages"][0]["content"] == "You watch herons."


async def test_hints_for_the_providers_cache_come_after_and_mark_what_is_sent(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    long = "Herons stand still and wait. " * 700
    body = MESSAGES.body("question", system=f"{BILLING}\n{DATE}\n{long}")
    async with canonical(tmp_path, upstream, "full", fields={"cache_hints": "auto"}) as gateway:
        await send(gateway, MESSAGES, raw(body))
    system = upstream.calls[0].json()["system"]
    assert [block["text"] for block in system] == [long, DATE]
    assert [block for block in system if "cache_control" in block]


async def test_rules_can_be_left_out_and_an_unknown_one_is_refused_at_the_start(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    body = body_of(CHAT)
    async with canonical(tmp_path, upstream, "full", fields={"canonical_without": ["date-line"]}) as gateway:
        await send(gateway, CHAT, raw(body))
    assert upstream.calls[0].json() == expected(CHAT, body, "safe")
    with pytest.raises(ConfigError, match="canonical_without: there is no rule 'dates'"):
        async with canonical(tmp_path, upstream, "full", fields={"canonical_without": ["dates"]}):
            pass
