"""What is measured: request bodies, cases, who takes part, and the targets."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

REQUEST_BYTES = 1024
AGENT_BYTES = 232_000
CONNECTIONS = 8
NO_STORE = {"Cache-Control": "no-store"}

Requests = Literal["same", "distinct"]


@dataclass(frozen=True, slots=True)
class Entrant:
    """One row of a case: a server, and how it is asked."""

    label: str
    server: str
    headers: dict[str, str] = field(default_factory=dict)
    connections: int = CONNECTIONS
    slowness: int = 1
    """Factor on the duration of a run."""


@dataclass(frozen=True, slots=True)
class Case:
    """The same requests to several servers. The first entrant is what the others are compared with."""

    name: str
    what: str
    body: str
    requests: Requests
    entrants: tuple[Entrant, ...]

    @property
    def upstream_calls(self) -> int:
        """Calls that reach the upstream for each request."""
        return 0 if self.requests == "same" else 1


# LiteLLM takes 20-250 ms per request: fewer connections and longer runs keep the part of requests that the
# end of a run cuts off small.
SLOW = {"connections": 2, "slowness": 2}

CASES = (
    Case(
        "hit",
        "exact hit in process memory; request 1 kB, reply 2 kB",
        "plain",
        "same",
        (
            Entrant("bare ASGI", "bare"),
            Entrant("ours", "ours"),
            Entrant("LiteLLM", "litellm", connections=2),
        ),
    ),
    Case(
        "valkey hit",
        "exact hit in Valkey (Redis for LiteLLM), no memory tier; request 1 kB, reply 2 kB",
        "plain",
        "same",
        (Entrant("ours", "ours-valkey"), Entrant("LiteLLM", "litellm-redis", connections=2)),
    ),
    Case(
        "miss",
        "every request another one; reply 2 kB",
        "plain",
        "distinct",
        (
            Entrant("bare relay", "bare-relay"),
            Entrant("ours, not stored", "ours", NO_STORE),
            Entrant("ours, stored", "ours"),
            Entrant("LiteLLM", "litellm", connections=2),
        ),
    ),
    Case(
        "stream",
        "every request another one; 200 events as fast as they come",
        "stream",
        "distinct",
        (
            Entrant("bare relay", "bare-relay"),
            Entrant("ours, not stored", "ours", NO_STORE),
            Entrant("ours, stored", "ours"),
            Entrant("LiteLLM", "litellm", **SLOW),  # type: ignore[arg-type]
        ),
    ),
    Case(
        "paced stream",
        "every request another one; 200 events, one each 2 ms",
        "paced",
        "distinct",
        (
            Entrant("bare relay", "bare-relay", connections=24),
            Entrant("ours, not stored", "ours", NO_STORE, connections=24),
            Entrant("ours, stored", "ours", connections=24),
        ),
    ),
    Case(
        "agent hit",
        "exact hit in process memory; an agent's request of 232 kB, streamed reply",
        "agent",
        "same",
        (
            Entrant("bare ASGI", "bare"),
            Entrant("ours", "ours"),
            Entrant("LiteLLM", "litellm", connections=2),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Target:
    """`left` ÷ `right` (or `left` in µs where there is no `right`) is at most, or at least, `bound`."""

    what: str
    left: tuple[str, str]
    right: tuple[str, str] | None
    bound: float
    at_least: bool = False


TARGETS = (
    Target("exact hit ÷ bare ASGI", ("hit", "ours"), ("hit", "bare ASGI"), 2.5),
    Target("LiteLLM ÷ exact hit", ("hit", "LiteLLM"), ("hit", "ours"), 75, at_least=True),
    Target("miss, not stored ÷ bare relay", ("miss", "ours, not stored"), ("miss", "bare relay"), 1.6),
    Target("miss, stored ÷ bare relay", ("miss", "ours, stored"), ("miss", "bare relay"), 1.6),
    Target("stream, not stored ÷ bare relay", ("stream", "ours, not stored"), ("stream", "bare relay"), 1.6),
    Target("stream, stored ÷ bare relay", ("stream", "ours, stored"), ("stream", "bare relay"), 1.6),
    Target("agent hit, µs", ("agent hit", "ours"), None, 1300),
)


def write_bodies(folder: Path) -> dict[str, Path]:
    """Write the request bodies; `@N@` in them is replaced by a number where requests must differ."""
    plain = _filled({"model": "bench", "temperature": 0})
    bodies = {
        "plain": plain,
        "stream": {**plain, "stream": True, "stream_options": {"include_usage": True}},
        "paced": {**plain, "model": "bench-paced", "stream": True, "stream_options": {"include_usage": True}},
        "agent": agent_body(),
    }
    files = {}
    for name, body in bodies.items():
        files[name] = folder / f"{name}.json"
        files[name].write_bytes(_compact(body))
    return files


def _filled(body: dict[str, Any]) -> dict[str, Any]:
    """A chat request of `REQUEST_BYTES`."""
    messages = [
        {"role": "system", "content": "You are a helpful assistant. Answer briefly and truthfully."},
        {"role": "user", "content": "Question @N@: "},
    ]
    missing = REQUEST_BYTES - len(_compact({**body, "messages": messages}))
    messages[1]["content"] += ("what does the fox see when it looks over the dog? " * 32)[:missing]
    return {**body, "messages": messages}


def agent_body() -> dict[str, Any]:
    """A request as OpenClaw sends it with all tools, its conversation continued to `AGENT_BYTES`.

    Taken from the captured requests under OPENCLAW_CACHE_TEST_DATA (default: `../shared/data` beside the
    repository); where there are none, made up in the same proportions (half of it tool schemas).
    """
    data = os.environ.get("OPENCLAW_CACHE_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared/data"
    captured: list[dict[str, Any]] = []
    for file in sorted(Path(data, "openclaw").glob("full*.json")):
        captured += [one["body"] for one in json.loads(file.read_text())["requests"]]
    body = max(captured, key=lambda one: len(_compact(one)), default=None) or _made_up_agent_body()
    turns = [message for message in body["messages"] if message["role"] != "system"]
    body = {**body, "model": "bench", "messages": list(body["messages"])}
    missing = AGENT_BYTES - len(_compact(body))
    number = 0
    while missing > 0:
        turn = turns[number % len(turns)]
        body["messages"].append(turn)
        missing -= len(_compact(turn)) + 1
        number += 1
    return body


def _made_up_agent_body() -> dict[str, Any]:
    text = "Reads a part of the file and returns its lines with their numbers. "
    parameters = {
        "type": "object",
        "properties": {f"option_{i}": {"type": "string", "description": text} for i in range(12)},
    }
    function = {"description": text * 4, "parameters": parameters}
    tools = [{"type": "function", "function": {"name": f"tool_{i:02}", **function}} for i in range(75)]
    messages = [
        {"role": "system", "content": text * 600},
        {"role": "user", "content": text * 10},
        {"role": "assistant", "content": text * 5},
    ]
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": "bench", "messages": messages, **stream, "tools": tools, "tool_choice": "auto"}


def _compact(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
