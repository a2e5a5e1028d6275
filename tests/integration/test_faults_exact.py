"""What exact caches of others have got wrong, for every dialect: which requests are the same, and what may be kept."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fault_scripts import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    MESSAGES,
    RESPONSES,
    STREAMING,
    TEXT,
    WIRES,
    Wire,
    answers,
    ask,
    is_stored,
    text_in,
    whole_bytes,
    wired,
)
from support.scripted_upstream import Exchange, ScriptedUpstream, reply, says
from support.served import Json, Served

each_dialect = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
each_stream = pytest.mark.parametrize("wire", STREAMING, ids=lambda wire: wire.name)
with_turns = pytest.mark.parametrize("wire", [CHAT, RESPONSES, MESSAGES], ids=lambda wire: wire.name)


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with wired(tmp_path, upstream.url) as running:
        yield running


def conversation(wire: Wire, *turns: Json, **fields: Json) -> dict[str, Json]:
    name = "input" if wire is RESPONSES else "messages"
    return {**wire.body(), name: list(turns), **fields}


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


async def are_all_distinct(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire, bodies: list[Json]
) -> None:
    """Each of these requests goes upstream once, and then has its own reply."""

    async def says_which(exchange: Exchange) -> None:
        await exchange.json(wire.whole("." * exchange.number))

    upstream.script = says_which
    first = [text_in(wire, await gateway.ask(body, path=wire.path)) for body in bodies]
    assert len(set(first)) == len(bodies)
    again = [await gateway.ask(body, path=wire.path) for body in bodies]
    assert [text_in(wire, one) for one in again] == first
    assert all(one.is_hit for one in again)
    assert upstream.num_calls == len(bodies)


@with_turns
async def test_the_same_last_turn_after_another_conversation_is_another_request(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """ "How old is him?", asked of two people (zilliztech/GPTCache#8); two system prompts (#526)."""
    last = user("How old is he?")
    told = [{"role": "assistant", "content": name} for name in ("Ada", "Bob")]
    bodies = [conversation(wire, user("Who?"), one, last) for one in told]
    bodies += [conversation(wire, last), conversation(wire, last, last)]
    system = {CHAT.name: None, RESPONSES.name: "instructions", MESSAGES.name: "system"}[wire.name]
    for text in ("Be brief.", "Be brief. "):
        if system is None:
            bodies.append(conversation(wire, {"role": "system", "content": text}, last))
        else:
            bodies.append(conversation(wire, last, **{system: text}))
    await are_all_distinct(gateway, upstream, wire, bodies)


@with_turns
async def test_an_image_counts_by_its_bytes(gateway: Served, upstream: ScriptedUpstream, wire: Wire) -> None:
    """Not by the word `[image]` or a file's name (langchain-ai/langchainjs#10092)."""

    def part(data: bytes) -> Json:
        text = base64.b64encode(data).decode()
        if wire is MESSAGES:
            source = {"type": "base64", "media_type": "image/png", "data": text}
            return {"type": "image", "source": source}
        url = f"data:image/png;base64,{text}"
        if wire is RESPONSES:
            return {"type": "input_image", "image_url": url}
        return {"type": "image_url", "image_url": {"url": url}}

    images = [b"\x89PNG" + bytes(5_000) + last for last in (b"\0", b"\1", b"\0\0")]
    await are_all_distinct(
        gateway, upstream, wire, [conversation(wire, user([part(image)])) for image in images]
    )


@with_turns
async def test_fields_inside_a_turn_count_known_or_not(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """Equal texts of tools under other ids have collided elsewhere (NadirClaw#90)."""
    extras: list[Json] = [{}, {"name": "a"}, {"tool_call_id": "1"}, {"zz": None}, {"zz": []}, {"zz": {}}]
    extras += [
        {"cache_control": {"type": "ephemeral"}},
        {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
    ]
    await are_all_distinct(
        gateway, upstream, wire, [conversation(wire, {**user("x"), **more}) for more in extras]
    )


@each_dialect
async def test_texts_that_look_alike_are_not_alike(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """Case, spaces, composed and decomposed letters, a zero-width joiner, 1 and 1.0."""
    prompts = [
        "é",
        "e\u0301",
        "E\u0301",
        "1",
        "1.0",
        "a b",
        "a  b",
        "a b ",
        "a\nb",
        "a\u200db",
        "a\u00a0b",
    ]
    await are_all_distinct(gateway, upstream, wire, [wire.body(prompt) for prompt in prompts])


@each_dialect
async def test_the_same_request_is_a_hit_every_time_however_it_is_written(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """Order of members, spaces and escapes are no part of a JSON value (maximhq/bifrost#2791; litellm#31610)."""
    upstream.script = answers(wire)
    body = {**wire.body("Zürich"), "extra": {"b": [1, 2.5], "a": None}}
    backwards = {name: body[name] for name in reversed(body)} | {"extra": {"a": None, "b": [1, 2.5]}}
    spellings = [
        json.dumps(body),
        json.dumps(body, ensure_ascii=False, separators=(",", ":")),
        json.dumps(backwards, indent=3),
        json.dumps(body).replace("2.5", "25e-1"),
    ]
    first = await gateway.ask(raw=spellings[0].encode(), path=wire.path)
    for i in range(100):
        again = await gateway.ask(raw=spellings[i % 4].encode(), path=wire.path)
        assert again.is_hit
        if wire is EMBEDDINGS:  # a reply is put together of its vectors
            assert again.json() == first.json()
        else:
            assert again.body == first.body
    assert upstream.num_calls == 1


@each_stream
async def test_many_requests_at_once_never_get_each_others_replies(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    async def echo(exchange: Exchange) -> None:
        body = exchange.call.json()
        told = body.get("prompt") or body.get("input") or body["messages"][0]["content"]
        await asyncio.sleep(0.01 * (hash(told) % 5))
        await answers(wire, f"about {told}")(exchange)

    upstream.script = echo
    prompts = [f"question {i % 15}" for i in range(120)]
    wants = [i % 4 == 0 for i in range(120)]
    answered = await asyncio.gather(
        *(ask(gateway, wire, p, stream=s) for p, s in zip(prompts, wants, strict=True))
    )
    assert [text_in(wire, one) for one in answered] == [f"about {prompt}" for prompt in prompts]
    assert upstream.num_calls == 15


@each_dialect
async def test_a_body_goes_up_byte_for_byte_and_what_a_provider_caches_by_in_its_place(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """A prefix that is written anew is another one to the provider's cache (openclaw#37966)."""
    upstream.script = answers(wire)
    mark = ', "zz": {"cache_control" :{"ttl":"1h",  "type":"ephemeral"}, "n": 1.50, "s": "\\u00e9\\/"}\r\n}'
    raw = (json.dumps(wire.body())[:-1] + mark).encode()
    beta = [("anthropic-beta", "b-2"), ("anthropic-beta", "a-1"), ("anthropic-version", "2023-06-01")]
    async with gateway.session.post(gateway.url + wire.path, data=raw, headers=beta) as response:
        assert response.status == 200
    [call] = upstream.calls
    assert call.body == raw
    assert [(n, v) for n, v in call.headers if n.startswith("anthropic-")] == beta
    assert not (await gateway.ask(raw=raw, path=wire.path)).is_hit  # without its betas it is another request


FILTERED: dict[str, Json] = {
    "chat filtered": reply(TEXT, finish="content_filter"),
    "chat refused": {
        **reply(),
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "refusal": "No."}}
        ],
    },
    "chat unfinished": reply(TEXT, finish=None),
    "chat empty": reply(""),
    "completions filtered": COMPLETIONS.whole(TEXT)
    | {"choices": [{"text": TEXT, "index": 0, "logprobs": None, "finish_reason": "content_filter"}]},
    "completions empty": COMPLETIONS.whole(""),
    "responses filtered": RESPONSES.whole(TEXT)
    | {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
    "responses failed": RESPONSES.whole(TEXT) | {"status": "failed", "error": {"code": "server_error"}},
    "responses queued": RESPONSES.whole(TEXT) | {"status": "queued"},
    "responses empty": RESPONSES.whole(TEXT) | {"output": []},
    "messages refused": MESSAGES.whole(TEXT) | {"stop_reason": "refusal"},
    "messages paused": MESSAGES.whole(TEXT) | {"stop_reason": "pause_turn"},
    "messages unfinished": MESSAGES.whole(TEXT) | {"stop_reason": None},
    "messages empty": MESSAGES.whole(TEXT) | {"content": []},
}


@pytest.mark.parametrize("what", FILTERED)
async def test_a_reply_that_is_no_whole_answer_is_given_but_not_stored(
    gateway: Served, upstream: ScriptedUpstream, what: str
) -> None:
    """Else it is served for ever (HKUDS/LightRAG#3446, OmniRoute#12885)."""
    [wire] = [w for w in STREAMING if w.name == what.partition(" ")[0]]
    upstream.script = says(FILTERED[what])
    answered = await ask(gateway, wire)
    assert answered.json() == FILTERED[what]
    assert not await is_stored(gateway, wire)


@with_turns
async def test_a_request_with_tools_has_its_reply_computed_each_time(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """A stored tool call acts again on a world that has moved on (NousResearch/hermes-agent#70387)."""
    upstream.script = answers(wire)
    tool: Json = {"type": "function", "name": "f", "parameters": {"type": "object"}}
    if wire is CHAT:
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    elif wire is MESSAGES:
        tool = {"name": "f", "input_schema": {"type": "object"}}
    body = {**wire.body(), "tools": [tool]}
    for number in (1, 2):
        answered = await gateway.ask(body, path=wire.path)
        assert answered.cache_status == "openclaw-cache; fwd=bypass; detail=tools"
        assert upstream.num_calls == number


@each_dialect
async def test_a_reply_that_is_often_asked_for_ends_all_the_same(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire
) -> None:
    """A time to live that each hit renews makes what is popular immortal (redis-vl-python#603)."""
    upstream.script = answers(wire)
    async with wired(tmp_path, upstream.url, result_cache__ttl="1s") as gateway:
        started = asyncio.get_running_loop().time()
        await ask(gateway, wire)
        async with asyncio.timeout(20):
            while upstream.num_calls == 1:
                await ask(gateway, wire)
                await asyncio.sleep(0.05)
        assert asyncio.get_running_loop().time() - started >= 1


@each_dialect
async def test_what_is_evicted_by_its_text_is_gone_for_whole_replies_and_streams(
    gateway: Served, upstream: ScriptedUpstream, wire: Wire
) -> None:
    upstream.script = answers(wire)
    for prompt in ("all about finance", "all about gardens"):
        await ask(gateway, wire, prompt)
    order = {"type": "result", "pattern": "*finance*"}
    async with gateway.session.post(gateway.url + "/admin/evict", json=order) as done:
        assert done.status == 200
    assert not await is_stored(gateway, wire, "all about finance")
    gateway.forget_memory()
    assert (await ask(gateway, wire, "all about gardens")).is_hit
    assert not (await ask(gateway, wire, "all about finance")).is_hit


PROMPT_MARK, REPLY_MARK, KEY = "cormorant", "kittiwake", "sk-razorbill-long-enough"


@each_dialect
async def test_no_text_is_found_in_logs_metrics_headers_or_errors(
    tmp_path: Path, upstream: ScriptedUpstream, wire: Wire, capfd: pytest.CaptureFixture[str]
) -> None:
    """Raw prompts as keys have filled others' logs and stores (BerriAI/litellm#29414)."""
    texts = []
    error = json.dumps({"error": {"message": f"no {REPLY_MARK} for {PROMPT_MARK}"}}).encode()
    faults = [
        answers(wire, REPLY_MARK),
        whole_bytes(error, 500, {"content-type": "application/json"}),
        whole_bytes(b"<html>" + REPLY_MARK.encode(), 502, {"content-type": "text/html"}),
        whole_bytes(REPLY_MARK.encode(), 200, {"content-type": "text/plain"}),
    ]
    async with wired(tmp_path / "data", upstream.url, server__keys=[{"key": KEY}]) as gateway:
        for i, upstream.script in enumerate(faults):
            for stream in (False, True) if wire in STREAMING else (False,):
                headers = {"authorization": f"Bearer {KEY}"}
                answered = await ask(gateway, wire, f"{PROMPT_MARK} {i}", stream=stream, headers=headers)
                texts.append(repr(dict(answered.headers)))
                if answered.status >= 400 and i != 1:  # an upstream's own words are the client's
                    texts.append(answered.body.decode())
        body = {**wire.body(PROMPT_MARK), "model": [PROMPT_MARK]}
        refused = await gateway.ask(body, path=wire.path, headers={"authorization": f"Bearer {KEY}"})
        texts += [refused.body.decode(), (await gateway.get("/metrics")).body.decode()]
        texts.append((await gateway.get("/admin/status")).body.decode())
    texts.append("".join(capfd.readouterr()))
    assert "request" in texts[-1]  # there are log lines
    for text in texts:
        assert not [mark for mark in (PROMPT_MARK, REPLY_MARK, KEY) if mark in text]


async def test_inputs_of_a_batch_are_told_apart_by_value_and_kind(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    """Tokens are no text, and a token is not its neighbour."""
    inputs: list[Json] = ["65", [65], [321], [65, 65], [[65, 65]], [[65], [65]], ["65", "66"]]

    async def counts(exchange: Exchange) -> None:
        asked = exchange.call.json()["input"]
        is_one = isinstance(asked, str) or isinstance(asked[0], int)
        items = [asked] if is_one else asked
        data = [
            {"object": "embedding", "index": i, "embedding": list(map(float, json.dumps(item).encode()))}
            for i, item in enumerate(items)
        ]
        await exchange.json({**EMBEDDINGS.whole(""), "data": data})

    upstream.script = counts
    for _ in range(2):
        for asked in inputs:
            answered = await gateway.ask({"model": "pod-model", "input": asked}, path=EMBEDDINGS.path)
            is_one = isinstance(asked, str) or isinstance(asked[0], int)
            told = [
                bytes(map(int, one["embedding"])).decode().replace(" ", "") for one in answered.json()["data"]
            ]
            assert told == [json.dumps(x).replace(" ", "") for x in ([asked] if is_one else asked)]
    assert answered.is_hit
