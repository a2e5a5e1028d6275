"""No request reaches another namespace's memory, nor an agent that its key is not bound to, however it is spelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.memory_site import Agent, without_vectors
from support.served import Served

KEYS = [
    {"key": "sk-alpha", "namespace": "alpha"},
    {"key": "sk-beta", "namespace": "beta"},
    {"key": "sk-bound", "namespace": "alpha", "agents": ["crab", "shrimp-*"]},
]
SECRET = "The alpha launch code is 7391."


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


ALPHA, BETA, BOUND = (bearer(key["key"]) for key in KEYS)  # type: ignore[arg-type]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Served]:
    async with without_vectors(tmp_path, server__keys=KEYS) as running:
        yield running


async def everything_of(agent: Agent) -> list[Any]:
    """What every way of reading gives."""
    return [
        await agent.get("memories?superseded=true"),
        await agent.post("memories:search", {"query": "launch code"}),
        await agent.post("memories:search", {"mode": "time"}),
        await agent.post("memories:recall", {"query": "what is the alpha launch code?"}),
        await agent.get("turns"),
        await agent.post("turns:search", {"query": "launch code"}),
        await agent.post(
            "context:assemble", {"session_id": "s", "messages": [], "prompt": "the alpha launch code?"}
        ),
        (await agent.send("GET", "export")).body.decode(),
    ]


async def filled(agent: Agent) -> str:
    """An agent with a memory and a turn; returns the memory's id."""
    stored = await agent.store(SECRET)
    message = {"role": "user", "content": SECRET, "timestamp": 1000}
    await agent.post("turns", {"key": "k", "session_id": "s", "messages": [message]})
    return str(stored["id"])


async def test_one_name_in_two_namespaces_is_two_agents(gateway: Served) -> None:
    mine, theirs = Agent(gateway, "main", ALPHA), Agent(gateway, "main", BETA)
    memory_id = await filled(mine)
    await theirs.store("Nothing to see here.")
    assert SECRET in json.dumps(await everything_of(mine))
    assert "7391" not in json.dumps(await everything_of(theirs))
    for method, body in (("GET", None), ("PATCH", {"text": "gone"}), ("DELETE", None)):
        assert (await theirs.refused(method, f"memories/{memory_id}", body))[0] == 404
    assert (await theirs.refused("POST", "memories", {"text": "x", "supersedes": [memory_id]}))[0] == 400
    await Agent(gateway, "main?confirm=main", BETA, raw=True).send("DELETE")
    assert SECRET in await mine.texts()
    alpha = (await gateway.get("/v1/agents", ALPHA)).json()["agents"]
    assert [row["num_memories"] for row in alpha] == [1]
    assert (await gateway.get("/v1/agents", BETA)).json()["agents"] == []


async def test_a_scope_within_a_namespace_is_another_one(gateway: Served) -> None:
    await filled(Agent(gateway, "main", ALPHA))
    narrow = Agent(gateway, "main", ALPHA | {"x-openclaw-namespace": "alpha/project"})
    assert "7391" not in json.dumps(await everything_of(narrow))
    wide = Agent(gateway, "main", BETA | {"x-openclaw-namespace": "alpha"})
    status, error = await wide.refused("GET", "memories")
    assert (status, error["code"]) == (403, "namespace_not_allowed")


async def test_two_agents_of_one_namespace_share_nothing(gateway: Served) -> None:
    await filled(Agent(gateway, "one", ALPHA))
    assert "7391" not in json.dumps(await everything_of(Agent(gateway, "two", ALPHA)))


@pytest.mark.parametrize(
    ("namespaces", "names"),
    [(("alpha/ma", "alpha/m"), ("in", "ain")), (("alpha/1", "alpha/11"), ("11", "1"))],
)
async def test_names_that_join_to_the_same_text_are_different_agents(
    gateway: Served, namespaces: tuple[str, str], names: tuple[str, str]
) -> None:
    first, second = (
        Agent(gateway, name, ALPHA | {"x-openclaw-namespace": namespace})
        for namespace, name in zip(namespaces, names, strict=True)
    )
    await first.store(SECRET)
    assert await second.texts() == []


# How a name is spelled.


async def test_upper_and_lower_case_are_different_agents(gateway: Served) -> None:
    await Agent(gateway, "Main", ALPHA).store(SECRET)
    assert await Agent(gateway, "main", ALPHA).texts() == []
    assert await Agent(gateway, "ｍain", ALPHA).texts() == []


async def test_one_text_is_one_agent_composed_or_not_escaped_or_not(gateway: Served) -> None:
    await Agent(gateway, "caf\u00e9", ALPHA).store(SECRET)
    for spelled in ("caf%C3%A9", "cafe%CC%81", "%63af%c3%a9"):
        assert await Agent(gateway, spelled, ALPHA, raw=True).texts() == [SECRET], spelled
    (row,) = (await gateway.get("/v1/agents", ALPHA)).json()["agents"]
    assert row["id"] == "caf\u00e9"


NO_NAMES = [
    *(
        "%2e%2e%2fmain",
        "..",
        "%2E%2E",
        ".",
        "a%2Fb",
        "a%00b",
        "a%0Ab",
        "%20",
        "a%20",
        "%E2%80%AE",
        "%ff",
        "%zz",
        "%",
    ),
    "a" * 129,
]


@pytest.mark.parametrize("name", NO_NAMES)
async def test_what_is_no_name_is_refused_and_touches_no_file(
    gateway: Served, tmp_path: Path, name: str
) -> None:
    status, error = await Agent(gateway, name, ALPHA, raw=True).refused("POST", "memories", {"text": "a"})
    assert (status, error["param"]) == (400, "agent_id")
    assert not (tmp_path / "agents").exists()


async def test_names_lead_nowhere_but_into_the_folder_of_agents(gateway: Served, tmp_path: Path) -> None:
    names = [
        "~root",
        "C:\\x",
        "main.db",
        "-rf",
        "con",
        "a;b",
        "a?b",
        "a#b",
        "🦐",
        "龙虾",
        "%2e%2e",
        "' OR 1=1 --",
    ]
    for name in names:
        await Agent(gateway, name, ALPHA).store(name)
    for name in names:
        assert await Agent(gateway, name, ALPHA).texts() == [name]
    listed = (await gateway.get("/v1/agents", ALPHA)).json()["agents"]
    assert sorted(row["id"] for row in listed) == sorted(names)
    for path in (tmp_path / "agents").rglob("*"):
        assert path.name.isascii(), path
        assert not any(name in path.name for name in names if len(name) > 4), path


# Keys that are bound to agents.


@pytest.mark.parametrize("name", ["main", "Crab", "crab2", "shrimp", "crab%2F", "no-such-agent"])
async def test_a_bound_key_reaches_its_own_agents_only_and_does_not_learn_of_others(
    gateway: Served, name: str
) -> None:
    await filled(Agent(gateway, "main", ALPHA))
    asked: list[tuple[str, str, Any]] = [
        ("GET", "memories", None),
        ("GET", "stats", None),
        ("GET", "export", None),
        ("POST", "memories", {"text": "planted"}),
        ("POST", "memories:search", {"query": "code"}),
        ("POST", "context:assemble", {"session_id": "s", "messages": []}),
        ("DELETE", "", None),
    ]
    agent = Agent(gateway, name, BOUND, raw=True)
    answers = [await agent.refused(*one) for one in asked]
    status = 400 if "%2F" in name else 403
    assert {answer[0] for answer in answers} == {status}
    assert len({json.dumps(answer[1]) for answer in answers}) == 1, "every refusal says the same"


async def test_a_refusal_does_not_tell_an_agent_that_is_there_from_one_that_is_not(gateway: Served) -> None:
    await filled(Agent(gateway, "main", ALPHA))
    there = await Agent(gateway, "main", BOUND).refused("GET", "memories")
    not_there = await Agent(gateway, "nope", BOUND).refused("GET", "memories")
    assert there == not_there
    # Another namespace's agent is as good as none: the very reply of one that was never there.
    ours, none = Agent(gateway, "main", BETA), Agent(gateway, "never", BETA)
    for rest in ("memories", "turns", "memories/mem_1", "stats"):
        one, other = await ours.send("GET", rest), await none.send("GET", rest)
        assert (one.status, one.body.replace(b"main", b"")) == (
            other.status,
            other.body.replace(b"never", b""),
        )


async def test_a_bound_key_sees_its_own_agents_in_the_list(gateway: Served) -> None:
    for name in ("main", "crab", "shrimp-1"):
        await Agent(gateway, name, ALPHA).store("a")
    listed = (await gateway.get("/v1/agents", BOUND)).json()["agents"]
    assert [row["id"] for row in listed] == ["crab", "shrimp-1"]
    assert await Agent(gateway, "crab", BOUND).texts() == ["a"]


async def test_without_a_key_nobody_gets_in(gateway: Served) -> None:
    assert (await gateway.get("/v1/agents")).status == 401
    assert (await Agent(gateway).refused("GET", "memories"))[0] == 401
    assert (await gateway.get("/v1/agents", bearer("sk-wrong"))).status == 401


async def test_ids_of_another_agents_memories_turns_and_messages_open_nothing(gateway: Served) -> None:
    mine, other = Agent(gateway, "one", ALPHA), Agent(gateway, "two", ALPHA)
    memory_id = await filled(mine)
    (turn,) = (await mine.get("turns"))["turns"]
    await other.store("b")
    assert (await other.refused("GET", f"memories/{memory_id}"))[0] == 404
    assert (await other.refused("GET", f"turns/{turn['id']}"))[0] == 404
    for wanted in (turn["id"], turn["messages"][0]["id"]):
        assert (await other.refused("POST", "turns:expand", {"id": wanted}))[0] == 404
    assert (await other.get("turns?session=s"))["turns"] == []
