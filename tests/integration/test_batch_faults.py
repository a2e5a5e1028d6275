"""`openclaw-cache batch` and servers that break connections, die, come back, or refuse all: real sockets throughout."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from openclaw_cache import admin_client, batch_command
from openclaw_cache.batch import sender, sending
from openclaw_cache.batch.presence import Presence
from support.certificates import Authority
from support.running import RunningGateway
from support.scripted_upstream import Exchange, ScriptedUpstream, reply
from support.served import served

app = typer.Typer()
app.command()(batch_command.batch)

Fault = Callable[[Exchange], Awaitable[None]]


class Server(ScriptedUpstream):
    """Answers each prompt with itself, but for those in `faults`."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(self.answer, tls=tls)
        self.faults: dict[str, Fault] = {}
        self.others_fail: Fault | None = None
        self.seen: list[str] = []
        self.num_running = self.most_running = 0
        self.beside: dict[str, int] = {}
        """By prompt: the most that were on their way with it, at its last try."""
        self.deaths = 0

    async def answer(self, exchange: Exchange) -> None:
        prompt = exchange.call.json()["messages"][-1]["content"]
        self.seen.append(prompt)
        self.num_running += 1
        self.beside[prompt] = self.num_running
        try:
            await asyncio.sleep(0.02)
            if (fault := self.faults.get(prompt, self.others_fail)) is not None:
                await fault(exchange)
            else:
                await exchange.json(reply(prompt))
        finally:
            self.num_running -= 1

    async def die(self, _: Exchange, *, back_after_s: float | None = 0.3) -> None:
        """Take all connections along; another process may come up in its place."""
        self.deaths += 1
        port = int(self.url.rpartition(":")[2])

        async def end() -> None:
            await self.stop()
            if back_after_s is not None:
                await asyncio.sleep(back_after_s)
                await self.start(port)

        self.ending = asyncio.create_task(end())
        await asyncio.sleep(5)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as running:
        yield running


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_command, "Presence", functools.partial(Presence, most_away_s=1.0, pause_s=0.05))


async def run(url: str, *args: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, app, list(args), env={"OPENCLAW_CACHE_URL": url})


def written(file: Path, prompts: list[str]) -> Path:
    """A batch of these prompts, which are their custom_ids too."""
    bodies = [{"model": "m", "messages": [{"role": "user", "content": prompt}]} for prompt in prompts]
    rows = [
        {"custom_id": p, "url": "/v1/chat/completions", "body": b}
        for p, b in zip(prompts, bodies, strict=True)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def by_id(file: Path) -> dict[str, dict[str, Any]]:
    return {row["custom_id"]: row for row in map(json.loads, file.read_text().splitlines())}


def answered(row: dict[str, Any]) -> bool:
    response = row["response"]
    if not response or response["status_code"] != 200:
        return False
    return response["body"]["choices"][0]["message"]["content"] == row["custom_id"]  # type: ignore[no-any-return]


async def closes(exchange: Exchange) -> None:
    exchange.close()


async def resets(exchange: Exchange) -> None:
    exchange.reset()


async def tears(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n" + b'{"id": "x"')
    exchange.close()


async def tears_chunks(exchange: Exchange) -> None:
    await exchange.send(b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"id"\r\n')
    exchange.close()


async def tears_unframed(exchange: Exchange) -> None:
    await exchange.send(b'HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"id": "chatcmpl-1", "choi')
    exchange.close()


async def promises_much(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-length: 1%b\r\n\r\n{}" % (b"0" * 15))
    exchange.close()


async def promises_more(exchange: Exchange) -> None:
    await exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%b\r\n{}" % (b"F" * 20))
    exchange.close()


async def speaks_no_http(exchange: Exchange) -> None:
    await exchange.send(b"SECRET-TEXT 220 smtp ready\r\n")
    exchange.close()


async def started(server: Server, file: Path, out: Path) -> asyncio.subprocess.Process:
    """A run in a process of its own, one request at a time."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c",
        # A job in the background ignores Ctrl-C from its start on.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from openclaw_cache.cli import main; main()",
        "batch", str(file), "--out", str(out), "--url", server.url, "--concurrency", "1",
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


PROMPTS = [f"p{n:02}" for n in range(12)]


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (closes, "closed without a reply"),
        (resets, "reset"),
        (tears, "in the middle of the reply"),
        (tears_chunks, "in the middle of the reply"),
        (promises_much, "in the middle of the reply"),
        (promises_more, "in the middle of the reply"),
        (tears_unframed, "not JSON"),
        (speaks_no_http, "not an HTTP reply"),
    ],
)
async def test_a_request_that_breaks_its_connection_each_time_fails_and_the_others_go_on(
    server: Server, tmp_path: Path, fault: Fault, why: str
) -> None:
    server.faults["p03"] = fault
    out = tmp_path / "out.jsonl"
    file = written(tmp_path / "in.jsonl", PROMPTS)
    done = await run(server.url, str(file), "--out", str(out), "--json")
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert list(rows) == PROMPTS
    assert [prompt for prompt in PROMPTS if not answered(rows[prompt])] == ["p03"]
    assert (rows["p03"]["response"], rows["p03"]["error"]["code"]) == (None, "no_reply")
    assert why in rows["p03"]["error"]["message"]
    assert "3 times" in rows["p03"]["error"]["message"]
    assert "SECRET" not in rows["p03"]["error"]["message"]
    assert (server.seen.count("p03"), server.beside["p03"]) == (3, 1)
    shown = json.loads(done.stdout)
    assert (shown["num_failed"], shown["failed_by_status"]) == (1, {"no_reply": 1})

    server.faults.clear()
    server.seen.clear()
    again = await run(server.url, str(file), "--out", str(out))
    assert again.exit_code == 0, again.output
    assert server.seen == ["p03"]
    assert answered(by_id(out)["p03"])


async def test_what_breaks_once_is_answered_at_its_next_try(server: Server, tmp_path: Path) -> None:
    server.next_scripts = [closes]
    done = await run(server.url, str(written(tmp_path / "in.jsonl", PROMPTS)), "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    assert all(map(answered, by_id(tmp_path / "out").values()))


async def test_a_server_that_dies_of_one_request_and_comes_back_answers_all_others(
    server: Server, tmp_path: Path
) -> None:
    server.faults["p02"] = server.die
    file = written(tmp_path / "in.jsonl", PROMPTS)
    out = tmp_path / "out.jsonl"
    done = await run(server.url, str(file), "--out", str(out), "--concurrency", "4")
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert [prompt for prompt in PROMPTS if not answered(rows[prompt])] == ["p02"]
    assert "3 times, at last with nothing else on its way" in rows["p02"]["error"]["message"]
    assert server.deaths == 3
    assert "1 without a reply" in done.output


async def test_none_of_many_on_their_way_is_to_blame_when_the_server_dies_and_comes_back(
    server: Server, tmp_path: Path
) -> None:
    die_once = server.die

    async def first_time(exchange: Exchange) -> None:
        server.faults.clear()
        await die_once(exchange)

    server.faults["p05"] = first_time
    done = await run(
        server.url,
        str(written(tmp_path / "in.jsonl", PROMPTS)),
        "--out",
        str(tmp_path / "out"),
        "--concurrency",
        "12",
    )
    assert done.exit_code == 0, done.output
    assert server.deaths == 1
    assert all(map(answered, by_id(tmp_path / "out").values()))


async def test_a_server_that_stays_away_stops_the_run_and_the_next_goes_past_what_it_died_of(
    server: Server, tmp_path: Path
) -> None:
    server.faults["p02"] = functools.partial(server.die, back_after_s=None)
    file, out = written(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl"
    port = int(server.url.rpartition(":")[2])
    runs: list[Result] = []
    for _ in range(4):
        runs.append(await run(server.url, str(file), "--out", str(out), "--concurrency", "2"))
        assert runs[-1].exit_code == 3, runs[-1].output
        assert "away for 1 s" in runs[-1].output
        await server.start(port)
        if out.exists():
            break
        assert "the same command goes on with the rest" in runs[-1].output
    # It died among others, then alone: at the latest then all others had their turn.
    assert len(runs) <= 3
    rows = by_id(out)
    assert [prompt for prompt in PROMPTS if not answered(rows[prompt])] == ["p02"]
    assert "went away with nothing else on its way" in rows["p02"]["error"]["message"]
    assert f"each request has a result in {out}" in runs[-1].output

    server.faults.clear()
    assert (await run(server.url, str(file), "--out", str(out))).exit_code == 0
    assert answered(by_id(out)["p02"])


async def test_what_was_on_its_way_with_others_is_never_to_blame_when_the_server_goes(
    server: Server, tmp_path: Path
) -> None:
    file, port = written(tmp_path / "in.jsonl", PROMPTS[:2]), int(server.url.rpartition(":")[2])
    args = ("--concurrency", "2", "--kv-tokens", "1000")

    async def dies_with_both(exchange: Exchange) -> None:
        if server.num_running == 2:
            await server.die(exchange, back_after_s=None)
        await asyncio.sleep(20)

    server.others_fail = dies_with_both
    for number in range(6):  # whichever of the two is heard of last
        out = tmp_path / f"{number}.jsonl"
        done = await run(server.url, str(file), "--out", str(out), *args)
        assert (done.exit_code, out.exists()) == (3, False)
        assert "0 results of 2" in done.output
        await server.start(port)


async def test_a_server_that_is_gone_stops_the_run_soon_and_keeps_what_it_answered(
    server: Server, tmp_path: Path
) -> None:
    prompts = [f"q{n:04}" for n in range(1000)]
    server.faults["q0100"] = functools.partial(server.die, back_after_s=None)
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    done = await run(server.url, str(file), "--out", str(out), "--concurrency", "8")
    assert done.exit_code == 3, done.output
    assert not out.exists()
    kept = [
        json.loads(row)["result"] for row in (tmp_path / "out.jsonl.partial").read_text().splitlines()[1:]
    ]
    assert 93 <= sum(map(answered, kept)) <= 107
    assert sum(not answered(row) for row in kept) <= 8
    assert "Connection refused" in done.output or "Connect call failed" in done.output


async def test_a_server_that_breaks_every_request_marks_few_and_the_next_run_begins_with_others(
    server: Server, tmp_path: Path
) -> None:
    prompts = [f"q{n:04}" for n in range(500)]
    server.others_fail = closes
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    done = await run(server.url, str(file), "--out", str(out), "--concurrency", "4")
    assert done.exit_code == 3, done.output
    assert "10 times in a row, though the server is there" in done.output
    assert len(server.seen) <= 14
    first = set(server.seen)

    server.others_fail = None
    server.seen.clear()
    again = await run(server.url, str(file), "--out", str(out), "--concurrency", "4")
    assert again.exit_code == 0, again.output
    assert set(server.seen[-len(first) :]) == first
    assert list(by_id(out)) == prompts


async def test_runs_get_past_many_neighbours_that_break_their_connections(
    server: Server, tmp_path: Path
) -> None:
    prompts = [f"q{n:04}" for n in range(60)]
    bad = prompts[10:38]  # each of two runs meets 10 to 13: those that broke together count as one
    server.faults = dict.fromkeys(bad, closes)
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    codes = [(await run(server.url, str(file), "--out", str(out))).exit_code for _ in range(3)]
    assert codes == [3, 3, 1]  # ten of them in a row look like the server
    rows = by_id(out)
    assert [prompt for prompt in prompts if not answered(rows[prompt])] == bad


@pytest.mark.parametrize(
    ("status", "exit_code"), [(401, 2), (403, 2), (407, 2), (301, 2), (429, 3), (503, 3)]
)
async def test_a_server_that_refuses_all_stops_the_run_before_many_are_marked(
    server: Server, tmp_path: Path, status: int, exit_code: int
) -> None:
    headers = {"retry-after": "7200", "location": "https://127.0.0.1:1/"}

    async def refuse(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": "no"}}, status, headers)

    prompts = [f"q{n:04}" for n in range(500)]
    server.others_fail = refuse
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    done = await run(server.url, str(file), "--out", str(out), "--concurrency", "4")
    assert done.exit_code == exit_code, done.output
    assert f"replied with {status}" in done.output
    assert len(server.seen) <= 14
    assert not out.exists()

    server.others_fail = None
    server.seen.clear()
    again = await run(server.url, str(file), "--out", str(out), "--concurrency", "4")
    assert again.exit_code == 0, again.output
    assert all(map(answered, by_id(out).values()))


async def test_requests_that_are_refused_one_by_one_are_results_however_many_they_are(
    server: Server, tmp_path: Path
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": "no"}}, 400)

    server.others_fail = refuse
    prompts = [f"q{n:02}" for n in range(50)]
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    assert (await run(server.url, str(file), "--out", str(out))).exit_code == 1
    assert {row["response"]["status_code"] for row in by_id(out).values()} == {400}


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_FIRST_WAIT_S", 0.01)


@pytest.mark.usefixtures("_short_waits")
async def test_requests_that_are_told_not_now_each_time_are_results_and_hold_nobody_up(
    server: Server, tmp_path: Path
) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": "no"}}, 503)

    prompts = [f"q{n:04}" for n in range(60)]
    server.faults = dict.fromkeys(prompts[::3], refuse)
    out = tmp_path / "out.jsonl"
    done = await run(server.url, str(written(tmp_path / "in.jsonl", prompts)), "--out", str(out))
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert [prompt for prompt in prompts if not answered(rows[prompt])] == prompts[::3]
    assert {rows[prompt]["response"]["status_code"] for prompt in prompts[::3]} == {503}
    assert sum(server.seen.count(prompt) for prompt in prompts[::3]) == 20 * 6


@pytest.mark.usefixtures("_short_waits")
async def test_a_request_for_which_the_upstream_hangs_up_fails_behind_a_real_gateway(
    server: Server, tmp_path: Path
) -> None:
    server.faults["p03"] = closes
    file, out = written(tmp_path / "in.jsonl", PROMPTS[:6]), tmp_path / "out.jsonl"
    async with served(tmp_path / "data", [server.url]) as gateway:
        done = await run(gateway.url, str(file), "--out", str(out), "--kv-tokens", "1000")
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert [prompt for prompt in PROMPTS[:6] if not answered(rows[prompt])] == ["p03"]
    assert rows["p03"]["response"]["status_code"] == 502


async def test_a_real_gateway_that_is_killed_and_started_again_ends_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_command, "Presence", Presence)
    prompts = [f"q{n:04}" for n in range(60)]
    file, out = written(tmp_path / "in.jsonl", prompts), tmp_path / "out.jsonl"
    (tmp_path / "data").mkdir()
    upstream = {"name": "pods", "kind": "openai", "urls": [server.url]}
    with RunningGateway(tmp_path / "data", {"upstreams": [upstream]}) as gateway:
        running = asyncio.create_task(run(gateway.url, str(file), "--out", str(out), "--concurrency", "4"))
        while len(server.seen) < 20:
            assert not running.done()
            await asyncio.sleep(0.005)
        gateway.port = int(gateway.url.rpartition(":")[2])
        gateway.stop(signal.SIGKILL)
        await asyncio.to_thread(gateway.start)
        done = await running
    assert done.exit_code == 0, done.output
    assert all(map(answered, by_id(out).values()))
    assert len(server.seen) <= 60 + 4


async def test_a_run_that_is_stopped_while_it_waits_for_the_server_keeps_what_it_has(
    server: Server, tmp_path: Path
) -> None:
    server.faults["p06"] = functools.partial(server.die, back_after_s=None)
    file, out = written(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl"
    process = await started(server, file, out)
    while not server.deaths:
        assert process.returncode is None
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.5)
    os.kill(process.pid, signal.SIGINT)
    _, said = await asyncio.wait_for(process.communicate(), 10)
    assert process.returncode == 1, said
    assert b"stopped; 6 results of 12" in said
    await server.start(int(server.url.rpartition(":")[2]))
    server.faults.clear()
    server.seen.clear()
    assert (await run(server.url, str(file), "--out", str(out))).exit_code == 0
    assert sorted(server.seen) == PROMPTS[6:]
    assert server.seen[-1] == "p06"


async def test_a_server_that_falls_silent_with_its_connections_open_stops_the_run_and_is_not_met_first_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(sending, "MOST_SILENT_S", 0.5)
    silent = asyncio.Event()

    async def fall_silent(_: Exchange) -> None:
        silent.set()
        await asyncio.sleep(20)

    async def health(exchange: Exchange) -> None:
        if silent.is_set():
            await asyncio.sleep(20)
        await exchange.json({})

    server.get_script = health
    server.faults["p04"] = fall_silent
    file, out = written(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl"
    args = (str(file), "--out", str(out), "--kv-tokens", "1000", "--concurrency")
    done = await run(server.url, *args, "1")
    assert done.exit_code == 3, done.output
    assert "timed out; it has been away for 1 s" in done.output
    assert "4 results of 12" in done.output

    silent.clear()
    server.faults.clear()
    server.seen.clear()
    assert (await run(server.url, *args, "1")).exit_code == 0
    assert server.seen == [*PROMPTS[5:], "p04"]  # how it failed was kept


async def test_a_long_reply_of_a_server_that_is_there_is_waited_for(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "MOST_SILENT_S", 0.2)

    async def take_long(exchange: Exchange) -> None:
        await asyncio.sleep(1.5)
        await exchange.json(reply("p04"))

    server.faults["p04"] = take_long
    out = tmp_path / "out.jsonl"
    done = await run(server.url, str(written(tmp_path / "in.jsonl", PROMPTS)), "--out", str(out))
    assert done.exit_code == 0, done.output
    assert all(map(answered, by_id(out).values()))
    assert server.seen.count("p04") == 1


async def test_a_request_that_times_out_fails_at_once_and_holds_nobody_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_client, "LINE_TIMEOUT_S", 0.5)

    async def hang(_: Exchange) -> None:
        await asyncio.sleep(20)

    server.faults["p04"] = hang
    out = tmp_path / "out.jsonl"
    done = await run(server.url, str(written(tmp_path / "in.jsonl", PROMPTS)), "--out", str(out))
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert [prompt for prompt in PROMPTS if not answered(rows[prompt])] == ["p04"]
    assert rows["p04"]["error"]["code"] == "timeout"
    assert server.seen.count("p04") == 1


async def test_a_second_ctrl_c_waits_for_nothing(server: Server, tmp_path: Path) -> None:
    async def hang(_: Exchange) -> None:
        await asyncio.sleep(60)

    server.faults["p04"] = hang
    process = await started(server, written(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl")
    while "p04" not in server.seen:
        assert process.returncode is None
        await asyncio.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.5)
    os.kill(process.pid, signal.SIGINT)
    _, said = await asyncio.wait_for(process.communicate(), 10)
    assert (process.returncode, said.count(b"\n")) == (1, 1)
    assert b"stopped; 4 results of 12" in said


async def test_a_server_that_is_away_or_another_s_from_the_start_is_told_at_once(
    server: Server, tmp_path: Path
) -> None:
    file = written(tmp_path / "in.jsonl", PROMPTS)

    async def page(exchange: Exchange) -> None:
        await exchange.whole(b"<html>hello</html>")

    away = await run("http://127.0.0.1:9", str(file), "--kv-tokens", "1000")
    server.get_script = page
    other = await run(server.url, str(file), "--kv-tokens", "1000")
    assert (away.exit_code, other.exit_code, server.seen) == (3, 3, [])
    named = await run(server.url, str(file), "--kv-tokens", "1000", "--namespace", "\u56e2\u961f")
    assert named.exit_code == 2
    assert "--namespace" in named.output


async def test_a_server_whose_certificate_nobody_knows_is_told_at_once_and_breaks_stay_plain_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    server = Server(tls=authority.issue("localhost").server_context())
    file, out = written(tmp_path / "in.jsonl", PROMPTS), tmp_path / "out.jsonl"
    args = (str(file), "--out", str(out), "--kv-tokens", "1000")
    async with server:
        unknown = await run(server.url, *args)
        plain = await run(server.url.replace("https", "http"), *args)
        assert (unknown.exit_code, plain.exit_code, server.seen) == (3, 3, [])
        assert "OPENCLAW_CACHE_CA_FILE" in unknown.output
        assert not out.with_name("out.jsonl.partial").exists()
        monkeypatch.setenv("OPENCLAW_CACHE_CA_FILE", str(authority.ca_file))
        server.faults["p03"] = closes
        done = await run(server.url, *args)
    assert done.exit_code == 1, done.output
    rows = by_id(out)
    assert [prompt for prompt in PROMPTS if not answered(rows[prompt])] == ["p03"]
