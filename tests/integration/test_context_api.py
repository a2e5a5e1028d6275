"""The context engine over HTTP, with real stores: recalls that stay, turns that are kept, forgetting, faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw")

from support.served import Answer, Served, served

NOWHERE = "http://127.0.0.1:9"
CODENAME = "The codename of project Atlas is Bluefin"
ASKED = "What is the codename of project Atlas?"
NO_RECALL = {"insertions": [], "recalled": 0, "reconciled": 0}


@contextlib.asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[Served]:
    async with served(folder, [NOWHERE], memory__embedder=None, **settings) as gateway:
        yield gateway


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    async with running(tmp_path) as gateway:
        yield gateway


async def post(gateway: Served, path: str, body: Any, agent: str = "main", **headers: str) -> Answer:
    return await gateway.ask(body, path=f"/v1/agents/{agent}/{path}", headers=headers)


async def ok(gateway: Served, path: str, body: Any, agent: str = "main") -> Any:
    answer = await post(gateway, path, body, agent)
    assert answer.status in (200, 201), answer.body
    found = answer.json()
    if found.get("degraded") == ["no_embedder"]:  # by our own choice
        del found["degraded"]
    return found


def user(text: str, at: int) -> dict[str, Any]:
    return {
        "role": "user",
        "content": text,
        "timestamp": 1_796_000_000_000 + at,
        "idempotencyKey": f"run{at}:user",
    }


def reply(text: str, at: int) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"role": "assistant", "content": content, "timestamp": 1_796_000_000_000 + at}


HISTORY = [user("Hello", 1), reply("Hi there", 2)]


def turn(messages: list[Any], key: str = "k1", session: str = "s1") -> dict[str, Any]:
    return {"key": key, "session_id": session, "session_key": f"agent:main:{session}", "messages": messages}


def upcoming(messages: list[Any], prompt: str | None, session: str = "s1", **fields: Any) -> dict[str, Any]:
    return {
        "session_id": session,
        "session_key": f"agent:main:{session}",
        "messages": messages,
        "token_budget": 97_000,
        **({} if prompt is None else {"prompt": prompt}),
        **fields,
    }


async def test_a_recall_stays_with_its_turn_byte_for_byte_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        await ok(gateway, "memories", {"text": CODENAME})
        first = await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
        assert first["recalled"] == 1
        ((index, text),) = [(i["index"], i["text"]) for i in first["insertions"]]
        assert index == 2
        assert CODENAME in text
        again = await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
        assert again["insertions"] == first["insertions"]
        assert (again["recalled"], again["reconciled"]) == (1, 0)
        await ok(gateway, "turns", turn([user(ASKED, 3), reply("Bluefin", 4)]))
    async with running(tmp_path) as gateway:
        longer = [*HISTORY, user(ASKED, 3), reply("Bluefin", 4)]
        later = await ok(gateway, "context:assemble", upcoming(longer, "Thanks"))
        assert later["insertions"] == [{"index": 2, "text": text}]
        assert later["reconciled"] == 0


async def test_ten_that_ask_at_once_get_the_same_bytes(gateway: Served) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    body = upcoming(HISTORY, ASKED)
    found = await asyncio.gather(*(ok(gateway, "context:assemble", body) for _ in range(10)))
    assert len({str(f["insertions"]) for f in found}) == 1
    assert found[0]["insertions"] != []


async def test_a_turn_that_is_committed_ten_times_at_once_is_kept_once(gateway: Served) -> None:
    told = turn([user("Remember that the codename is Bluefin", 1), reply("Noted", 2)])
    done = await asyncio.gather(*(ok(gateway, "turns", told) for _ in range(10)))
    assert sorted(d["status"] for d in done) == ["committed", *["duplicate"] * 9]
    assert len({d["id"] for d in done}) == 1
    stats = (await gateway.get("/v1/agents/main/stats")).json()
    assert (stats["num_turns"], stats["num_messages"], stats["num_memories"]) == (1, 2, 1)


async def test_what_a_user_said_in_a_committed_turn_is_recalled_in_another_session(gateway: Served) -> None:
    told = turn([user("Remember that the codename of project Atlas is Bluefin.", 1), reply("Noted", 2)])
    captured = (await ok(gateway, "turns", told))["captured"]
    assert len(captured) == 1
    found = await ok(gateway, "context:assemble", upcoming([], ASKED, "s2"))
    assert "Bluefin" in found["insertions"][0]["text"]


@pytest.mark.parametrize(
    "more",
    [{"session_key": "agent:main:subagent:1"}, {"session_key": "agent:main:cron:1"}, {"is_heartbeat": True}],
)
async def test_what_no_person_said_is_kept_and_not_captured(gateway: Served, more: dict[str, Any]) -> None:
    told = turn([user("Remember that the codename is Bluefin", 1)]) | more
    assert (await ok(gateway, "turns", told))["captured"] == []


async def test_a_caller_may_keep_a_turn_without_capture(gateway: Served) -> None:
    told = turn([user("Remember that the codename is Bluefin", 1)]) | {"capture": False}
    assert (await ok(gateway, "turns", told))["captured"] == []


async def test_forgetting_a_memory_takes_it_out_of_every_prompt_and_turn(gateway: Served) -> None:
    memory = (await ok(gateway, "memories", {"text": CODENAME}))["memory"]
    await ok(gateway, "memories", {"text": "Project Atlas is led by Ada"})
    first = await ok(
        gateway, "context:assemble", upcoming(HISTORY, "Project Atlas: codename and who leads it?")
    )
    assert "Bluefin" in first["insertions"][0]["text"]
    await ok(gateway, "turns", turn([user("so " + CODENAME, 3), reply("Yes: " + CODENAME, 4)]))
    async with gateway.session.delete(f"{gateway.url}/v1/agents/main/memories/{memory['id']}") as response:
        assert response.status == 200
    again = await ok(
        gateway, "context:assemble", upcoming(HISTORY, "Project Atlas: codename and who leads it?")
    )
    (insertion,) = again["insertions"]
    assert "Ada" in insertion["text"]
    assert "Bluefin" not in insertion["text"]
    kept = (await gateway.get("/v1/agents/main/turns")).body
    assert b"Yes: " in kept
    assert b"Bluefin" not in kept


async def test_another_agent_gets_nothing_of_it(gateway: Served) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
    assert await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED), "second") == NO_RECALL | {
        "reconciled": 2
    }


async def test_nothing_is_recalled_for_a_heartbeat_and_what_is_visible(gateway: Served) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    beat = "[OpenClaw heartbeat poll] codename of project Atlas"
    assert (await ok(gateway, "context:assemble", upcoming(HISTORY, beat)))["recalled"] == 0
    told = upcoming(HISTORY, ASKED, "s2", is_heartbeat=True)
    assert (await ok(gateway, "context:assemble", told))["recalled"] == 0
    seen = [*HISTORY, user(CODENAME, 3), reply("Noted", 4)]
    assert (await ok(gateway, "context:assemble", upcoming(seen, ASKED, "s3")))["insertions"] == []


async def test_a_sub_agent_that_forks_sees_its_parents_recalls_and_leaves_nothing_when_rolled_back(
    gateway: Served,
) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    parent = await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
    said = [*HISTORY, user(ASKED, 3), reply("Bluefin", 4)]
    names = {"parent_session_key": "agent:main:s1", "child_session_key": "agent:main:c1"}
    assert await ok(gateway, "sessions:fork", names | {"mode": "isolated"}) == {"inherits": False}
    assert await ok(gateway, "sessions:fork", names | {"mode": "fork"}) == {"inherits": True}
    child = await ok(gateway, "context:assemble", upcoming(said, "Go on", "c1"))
    assert child["insertions"] == parent["insertions"]
    assert child["reconciled"] == 2, "only what the parent had not logged yet"
    assert await ok(gateway, "sessions:rollback", {"child_session_key": "agent:main:c1"}) == {"removed": 1}
    again = await ok(gateway, "context:assemble", upcoming(said, "Go on", "c1"))
    assert again["insertions"] == []


async def test_a_session_that_is_reset_shows_none_of_its_old_recalls(gateway: Served) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    assert (await ok(gateway, "context:assemble", upcoming([], ASKED)))["recalled"] == 1
    await ok(gateway, "sessions:end", {"session_id": "s1", "reason": "reset"})
    assert (await ok(gateway, "context:assemble", upcoming([], None)))["insertions"] == []


@pytest.mark.parametrize("state", ["tool", "idle", "ended"])
async def test_a_hint_for_a_session_that_no_engine_of_ours_answers_is_no_error(
    gateway: Served, state: str
) -> None:
    assert await ok(gateway, "hints", {"session_id": "s1", "state": state}) == {"told": 0}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("context:assemble", {"session_id": "s1"}, "messages"),
        ("context:assemble", {"session_id": "", "messages": []}, "session_id"),
        ("context:assemble", {"session_id": "s1", "messages": [{"content": "x"}]}, "messages[0].role"),
        ("context:assemble", {"session_id": "s1", "messages": [], "budget": 1}, "budget"),
        ("context:assemble", {"session_id": "s1", "messages": [], "token_budget": -1}, "token_budget"),
        ("turns", {"session_id": "s1", "key": "k", "messages": []}, "messages"),
        ("turns", turn(HISTORY) | {"time": "yesterday"}, "time"),
        ("turns", turn(HISTORY) | {"config": {}}, "config"),
        ("sessions:fork", {"parent_session_key": "a", "child_session_key": "b", "mode": "copy"}, "mode"),
        ("sessions:end", {"reason": "deleted"}, "session_id"),
        ("hints", {"session_id": "s1", "state": "busy"}, "state"),
    ],
)
async def test_a_wrong_field_is_named(gateway: Served, path: str, body: Any, param: str) -> None:
    answer = await post(gateway, path, body)
    assert (answer.status, answer.json()["error"]["param"]) == (400, param)
    assert "x-request-id" in answer.headers


async def test_a_store_that_cannot_be_read_costs_recalls_and_no_turn(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        await ok(gateway, "memories", {"text": CODENAME})
    for file in (tmp_path / "agents").rglob("*"):
        if file.is_file():
            file.write_bytes(b"no database" * 1000)
    async with running(tmp_path) as gateway:
        found = await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
        assert found == NO_RECALL | {"degraded": ["store"]}
        answer = await post(gateway, "turns", turn(HISTORY))
        assert answer.status == 500
        assert answer.json()["error"]["code"].startswith("memory_")
        assert (await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED), "second"))["reconciled"] == 2


async def test_no_word_of_a_prompt_is_logged(gateway: Served, capfd: pytest.CaptureFixture[str]) -> None:
    await ok(gateway, "memories", {"text": CODENAME})
    await ok(gateway, "context:assemble", upcoming(HISTORY, ASKED))
    await ok(gateway, "turns", turn([user(ASKED, 3), reply("Bluefin", 4)]))
    logged = "".join(capfd.readouterr())
    assert "Bluefin" not in logged
    assert "Atlas" not in logged
