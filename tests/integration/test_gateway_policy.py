"""What a request may do with the cache: Cache-Control, the bypass reasons, and bodies that have no key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import ScriptedUpstream, wants_usage
from support.served import Served, chat, served


async def assert_bypasses(gateway: Served, upstream: ScriptedUpstream, reason: str, **request: Any) -> None:
    """Two identical requests: two calls, both marked with the reason, nothing stored."""
    before = upstream.num_calls
    for _ in range(2):
        answered = await gateway.ask(**request)
        assert answered.cache_status == f"openclaw-cache; fwd=bypass; detail={reason}"
        assert answered.status == 200
    assert upstream.num_calls == before + 2
    assert gateway.app.gateway.cache.stats().num_entries == 0


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
BYPASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "n": ("n", {"body": chat(n=2)}),
    "tools": ("tools", {"body": chat(tools=[TOOL])}),
    "tool turn": (
        "tools",
        {
            "body": {
                "model": "m",
                "messages": [
                    {"role": "user", "content": "look"},
                    {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "tool_call_id": "c1", "content": "seen"},
                ],
            }
        },
    ),
    "summariser": (
        "summariser",
        {
            "body": {
                "model": "m",
                "messages": [
                    {"role": "system", "content": "You are a context summarization assistant. Keep facts."},
                    {"role": "user", "content": "the talk so far"},
                ],
            }
        },
    ),
    "duplicate key": (
        "duplicate-key",
        {"raw": b'{"model":"m","messages":[{"role":"user","content":"hi"}],"top_p":1,"top_p":0.5}'},
    ),
    "duplicate key deep inside": (
        "duplicate-key",
        {"raw": b'{"model":"m","messages":[{"role":"user","content":"hi","content":"ho"}]}'},
    ),
    "integer past 64 bits": (
        "number-range",
        {"raw": b'{"model":"m","messages":[],"seed":18446744073709551616}'},
    ),
    "number past a double": ("number-range", {"raw": b'{"model":"m","messages":[],"x":1e999}'}),
    "lone surrogate": (
        "lone-surrogate",
        {"raw": b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}'},
    ),
}


@pytest.mark.parametrize("name", BYPASSES)
async def test_each_reason_to_bypass_is_named_and_the_upstream_gets_the_exact_bytes(
    gateway: Served, upstream: ScriptedUpstream, name: str
) -> None:
    reason, request = BYPASSES[name]
    if "raw" in request:
        upstream.script = answer_without_reading
    await assert_bypasses(gateway, upstream, reason, **request)
    if "raw" in request:
        assert [call.body for call in upstream.calls] == [request["raw"]] * 2


async def answer_without_reading(exchange: Any) -> None:
    from support.scripted_upstream import reply  # noqa: PLC0415

    await exchange.json(reply())


async def test_a_disabled_cache_bypasses_everything(tmp_path: Path, upstream: ScriptedUpstream) -> None:
    async with served(tmp_path, [upstream.url], result_cache__enabled=False) as gateway:
        await assert_bypasses(gateway, upstream, "disabled", body=chat())


async def test_sampled_requests_are_cached_by_default_and_bypass_where_the_operator_says_so(
    tmp_path: Path, gateway: Served, upstream: ScriptedUpstream
) -> None:
    sampled = chat(temperature=0.7)
    await gateway.ask(sampled)
    assert (await gateway.ask(sampled)).is_hit
    async with served(tmp_path / "second", [upstream.url], result_cache__sampled="bypass") as strict:
        await assert_bypasses(strict, upstream, "sampled", body=sampled)
        for fields in ({}, {"temperature": 0}, {"temperature": 0.7, "seed": 1}, {"temperature": None}):
            await strict.ask(chat(**fields))
            assert (await strict.ask(chat(**fields))).is_hit, fields


async def test_tools_are_cached_where_the_operator_says_so_but_summarisers_never(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], result_cache__tools="cache") as gateway:
        await gateway.ask(chat(tools=[TOOL]))
        assert (await gateway.ask(chat(tools=[TOOL]))).is_hit
        summary = {**BYPASSES["summariser"][1]["body"], "tools": [TOOL]}
        before = upstream.num_calls
        for _ in range(2):
            assert "detail=summariser" in ((await gateway.ask(summary)).cache_status or "")
        assert upstream.num_calls == before + 2


async def test_a_bypassing_stream_is_not_asked_for_usage_on_our_behalf(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    answered = await gateway.ask(chat(n=2, stream=True))
    assert answered.cache_status == "openclaw-cache; fwd=bypass; detail=n"
    assert not wants_usage(upstream.calls[0])


# Cache-Control (RFC 9111 §5.2.1).


async def test_no_store_may_be_answered_from_the_cache_but_is_not_kept(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    no_store = {"cache-control": "no-store"}
    first = await gateway.ask(headers=no_store)
    assert first.cache_status == "openclaw-cache; fwd=bypass; detail=no-store"
    assert not (await gateway.ask()).is_hit
    assert (await gateway.ask(headers=no_store)).is_hit
    assert upstream.num_calls == 2


@pytest.mark.parametrize("streams", [False, True])
async def test_no_cache_computes_anew_and_replaces_the_stored_reply(
    gateway: Served, upstream: ScriptedUpstream, streams: bool
) -> None:
    assert (await gateway.ask(chat(stream=streams))).text == "answer 1"
    fresh = await gateway.ask(chat(stream=streams), headers={"cache-control": "no-cache"})
    assert fresh.text == "answer 2"
    assert (fresh.cache_status or "").startswith("openclaw-cache; fwd=bypass; detail=no-cache")
    after = await gateway.ask(chat(stream=streams))
    assert (after.is_hit, after.text) == (True, "answer 2")


async def test_no_cache_with_no_store_reads_and_keeps_nothing(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask()
    both = await gateway.ask(headers={"cache-control": "no-cache, no-store"})
    assert (both.is_hit, both.text) == (False, "answer 2")
    assert (await gateway.ask()).text == "answer 1"


async def test_a_failed_refresh_leaves_the_stored_reply(gateway: Served, upstream: ScriptedUpstream) -> None:
    from support.scripted_upstream import says  # noqa: PLC0415

    await gateway.ask()
    upstream.next_scripts = [says({"error": {"message": "no"}}, status=500)]
    assert (await gateway.ask(headers={"cache-control": "no-cache"})).status == 500
    assert (await gateway.ask()).text == "answer 1"


async def test_only_if_cached_answers_504_instead_of_calling(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    only = {"cache-control": "only-if-cached"}
    missed = await gateway.ask(headers=only)
    assert missed.status == 504
    assert missed.json()["error"]["code"] == "not_cached"
    assert missed.headers["x-request-id"]
    assert missed.headers["cache-status"] == "openclaw-cache; detail=not-cached"
    assert upstream.num_calls == 0
    await gateway.ask()
    assert (await gateway.ask(headers=only)).is_hit
    assert (await gateway.ask(chat(n=2), headers=only)).status == 504
    assert upstream.num_calls == 1


async def test_max_age_refuses_older_replies(gateway: Served, upstream: ScriptedUpstream) -> None:
    await gateway.ask()
    assert (await gateway.ask(headers={"cache-control": "max-age=60"})).is_hit
    gateway.app.gateway.wall = lambda: __import__("time").time() + 61  # a minute later
    again = await gateway.ask(headers={"cache-control": "max-age=60, only-if-cached"})
    assert again.status == 504
    hit = await gateway.ask()
    assert hit.is_hit
    assert int(hit.headers["age"]) in (61, 62, 63)


@pytest.mark.parametrize("wrong", ["max-age=soon", "max-age=-1", "max-age=", "max-age", "max-age=1.5"])
async def test_a_max_age_that_is_no_number_is_stale_at_once(
    gateway: Served, upstream: ScriptedUpstream, wrong: str
) -> None:
    # RFC 9111 §4.2.1: freshness information that is invalid is to be considered stale.
    await gateway.ask()
    assert not (await gateway.ask(headers={"cache-control": wrong})).is_hit
    assert upstream.num_calls == 2


@pytest.mark.parametrize(
    ("value", "hits"),
    [("MAX-AGE=60", True), ('max-age="60"', True), ("No-Cache", False), ("private, foo=bar", True)],
)
async def test_directives_are_read_as_rfc_9111_writes_them(
    gateway: Served, upstream: ScriptedUpstream, value: str, hits: bool
) -> None:
    await gateway.ask()
    assert (await gateway.ask(headers={"cache-control": value})).is_hit is hits


async def test_with_a_shared_store_that_was_never_reached_nothing_stored_is_safe_but_all_is_answered(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], store__url="redis://127.0.0.1:1/0") as gateway:
        await assert_bypasses(gateway, upstream, "degraded", body=chat())
        assert (await gateway.ask(headers={"cache-control": "only-if-cached"})).status == 504
        assert await gateway.metric('openclaw_cache_degraded_total{what="epoch_unknown"}') == 3
        assert (await gateway.ask({"pattern": "*"}, path="/admin/evict")).status == 503
        assert (await gateway.ask({"model": "m"}, path="/admin/invalidate")).status == 503
