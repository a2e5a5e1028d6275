"""What is measured: request bodies, cases, who takes part, and the targets."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

REQUEST_BYTES = 1024
AGENT_BYTES = 232_000
NO_STORE = {"Cache-Control": "no-store"}

Requests = Literal["same", "distinct"]


@dataclass(frozen=True, slots=True)
class Entrant:
    """One row of a case: a server, and how it is asked."""

    label: str
    server: str
    headers: dict[str, str] = field(default_factory=dict)
    slowness: int = 1
    """Factor on the length of a run, so that the request that its end cuts off counts little."""


@dataclass(frozen=True, slots=True)
class Case:
    """The same requests to several servers. The first entrant is what the others are compared with."""

    name: str
    body: str
    requests: Requests
    entrants: tuple[Entrant, ...]
    connections: int = 1

    @property
    def upstream_calls(self) -> int:
        """Calls that reach the upstream for each request."""
        return 0 if self.requests == "same" else 1


_HIT = (Entrant("bare ASGI", "bare"), Entrant("ours", "ours"))
_MISS = (
    Entrant("bare relay", "bare-relay"),
    Entrant("ours, not stored", "ours", NO_STORE),
    Entrant("ours, stored", "ours"),
)
_LITELLM = Entrant("LiteLLM", "litellm", slowness=2)
_SGLANG = Entrant("sglang-router", "sglang-router")
_MANY = 8

CASES = (
    # One request at a time: what a person's agent does, and what p50 means something for.
    Case("hit", "plain", "same", (*_HIT, _LITELLM)),
    Case(
        "valkey hit", "plain", "same", (Entrant("ours", "ours-valkey"), Entrant("LiteLLM", "litellm-redis"))
    ),
    Case("miss", "plain", "distinct", (*_MISS, _SGLANG, _LITELLM)),
    Case("stream", "stream", "distinct", (*_MISS, _SGLANG, _LITELLM)),
    Case("agent hit", "agent", "same", _HIT),
    # A full core: the next request is always there, so nobody is woken up.
    Case(f"hit, {_MANY} at once", "plain", "same", _HIT, _MANY),
    Case(f"miss, {_MANY} at once", "plain", "distinct", _MISS, _MANY),
    Case(f"stream, {_MANY} at once", "stream", "distinct", _MISS, _MANY),
    # As from a model: one event each 2 ms and stream.
    Case("paced streams", "paced", "distinct", _MISS, 24),
)


@dataclass(frozen=True, slots=True)
class Target:
    """`left` ÷ `right` (or `left` in µs where there is no `right`) is at most, or at least, `bound`."""

    what: str
    left: tuple[str, str]
    right: tuple[str, str] | None
    bound: float
    at_least: bool = False


def _relay_targets(case: str) -> list[Target]:
    bare = (case, "bare relay")
    labels = ("ours, not stored", "ours, stored")
    return [Target(f"{case}, {label[6:]} ÷ bare relay", (case, label), bare, 1.6) for label in labels]


TARGETS = (
    Target("hit ÷ bare ASGI", ("hit", "ours"), ("hit", "bare ASGI"), 2.5),
    Target("hit, 8 at once ÷ bare ASGI", ("hit, 8 at once", "ours"), ("hit, 8 at once", "bare ASGI"), 2.5),
    Target("LiteLLM's hit ÷ ours", ("hit", "LiteLLM"), ("hit", "ours"), 75, at_least=True),
    *(t for case in CASES if case.entrants[0].label == "bare relay" for t in _relay_targets(case.name)),
    Target("agent hit, µs", ("agent hit", "ours"), None, 1300),
)


def write_bodies(folder: Path) -> dict[str, Path]:
    """Write the request bodies; `@N@` in them is replaced by a number where requests must differ."""
    plain = _filled({"model": "bench", "temperature": 0})
    bodies = {
        "plain": plain,
        "stream": {**plain, "stream": True, "stream_options": {"include_usage": True}},
        "paced": {**plain, "model": "bench-2ms", "stream": True, "stream_options": {"include_usage": True}},
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
