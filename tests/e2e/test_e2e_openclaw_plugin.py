"""Our plugin in the real OpenClaw: what reaches the model, what reaches our server, and what happens without it.

The server here keeps every byte and recalls something known, so that its text can be found on the wire; the real one
has its turn in the session test.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.plugin_calls import Call, PluginCalls
from support.real_openclaw import RealOpenClaw, installed, plugin_config, provider
from support.scripted_model import ScriptedModel

pytestmark = pytest.mark.timeout(900)  # the first use installs OpenClaw

Json = Any

SECRETS = {
    "a provider's key": "sk-secret-of-another-provider",
    "the gateway's token": "secret-gateway-token",
    "an environment variable": "secret-of-the-environment",
    "a plugin's setting": "secret-of-another-plugin",
}
PLUGIN_KEY = "occ-key-of-the-plugin"
NOTE = "the boat is called Amalia"
WIRES = ["chat/chat-model", "messages/messages-model", "responses/responses-model"]
SMALL = "small/small-model"


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[PluginCalls]:
    with PluginCalls() as running:
        yield running


@pytest.fixture(scope="module")
def openclaw(
    model: ScriptedModel, server: PluginCalls, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealOpenClaw]:
    running = RealOpenClaw(installed(), tmp_path_factory.mktemp("openclaw"), {}, ENVIRONMENT)
    running.write(configuration(model, server, running.workspace))
    (running.workspace / "MEMORY.md").write_text(f"# Memory\n\n- {NOTE}\n")
    with running:
        yield running


ENVIRONMENT = {"OCC_KEY": PLUGIN_KEY, "OTHER_TOKEN": SECRETS["an environment variable"]}


def configuration(model: ScriptedModel, server: PluginCalls, workspace: Path) -> Json:
    plugins = plugin_config(server.url, apiKeyEnv="OCC_KEY", timeoutMs=1000)
    plugins["entries"]["brave"] = {
        "enabled": False,
        "config": {"webSearch": {"apiKey": SECRETS["a plugin's setting"]}},
    }
    unused = provider(f"{model.url}/v1", "unused-model") | {"apiKey": SECRETS["a provider's key"]}
    return {
        "models": {
            "providers": {
                "chat": provider(f"{model.url}/v1", "chat-model"),
                "messages": provider(model.url, "messages-model", api="anthropic-messages"),
                "responses": provider(f"{model.url}/v1", "responses-model", api="openai-responses"),
                "small": provider(f"{model.url}/v1", "small-model", window=32_768),
                "unused": unused,
            }
        },
        "agents": {
            "ownership": "explicit",
            "defaults": {
                "model": {"primary": WIRES[0]},
                "systemAgent": {"agentId": "main"},
                # A scripted summary does not pass OpenClaw's review of summaries.
                "compaction": {"qualityGuard": {"enabled": False}, "keepRecentTokens": 3000},
            },
            "entries": {"main": {"workspace": str(workspace)}, "second": {}},
        },
        "gateway": {"auth": {"mode": "token", "token": SECRETS["the gateway's token"]}},
        "tools": {"toolSearch": False},  # the script calls tools by their names
        "plugins": plugins,
    }


@pytest.fixture
def since(model: ScriptedModel, server: PluginCalls) -> Iterator[Callable[[], list[Call]]]:
    """Gives the calls of this test; afterwards the server is well again."""
    begin = len(server.calls)
    yield lambda: server.calls[begin:]
    server.fault, server.delay_s = None, 0.0


def prompts(model: ScriptedModel, begin: int) -> list[list[str]]:
    """The texts of each request from the `begin`-th on."""
    return [asked.texts for asked in model.asked[begin:]]


def eventually(is_so: Callable[[], bool]) -> bool:
    """Whether something comes to be within half a minute: what OpenClaw does after a reply takes its time."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.1)
    return is_so()


@pytest.mark.parametrize("wire", WIRES)
def test_a_recall_is_a_message_of_its_own_before_its_turn_and_stays_there_byte_for_byte(
    openclaw: RealOpenClaw, model: ScriptedModel, wire: str
) -> None:
    begin = len(model.asked)
    session = f"sticky-{wire.partition('/')[0]}"
    questions = ["one", 'two [[tool exec {"command":"echo hi"}]]', "three"]
    for question in questions:
        openclaw.ask(question, session, model=wire)
    seen = prompts(model, begin)
    assert len(seen) == 4  # the second turn takes two requests
    assert seen[1][-2] == f"user: <recalled>{questions[1]}</recalled>"
    assert seen[1][-1].endswith(f"] {questions[1]}")
    assert seen[-1][-2] == "user: <recalled>three</recalled>"
    for earlier, later in itertools.pairwise(seen):
        assert later[: len(earlier)] == earlier
    systems = {asked.system for asked in model.asked[begin:]}
    assert len(systems) == 1
    assert NOTE in systems.pop()  # with another memory runtime OpenClaw may leave MEMORY.md out


def test_a_turn_is_handed_over_once_with_its_own_messages(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask("first words", "handed")
    openclaw.ask('second words [[tool exec {"command":"echo hi"}]]', "handed")
    turns = [call.body for call in since() if call.path == "turns"]
    assert [turn["session_key"] for turn in turns] == ["agent:main:handed"] * 2
    assert len({turn["key"] for turn in turns}) == 2
    assert len({turn["session_id"] for turn in turns}) == 1
    assert [message["role"] for message in turns[1]["messages"]] == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
    ]
    assert turns[1]["messages"][0]["content"].startswith("second words")
    assert not any(turn["is_heartbeat"] for turn in turns)


def test_the_history_is_given_with_the_same_times_as_the_turn_was(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask('say it [[tool exec {"command":"echo hi"}]]', "times")
    openclaw.ask("again", "times")
    (turn, _) = (call.body for call in since() if call.path == "turns")
    (_, assembled) = (call.body for call in since() if call.path == "context:assemble")
    assert [(m["role"], m["timestamp"]) for m in assembled["messages"]] == [
        (m["role"], m["timestamp"]) for m in turn["messages"]
    ]
    assert assembled["prompt"] == "again"


def test_the_models_tools_reach_the_server_and_each_agent_its_own_memory(
    openclaw: RealOpenClaw, server: PluginCalls
) -> None:
    openclaw.ask('keep [[tool memory_store {"text":"the cat is called Fritz"}]]', "tools")
    search = 'look [[tool memory_search {"query":"cat"}]]'
    assert "Fritz" in openclaw.ask(search, "tools")
    assert "Fritz" not in openclaw.ask(search, "tools", agent="second")
    stored = [call for call in server.calls if (call.method, call.path) == ("POST", "memories")]
    assert [call.agent for call in stored] == ["main"]
    asked = [call.agent for call in server.calls if call.path == "memories:search"]
    assert asked == ["main", "second"]
    assembled = [call.agent for call in server.calls if call.path == "context:assemble"]
    assert assembled[-1] == "second"


def test_the_cache_is_told_that_a_tool_runs_and_that_the_session_rests(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask('run [[tool exec {"command":"true"}]]', "hints")

    def states() -> list[str]:
        return [call.body["state"] for call in since() if call.path == "hints"]

    assert eventually(lambda: states() == ["tool", "idle"]), states()


def test_a_reset_session_is_ended_and_its_last_words_are_offered(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask("before the reset", "reset")
    openclaw.call("sessions.reset", {"key": "agent:main:reset"})

    def ended() -> list[Json]:
        return [call.body for call in since() if call.path == "sessions:end"]

    assert eventually(lambda: len(ended()) == 1)
    assert (ended()[0]["session_key"], ended()[0]["reason"]) == ("agent:main:reset", "reset")
    offered = [call.body for call in since() if call.path == "context:assemble" and "prompt" not in call.body]
    assert offered[0]["messages"][0]["content"] == "before the reset"
    openclaw.ask("after the reset", "reset")
    assert [call.body["messages"] for call in since() if call.path == "context:assemble"][-1] == []


def test_a_heartbeat_is_known_as_one_before_and_after_its_turn(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask("hello", "main")
    openclaw.run("config", "set", "agents.defaults.heartbeat.every", "30m")
    openclaw.run("config", "set", "agents.defaults.heartbeat.agentId", "main")
    assert eventually(lambda: "[heartbeat] started" in openclaw.log())
    ran = openclaw.run("system", "event", "--mode", "now", "--text", "the disk is almost full")
    assert ran.returncode == 0, ran.stderr

    def beats(path: str) -> list[Json]:
        return [c.body for c in since() if c.path == path and c.body.get("is_heartbeat")]

    assert eventually(lambda: len(beats("turns")) == 1), openclaw.log()[-3000:]
    assert len(beats("context:assemble")) == 1
    assert beats("turns")[0]["messages"][0]["content"] == "[OpenClaw heartbeat poll]"


def test_a_subagent_is_announced_and_ended_and_its_turn_is_the_agents(
    openclaw: RealOpenClaw, since: Callable[[], list[Call]]
) -> None:
    openclaw.ask('go [[tool sessions_spawn {"task":"Say hi","label":"kid"}]]', "parent")
    assert eventually(lambda: any(call.path == "sessions:end" for call in since()))
    (fork,) = (call for call in since() if call.path == "sessions:fork")
    child = fork.body["child_session_key"]
    assert (fork.agent, fork.body["parent_session_key"]) == ("main", "agent:main:parent")
    assert child.startswith("agent:main:subagent:")
    (ended,) = (call.body for call in since() if call.path == "sessions:end")
    assert ended["session_key"] == child
    turns = {call.body["session_key"]: call.agent for call in since() if call.path == "turns"}
    assert turns[child] == "main"


def test_compaction_is_openclaws_own_and_needs_no_flush_turn(
    openclaw: RealOpenClaw, model: ScriptedModel, since: Callable[[], list[Call]]
) -> None:
    begin = len(model.asked)
    for number in range(9):
        openclaw.ask(f"essay {number} [[words 900]]", "long", model=SMALL)
    asked = model.asked[begin:]
    answered = [one for one in asked if not one.is_summary]
    assert len(asked) > len(answered)
    assert len(answered) == 9  # one request for each turn, and none to flush memory
    turns = [call.body for call in since() if call.path == "turns"]
    assert [turn["messages"][0]["content"] for turn in turns] == [
        f"essay {n} [[words 900]]" for n in range(9)
    ]
    histories = [call.body["messages"] for call in since() if call.path == "context:assemble"]
    compacted = next(
        history for history in histories if history and history[0]["role"] == "compactionSummary"
    )
    assert compacted[0]["content"].startswith("## Decisions")
    assert answered[-1].texts[-2] == "user: <recalled>essay 8 [[words 900]]</recalled>"


def test_replies_go_on_while_the_server_is_away_and_no_turn_is_lost(
    openclaw: RealOpenClaw, model: ScriptedModel, server: PluginCalls, since: Callable[[], list[Call]]
) -> None:
    begin = len(model.asked)
    openclaw.ask("alpha", "outage")
    server.stop()
    try:
        assert openclaw.ask('beta [[say "still here"]]', "outage") == "still here"
        assert openclaw.ask('gamma [[say "still here"]]', "outage") == "still here"
    finally:
        server.start()

    def committed() -> list[str]:
        turns = [call.body["messages"][0]["content"] for call in since() if call.path == "turns"]
        return [text.partition(" ")[0] for text in turns]

    assert eventually(lambda: committed() == ["alpha", "beta", "gamma"]), committed()
    openclaw.ask("delta", "outage")
    assert committed()[-1] == "delta"
    seen = prompts(model, begin)
    for earlier, later in itertools.pairwise(seen):
        assert later[: len(earlier)] == earlier  # the recall of alpha stayed where it was
    assert seen[-1][-2] == "user: <recalled>delta</recalled>"
    assert len({asked.system for asked in model.asked[begin:]}) == 1
    assert "degraded to" not in openclaw.log()
    assert "quarantin" not in openclaw.log()


FAULTS: dict[str, tuple[int, Json]] = {
    "an error of its own": (500, {"error": {"message": "broken"}}),
    "a refusal": (400, {"error": {"message": "no"}}),
    "a key that is not accepted": (401, {"error": {"message": "who?"}}),
    "something else entirely": (200, [{"insertions": 7}]),
    "insertions that are none": (200, {"insertions": [{"index": "x"}, None, 7], "status": 9}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_the_server_says_the_reply_comes_and_the_engine_stays(
    openclaw: RealOpenClaw,
    model: ScriptedModel,
    server: PluginCalls,
    since: Callable[[], list[Call]],
    fault: str,
) -> None:
    session = f"fault-{list(FAULTS).index(fault)}"
    server.fault = lambda _: FAULTS[fault]
    assert openclaw.ask('one [[say "a reply"]]', session) == "a reply"
    server.fault = None
    openclaw.ask("two", session)
    assert model.asked[-1].texts[-2] == "user: <recalled>two</recalled>"
    assert since()


def test_a_server_that_does_not_answer_in_time_is_not_waited_for(
    openclaw: RealOpenClaw, model: ScriptedModel, server: PluginCalls, since: Callable[[], list[Call]]
) -> None:
    server.delay_s = 120.0
    assert openclaw.ask('slow [[say "a reply"]]', "slow") == "a reply"
    (text,) = model.asked[-1].texts
    assert "recalled" not in text
    server.delay_s = 0.0
    assert eventually(lambda: any("slow" in str(call.body) for call in since() if call.path == "turns"))


def test_no_secret_of_openclaw_has_reached_the_server(openclaw: RealOpenClaw, server: PluginCalls) -> None:
    """Over all that the tests of this file have done; it stands last."""
    written = openclaw.config_file.read_text()
    assert all(secret in written for name, secret in SECRETS.items() if "environment" not in name)
    everything = b"\n".join(call.raw for call in server.calls)
    assert len(server.calls) > 5
    for name, secret in SECRETS.items():
        assert secret.encode() not in everything, name
    for call in server.calls:
        assert call.raw.count(PLUGIN_KEY.encode()) == 1  # in its header
        assert f"authorization: Bearer {PLUGIN_KEY}".encode() in call.raw.replace(
            b"Authorization", b"authorization"
        )
    for known_to_the_host in (
        b"apiKey",
        b"sk-of-a-provider",
        b"OPENCLAW_STATE_DIR",
        b"<!-- openclaw:attempt:",
    ):
        assert known_to_the_host not in everything


def test_the_packed_plugin_installs_and_takes_both_slots(tmp_path: Path) -> None:
    programs = installed()
    openclaw = RealOpenClaw(programs, tmp_path, {})
    packed = openclaw.pack_plugin()
    ran = openclaw.run("plugins", "install", "--force", "--accept-capabilities", f"npm-pack:{packed}")
    assert ran.returncode == 0, ran.stderr
    seen = openclaw.run("plugins", "inspect", "openclaw-cache", "--runtime", "--json")
    assert '"status": "loaded"' in seen.stdout, seen.stderr
    config = openclaw.config_file.read_text()
    assert '"memory": "openclaw-cache"' in config
    assert '"contextEngine": "openclaw-cache"' in config
