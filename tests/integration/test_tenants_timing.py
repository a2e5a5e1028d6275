"""A probe takes as long whether another namespace has the entry or not: the same work is done, step for step.

Clocks cannot prove that. What can be proved is that nothing else happens: the same functions run in the same order,
down to each hash, and the store gets the same commands. `benchmarks/tenant_timing.py` looks at the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis.asyncio

from openclaw_cache.testing import running_valkey
from support.every_api import APIS, CHAT, EMBEDDINGS, Api, answer_all, bearer, named, tenants
from support.scripted_upstream import Gate, ScriptedUpstream
from support.served import Answer, Served

KEYS = [{"key": "sk-alpha", "namespace": "alpha"}, {"key": "sk-beta", "namespace": "beta"}]
ALPHA, BETA = bearer("sk-alpha"), bearer("sk-beta")
WANTS = {"cache-control": "only-if-cached"}
FORWARD = {"cache-control": "max-age=86400"}
every_api = pytest.mark.parametrize("api", APIS, ids=named)

_PACKAGE = str(Path(__file__).parents[2] / "src" / "openclaw_cache") + "/"
_ON_THE_WAY = ("api/", "gateway/", "dialects/", "result/", "observe/")
_BESIDE = (
    "api/keys_file.py", "api/day_counts.py", "result/write_behind.py",  # run in the background, by the clock
    "api/connection.py", "gateway/inflight.py",  # take bytes as the network brings them, in one piece or in two
)  # fmt: skip


def is_on_the_way(file: str) -> bool:
    """Whether the code in a file of the package is part of answering a request."""
    return file.startswith(_ON_THE_WAY) and file not in _BESIDE


@contextlib.contextmanager
def steps() -> Iterator[list[str]]:
    """All calls that the package makes meanwhile, in order: its own functions, and C's, such as every hash."""
    taken: list[str] = []

    def note(frame: FrameType, what: str, arg: Any) -> None:
        file = frame.f_code.co_filename.removeprefix(_PACKAGE)
        if not is_on_the_way(file):
            return
        if what == "call":
            taken.append(f"{file}:{frame.f_lineno} {frame.f_code.co_qualname}")
        elif what == "c_call":
            taken.append(f"{file}:{frame.f_lineno} {arg.__qualname__}")

    sys.setprofile(note)
    try:
        yield taken
    finally:
        sys.setprofile(None)


async def probe(gateway: Served, api: Api, headers: dict[str, str], prompt: str) -> tuple[Answer, list[str]]:
    """Ask for what is stored; the answer, and the steps to it."""
    await asyncio.sleep(0.02)  # what was started before has come to its end
    with steps() as taken:
        answered = await gateway.ask(api.body(prompt), headers=headers | WANTS, path=api.path)
    return answered, taken


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with tenants(tmp_path, upstream, KEYS) as running:
        yield running


async def scanned(gateway: Served) -> None:
    """Until the gateway knows which keys its own store certainly does not hold; before, it asks for each."""
    await gateway.ask(CHAT.body("scan"), headers=BETA)
    stored = gateway.app.gateway.cache._stored
    assert stored is not None
    async with asyncio.timeout(10):
        while stored._known is None:
            await asyncio.sleep(0.01)


async def in_memory(gateway: Served, api: Api, prompt: str) -> None:
    await gateway.ask(api.body(prompt), headers=ALPHA, path=api.path)
    await gateway.written()


async def in_valkey(gateway: Served, api: Api, prompt: str) -> None:
    await in_memory(gateway, api, prompt)
    memory = gateway.app.gateway.cache._memory
    for key, entry, _ in memory.items():
        if entry.namespace == "alpha":
            memory.remove(key)


async def nowhere(gateway: Served, api: Api, prompt: str) -> None:
    await in_memory(gateway, api, "something else " + prompt)


PLACES: dict[str, Callable[[Served, Api, str], Awaitable[None]]] = {
    "in memory": in_memory,
    "in Valkey": in_valkey,
}


@every_api
@pytest.mark.parametrize("place", PLACES)
async def test_a_probe_takes_the_same_steps_wherever_another_namespace_has_the_entry(
    gateway: Served, api: Api, place: str
) -> None:
    await scanned(gateway)
    await gateway.ask(api.body("known"), headers=BETA, path=api.path)
    first, _ = await probe(gateway, api, BETA, "a first question, for what is made once only")
    await nowhere(gateway, api, "question 1")
    missing, steps_without = await probe(gateway, api, BETA, "question 1")
    await PLACES[place](gateway, api, "question 2")
    anothers, steps_with = await probe(gateway, api, BETA, "question 2")
    own, own_steps = await probe(gateway, api, ALPHA, "question 2")
    assert [a.status for a in (first, missing, anothers, own)] == [504, 504, 504, 200]
    assert steps_with == steps_without
    assert (
        sum("blake3" in step for step in steps_with) >= 2
    )  # the body and the key: hashes are among the steps
    assert own_steps != steps_with


@pytest.mark.parametrize("api", [CHAT, EMBEDDINGS], ids=named)
async def test_a_probe_takes_the_same_steps_while_another_namespace_waits_for_the_reply(
    gateway: Served, upstream: ScriptedUpstream, api: Api
) -> None:
    await scanned(gateway)
    await gateway.ask(api.body("known"), headers=BETA, path=api.path)
    await probe(gateway, api, BETA, "a first question, for what is made once only")
    upstream.script = gate = Gate(answer_all)
    num_calls = upstream.num_calls
    async with asyncio.TaskGroup() as group:
        group.create_task(gateway.ask(api.body("question 2"), headers=ALPHA, path=api.path))
        await upstream.called(num_calls + 1)
        await probe(gateway, api, BETA, "question 0")  # on a connection of its own from here on
        missing, steps_without = await probe(gateway, api, BETA, "question 1")
        anothers, steps_with = await probe(gateway, api, BETA, "question 2")
        gate.open()
    assert (missing.status, anothers.status) == (504, 504)
    assert steps_with == steps_without


@every_api
async def test_reading_a_body_costs_the_same_whoever_else_has_sent_it(gateway: Served, api: Api) -> None:
    """Bytes that were read before are recognised, which a clock shows: so they are known to their sender only."""
    await scanned(gateway)
    await gateway.ask(api.body("known"), headers=BETA, path=api.path)
    for _ in range(2):
        await gateway.ask(api.body("question 2"), headers=ALPHA | FORWARD, path=api.path)
    _, of_the_known = await probe(gateway, api, BETA, "question 2")
    _, of_the_new = await probe(gateway, api, BETA, "question 3")
    assert of_the_known == of_the_new


async def test_two_credentials_of_keyless_clients_take_the_same_steps_too(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with tenants(tmp_path, upstream, []) as gateway:
        await scanned(gateway)
        await gateway.ask(CHAT.body("known"), headers=BETA)
        await probe(gateway, CHAT, BETA, "a first question, for what is made once only")
        await gateway.ask(CHAT.body("question 2"), headers=ALPHA)
        await gateway.written()
        missing, steps_without = await probe(gateway, CHAT, BETA, "question 1")
        anothers, steps_with = await probe(gateway, CHAT, BETA, "question 2")
        assert (missing.status, anothers.status) == (504, 504)
        assert steps_with == steps_without


async def commands(client: Any) -> dict[str, int]:
    """How often the store got each command, but for those of this question and of checks by the clock."""
    told = await client.info("commandstats")
    ours = ("cmdstat_info", "cmdstat_ping", "cmdstat_hello", "cmdstat_client")
    return {name: stat["calls"] for name, stat in told.items() if not name.startswith(ours)}


@every_api
async def test_a_shared_store_gets_the_same_commands_for_a_probe_whoever_has_the_entry(
    tmp_path: Path, upstream: ScriptedUpstream, api: Api
) -> None:
    (tmp_path / "valkey").mkdir()
    async with (
        running_valkey(tmp_path / "valkey") as (url, _),
        tenants(tmp_path / "data", upstream, KEYS, store__url=url) as gateway,
    ):
        client = redis.asyncio.Redis(unix_socket_path=url.removeprefix("unix://").partition("?")[0])
        await gateway.ask(api.body("known"), headers=BETA, path=api.path)
        await gateway.written()
        asked: list[dict[str, int]] = []
        for prepare, prompt in (
            (nowhere, "question 1"),
            (in_memory, "question 2"),
            (in_valkey, "question 3"),
        ):
            await prepare(gateway, api, prompt)
            before = await commands(client)
            answered, _ = await probe(gateway, api, BETA, prompt)
            assert answered.status == 504
            after = await commands(client)
            asked.append({n: after[n] - before.get(n, 0) for n in after if after[n] != before.get(n, 0)})
        # One question for each entry: this request for embeddings has two inputs.
        assert asked == [{"cmdstat_get": 2 if api == EMBEDDINGS else 1}] * 3
        await client.aclose()


async def test_our_own_store_is_asked_nothing_for_what_only_another_namespace_has(gateway: Served) -> None:
    await scanned(gateway)
    await in_valkey(gateway, CHAT, "question 2")
    _, taken = await probe(gateway, CHAT, BETA, "question 2")
    assert not any("store_key" in step for step in taken)
    _, own = await probe(gateway, CHAT, ALPHA, "question 2")
    assert any("store_key" in step for step in own)


async def test_a_request_id_does_not_tell_how_many_requests_others_make(gateway: Served) -> None:
    async def own_id() -> int:
        answered = await gateway.ask(CHAT.body(), headers=BETA | WANTS)
        return int(answered.headers["x-request-id"], 16)

    ids = [await own_id() for _ in range(4)]
    # Random numbers of 128 bits are this close once in 10^28.
    assert min(abs(a - b) for a, b in itertools.pairwise(ids)) > 2**32
