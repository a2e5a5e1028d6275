"""What OpenClaw really sent through each of the three APIs, byte for byte and with its own headers, sent through the
gateway twice: what arrives upstream, what comes back, and whom the log names.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import anthropic_upstream, openai_upstream
from support.raw_http import RawReply, encoded, post
from support.vendor_site import HIT, MISS, VendorSite, vendor_site
from support.vendor_upstream import VendorUpstream

SCENARIOS = ["cc", "full", "hint", "resp", "ant"]
PATHS = {"resp": "/v1/responses", "ant": "/v1/messages"}
_OWN_TO_A_CONNECTION = {"host", "content-length", "connection"}
_NOT_FOR_AN_UPSTREAM = {"sec-fetch-mode", "accept-encoding"}
"""What a browser would say of itself, and how a reply may be packed: the gateway asks for plain bytes."""

OTHER_CLIENT = {"authorization": "Bearer sk-other", "x-api-key": "sk-other"}
"""Shares no stored reply with the captured one."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured request."""

    path: str
    body: dict[str, Any]
    headers: list[tuple[str, str]]
    sha256: str

    @property
    def raw(self) -> bytes:
        """The bytes that OpenClaw sent."""
        raw = encoded(self.body)
        assert hashlib.sha256(raw).hexdigest() == self.sha256, "this is not what was captured"
        return raw

    def send(self, url: str) -> RawReply:
        return post(url, self.path, self.raw, self.headers)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    with vendor_site(tmp_path_factory.mktemp("openclaw")) as running:
        yield running


@pytest.fixture
def requests(scenario: str, data_root: Path) -> list[Captured]:
    file = data_root / "openclaw" / f"{scenario}.json"
    if not file.exists():
        pytest.skip(f"this cut of the captures has no scenario {scenario!r}")
    found = json.loads(file.read_bytes())["requests"]
    assert {r["path"] for r in found} == {PATHS.get(scenario, "/v1/chat/completions")}
    return [
        Captured(
            r["path"],
            r["body"],
            [(n, v) for n, v in r["headers"] if n not in _OWN_TO_A_CONNECTION],
            r["raw_sha256"],
        )
        for r in found
    ]


def upstream_of(site: VendorSite, scenario: str) -> VendorUpstream:
    return site.anthropic if scenario == "ant" else site.openai


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_bytes_and_headers_arrive_as_they_were_sent(
    scenario: str, requests: list[Captured], site: VendorSite
) -> None:
    upstream = upstream_of(site, scenario)
    for request in requests:
        # Computed anew, whatever an earlier test has stored.
        post(site.gateway.url, request.path, request.raw, [*request.headers, ("cache-control", "no-cache")])
        call = upstream.calls[-1]
        assert hashlib.sha256(call.raw).hexdigest() == request.sha256
        assert (call.path, call.query) == (request.path, "")
        sent = [(n, v) for n, v in request.headers if n not in _NOT_FOR_AN_UPSTREAM]
        arrived = [h for h in call.headers if h in sent]
        assert arrived == sent, "a header is lost, or out of its order"
        names = [name for name, _ in call.headers]
        assert len(names) == len(set(names))
        added = set(names) - {name for name, _ in sent}
        assert added == {"host", "content-length", "accept-encoding", "x-request-id", "cache-control"}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_stream_is_the_upstreams_own_byte_for_byte_then_a_hit(
    scenario: str, requests: list[Captured], site: VendorSite
) -> None:
    upstream = upstream_of(site, scenario)
    seen: set[str] = set()
    for request in requests:
        own = request.send(upstream.url)
        num_before = len(upstream.calls)
        name = json.dumps({k: v for k, v in request.body.items() if k != "prompt_cache_key"}, sort_keys=True)
        headers = [(n, OTHER_CLIENT.get(n, v)) for n, v in request.headers]
        first = post(site.gateway.url, request.path, request.raw, headers)
        second = post(site.gateway.url, request.path, request.raw, headers)
        assert (first.status, second.status) == (200, 200)
        assert first.cache_status == (HIT if name in seen else MISS)
        assert second.cache_status == HIT
        assert second.headers["content-type"].startswith("text/event-stream")
        if name not in seen:
            assert first.body == own.body
        assert told(second) == told(first) == told(own)
        assert told(second)[0] == expected_text(request)
        assert len(upstream.calls) == num_before + (name not in seen)
        seen.add(name)


def expected_text(request: Captured) -> str:
    if request.path == "/v1/messages":
        return anthropic_upstream.text_for(request.body)
    return openai_upstream.text_for(request.body)


def told(reply: RawReply) -> list[Any]:
    """Text, end and usage, as a client reads them from the stream."""
    events = reply.events
    if "choices" in events[0]:
        choices = [choice for event in events for choice in event["choices"]]
        ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
        return ["".join(c["delta"].get("content") or "" for c in choices), ends, events[-1]["usage"]]
    if events[0]["type"] == "response.created":
        text = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
        return [text, events[-1]["type"], events[-1]["response"]]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    [end] = [event for event in events if event["type"] == "message_delta"]
    return ["".join(d["text"] for d in deltas), end["delta"], end["usage"]]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_log_names_agent_and_session(scenario: str, requests: list[Captured], site: VendorSite) -> None:
    for request in requests:
        reply = request.send(site.gateway.url)
        line = logged(site, reply)
        # OpenClaw says it itself, at the end of its system prompt.
        [(agent, session)] = re.findall(
            r"\\nRuntime: agent=(\S+) \|.*? \| sessionId=(\S+) \|", json.dumps(request.body)
        )
        assert line["api"] == {"resp": "responses", "ant": "messages"}.get(scenario, "chat")
        assert (line["agent"], line["session"]) == (agent, session)
        assert (line["model"], line["stream"]) == (request.body["model"], True)
        prompt_tokens = {"resp": 36, "ant": 12 + 100 + 2000}.get(scenario, 19)
        assert line["prompt_tokens"] == prompt_tokens
    assert "sk-stub" not in site.gateway.log()
    assert "personal assistant running inside" not in site.gateway.log()


def logged(site: VendorSite, reply: RawReply) -> dict[str, Any]:
    """The log line of a request, which may come a moment after its reply."""
    for _ in range(200):
        for line in site.gateway.requests_logged():
            if line["request_id"] == reply.headers["x-request-id"]:
                return line
        time.sleep(0.05)
    raise AssertionError("the request has no log line")
