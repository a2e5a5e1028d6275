"""`openclaw-cache batch` through a real gateway: order, results, errors, and going on after a kill."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import typer
from click.testing import Result
from typer.testing import CliRunner

from openclaw_cache.batch_command import batch
from support.scripted_upstream import Exchange, ScriptedUpstream, reply
from support.served import Served, served

app = typer.Typer()
app.command()(batch)


@pytest.fixture(autouse=True)
def _quiet_server() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


class PrefixUpstream(ScriptedUpstream):
    """Answers with the question, and counts as cached what the longest earlier prompt shares, a character a token."""

    def __init__(self) -> None:
        super().__init__(self.answer)
        self.seen: list[str] = []
        self.broken: set[str] = set()
        self.num_running = self.most_running = 0

    async def answer(self, exchange: Exchange) -> None:
        prompt = exchange.call.json()["messages"][-1]["content"]
        if prompt in self.broken:
            await exchange.json({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
            return
        self.num_running += 1
        self.most_running = max(self.most_running, self.num_running)
        await asyncio.sleep(0.01)
        cached = max((_shared(prompt, earlier) for earlier in self.seen), default=0)
        self.seen.append(prompt)
        self.num_running -= 1
        usage = {"prompt_tokens": len(prompt), "completion_tokens": 1, "total_tokens": len(prompt) + 1}
        usage["prompt_tokens_details"] = {"cached_tokens": cached}  # type: ignore[assignment]
        await exchange.json(reply(prompt[-3:], usage=usage))


def _shared(one: str, other: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@pytest.fixture
async def upstream() -> AsyncIterator[PrefixUpstream]:
    async with PrefixUpstream() as running:
        yield running


@pytest.fixture
async def gateway(tmp_path: Path, upstream: PrefixUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path / "data", [upstream.url]) as running:
        yield running


async def run(gateway: Served, *args: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, app, list(args), env={"OPENCLAW_CACHE_URL": gateway.url}
    )


def line(custom_id: str, prompt: str, **fields: Any) -> str:
    body = {"model": "pod-model", "messages": [{"role": "user", "content": prompt}], **fields}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body})


def results(file: Path) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in file.read_text().splitlines()]


A, B = "A" * 200, "B" * 200


async def test_results_come_in_the_given_order_and_requests_in_the_order_of_what_they_share(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    prompts = [A + "1aa", B + "2bb", A + "3cc", B + "4dd", A + "5ee"]
    file.write_text("\n".join(line(f"id-{i}", prompt) for i, prompt in enumerate(prompts)))
    done = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"), "--json", "--concurrency", "1")
    assert done.exit_code == 0, done.output
    assert upstream.seen == [prompts[i] for i in (0, 2, 4, 1, 3)]
    rows = results(tmp_path / "out.jsonl")
    assert [row["custom_id"] for row in rows] == [f"id-{i}" for i in range(5)]
    assert [row["response"]["body"]["choices"][0]["message"]["content"] for row in rows] == [
        "1aa", "2bb", "3cc", "4dd", "5ee",
    ]  # fmt: skip
    assert {row["response"]["status_code"] for row in rows} == {200}
    assert all(row["response"]["request_id"] and row["error"] is None for row in rows)
    shown = json.loads(done.output)
    # Three of five prompts of 203 find 200 computed by the one before.
    assert (shown["measured"]["prompt_tokens"], shown["measured"]["cached_tokens"]) == (1015, 600)
    assert not (tmp_path / "out.jsonl.partial").exists()


async def test_the_first_of_a_group_goes_alone_and_at_most_so_many_at_once(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(line(f"{i}", f"{A}{i:03}") for i in range(12)))
    done = await run(gateway, str(file), "--json", "--concurrency", "3")
    assert done.exit_code == 0, done.output
    assert 1 < upstream.most_running <= 3
    # Only the first finds nothing, though three are sent at a time.
    assert json.loads(done.output)["measured"]["cached_tokens"] >= 11 * 200
    assert len(results(tmp_path / "in.jsonl.results.jsonl")) == 12


async def test_a_line_that_cannot_be_sent_and_one_that_is_refused_have_a_result_that_says_so(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    upstream.broken.add("bad")
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join([line("good", "good"), "{broken", line("bad", "bad"), line("good", "again")]))
    done = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"))
    assert done.exit_code == 1, done.output
    good, broken, bad, twice = results(tmp_path / "out.jsonl")
    assert good["response"]["status_code"] == 200
    assert (broken["response"], broken["error"]["code"]) == (None, "invalid_line")
    assert "line 2: not valid JSON" in broken["error"]["message"]
    assert bad["response"]["status_code"] == 400
    assert "twice" in twice["error"]["message"]
    told = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"))
    assert "\nfrom an earlier run: 1 result\n" in told.output
    upstream.broken.clear()
    again = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"), "--json")
    assert json.loads(again.output)["num_resumed"] == 1
    assert results(tmp_path / "out.jsonl")[2]["response"]["status_code"] == 200
    assert upstream.seen == ["good", "bad"]


async def test_a_run_goes_on_with_what_an_earlier_one_left_and_drops_what_a_kill_tore(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    file.write_text("\n".join(line(f"{i}", f"{A}{i:03}") for i in range(4)))
    assert (await run(gateway, str(file), "--out", str(out))).exit_code == 0
    whole = results(out)
    other = tmp_path / "one.jsonl"
    partial = tmp_path / "out.jsonl.partial"
    # As a killed run leaves it: its header, two results, and the half of a third.
    import hashlib  # noqa: PLC0415

    header = json.dumps({"batch": hashlib.sha256(file.read_bytes()).hexdigest()})
    kept = [json.dumps({"line": i + 1, "result": whole[i]}) for i in (0, 2)]
    partial.write_text("\n".join([header, *kept, kept[0][:50]]))
    out.unlink()
    upstream.seen.clear()
    done = await run(gateway, str(file), "--out", str(out), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["num_resumed"] == 2
    assert [row["id"] for row in results(out)][::2] == [whole[0]["id"], whole[2]["id"]]
    assert [row["custom_id"] for row in results(out)] == ["0", "1", "2", "3"]
    other.write_text(line("x", "y"))
    partial.write_text("\n".join([header, *kept]))
    refused = await run(gateway, str(other), "--out", str(out))
    assert refused.exit_code == 2
    assert "another batch" in refused.output


async def test_a_run_that_was_killed_asks_only_for_what_is_missing(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file, partial = tmp_path / "in.jsonl", tmp_path / "out.jsonl.partial"
    file.write_text("\n".join(line(f"{i}", f"{i:03}{A}") for i in range(40)))
    args = (
        "batch",
        str(file),
        "--out",
        str(tmp_path / "out.jsonl"),
        "--concurrency",
        "2",
        "--url",
        gateway.url,
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "openclaw_cache", *args, stdout=asyncio.subprocess.DEVNULL
    )
    while not partial.exists() or partial.read_bytes().count(b"\n") < 6:
        assert process.returncode is None
        await asyncio.sleep(0.005)
    process.kill()
    await process.wait()
    num_kept = partial.read_bytes().count(b"\n") - 1
    assert not (tmp_path / "out.jsonl").exists()
    done = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["num_resumed"] == num_kept >= 5
    assert [row["custom_id"] for row in results(tmp_path / "out.jsonl")] == [str(i) for i in range(40)]
    # Two were on their way when it was killed; the result cache may answer those.
    assert len(upstream.seen) <= 42


async def test_a_client_that_is_no_operator_may_send_a_batch(
    upstream: PrefixUpstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_CACHE_KEY", "client-key-0123456789")
    file = tmp_path / "in.jsonl"
    file.write_text(line("x", "hello"))
    keys = [{"key": "client-key-0123456789", "namespace": "team"}]
    env = {"ADMIN": "admin-key-0123456789"}
    async with served(
        tmp_path / "data", [upstream.url], env=env, server__keys=keys, server__admin_key_env="ADMIN"
    ) as gateway:
        done = await run(gateway, str(file), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["predicted"]["is_assumed"]


async def test_a_url_of_another_host_is_sent_to_our_own_server(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    row = json.loads(line("x", "hello")) | {"url": "https://api.example.com/v1/chat/completions"}
    file.write_text(json.dumps(row))
    assert (await run(gateway, str(file))).exit_code == 0
    assert upstream.seen == ["hello"]


async def test_what_is_streamed_in_the_file_comes_whole(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line("x", "hello", stream=True, stream_options={"include_usage": True}))
    assert (await run(gateway, str(file))).exit_code == 0
    (row,) = results(tmp_path / "in.jsonl.results.jsonl")
    assert row["response"]["body"]["choices"][0]["message"]["content"] == "llo"


async def test_a_dry_run_asks_nobody_and_tells_both_orders(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    prompts = [("A" if i % 2 else "B") * 4000 + f"{i:04}" for i in range(20)]
    file.write_text("\n".join(line(f"{i}", prompt) for i, prompt in enumerate(prompts)))
    done = await asyncio.to_thread(
        CliRunner().invoke, app, [str(file), "--dry-run", "--kv-tokens", "1200", "--json"]
    )
    assert done.exit_code == 0, done.output
    foretold = json.loads(done.output)["predicted"]
    # Room for one prompt of 1,000 tokens: in turns nothing stays but the first block they share, ours computes two.
    assert foretold["given_order_ratio"] < 0.3
    assert foretold["our_order_ratio"] == pytest.approx(18 / 20, abs=0.02)


async def test_mistakes_are_usage_errors_and_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line("x", "y"))

    async def invoke(*args: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, app, list(args))

    empty = tmp_path / "empty.jsonl"
    empty.write_text("\n")
    for args in ([str(empty)], [str(tmp_path / "none")], [str(file), "--concurrency", "0"], ["-"]):
        assert (await invoke(*args)).exit_code == 2, args
    assert (await invoke(str(file), "--url", "http://127.0.0.1:9")).exit_code == 3


async def test_the_results_never_replace_the_batch_file_itself(
    gateway: Served, upstream: PrefixUpstream, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(line("a", "one"))
    (tmp_path / "link.jsonl").symlink_to(file)
    for out in ("in.jsonl", "link.jsonl"):
        done = await run(gateway, str(file), "--out", str(tmp_path / out))
        assert done.exit_code == 2
        assert "the batch file itself" in done.output
    assert (file.read_text(), upstream.seen) == (line("a", "one"), [])


async def test_a_file_that_only_has_the_name_of_a_partial_one_is_left_alone(
    gateway: Served, tmp_path: Path
) -> None:
    file, partial = tmp_path / "in.jsonl", tmp_path / "out.jsonl.partial"
    file.write_text(line("a", "one"))
    partial.write_text("notes without a line break")
    done = await run(gateway, str(file), "--out", str(tmp_path / "out.jsonl"))
    assert done.exit_code == 2
    assert partial.read_text() == "notes without a line break"
