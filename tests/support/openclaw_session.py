"""A long session with the real OpenClaw: thirty questions of its user, and all that happens around them.

The same script runs plain (our gateway as provider, OpenClaw's own memory and context engine), with our plugin, and
with our plugin whose recalls another one puts into the turn's own message, where they do not stay.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import quote

from support.real_openclaw import Installed, RealOpenClaw, provider
from support.running import RunningGateway
from support.scripted_model import Asked, ScriptedModel

Json = Any
Way = Literal["plain", "ours", "unkept"]

FACT = "Please remember that the staging database of project Kestrel listens on port 54821."
QUESTION = "Which port does the staging database of project Kestrel listen on?"
SECRET = "54821"
AGENTS = ("main", "second")
WINDOW = 49_152
MODEL = "scripted"
UNKEPT_PLUGIN = Path(__file__).with_name("unkept_recall")

_QUIET_S = 1.5
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens: a question to an agent, or something around it."""

    name: str
    do: Literal["ask", "event", "restart openclaw", "restart server", "stop server", "start server"] = "ask"
    text: str = ""
    agent: str = "main"
    model: str | None = None
    awaits: str | None = None
    """A text in a later request that belongs to this step."""


@dataclass(frozen=True, slots=True)
class Done:
    """A step, its reply, and its requests: `asked[begin:end]`."""

    step: Step
    reply: str
    begin: int
    end: int


def script() -> list[Step]:
    """The session. Of the user's thirty questions, what a tool reads for some makes the history long."""
    chat = (Step("turn", text=question) for question in _CHAT)
    notes = (Step("turn", text=question) for question in _NOTES)

    def say() -> Step:
        return next(chat)

    def read() -> Step:
        return next(notes)

    beat = Step("heartbeat", "event", text="the disk of the mail server is nearly full")
    other = Step("other agent", text=QUESTION, agent="second")
    outage = [Step("turn", text=question, model=f"direct/{MODEL}") for question in _OUTAGE]
    return [
        say(), Step("turn", text=FACT), read(), say(), beat, read(), read(), say(),
        other,
        read(), read(), Step("turn", text=_DELEGATE, awaits="A background task completed"),
        say(), beat, read(), read(), say(),
        Step("restart", "restart openclaw"),
        read(), read(), say(), read(), beat,
        Step("restart", "restart server"),
        say(), read(), read(),
        Step("stop", "stop server"), *outage, Step("start", "start server"),
        read(), read(), say(), read(), read(), say(),
        other,
        Step("last", text=QUESTION),
    ]  # fmt: skip


def answers() -> dict[str, str]:
    """What the model answers: each question's own text says nothing of it, so that recall finds no script."""
    task = {"task": _TASK, "label": "kid"}
    delegate = json.dumps({"id": "sessions_spawn", "args": task})
    said = {FACT: "Noted.", _TASK: "One, two, three."} | _CHAT | _OUTAGE
    tools = {_DELEGATE: f"tool tool_call {delegate}"} | {
        question: f"tool exec {json.dumps({'command': f'cat notes/{number:02}.md'})}"
        for number, question in enumerate(_NOTES, 1)
    }
    return {q: f"[[say {json.dumps(a)}]]" for q, a in said.items()} | {
        q: f"[[{t}]]" for q, t in tools.items()
    }


class Session:
    """The programs of one session; use as a context manager, then `run`.

    Args:
        programs: What `real_openclaw.installed` gives.
        folder: An empty folder.
        way: With or without our plugin, or with recalls that do not stay.
    """

    def __init__(self, programs: Installed, folder: Path, way: Way = "ours") -> None:
        self.way = way
        self.folder = folder
        self.done: list[Done] = []
        self.model = ScriptedModel(answers())
        upstream = {
            "name": "scripted",
            "kind": "openai",
            "urls": [self.model.url],
            "probe_path": "/v1/models",
        }
        self.server = RunningGateway(
            folder / "server",
            {
                "upstreams": [upstream | {"api_key_env": "MODEL_KEY"}],
                "memory": {"embedder_timeout": "20s"},  # this is not about how busy a test machine is
            },
            {"MODEL_KEY": "sk-of-the-model"},
            port=_free_port(),
        )
        self.openclaw = RealOpenClaw(programs, folder / "openclaw", self._config())
        self._programs = programs

    def _config(self) -> Json:
        direct = provider(f"{self.model.url}/v1", MODEL, window=WINDOW)
        return {
            "models": {"providers": {"direct": direct}},
            "agents": {
                "ownership": "explicit",
                "defaults": {
                    "systemAgent": {"agentId": "main"},
                    "heartbeat": {"every": "6h", "agentId": "main"},
                    # A scripted summary does not pass OpenClaw's review of summaries.
                    "compaction": {"qualityGuard": {"enabled": False}, "keepRecentTokens": 3000},
                },
                "entries": {name: {"workspace": str(self._workspace(name))} for name in AGENTS},
            },
            "diagnostics": {"cacheTrace": {"enabled": True}},
        }

    def __enter__(self) -> Self:
        self.model.__enter__()
        try:
            self.folder.joinpath("server").mkdir()
            self.server.start()
            self._write_workspaces()
            self.connected = self._connect()
            if self.way == "unkept":
                self._add_unkept_recall()
            self.openclaw.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.openclaw.stop()
        self.server.__exit__()
        self.model.__exit__()

    def _connect(self) -> Json:
        """`openclaw-cache connect openclaw`, as a user runs it; what it reports."""
        commands = self._programs.openclaw.parents[1] / ".bin"
        env = {
            "PATH": f"{commands}:{self._programs.node.parent}:{os.environ['PATH']}",
            "HOME": str(self.openclaw.folder / "home"),
            "OPENCLAW_STATE_DIR": str(self.openclaw.config_file.parent),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        command = [
            sys.executable,
            "-m",
            "openclaw_cache",
            "connect",
            "openclaw",
            "--json",
            "--yes",
            "--no-proof",
        ]
        command += ["--url", self.server.url, "--data-dir", str(self.folder / "connected")]
        command += ["--model", MODEL, "--context-window", str(WINDOW), "--set-default"]
        ran = subprocess.run(
            [*command, *(["--no-plugin"] if self.way == "plain" else [])],
            env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def _add_unkept_recall(self) -> None:
        config = json.loads(self.openclaw.config_file.read_text())
        plugins = config["plugins"]
        plugins["entries"]["openclaw-cache"]["config"]["recall"] = False
        plugins["load"]["paths"].append(str(UNKEPT_PLUGIN))
        hooks = {"allowConversationAccess": True, "allowPromptInjection": True}
        plugins["entries"]["unkept-recall"] = {
            "enabled": True,
            "hooks": hooks,
            "config": {"url": self.server.url},
        }
        self.openclaw.config_file.write_text(json.dumps(config, indent=1))

    def _workspace(self, agent: str) -> Path:
        return self.folder / "openclaw" / "workspaces" / agent

    def _write_workspaces(self) -> None:
        """Workspaces that have been used before: a new one has its first conversation's instructions in the prompt."""
        for agent in AGENTS:
            (self._workspace(agent) / "memory").mkdir(parents=True)
            (self._workspace(agent) / "USER.md").write_text("# USER.md\n\n- Name: Ada\n- Timezone: UTC\n")
        notes = self._workspace("main") / "notes"
        notes.mkdir()
        for number in range(1, len(_NOTES) + 1):
            (notes / f"{number:02}.md").write_text(_note(number))

    def run(self, say: Callable[[str], None] = lambda _: None) -> list[Done]:
        """Go through the script; returns what happened."""
        for number, step in enumerate(script(), 1):
            began, begin = time.monotonic(), len(self.model.asked)
            reply = self._do(step)
            self.done.append(Done(step, reply, begin, len(self.model.asked)))
            say(
                f"{number:2} {step.name}: {len(self.model.asked) - begin} requests, {time.monotonic() - began:.1f} s"
            )
        return self.done

    def _do(self, step: Step) -> str:
        begin = len(self.model.asked)
        match step.do:
            case "ask":
                reply = self.openclaw.ask(step.text, "main", agent=step.agent, model=step.model)
                if step.awaits:
                    self._await(step.awaits, begin)
                return reply
            case "event":
                ran = self.openclaw.run("system", "event", "--mode", "now", "--text", step.text)
                assert ran.returncode == 0, ran.stderr
                self._await(step.text, begin)
            case "restart openclaw":
                self.openclaw.stop()
                self.openclaw.start()
            case "restart server":
                self.server.stop()
                self.server.start()
            case "stop server":
                self.server.stop()
            case "start server":
                self.server.start()
        return ""

    def _await(self, text: str, begin: int) -> None:
        """Wait for a request with a text in its last messages, and until no further one comes."""
        deadline = time.monotonic() + _WAIT_S

        def is_there() -> bool:
            return any(text in asked.prompt[-6000:] for asked in self.model.asked[begin:])

        while not is_there():
            assert time.monotonic() < deadline, f"no request with {text!r}:\n{self.openclaw.log()[-3000:]}"
            time.sleep(0.1)
        quiet_since, num = time.monotonic(), len(self.model.asked)
        while time.monotonic() < quiet_since + _QUIET_S:
            time.sleep(0.1)
            if num != len(self.model.asked):
                quiet_since, num = time.monotonic(), len(self.model.asked)

    # What is known afterwards.

    def asked(self, done: Done) -> list[Asked]:
        """The requests of a step."""
        return self.model.asked[done.begin : done.end]

    def agent(self, agent: str, rest: str, body: Json = None) -> Json:
        """Ask our server about an agent."""
        return self.get(f"/v1/agents/{quote(agent)}/{rest}", body)

    def get(self, path: str, body: Json = None) -> Json:
        """GET a path of our server, or POST a body to it."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.server.url + path, data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    def trace(self) -> list[Json]:
        """OpenClaw's own cache trace."""
        file = self.openclaw.config_file.parent / "logs" / "cache-trace.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


_TASK = "Count to three."
_DELEGATE = "Let somebody else count."
_CHAT = {
    "Good morning! I am new here.": "Good morning. What can I do?",
    "How many legs has a spider?": "Eight.",
    "What rhymes with moon?": "Spoon, tune and June.",
    "Name a river in Portugal.": "The Douro.",
    "How long does an egg boil until it is soft?": "About five minutes.",
    "Which planet has the shortest year?": "Mercury: 88 days.",
    "Translate good night into Italian.": "Buona notte.",
    "Who painted the Night Watch?": "Rembrandt, in 1642.",
    "And the square of fourteen?": "196.",
}
_NOTES = [
    "What do the minutes of the garden club say?",
    "Show me the log of the lighthouse, please.",
    "I should like to hear from the expedition.",
    "Is there something about bread?",
    "Open the report on bees.",
    "Now the museum's plan.",
    "Are there letters from the harbour?",
    "Read me the chapter on clouds.",
    "How did the orchestra's tour go?",
    "Have a look at the recipe book.",
    "Give me the carpenter's list.",
    "Anything new in the weather station's file?",
    "Fetch the interview with the glassblower.",
    "The history of the bridge would be nice.",
    "Which birds were seen? It is written down.",
    "Let us go on with the novel.",
]
_OUTAGE = {
    "The ferry to the island leaves on Thursdays.": "Still here.",
    "It comes back on Sundays, I was told.": "Still here, too.",
}
_WORDS = (
    "the keeper, Hannah, the old gardener, our guide, the baker, a visitor, the captain, Tomas",
    "counted, repaired, described, painted, weighed, carried, compared, found, sorted, drew",
    "the lamp, seven jars, the northern wall, a row of beans, the boats, two loaves, the hives, a map, some letters",
    "before sunrise, after the rain, at noon, on the second day, in the evening, during the storm, while it snowed",
    "because the wood was wet, since nobody else had time, as the older notes say, for the winter, without any help",
)


def _note(number: int, num_chars: int = 6400) -> str:
    """Prose that never repeats and always has the same length, so that compactions come at the same places."""
    chosen = random.Random(number)
    lines = [f"# Note {number}\n"]
    while sum(map(len, lines)) < num_chars:
        sentence = " ".join(chosen.choice(words.split(", ")) for words in _WORDS)
        lines.append(f"{sentence[0].upper()}{sentence[1:]}. ")
    return "".join(lines)[:num_chars]
