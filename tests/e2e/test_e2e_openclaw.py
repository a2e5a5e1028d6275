"""What OpenClaw really sent, byte for byte, sent through the gateway twice.

What is to be expected is worked out here from the captures alone: a request counts as the same when its JSON is,
apart from the fields that say how a reply travels; OpenClaw's summariser names itself in its system prompt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.answering_upstream import AnsweringUpstream, answer_text, identity
from support.raw_http import RawReply, encoded, post_chat
from support.running import RunningGateway

# Those of the captured scenarios that speak chat completions; `ant` and `resp` speak other APIs.
SCENARIOS = [
    "cc", "comp", "conv1", "conv2", "err", "full", "fullsub", "hb", "hbbg", "hbsecond", "hint", "local", "main",
    "plug", "round",
]  # fmt: skip
HIT = "openclaw-cache; hit; detail=exact"
MISS = "openclaw-cache; fwd=miss"
_OWN_TO_A_CONNECTION = {"host", "content-length", "connection"}


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured request."""

    body: dict[str, Any]
    headers: list[tuple[str, str]]

    @property
    def is_summariser(self) -> bool:
        first = self.body["messages"][0]
        said = first["content"] if isinstance(first["content"], str) else first["content"][0]["text"]
        return first["role"] == "system" and said.startswith("You are a context summarization assistant")

    def send(self, gateway: RunningGateway) -> RawReply:
        return post_chat(gateway.url, encoded(self.body), self.headers)


@pytest.fixture(scope="module")
def captures(data_root: Path) -> dict[str, list[Captured]]:
    found: dict[str, list[Captured]] = {}
    for file in sorted((data_root / "openclaw").glob("*.json")):
        requests = json.loads(file.read_bytes())["requests"] if file.stem != "index" else []
        chats = [r for r in requests if r["path"] == "/v1/chat/completions"]
        found[file.stem] = [
            Captured(r["body"], [(n, v) for n, v in r["headers"] if n not in _OWN_TO_A_CONNECTION])
            for r in chats
        ]
    return {name: requests for name, requests in found.items() if requests}


@pytest.fixture(scope="module")
def upstream() -> Iterator[AnsweringUpstream]:
    with AnsweringUpstream() as running:
        yield running


def configured(upstream: AnsweringUpstream, **result_cache: str) -> dict[str, Any]:
    """The captured prompts are longer than the small model's window: another upstream answers them."""
    return {
        "upstreams": [{"name": "peer", "kind": "openai", "urls": [upstream.url]}],
        "result_cache": result_cache,
    }


@pytest.fixture(scope="module")
def caching(
    upstream: AnsweringUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    data_dir = tmp_path_factory.mktemp("caching") / "data"
    data_dir.mkdir()
    with RunningGateway(data_dir, configured(upstream, tools="cache")) as running:
        yield running


@pytest.fixture(scope="module")
def default(
    upstream: AnsweringUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    data_dir = tmp_path_factory.mktemp("default") / "data"
    data_dir.mkdir()
    with RunningGateway(data_dir, configured(upstream)) as running:
        yield running


def test_the_scenarios_are_those_of_the_captures(captures: dict[str, list[Captured]]) -> None:
    missing = [name for name in captures if name not in SCENARIOS]
    assert not missing, "captured scenarios that no test replays"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_with_tools_cached_the_second_pass_calls_upstream_for_summarisers_only(
    scenario: str, captures: dict[str, list[Captured]], upstream: AnsweringUpstream, caching: RunningGateway
) -> None:
    if scenario not in captures:
        pytest.skip(f"this cut of the captures has no scenario {scenario!r}")
    requests = captures[scenario]
    num_summarisers = sum(r.is_summariser for r in requests)
    num_different = len({identity(r.body) for r in requests if not r.is_summariser})

    num_before = len(upstream.calls)
    first = [r.send(caching) for r in requests]
    num_first = len(upstream.calls) - num_before
    second = [r.send(caching) for r in requests]
    num_second = len(upstream.calls) - num_before - num_first

    assert num_first == num_different + num_summarisers
    assert num_second == num_summarisers
    asked: set[str] = set()
    for request, one, two in zip(requests, first, second, strict=True):
        assert one.status == two.status == 200
        assert one.text == two.text == answer_text(request.body)
        assert seen_by_openclaw(one) == seen_by_openclaw(two)
        if request.is_summariser:
            assert one.cache_status == two.cache_status == "openclaw-cache; fwd=bypass; detail=summariser"
        else:
            assert one.cache_status == (HIT if identity(request.body) in asked else MISS)
            assert two.cache_status == HIT
            assert two.headers["age"].isdigit()
            assert one.chunks[0]["id"] == two.chunks[0]["id"]
        asked.add(identity(request.body))


def seen_by_openclaw(reply: RawReply) -> list[Any]:
    """What OpenClaw reads of a stream besides its text: finish reason and usage, under the model's name."""
    chunks = reply.chunks
    finish = [
        choice["finish_reason"] for chunk in chunks for choice in chunk["choices"] if choice["finish_reason"]
    ]
    return [finish, chunks[-1]["choices"], chunks[-1]["usage"], chunks[-1]["model"]]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_by_default_agent_turns_and_summarisers_go_upstream_and_say_why(
    scenario: str, captures: dict[str, list[Captured]], upstream: AnsweringUpstream, default: RunningGateway
) -> None:
    if scenario not in captures:
        pytest.skip(f"this cut of the captures has no scenario {scenario!r}")
    requests = captures[scenario] * 2
    num_before = len(upstream.calls)
    for request in requests:
        reply = request.send(default)
        reason = "summariser" if request.is_summariser else "tools"
        assert request.is_summariser != bool(request.body.get("tools")), (
            "another kind than known in the captures"
        )
        assert reply.cache_status == f"openclaw-cache; fwd=bypass; detail={reason}"
        assert reply.text == answer_text(request.body)
        assert "age" not in reply.headers
    assert len(upstream.calls) - num_before == len(requests)


def test_what_arrives_upstream_is_what_was_sent(
    captures: dict[str, list[Captured]], upstream: AnsweringUpstream, default: RunningGateway
) -> None:
    request = next(iter(captures.values()))[0]
    request.send(default)
    assert upstream.calls[-1].body == request.body
    arrived = {name.lower(): value for name, value in upstream.calls[-1].headers.items()}
    sent = dict(request.headers)
    for name in ("authorization", "user-agent", "traceparent", "content-type"):
        assert arrived[name] == sent[name]


def test_the_captures_in_numbers(captures: dict[str, list[Captured]]) -> None:
    """Guards the reading above against a reading of the captures that finds too little."""
    every = [request for requests in captures.values() for request in requests]
    if set(captures) != set(SCENARIOS):
        pytest.skip("another cut of the captures")
    assert len(every) == 98
    assert sum(request.is_summariser for request in every) == 17
    assert len({identity(request.body) for request in every}) == 84
