"""Whatever batches are asked for in whatever order: the vectors of a direct call, and each input fetched once."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.embeddings import apportion, put_together, read_stored, take_apart
from openclaw_cache.errors import MergeError
from support.embeddings_site import (
    Site,
    embed,
    inputs_of,
    reply_to,
    running_site,
    tokens_of,
    vectors_for,
    vectors_in,
)
from support.scripted_upstream import ScriptedUpstream

INPUTS: list[Any] = ["a", "bb", "猫", "A", [1], [1, 2]]
texts = st.lists(st.sampled_from([one for one in INPUTS if isinstance(one, str)]), min_size=1, max_size=6)
tokens = st.lists(st.sampled_from([one for one in INPUTS if isinstance(one, list)]), min_size=1, max_size=4)
bodies = st.builds(
    lambda asked, fields: {"input": asked, **fields},
    st.one_of(texts, tokens, st.sampled_from(INPUTS)),
    st.sampled_from([{}, {"dimensions": 4}, {"dimensions": 4.0}]),
)
_names = itertools.count()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[asyncio.Runner, Site]]:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def start() -> Site:
            pod = await stack.enter_async_context(ScriptedUpstream(embed))
            return await stack.enter_async_context(running_site(tmp_path_factory.mktemp("site"), pod))

        site = runner.run(start())
        yield runner, site
        runner.run(stack.aclose())
        assert site.pod.failures == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(bodies, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=6))
def test_any_sequence_of_batches_gets_the_vectors_of_a_direct_call_and_fetches_each_input_once(
    running: tuple[asyncio.Runner, Site], steps: list[tuple[list[dict[str, Any]], bool]]
) -> None:
    """The batches of one step are asked for at the same time; between steps the memory may be lost."""
    runner, site = running

    async def scenario() -> None:
        namespace = f"n{next(_names)}"
        site.pod.calls.clear()
        for step, forgets in steps:
            answers = await asyncio.gather(*(site.ask(body, namespace=namespace) for body in step))
            for body, answered in zip(step, answers, strict=True):
                assert vectors_in(answered.body) == vectors_for(body)
                items = json.loads(answered.body)["data"]
                assert [item["index"] for item in items] == list(range(len(inputs_of(body))))
                assert answered.prompt_tokens == json.loads(answered.body)["usage"]["prompt_tokens"]
            if forgets:
                assert await site.embeddings.cache.flush(10.0)
                site.forget_memory()
        fetched = Counter(
            json.dumps([one, call.json().get("dimensions")])
            for call in site.pod.calls
            for one in inputs_of(call.json())
        )
        assert set(fetched.values()) == {1}

    runner.run(scenario())


@settings(max_examples=40, deadline=None)
@given(bodies, st.lists(bodies, max_size=3))
def test_a_batch_costs_the_same_when_it_is_asked_for_again(
    running: tuple[asyncio.Runner, Site], body: dict[str, Any], before: list[dict[str, Any]]
) -> None:
    runner, site = running

    async def scenario() -> None:
        namespace = f"n{next(_names)}"
        for other in before:
            await site.ask(other, namespace=namespace)
        first = await site.ask(body, namespace=namespace)
        again = await site.ask(body, namespace=namespace)
        assert again.prompt_tokens == again.cached_tokens == first.prompt_tokens
        if not before and len(set(map(str, inputs_of(body)))) == len(inputs_of(body)):
            assert first.prompt_tokens == sum(map(tokens_of, inputs_of(body)))

    runner.run(scenario())


@given(
    st.integers(min_value=0, max_value=10**9),
    st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=50),
)
def test_shares_add_up_and_none_is_a_whole_token_off(total: int, weights: list[int]) -> None:
    shares = apportion(total, weights)
    assert sum(shares) == total
    whole = sum(weights)
    exact = [Fraction(total * w, whole) if whole else Fraction(total, len(weights)) for w in weights]
    assert all(abs(share - one) < 1 for share, one in zip(shares, exact, strict=True))


spaces = st.text(" \n\t\r", max_size=2)
members = st.dictionaries(
    st.text(max_size=3).filter(lambda name: name not in {"data", "usage", "error", "model"}),
    st.recursive(
        st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
        st.lists,
        max_leaves=4,
    ),
    max_size=3,
)


@given(
    st.lists(
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2),
        min_size=1,
        max_size=4,
    ),
    members,
    members,
    spaces,
)
def test_what_is_taken_apart_and_kept_and_put_together_is_the_same_reply(
    vectors: list[list[float]], around: dict[str, Any], beside: dict[str, Any], space: str
) -> None:
    beside = {name: value for name, value in beside.items() if name not in {"index", "embedding"}}
    written = [space.join(["[", ",".join(map(repr, vector)), "]"]) for vector in vectors]
    items = [
        json.dumps({**beside, "index": i, "embedding": "HERE"}).replace('"HERE"', text)
        for i, text in enumerate(written)
    ]
    head = json.dumps({**around, "usage": {"prompt_tokens": 9}, "data": "HERE"})
    reply = head.replace('"HERE"', "[" + ",".join(items) + "]").encode()
    inputs = [f"text {i}" for i in range(len(vectors))]
    stored = [v.reply for v in take_apart(reply, inputs, is_float32=True)]
    again = put_together([read_stored(one) for one in stored], read_stored(stored[0]))
    assert json.loads(again) == json.loads(reply)
    assert all(again.count(text.encode()) >= written.count(text) for text in written)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_make_the_reader_fail_otherwise_than_by_saying_no(reply: bytes) -> None:
    for one in (reply, reply_to({"model": "m", "input": ["a"]})[: len(reply)], b'{"data":[' + reply + b"]}"):
        try:
            take_apart(one, ["a"], is_float32=True)
        except MergeError:
            continue
        assert json.loads(one)["data"][0]["index"] == 0
