"""Replies that must not be stored, joined or mixed up, found by attacking a running gateway."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from support.scripted_upstream import (
    DONE,
    Exchange,
    Gate,
    ScriptedUpstream,
    event,
    reply,
    sends,
    stream_events,
)
from support.served import Served, chat, served

NAMED_ERROR = b'event: error\ndata: {"message": "overloaded", "code": 503}\n\n'
ERROR_OBJECT = event(
    {"object": "error", "message": "overloaded", "code": 503}
)  # as vLLM and LMDeploy wrote it


@pytest.mark.parametrize("error", [NAMED_ERROR, ERROR_OBJECT], ids=["event: error", "object: error"])
@pytest.mark.parametrize("in_one_packet", [True, False])
async def test_a_stream_with_an_error_in_any_form_is_not_stored_even_if_it_finished_and_is_done(
    gateway: Served, upstream: ScriptedUpstream, error: bytes, in_one_packet: bool
) -> None:
    parts = [*stream_events("Half of", done=False), error, DONE]
    upstream.script = sends(b"".join(parts)) if in_one_packet else sends(*parts)
    assert error in (await gateway.ask(chat(stream=True))).body
    upstream.script = sends(*stream_events("Whole"))
    after = await gateway.ask(chat(stream=True))
    assert not after.is_hit
    assert after.text == "Whole"


@pytest.mark.parametrize("in_one_packet", [True, False])
async def test_what_follows_done_is_no_part_of_the_reply_however_it_is_cut(
    gateway: Served, upstream: ScriptedUpstream, in_one_packet: bool
) -> None:
    parts = [*stream_events("Paris"), *stream_events(", not London")]
    upstream.script = sends(b"".join(parts)) if in_one_packet else sends(*parts)
    await gateway.ask(chat(stream=True))
    stored = await gateway.ask(chat())
    assert stored.is_hit
    assert stored.text == "Paris"


async def order_invalidation(gateway: Served, model: str) -> None:
    async with gateway.session.post(f"{gateway.url}/admin/invalidate", json={"model": model}) as done:
        assert done.status == 200


async def test_after_an_invalidation_nobody_joins_a_flight_of_another_name_that_began_before(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """`latest` is answered by `dated`; that it is, nobody knows before the first reply has come."""

    async def dated(exchange: Exchange) -> None:
        await exchange.json(reply(f"answer {exchange.number}", model="dated"))

    gate = Gate(dated)
    upstream.script = gate
    old = asyncio.create_task(gateway.ask(chat(model="latest")))
    await upstream.called()
    await order_invalidation(gateway, "dated")
    new = asyncio.create_task(gateway.ask(chat(model="latest")))
    await upstream.called(2)
    gate.open()
    await old
    assert (await new).text == "answer 2"
    assert (await gateway.ask(chat(model="latest"))).text == "answer 2"


async def test_a_reply_that_lands_while_an_invalidation_looks_for_names_is_not_served_after_it(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def dated(exchange: Exchange) -> None:
        await exchange.json(reply(f"answer {exchange.number}", model="dated"))

    gate = Gate(dated)
    upstream.script = gate
    old = asyncio.create_task(gateway.ask(chat(model="latest")))
    await upstream.called()
    cache = gateway.app.gateway.cache
    look_up = cache.requested_as

    async def slow_look_up(model: str) -> set[str]:
        names = await look_up(model)
        gate.open()
        await old
        return names

    monkeypatch.setattr(type(cache), "requested_as", lambda _self, model: slow_look_up(model))
    await order_invalidation(gateway, "dated")
    after = await gateway.ask(chat(model="latest"))
    assert not after.is_hit
    assert after.text == "answer 2"


async def test_a_key_limited_to_models_cannot_name_another_one_in_other_letters(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """Go's encoding/json, in which Ollama, LocalAI and many gateways are written, ignores the case of names."""
    key = {"key_sha256": hashlib.sha256(b"sk-heron").hexdigest(), "models": ["small"]}
    async with served(tmp_path, [upstream.url], server__keys=[key]) as gateway:
        headers = {"authorization": "Bearer sk-heron"}
        assert (await gateway.ask(chat(model="small"), headers=headers)).status == 200
        for name in ("MODEL", "Model", "modeL"):
            refused = await gateway.ask(chat(model="small") | {name: "large"}, headers=headers)
            assert refused.status == 400
            assert refused.json()["error"]["code"] == "ambiguous_body"
    assert upstream.num_calls == 1


async def test_a_second_origin_does_not_hide_a_first_foreign_one(gateway: Served) -> None:
    own = f"http://{gateway.url.removeprefix('http://')}"
    for origins in ([own, "http://evil.example"], ["http://evil.example", own]):
        answered = await gateway.ask(headers=[("origin", origin) for origin in origins])
        assert answered.status == 403
    assert (await gateway.ask(headers=[("origin", own)])).status == 200


async def test_a_prompt_of_megabytes_is_stored_found_and_evicted_by_its_text(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    body = chat("heron " * 500_000 + "needle")
    first = await gateway.ask(body)
    await gateway.written()
    again = await gateway.ask(body)
    assert (first.text, again.text) == ("answer 1", "answer 1")
    assert again.is_hit
    gateway.forget_memory()
    assert (await gateway.ask(json.loads(json.dumps(body, sort_keys=True)))).is_hit
    order = {"pattern": "*heron needle"}
    async with gateway.session.post(f"{gateway.url}/admin/evict", json=order) as evicted:
        assert (await evicted.json())["num_matched"] == 1
    assert not (await gateway.ask(body)).is_hit


async def test_a_pattern_has_a_bounded_length(gateway: Served) -> None:
    async with gateway.session.post(f"{gateway.url}/admin/evict", json={"pattern": "?" * 5000}) as refused:
        assert refused.status == 400


async def test_a_long_stream_of_tiny_events_is_let_go_in_linear_time(
    gateway: Served, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond what may be held, each block that all have read goes, and the reader still sees every byte."""
    monkeypatch.setattr("openclaw_cache.gateway.flight.MAX_HELD_BYTES", 20_000)
    texts = [f"{number:04}" for number in range(2000)]

    async def script(exchange: Exchange) -> None:
        await exchange.start_stream()
        for one in stream_events(*texts):
            await exchange.chunk(one)
            await asyncio.sleep(0)
        await exchange.last_chunk()

    upstream.script = script
    answered = await gateway.ask(chat(stream=True))
    assert answered.text == "".join(texts)
    assert answered.body.endswith(DONE)
    assert not (await gateway.ask(chat(stream=True))).is_hit


@pytest.mark.parametrize("last", [b"data: [DONE]", b"data: [DONE]\n", b"data:[DONE]\r\n"])
async def test_a_done_without_its_blank_line_ends_a_stream_that_ends_with_it(
    gateway: Served, upstream: ScriptedUpstream, last: bytes
) -> None:
    upstream.script = sends(*stream_events("Paris.", done=False), last)
    streamed = await gateway.ask(chat(stream=True))
    assert streamed.text == "Paris."
    assert streamed.events()[-1] == "[DONE]"
    assert b'"error"' not in streamed.body
    assert (await gateway.ask(chat(stream=True))).is_hit


async def test_a_reply_that_lands_late_does_not_replace_one_that_was_asked_for_after_it(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    gate = Gate(sends(*stream_events("old")))
    upstream.script = gate
    early = asyncio.create_task(gateway.ask(chat(stream=True)))
    await upstream.called()
    upstream.script = sends(*stream_events("new"))
    refreshed = await gateway.ask(chat(stream=True), headers={"cache-control": "no-cache"})
    assert refreshed.text == "new"
    gate.open()
    assert (await early).text == "old"
    after = await gateway.ask(chat(stream=True))
    assert after.is_hit
    assert after.text == "new"
