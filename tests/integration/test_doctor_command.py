"""`openclaw-cache doctor`: exit codes, what is shown, the real captures, and a running server."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import Result
from typer.testing import CliRunner

from openclaw_cache import cli
from support.scripted_upstream import ScriptedUpstream
from support.served import Served, served

TEXT = " ".join(f"Rule {i}: say what was done in step {i}, and keep the code simple." for i in range(120))


def doctor(*args: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli.app, ["doctor", *args], input=stdin)


def chat(system: str, num_turns: int, **fields: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    history = [
        {"role": roles[i % 2], "content": f"message {i} about the harbour"} for i in range(2 * num_turns + 1)
    ]
    return {"model": "gpt-5", "messages": [{"role": "system", "content": system}, *history], **fields}


def log(tmp_path: Path, *bodies: dict[str, Any]) -> str:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return str(file)


@pytest.fixture
def stable(tmp_path: Path) -> str:
    return log(tmp_path, *(chat(TEXT, turn) for turn in range(4)))


@pytest.fixture
def broken(tmp_path: Path) -> str:
    return log(tmp_path, *(chat(f"Current time: 10:0{turn}\n{TEXT}", turn) for turn in range(4)))


def test_a_stable_log_is_exit_code_0_and_says_so(stable: str) -> None:
    done = doctor(stable)
    assert done.exit_code == 0, done.output
    assert "4 requests, 1 session" in done.output
    assert "no break" in done.output


def test_a_break_is_exit_code_1_with_its_place_its_diff_its_fix_and_what_mends_it(broken: str) -> None:
    done = doctor(broken)
    assert done.exit_code == 1, done.output
    for told in (
        '"Current time" in the system prompt',
        "3 times",
        f"{broken}:4 after {broken}:3",
        "/messages/0/content byte ",
        "- Current time: 10:02",
        "+ Current time: 10:03",
        "fix: ",
        "the canonicaliser would keep, full: ",
    ):
        assert told in done.output


def test_no_text_keeps_prompts_out_of_both_forms(broken: str) -> None:
    for form in ((), ("--json",)):
        done = doctor(broken, "--no-text", *form)
        assert done.exit_code == 1
        assert "10:03" not in done.output
        assert "Rule 1" not in done.output


def test_max_lost_is_a_bound_for_ci(tmp_path: Path) -> None:
    # Only the day at the end of the system prompt, before a short history: little is lost.
    bodies = [chat(TEXT + f"\nToday's date is 2026-11-{10 + i}.", i + 10) for i in range(4)]
    file = log(tmp_path, *bodies)
    shown = json.loads(doctor(file, "--json").output)
    share = shown["lost_tokens"] / shown["reachable_tokens"]
    assert 0.01 < share < 0.2
    assert doctor(file).exit_code == 1
    assert doctor(file, "--max-lost", "20%").exit_code == 0
    assert doctor(file, "--max-lost", "1%").exit_code == 1
    assert shown["is_stable"] is False


def test_strict_counts_what_sessions_do_not_share(tmp_path: Path) -> None:
    def told(session: str, system: str) -> dict[str, Any]:
        return {"session_id": session, "body": chat(system, 1)}

    file = log(tmp_path, told("a", f"Host: one\n{TEXT}"), told("b", f"Host: two\n{TEXT}"))
    assert doctor(file).exit_code == 0
    assert doctor(file, "--strict").exit_code == 1


def test_session_chooses_and_limit_bounds(tmp_path: Path) -> None:
    rows = [{"session_id": "calm", "body": chat(TEXT, turn)} for turn in range(3)]
    rows += [{"session_id": "wild", "body": chat(f"Current time: 10:0{i}\n{TEXT}", i)} for i in range(3)]
    file = log(tmp_path, *rows)
    assert doctor(file, "--session", "calm").exit_code == 0
    assert doctor(file, "--session", "wild").exit_code == 1
    assert doctor(file, "--session", "none").exit_code == 2


def test_standard_input_packed_and_with_bad_lines_is_read_and_they_are_told(stable: str) -> None:
    raw = Path(stable).read_bytes() + b"{torn"
    done = doctor("-", stdin=gzip.compress(raw))
    assert done.exit_code == 0, done.output
    assert "1 line could not be read" in done.output
    assert "standard input, line 5: not valid JSON" in done.output


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["/absent.jsonl"],
        [__file__],
        ["--live", __file__],
        ["--live", "--session", "x"],
        [__file__, "--max-lost", "much"],
        [__file__, "--limit", "0"],
    ],
)
def test_mistakes_are_exit_code_2(args: list[str]) -> None:
    done = doctor(*args)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_live_without_a_server_is_exit_code_3(tmp_path: Path) -> None:
    assert doctor("--live", "--data-dir", str(tmp_path)).exit_code == 3


def test_a_remedy_that_was_tried_in_vain_is_said_to_be_in_vain(tmp_path: Path) -> None:
    """An epoch in a line of its own wording: no rule of the canonicaliser knows it."""
    done = doctor(log(tmp_path, *(chat(f"now=179597340{turn}\n{TEXT}", turn) for turn in range(3))))
    assert done.exit_code == 1
    assert "the canonicaliser keeps no more" in done.output
    assert "the canonicaliser would keep" not in done.output


# The real captures: what is known to change, and what is known to be stable.

STABLE = ("ant", "cc", "conv1", "conv2", "err", "full", "hb", "hbsecond", "hint", "local", "resp", "round")
KNOWN = {
    "comp": {("session", "workspace_file"), ("session", "compacted"), ("between sessions", "tool_missing")},
    "fullsub": {("session", "tool_missing"), ("session", "tool_added"), ("between sessions", "tool_missing")},
    "main": {("session", "tool_missing"), ("session", "tool_added")},
    "plug": {("session", "tool_missing"), ("session", "recall"), ("between sessions", "tool_missing")},
}


@pytest.mark.parametrize("scenario", STABLE)
def test_no_false_alarm_on_scenarios_that_are_stable(data_root: Path, scenario: str) -> None:
    done = doctor(str(data_root / "openclaw" / f"{scenario}.json"), "--json")
    shown = json.loads(done.output)
    assert (done.exit_code, shown["findings"]) == (0, [])
    assert shown["kept_ratio"] > 0.99


@pytest.mark.parametrize("scenario", KNOWN)
def test_the_known_changes_are_found_by_name(data_root: Path, scenario: str) -> None:
    done = doctor(str(data_root / "openclaw" / f"{scenario}.json"), "--json")
    shown = json.loads(done.output)
    assert done.exit_code == 1
    found = {(one["scope"], one["cause"]) for one in (*shown["findings"], *shown["between_sessions"])}
    assert KNOWN[scenario] <= found


def test_a_heartbeat_between_user_turns_is_found_over_several_files(data_root: Path) -> None:
    files = [str(data_root / "openclaw" / f"{name}.json") for name in ("hbbg", "hbsecond", "main", "hb")]
    shown = json.loads(doctor(*files, "--json").output)
    labels = [one["label"] for one in shown["findings"]]
    assert any('"openclaw" is missing' in label for label in labels)
    assert any('"openclaw" is added' in label for label in labels)
    # A tree keeps both lines of prompts; one slot for a session computes each anew.
    assert shown["kept_ratio_with_tree"] > shown["kept_ratio"] + 0.2


@pytest.mark.parametrize("trace", ["miniswe", "taubench"])
def test_no_false_alarm_on_the_text_traces(data_root: Path, trace: str) -> None:
    done = doctor(str(data_root / "traces" / "lmcache_agent" / f"{trace}.jsonl.gz"))
    assert done.exit_code == 0, done.output


# A running server.


@pytest.fixture(autouse=True)
def _quiet_server() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    async with ScriptedUpstream() as upstream, served(tmp_path / "data", [upstream.url]) as running:
        yield running


async def live(gateway: Served, *args: str) -> Result:
    return await asyncio.to_thread(
        CliRunner().invoke, cli.app, ["doctor", "--live", *args], env={"OPENCLAW_CACHE_URL": gateway.url}
    )


async def test_live_shows_what_the_server_saw(gateway: Served) -> None:
    headers = {"session_id": "s-1"}
    for turn in range(3):
        await gateway.ask(chat(TEXT, turn, model="pod-model"), headers=headers)
    calm = await live(gateway)
    assert calm.exit_code == 0, calm.output
    assert "no break" in calm.output
    await gateway.ask(chat(f"Current time: 10:00\n{TEXT}", 4, model="pod-model"), headers=headers)
    wild = await live(gateway)
    assert wild.exit_code == 1, wild.output
    assert '"Current time" in the system prompt' in wild.output
    assert "Rule 1" not in wild.output
    shown = json.loads((await live(gateway, "--json")).output)
    assert shown["is_stable"] is False
    assert shown["breaks"][0]["session"] == "s-1"
    assert (await live(gateway, "--max-lost", "90%")).exit_code == 0
