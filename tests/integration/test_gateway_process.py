"""The gateway as its own process: logs, secrets, the command line, draining, crashes and a sick store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.entries import embedded_valkey
from support.running import RunningGateway
from support.scripted_upstream import (
    DONE,
    Exchange,
    Gate,
    ScriptedUpstream,
    chunk,
    event,
    reply,
    says,
    stream_events,
)
from support.served import Answer, chat

PROMPT_MARK, REPLY_MARK = "heron-in-the-prompt", "osprey-in-the-reply"
KEY, POD_KEY, ADMIN_KEY = "sk-client-kestrel", "sk-pod-merlin", "sk-admin-falcon"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def config(port: int, **sections: Any) -> dict[str, Any]:
    pods = {"name": "pods", "kind": "openai", "urls": [f"http://127.0.0.1:{port}"]}
    return {"upstreams": [pods | sections.pop("upstream", {})], **sections}


@pytest.fixture(scope="module")
def port() -> int:
    """Where every test's upstream listens; the processes are configured with it."""
    return free_port()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[RunningGateway]:
    """One process with keys, for all tests that leave it alive."""
    keys = [{"key": KEY, "namespace": "team"}, {"key_env": "OTHER_KEY", "namespace": "other"}]
    settings = config(
        port,
        server={"keys": keys, "admin_key_env": "ADMIN", "max_body": "100KB"},
        upstream={"api_key_env": "POD_KEY"},
    )
    env = {"POD_KEY": POD_KEY, "ADMIN": ADMIN_KEY, "OTHER_KEY": "sk-other-harrier"}
    with RunningGateway(tmp_path_factory.mktemp("shared") / "data", settings, env) as gateway:
        yield gateway


@pytest.fixture
async def upstream(port: int) -> AsyncIterator[ScriptedUpstream]:
    pod = ScriptedUpstream()
    await pod.start(port)
    yield pod
    await pod.stop()
    assert pod.failures == []


@pytest.fixture
def own(tmp_path: Path, port: int) -> Iterator[RunningGateway]:
    """A process of the test's own, not started yet."""
    gateway = RunningGateway(tmp_path / "data", config(port, store={"timeout": "200ms"}))
    try:
        yield gateway
    finally:
        gateway.__exit__()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as made:
        yield made


async def ask(
    session: aiohttp.ClientSession, gateway: RunningGateway, body: Any = None, key: str = "", **headers: str
) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        sent["authorization"] = f"Bearer {key}"
    data = body if isinstance(body, bytes) else json.dumps(chat() if body is None else body).encode()
    async with session.post(gateway.url + "/v1/chat/completions", data=data, headers=sent) as response:
        return Answer(response.status, response.headers, await response.read())


async def get(session: aiohttp.ClientSession, gateway: RunningGateway, path: str, key: str = "") -> Answer:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with session.get(gateway.url + path, headers=headers) as response:
        return Answer(response.status, response.headers, await response.read())


async def metric(session: aiohttp.ClientSession, gateway: RunningGateway, name: str) -> float:
    text = (await get(session, gateway, "/metrics")).body.decode()
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


async def until(condition: Any, timeout_s: float = 30.0) -> None:
    """Wait until an async or plain condition holds."""
    async with asyncio.timeout(timeout_s):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.02)


def lines_of(gateway: RunningGateway, request_id: str) -> list[dict[str, Any]]:
    return [line for line in gateway.requests_logged() if line["request_id"] == request_id]


async def line_of(gateway: RunningGateway, request_id: str) -> dict[str, Any]:
    """The one log line of a request; fails where there are two."""
    await until(lambda: lines_of(gateway, request_id))
    await asyncio.sleep(0.1)  # a second line would follow within the writer's 50 ms
    (line,) = lines_of(gateway, request_id)
    return line


# Logs and secrets.


async def test_each_request_has_exactly_one_log_line_that_says_what_became_of_it(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    body = chat("one line each", user="a")
    streamed = chat("one line each, streamed", stream=True)

    async def cut(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(stream_events("Par")[1])
        exchange.close()

    cases: list[tuple[str, Any, str, int, str]] = [
        ("miss", body, KEY, 200, "miss"),
        ("hit", body, KEY, 200, "exact"),
        ("other-namespace", body, "sk-other-harrier", 200, "miss"),
        ("stream-miss", streamed, KEY, 200, "miss"),
        ("stream-hit", streamed, KEY, 200, "exact"),
        ("bypass", chat("b", n=2), KEY, 200, "bypass"),
        ("surrogate", b'{"model":"m","messages":[],"user":"\\ud800"}', KEY, 200, "bypass"),
        ("no-text", b'{"model":"m\\ud800","messages":[]}', KEY, 400, "error"),
        ("bad", b"{", KEY, 400, "error"),
        ("unauthorised", body, "sk-wrong", 401, "error"),
        ("large", b" " * 200_000, KEY, 413, "error"),
    ]
    upstream_script = upstream.script

    async def tolerant(exchange: Exchange) -> None:
        if b"ud800" in exchange.call.body:
            await exchange.json(reply())
        else:
            await upstream_script(exchange)

    upstream.script = tolerant
    for name, sent, key, status, outcome in cases:
        answered = await ask(session, shared, sent, key, x_request_id=f"log-{name}")
        assert answered.status == status, name
        assert answered.headers["x-request-id"] == f"log-{name}"
        line = await line_of(shared, f"log-{name}")
        assert (line["status"], line["outcome"], line["api"]) == (status, outcome, "chat"), name
    upstream.script = says({"error": {"message": "no"}}, status=500)
    assert (await ask(session, shared, chat("fails"), KEY, x_request_id="log-fails")).status == 500
    assert (await line_of(shared, "log-fails"))["outcome"] == "error"
    upstream.script = cut
    await ask(session, shared, chat("breaks", stream=True), KEY, x_request_id="log-breaks")
    broken = await line_of(shared, "log-breaks")
    assert (broken["outcome"], broken["error"]) == ("error", "upstream_broken")
    # And the fields that the rest of the work is done with.
    hit = lines_of(shared, "log-hit")[0]
    assert hit["namespace"] == "team"
    assert (hit["model"], hit["upstream"], hit["stream"]) == ("pod-model", "pods", False)
    assert (hit["prompt_tokens"], hit["completion_tokens"]) == (9, 3)
    assert lines_of(shared, "log-bypass")[0]["detail"] == "n"


async def test_a_client_that_leaves_has_one_log_line_too(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.script = Gate()
    task = asyncio.create_task(ask(session, shared, chat("leaves"), KEY, x_request_id="log-leaves"))
    await upstream.called()
    task.cancel()
    line = await line_of(shared, "log-leaves")
    assert line["status"] == 499
    assert "error" not in line


async def test_followers_are_logged_as_collapsed(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    gate = Gate()
    upstream.script = gate
    tasks = [
        asyncio.create_task(ask(session, shared, chat("together"), KEY, x_request_id=f"log-together-{i}"))
        for i in range(5)
    ]
    await upstream.called()
    await asyncio.sleep(0.3)
    gate.open()
    await asyncio.gather(*tasks)
    outcomes = [(await line_of(shared, f"log-together-{i}"))["outcome"] for i in range(5)]
    assert sorted(outcomes) == ["collapsed"] * 4 + ["miss"]
    assert upstream.num_calls == 1


async def test_no_text_and_no_key_is_found_where_it_does_not_belong(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    upstream.script = says(reply(REPLY_MARK))
    prompt = {"role": "user", "content": f"Tell me of the {PROMPT_MARK}."}
    bodies: list[Any] = [
        {"model": "m", "messages": [prompt]},
        {"model": "m", "messages": [prompt]},
        {"model": "m", "messages": [prompt], "stream": True},
        {"model": "m", "messages": [prompt], "n": 2},
        {"messages": [prompt]},
        json.dumps({"model": "m", "messages": [prompt]}).encode()[:-2],
        {"model": "m", "messages": f"{PROMPT_MARK}"},
    ]
    texts = []
    for key in (KEY, "sk-wrong-peregrine"):
        for body in bodies:
            answered = await ask(session, shared, body, key)
            texts.append(repr(dict(answered.headers)))
            if answered.status >= 400:
                texts.append(answered.body.decode())
    upstream.script = says({"error": {"message": f"{REPLY_MARK} {PROMPT_MARK}"}}, status=500)
    await ask(session, shared, chat(f"{PROMPT_MARK} 2"), KEY)
    await asyncio.sleep(0.2)
    texts.append(shared.log())
    texts.append((await get(session, shared, "/metrics")).body.decode())
    texts.append((await get(session, shared, "/admin/status", ADMIN_KEY)).body.decode())
    texts += [str(path) for path in shared.data_dir.rglob("*")]
    texts += [key.decode() for key in embedded_valkey(shared.data_dir).keys("*")]
    for text in texts:
        for secret in (
            PROMPT_MARK,
            REPLY_MARK,
            KEY,
            POD_KEY,
            ADMIN_KEY,
            "sk-wrong-peregrine",
            "sk-other-harrier",
        ):
            assert secret not in text


async def test_only_its_owner_can_read_the_data_dir(shared: RunningGateway) -> None:
    assert shared.data_dir.stat().st_mode & 0o077 == 0
    assert (shared.data_dir / "secret").stat().st_mode & 0o077 == 0


# The command line against a server.


def command(gateway: RunningGateway, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("OPENCLAW_CACHE_")}
    return subprocess.run(
        [sys.executable, "-m", "openclaw_cache", *args],
        env=clean | {"OPENCLAW_CACHE_SERVER__DATA_DIR": str(gateway.data_dir), "COLUMNS": "200"} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def run(gateway: RunningGateway, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(command, gateway, *args, **({"OPENCLAW_CACHE_ADMIN_KEY": ADMIN_KEY} | env))


async def orders(gateway: RunningGateway, *args: str) -> Any:
    done = await run(gateway, *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def is_hit(session: aiohttp.ClientSession, gateway: RunningGateway, body: Any, key: str = KEY) -> bool:
    answered = await ask(session, gateway, body, key, cache_control="only-if-cached")
    return answered.is_hit


async def test_status_shows_what_the_server_does_in_both_spellings(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    for _ in range(2):
        await ask(session, shared, chat("status"), KEY)
    shown = await orders(shared, "--status")
    assert shown["pid"] == shared.process.pid  # type: ignore[union-attr]
    assert shown["upstreams"][0]["name"] == "pods"
    assert shown["requests"]["exact"] >= 1
    assert shown["store"]["up"] is True
    assert shown["result_cache"]["memory"]["num_entries"] >= 1
    plain = await run(shared, "status", "--url", shared.url)
    assert plain.returncode == 0
    assert "pods" in plain.stdout
    refused = await run(shared, "status", OPENCLAW_CACHE_ADMIN_KEY="sk-not-it")
    assert (refused.returncode, "admin key" in refused.stderr) == (2, True)
    assert "sk-not-it" not in refused.stderr


async def test_evict_by_prompt_text_model_and_namespace_shows_first_what_would_go(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    bodies = {name: chat(f"tell me of {name} please") for name in ("finance", "gardens", "music")}
    await orders(shared, "evict", "--pattern", "*")
    for body in bodies.values():
        await ask(session, shared, body, KEY)
    await ask(session, shared, bodies["finance"], "sk-other-harrier")

    would = await orders(shared, "--evict", "--type=result", "--pattern=*finance*", "--dry-run")
    assert (would["dry_run"], would["num_matched"]) == (True, 2)
    assert {row["namespace"] for row in would["sample"]} == {"team", "other"}
    assert await is_hit(session, shared, bodies["finance"])

    done = await orders(shared, "--evict", "--type=result", "--pattern=*finance*", "--namespace=team")
    assert (done["dry_run"], done["num_matched"], done["num_by_model"]) == (False, 1, {"pod-model": 1})
    assert not await is_hit(session, shared, bodies["finance"])
    assert await is_hit(session, shared, bodies["finance"], "sk-other-harrier")
    assert await is_hit(session, shared, bodies["gardens"])

    assert (await orders(shared, "evict", "--pattern", "oth*"))["num_matched"] == 1  # by namespace
    assert not await is_hit(session, shared, bodies["finance"], "sk-other-harrier")
    table = await run(shared, "evict", "--pattern", "pod-*")  # by model
    assert table.returncode == 0
    assert "2 entries removed" in table.stdout
    assert "gardens" not in table.stdout
    assert not await is_hit(session, shared, bodies["music"])
    assert (await orders(shared, "evict", "--pattern", "*"))["num_matched"] == 0


async def test_invalidate_makes_every_older_reply_of_the_model_unreachable(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    body, other = chat("invalidate me"), chat("and not me", model="other-model")
    upstream.script = answer_as_asked
    await ask(session, shared, body, KEY)
    await ask(session, shared, other, KEY)
    assert await is_hit(session, shared, body)
    done = await orders(shared, "invalidate", "--model", "pod-model")
    assert done["durable"] is True
    assert not await is_hit(session, shared, body)
    assert await is_hit(session, shared, other)
    fresh = await ask(session, shared, body, KEY)
    assert not fresh.is_hit
    assert await is_hit(session, shared, body)


async def answer_as_asked(exchange: Exchange) -> None:
    await exchange.json(reply(model=exchange.call.json()["model"]))


async def test_a_flight_that_began_before_an_invalidation_is_not_served_after_it(
    shared: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    gate = Gate(answer_as_asked)
    upstream.script = gate
    old = asyncio.create_task(ask(session, shared, chat("old"), KEY))
    await upstream.called()
    await orders(shared, "invalidate", "--model", "pod-model")
    new = asyncio.create_task(ask(session, shared, chat("old"), KEY))
    await upstream.called(2)  # it does not join what began before
    gate.open()
    await asyncio.gather(old, new)


# Starts that must not succeed.


async def test_a_second_gateway_in_the_same_data_dir_is_refused(shared: RunningGateway, port: int) -> None:
    refused = await run(
        shared, "serve", "--port", "0", "--set", f"upstreams={json.dumps(config(port)['upstreams'])}"
    )
    assert refused.returncode == 2
    assert "server.data_dir" in refused.stderr
    assert str(shared.process.pid) in refused.stderr  # type: ignore[union-attr]
    assert (await run(shared, "status")).returncode == 0  # and the running one is still found


async def test_a_port_in_use_is_exit_code_2_and_names_the_setting(
    shared: RunningGateway, port: int, tmp_path: Path
) -> None:
    taken = shared.url.rpartition(":")[2]
    upstreams = json.dumps(config(port)["upstreams"])
    args = [
        "serve",
        "--port",
        taken,
        "--set",
        f"upstreams={upstreams}",
        "--data-dir",
        str(tmp_path / "other"),
    ]
    refused = await run(shared, *args)
    assert (refused.returncode, "server.port" in refused.stderr) == (2, True)
    assert "Traceback" not in refused.stderr


# Ends.


async def test_sigterm_lets_streams_finish_refuses_new_ones_and_keeps_every_reply(
    own: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    await asyncio.to_thread(own.start)
    assert own.process is not None
    go_on = asyncio.Event()

    async def slow(exchange: Exchange) -> None:
        await exchange.start_stream()
        await exchange.chunk(stream_events("Par")[1])
        await go_on.wait()
        await exchange.chunk(event(chunk({"content": "is"})) + event(chunk({}, finish="stop")) + DONE)
        await exchange.last_chunk()

    await ask(session, own, chat("before"))
    upstream.script = slow
    url = own.url + "/v1/chat/completions"
    async with session.post(url, json=chat("during", stream=True)) as response:
        got = await response.content.readany()
        own.process.send_signal(signal.SIGTERM)

        async def is_refused() -> bool:
            try:
                await get(session, own, "/readyz")  # for a moment it still takes connections
            except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, ConnectionError) as e:
                return isinstance(e, aiohttp.ClientConnectorError)
            return False

        await until(is_refused)
        assert own.process.poll() is None
        go_on.set()
        got += await response.read()
    assert got.endswith(DONE)
    assert await asyncio.to_thread(own.process.wait, 30) == 0
    assert not (own.data_dir / "server.json").exists()
    assert [line["status"] for line in own.requests_logged() if line["api"] == "chat"] == [200, 200]

    await asyncio.to_thread(own.start)
    calls = upstream.num_calls
    for body in (chat("before"), chat("during", stream=True), chat("during")):
        assert (await ask(session, own, body)).is_hit
    assert upstream.num_calls == calls


async def test_a_drain_is_bounded_and_what_it_cuts_has_its_log_line(
    tmp_path: Path, port: int, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    settings = config(port, server={"drain_timeout": "1s"})
    gateway = RunningGateway(tmp_path / "data", settings)
    await asyncio.to_thread(gateway.start)
    try:
        upstream.script = Gate()
        task = asyncio.create_task(ask(session, gateway, chat(), x_request_id="cut"))
        await upstream.called()
        assert await asyncio.to_thread(gateway.stop, timeout_s=30) == 0
        with contextlib.suppress(aiohttp.ClientError):
            await task
        assert upstream.calls[0].closed.is_set()
        (line,) = lines_of(gateway, "cut")
        assert (line["outcome"], line["error"]) == ("error", "shutting_down")
        assert "Traceback" not in gateway.log()
    finally:
        await asyncio.to_thread(gateway.__exit__)


async def test_after_kill_9_the_next_start_works_and_has_the_replies(
    own: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    await asyncio.to_thread(own.start)
    first = [await ask(session, own, chat(f"question {i}")) for i in range(20)]
    valkey = embedded_valkey(own.data_dir)
    await until(lambda: len(valkey.keys("r:*")) == 20)
    await asyncio.to_thread(own.stop, signal.SIGKILL)
    await asyncio.to_thread(own.start)
    again = [await ask(session, own, chat(f"question {i}")) for i in range(20)]
    assert all(a.is_hit for a in again)
    assert [a.body for a in again] == [f.body for f in first]
    assert upstream.num_calls == 20


# A sick store.


def valkey_pid(gateway: RunningGateway) -> int:
    pid: int = embedded_valkey(gateway.data_dir).info()["process_id"]
    return pid


async def test_a_frozen_store_costs_no_answer_is_counted_logged_once_and_heals(
    own: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    await asyncio.to_thread(own.start)
    await ask(session, own, chat("before"))
    valkey = embedded_valkey(own.data_dir)
    await until(lambda: valkey.keys("r:*"))
    pid = valkey_pid(own)
    os.kill(pid, signal.SIGSTOP)
    try:
        for i in range(30):
            assert (await ask(session, own, chat(f"during {i}"))).status == 200
        assert (await ask(session, own, chat("before"))).is_hit  # memory and its epoch are still there
        assert (await ask(session, own, chat("during 0"))).is_hit
        # No answer waited for the store, so its silence may not have been noticed yet.
        await until(lambda: is_counted(session, own, "store_unavailable"))
        began = time.monotonic()
        for i in range(10):
            await ask(session, own, chat(f"later {i}"))
        # Not a measure of speed: ten waits for a store that is known to be down would take 2 s.
        assert time.monotonic() - began < 2.0
        assert (await get(session, own, "/readyz")).status == 200
        assert json.loads((await get(session, own, "/admin/status")).body)["store"]["up"] is False
    finally:
        os.kill(pid, signal.SIGCONT)

    async def is_up() -> bool:
        return bool(json.loads((await get(session, own, "/admin/status")).body)["store"]["up"])

    await until(is_up)
    await ask(session, own, chat("after"))
    await until(lambda: len(valkey.keys("r:*")) >= 2)
    await asyncio.sleep(0.1)
    events = [json.loads(line)["event"] for line in own.log().splitlines() if line.startswith("{")]
    assert events.count("store is down") == 1
    assert events.count("store is back") == 1
    assert events.count("degraded") == 1


async def test_a_killed_store_is_started_again_and_used_again(
    own: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    await asyncio.to_thread(own.start)
    await ask(session, own, chat("before"))
    pid = valkey_pid(own)
    os.kill(pid, signal.SIGKILL)
    for i in range(20):
        assert (await ask(session, own, chat(f"during {i}"))).status == 200
    assert (await ask(session, own, chat("before"))).is_hit

    async def is_new() -> bool:
        store = json.loads((await get(session, own, "/admin/status")).body)["store"]
        return store["up"] and store["pid"] != pid

    await until(is_new)
    calls = upstream.num_calls
    await ask(session, own, chat("after"))
    assert (await ask(session, own, chat("after"))).is_hit
    assert upstream.num_calls == calls + 1


async def test_a_full_store_costs_no_answer_and_is_counted(
    own: RunningGateway, upstream: ScriptedUpstream, session: aiohttp.ClientSession
) -> None:
    await asyncio.to_thread(own.start)
    await ask(session, own, chat("before"))
    valkey = embedded_valkey(own.data_dir)
    await until(lambda: valkey.keys("r:*"))
    valkey.config_set("maxmemory-policy", "noeviction")
    valkey.config_set("maxmemory", "1kb")
    for i in range(5):
        answered = await ask(session, own, chat(f"during {i}"))
        assert (answered.status, answered.cache_status) == (200, "openclaw-cache; fwd=miss; stored")
        assert (await ask(session, own, chat(f"during {i}"))).is_hit  # memory has it
    await until(lambda: is_counted(session, own, "store_full"))
    valkey.config_set("maxmemory", "100mb")
    await ask(session, own, chat("after"))
    await until(lambda: len(valkey.keys("r:*")) >= 2)
    await asyncio.sleep(0.1)
    events = [json.loads(line)["event"] for line in own.log().splitlines() if line.startswith("{")]
    assert events.count("degraded") == 1


async def is_counted(session: aiohttp.ClientSession, gateway: RunningGateway, what: str) -> bool:
    return await metric(session, gateway, f'openclaw_cache_degraded_total{{what="{what}"}}') > 0
