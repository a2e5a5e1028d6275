"""Random and strange request bodies on every path that takes one: each is refused, or gets its own right answer."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fuzz import body_case, replies
from fuzz.byte_upstream import Asked, ByteUpstream, Plan
from fuzz.delivery import dumped
from fuzz.knob import Knob, seconds
from fuzz.mutation import mutated, mutated_value
from fuzz.watched import Watched
from fuzz.wire import BadReplyError, Connection
from support.running import RunningGateway

DEFAULT_S = 20.0
NUM_AT_ONCE = 6
NUM_TO_SETTLE = 300
SECRET = "heron-secret"
MAX_GROWTH_BYTES = 500 * 2**20
"""Six bodies of 10 MB at a time, each held as bytes, as values and on its way."""

API_OF: dict[str, str] = {path: api for api, path in replies.PATHS.items()}


def config(url: str) -> dict[str, Any]:
    """Both kinds of upstream at one address."""
    common = {"urls": [url], "retries": 0}
    return {
        "server": {"max_body": "20MB"},
        "upstreams": [
            {"name": "o", "kind": "openai", **common},
            {"name": "a", "kind": "anthropic", **common},
        ],
        "result_cache": {"max_memory": "16MB"},
        "store": {"max_memory": "64MB"},
    }


def right_answer(asked: Asked) -> Plan:
    """What a good upstream says: to equal requests the same, and to no two others."""
    path = asked.path.partition("?")[0]
    if path == "/v1/models":
        kind, body = "application/json", b'{"object": "list", "data": [{"id": "m", "object": "model"}]}'
    else:
        kind, body = body_case.answer(API_OF[path], body_case.read(asked.body))
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return Plan([head.encode() + body])


async def play(knob: Knob, number: int, connection: Connection, counts: Counter[str]) -> str | None:
    """One case: a good body and some like it, one after the other. Returns what is wrong."""
    rng = knob.random(number)
    if rng.random() < 0.1:
        return await play_order(knob, number, connection, counts)
    api = rng.choice(list(replies.PATHS))
    for raw in body_case.bodies(api, rng, f"{SECRET}-{number}"):
        only_stored = rng.random() < 0.3
        headers = [("content-type", "application/json")]
        headers += [("cache-control", "only-if-cached")] if only_stored else []
        try:
            reply = await connection.exchange("POST", replies.PATHS[api], headers, raw)
            fault = body_case.fault(api, raw, reply, only_stored=only_stored)
        except (TimeoutError, BadReplyError, OSError, EOFError) as e:
            return f"no reply: {type(e).__name__} {e}\n{api} {raw[:3000]!r}"
        if fault is not None:
            return (
                f"{fault}\n{api} {raw[:3000]!r}\nseen: {reply.status} {reply.headers} {reply.body[:2000]!r}"
            )
        said = (reply.cache_status or "").removeprefix("openclaw-cache; ")
        counts["hit" if said.startswith("hit") else said if "bypass" in said else str(reply.status)] += 1
    return None


async def play_order(knob: Knob, number: int, connection: Connection, counts: Counter[str]) -> str | None:
    """One order of an operator that is not as it should be."""
    rng = knob.random(number)
    path = rng.choice(list(body_case.ADMIN))
    value = mutated_value(body_case.ADMIN[path], rng)
    raw = dumped(value) if rng.random() < 0.5 else mutated(dumped(value), rng)
    if rng.random() < 0.05:
        raw = b'{"prompts": [{"messages": [{"a": ' + b"[" * 3000 + b"]" * 3000 + b"}]}]}"
    try:
        reply = await connection.exchange("POST", path, [], raw)
        json.loads(reply.body)
    except (TimeoutError, BadReplyError, OSError, EOFError, ValueError) as e:
        return f"no reply: {type(e).__name__} {e}\n{path} {raw[:3000]!r}"
    if reply.status not in (200, 400, 404) or not reply.is_whole:
        return f"neither done nor refused: {reply.status} {reply.body[:2000]!r}\n{path} {raw[:3000]!r}"
    counts[f"order {reply.status}"] += 1
    return None


@pytest.mark.timeout(seconds(DEFAULT_S) + 240)
async def test_every_body_is_refused_or_gets_its_own_answer_and_never_that_of_another(tmp_path: Path) -> None:
    knob = Knob("bodies", DEFAULT_S)
    counts: Counter[str] = Counter()
    async with ByteUpstream(right_answer) as upstream:
        gateway = await asyncio.to_thread(RunningGateway(tmp_path / "data", config(upstream.url)).start)
        try:
            watched = Watched(gateway, SECRET, max_growth_bytes=MAX_GROWTH_BYTES)
            numbers, faults = knob.numbers(), list[str]()

            async def worker() -> None:
                async with watched.connection() as connection:
                    for number in numbers:
                        found = await play(knob, number, connection, counts)
                        if found is not None:
                            faults.append(f"{knob.how_to_repeat(number)}\n{found}")
                        if faults:
                            return
                        watched.visit(number, NUM_TO_SETTLE)

            await asyncio.gather(*(worker() for _ in range(NUM_AT_ONCE)))
            assert not faults, "\n\n".join([*faults, watched.last_traceback()])
            await watched.check_at_rest()
        finally:
            await asyncio.to_thread(gateway.__exit__)
        assert upstream.failures == []
    print(
        f"{knob.num_cases} cases, {upstream.num_calls} calls, {watched.most_bytes >> 20} MiB: {dict(counts)}"
    )
    if knob.only is None:
        assert counts["hit"] > 50
        assert counts["400"] > 50
