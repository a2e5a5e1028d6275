"""Reading a body once: what is remembered must equal what a fresh reading finds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.policy import Policy, Reason
from openclaw_cache.gateway.reading import NUM_READINGS, Readings
from openclaw_cache.types import Namespace

NS = Namespace("n")
CHAT = ChatDialect()


def raw(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


async def test_the_second_reading_of_the_same_bytes_equals_the_first_and_decodes_nothing() -> None:
    readings = Readings(Policy(), frozenset())
    body = raw(temperature=0.5, prompt_cache_key="s-1:0")
    first, value = await readings.read(body, NS, CHAT)
    again, nothing = await readings.read(body, NS, CHAT)
    assert value == json.loads(body)
    assert nothing is None
    assert again == first
    assert again.request.temperature == 0.5
    assert again.labels.cache_key == "s-1:0"


async def test_other_bytes_of_an_equal_value_have_the_same_body_hash_and_others_not() -> None:
    readings = Readings(Policy(), frozenset())
    spaced = json.dumps(json.loads(raw(seed=1)), indent=2).encode()
    hashes = [
        (await readings.read(body, NS, CHAT))[0].body_hash for body in (raw(seed=1), spaced, raw(seed=1.0))
    ]
    assert hashes[0] == hashes[1]
    assert hashes[0] != hashes[2]


async def test_what_cannot_be_keyed_is_remembered_as_such() -> None:
    readings = Readings(Policy(), frozenset())
    for _ in range(2):
        reading, _ = await readings.read(b'{"model": "a", "model": "b", "messages": []}', NS, CHAT)
        assert reading.reason is Reason.DUPLICATE_KEY
        assert reading.ambiguity == "duplicate-key"
        assert reading.body_hash == b""


async def test_a_body_that_is_refused_is_refused_again() -> None:
    readings = Readings(Policy(), frozenset())
    for _ in range(2):
        with pytest.raises(RequestError) as refused:
            await readings.read(b'{"messages": []}', NS, CHAT)
        assert refused.value.param == "model"


async def test_what_is_remembered_is_bounded() -> None:
    readings = Readings(Policy(), frozenset())
    num_bodies = NUM_READINGS + 500
    for seed in range(num_bodies):
        await readings.read(raw(seed=seed), NS, CHAT)
    # Newest first: asking for a forgotten one makes room for it at the cost of others.
    num_known = sum(
        [(await readings.read(raw(seed=s), NS, CHAT))[1] is None for s in reversed(range(num_bodies))]
    )
    assert 0 < num_known <= NUM_READINGS


async def test_what_one_namespace_sent_is_not_known_in_another() -> None:
    readings = Readings(Policy(), frozenset())
    await readings.read(raw(), NS, CHAT)
    _, value = await readings.read(raw(), Namespace("other"), CHAT)
    assert value is not None
