"""`openclaw-cache memory …` and `evict --type memory` against a running server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import Result
from typer.testing import CliRunner

from openclaw_cache import cli, memory_files
from support.memory_site import Agent, without_vectors
from support.served import Served


@pytest.fixture(autouse=True)
def _quiet_server() -> Iterator[None]:
    """The server of this process says nothing on the standard output that the command writes to."""
    with structlog.testing.capture_logs():
        yield


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    async with without_vectors(tmp_path) as running:
        yield running


async def run(gateway: Served, *args: str, env: dict[str, str] | None = None) -> Result:
    """The command as a shell would run it, beside the event loop that serves it."""
    told = {"OPENCLAW_CACHE_URL": gateway.url, **(env or {})}
    return await asyncio.to_thread(CliRunner().invoke, cli.app, list(args), env=told)


async def test_store_search_list_show_and_forget(gateway: Served) -> None:
    stored = await run(gateway, "memory", "store", "The harbour master is Ines.", "--tag", "people", "--json")
    assert stored.exit_code == 0, stored.output
    memory = json.loads(stored.output)["memory"]
    assert (memory["source"], memory["tags"]) == ("cli", ["people"])
    found = await run(gateway, "memory", "search", "who is the harbour master?", "--explain")
    assert found.exit_code == 0
    assert "The harbour master is Ines." in found.output
    assert memory["id"] in found.output
    none = await run(gateway, "memory", "search", "giraffe")
    assert none.exit_code == 1
    listed = await run(gateway, "memory", "list", "--tag", "people", "--json")
    assert [one["id"] for one in json.loads(listed.output)["memories"]] == [memory["id"]]
    shown = await run(gateway, "memory", "show", memory["id"], "--versions")
    assert "tags: people" in shown.output
    assert "version 1" in shown.output
    gone = await run(gateway, "memory", "forget", memory["id"])
    assert "forgotten: 1" in gone.output
    assert (await run(gateway, "memory", "show", memory["id"])).exit_code == 2


async def test_agents_stats_and_turns(gateway: Served) -> None:
    crab = Agent(gateway, "crab")
    await crab.store("a")
    message = {"role": "user", "content": "How deep is lock 3?", "timestamp": 1000}
    await crab.post("turns", {"key": "k", "session_id": "s", "messages": [message]})
    agents = await run(gateway, "memory", "agents")
    assert "crab" in agents.output
    stats = await run(gateway, "memory", "stats", "--agent", "crab")
    assert "1 memory" in stats.output
    assert "1 turn" in stats.output
    named = await run(gateway, "memory", "stats", "--json", env={"OPENCLAW_CACHE_AGENT": "crab"})
    assert json.loads(named.output)["num_memories"] == 1
    turns = await run(gateway, "memory", "turns", "-a", "crab")
    assert "user: How deep is lock 3?" in turns.output


async def test_an_export_in_a_file_is_imported_again_in_parts(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = {"memories": [{"text": f"fact {i}"} for i in range(50)]}
    await Agent(gateway, "one").post("memories:batch", orders)
    file = tmp_path / "one.jsonl"
    exported = await run(gateway, "memory", "export", str(file), "-a", "one")
    assert exported.exit_code == 0, exported.output
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(file.read_bytes().splitlines()) == 51
    monkeypatch.setattr(memory_files, "PART_BYTES", 2000)
    imported = await run(gateway, "memory", "import", str(file), "-a", "two", "--json")
    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.output)["one.jsonl"] == {
        "added": 50,
        "updated": 0,
        "unchanged": 0,
        "skipped": [],
    }
    assert sorted(await Agent(gateway, "two").texts()) == sorted(one["text"] for one in orders["memories"])
    printed = await run(gateway, "memory", "export", "-a", "two")
    assert len(printed.stdout.splitlines()) == 51


async def test_a_skipped_line_of_a_later_part_has_its_number_in_the_file(
    gateway: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Agent(gateway, "one").post(
        "memories:batch", {"memories": [{"text": f"fact {i}"} for i in range(50)]}
    )
    lines = (await Agent(gateway, "one").send("GET", "export")).body.splitlines()
    lines[40] = b"broken"
    file = tmp_path / "one.jsonl"
    file.write_bytes(b"\n".join(lines))
    monkeypatch.setattr(memory_files, "PART_BYTES", 2000)
    imported = await run(gateway, "memory", "import", str(file), "-a", "two", "--json")
    assert imported.exit_code == 1
    assert [one["line"] for one in json.loads(imported.output)["one.jsonl"]["skipped"]] == [41]


async def test_a_workspace_is_imported_whole_and_without_what_is_no_memory(
    gateway: Served, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / ".git").mkdir()
    (workspace / "MEMORY.md").write_text("- Prefers tea\n")
    (workspace / "memory" / "2026-11-03.md").write_text("- Moved the launch to March\n")
    (workspace / "README.md").write_text("- is no memory\n")
    (workspace / ".git" / "MEMORY.md").write_text("- is no memory\n")
    imported = await run(gateway, "memory", "import", str(workspace))
    assert imported.exit_code == 0, imported.output
    assert "MEMORY.md: 1 added" in imported.output
    assert "memory/2026-11-03.md: 1 added" in imported.output
    texts = " ".join(await Agent(gateway).texts())
    assert "tea" in texts
    assert "March" in texts
    assert "no memory" not in texts
    nothing = await run(gateway, "memory", "import", str(workspace / ".git" / "hooks"))
    assert nothing.exit_code == 2


async def test_the_clients_key_and_namespace_decide_what_is_seen(tmp_path: Path) -> None:
    keys = [{"key": "sk-alpha", "namespace": "alpha"}]
    async with without_vectors(tmp_path, server__keys=keys) as gateway:
        env = {"OPENCLAW_CACHE_KEY": "sk-alpha"}
        assert (await run(gateway, "memory", "store", "a fact")).exit_code == 2
        assert (await run(gateway, "memory", "store", "a fact", env=env)).exit_code == 0
        there = await run(gateway, "memory", "list", "--json", env=env)
        assert len(json.loads(there.output)["memories"]) == 1
        scope = await run(gateway, "memory", "list", "--namespace", "alpha/x", "--json", env=env)
        assert json.loads(scope.output)["memories"] == []
        assert (await run(gateway, "memory", "list", "--namespace", "beta", env=env)).exit_code == 2


# Evict.


async def test_memories_are_evicted_by_a_pattern_over_their_text(gateway: Served) -> None:
    one, two = Agent(gateway, "one"), Agent(gateway, "two")
    await one.store("The finance report is due.")
    await one.store("The weather is fine.")
    hit = await two.store("Ask finance about it.")
    await two.send("PATCH", f"memories/{hit['id']}", {"text": "Ask them about it."})
    await two.store("Nothing of the kind.")
    evict = ("evict", "--type", "memory", "--pattern", "*finance*")
    dry = await run(gateway, *evict, "--dry-run", "--json")
    report = json.loads(dry.output)
    assert (report["num_matched"], report["dry_run"]) == (2, True)
    assert {row["agent"]: row["num_matched"] for row in report["num_by_agent"]} == {"one": 1, "two": 1}
    assert "finance" not in json.dumps(report["num_by_agent"])
    assert len(await one.texts()) == 2
    only = await run(gateway, *evict, "--agent", "one", "--json")
    assert json.loads(only.output)["num_matched"] == 1
    assert await one.texts() == ["The weather is fine."]
    assert len(await two.texts()) == 2
    rest = await run(gateway, *evict)
    assert "1 memory removed" in rest.output
    assert await two.texts() == ["Nothing of the kind."]
    assert await gateway.metric('openclaw_cache_evictions_total{layer="memory",reason="pattern"}') == 2


async def test_evicting_all_caches_leaves_what_agents_remember(gateway: Served) -> None:
    agent = Agent(gateway)
    await agent.store("a fact")
    await run(gateway, "evict", "--type", "all", "--pattern", "*")
    assert await agent.texts() == ["a fact"]
    wrong = await run(gateway, "evict", "--type", "result", "--pattern", "*", "--agent", "main")
    assert wrong.exit_code == 2


async def test_eviction_is_for_the_named_namespace_only(gateway: Served) -> None:
    narrow = Agent(gateway, "main", {"x-openclaw-namespace": "project"})
    await narrow.store("a fact")
    await Agent(gateway).store("a fact")
    report = await run(
        gateway, "evict", "--type", "memory", "--pattern", "*", "--namespace", "default/project", "--json"
    )
    assert json.loads(report.output)["num_matched"] == 1
    assert await narrow.texts() == []
    assert await Agent(gateway).texts() == ["a fact"]


async def test_status_tells_of_memory(gateway: Served) -> None:
    await Agent(gateway).store("a fact")
    shown = await run(gateway, "status")
    assert "1 agent open" in shown.output
