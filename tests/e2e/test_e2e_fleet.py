"""Two gateways that share one Valkey and one secret are one cache; a third with another secret is refused."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from openclaw_cache.testing import running_valkey
from support.answering_upstream import AnsweringUpstream, answer_text, generation_of
from support.raw_http import encoded, post_chat
from support.running import RunningGateway

MODEL = "peer-1"
HIT = "openclaw-cache; hit; detail=exact"
NUM_CLIENTS = 6


def asking(question: str) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": question}]}


@pytest.fixture
def upstream() -> Iterator[AnsweringUpstream]:
    with AnsweringUpstream(delay_s=0.02) as running:
        yield running


@pytest_asyncio.fixture
async def store_url(tmp_path: Path) -> AsyncIterator[str]:
    folder = tmp_path / "shared-valkey"
    folder.mkdir()
    async with running_valkey(folder, "--appendonly", "yes", tcp=True) as (url, _):
        yield url


class Fleet:
    """Gateways with one store, one upstream, and one secret unless told otherwise."""

    def __init__(self, folder: Path, store_url: str, upstream_url: str) -> None:
        self._folder = folder
        self._store_url = store_url
        self._upstream_url = upstream_url

    def gateway(self, name: str, secret: str = "fleet-secret") -> RunningGateway:
        data_dir = self._folder / name
        data_dir.mkdir()
        return RunningGateway(
            data_dir,
            {
                "server": {"secret_file": str(self._folder / secret)},
                "store": {"url": self._store_url, "timeout": "5s"},
                "upstreams": [{"name": "peer", "kind": "openai", "urls": [self._upstream_url]}],
            },
        )


@pytest.fixture
def fleet(tmp_path: Path, store_url: str, upstream: AnsweringUpstream) -> Fleet:
    return Fleet(tmp_path, store_url, upstream.url)


def invalidate(gateway: RunningGateway) -> None:
    """Run the command as an operator would; returns once it has reported success."""
    command = [sys.executable, "-m", "openclaw_cache", "invalidate", "--model", MODEL]
    ran = subprocess.run(
        [*command, "--data-dir", str(gateway.data_dir)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "invalidated" in ran.stdout


def test_what_one_computed_is_a_hit_at_the_other(fleet: Fleet, upstream: AnsweringUpstream) -> None:
    body = asking("What do two nodes share?")
    with fleet.gateway("a") as a, fleet.gateway("b") as b:
        first = post_chat(a.url, encoded(body))
        assert first.cache_status == "openclaw-cache; fwd=miss; stored"
        second = until_stored(b, body)
        assert second.cache_status == HIT
        assert second.body == first.body
        assert int(second.headers["age"]) < 60
        streamed = post_chat(b.url, encoded(body | {"stream": True}))
        assert (streamed.cache_status, streamed.text) == (HIT, answer_text(body))
    assert len(upstream.calls) == 1


def until_stored(gateway: RunningGateway, body: dict[str, Any]) -> Any:
    """Ask for a stored reply until there is one: a reply is sent before it has been written to the store."""
    deadline = time.monotonic() + 10
    headers = [("content-type", "application/json"), ("cache-control", "only-if-cached")]
    while True:
        reply = post_chat(gateway.url, encoded(body), headers)
        if reply.status == 200 or time.monotonic() > deadline:
            return reply
        assert reply.status == 504
        time.sleep(0.02)


def test_after_an_invalidation_no_node_serves_an_older_reply(
    fleet: Fleet, upstream: AnsweringUpstream
) -> None:
    bodies = [asking(f"Question {number}?") for number in range(10)]
    seen: list[tuple[int, dict[str, Any], str, str]] = []
    promised = 0  # the oldest generation that may still be served
    stop = threading.Event()

    def ask(gateway: RunningGateway) -> None:
        while not stop.is_set():
            for body in bodies:
                oldest = promised  # before the request goes out: what was promised then must hold
                reply = post_chat(gateway.url, encoded(body))
                seen.append((oldest, body, reply.text, reply.cache_status))

    with fleet.gateway("a") as a, fleet.gateway("b") as b:
        threads = [threading.Thread(target=ask, args=(b if i % 3 else a,)) for i in range(NUM_CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            for generation in range(1, 5):
                time.sleep(0.3)
                upstream.generation = generation  # the model is replaced, then its old replies are given up
                invalidate(a if generation % 2 else b)
                promised = generation
            time.sleep(0.3)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    found = [(oldest, generation_of(text, body, upstream.generation)) for oldest, body, text, _ in seen]
    assert all(generation >= 0 for _, generation in found), "a wrong answer"
    assert [(oldest, served) for oldest, served in found if served < oldest] == []
    assert {generation for _, generation in found} == set(range(5)), "every generation was served in its time"
    assert sum(how == HIT for *_, how in seen) > len(seen) // 2, "hits are what could be outdated"


def test_an_invalidation_outlives_the_gateways(fleet: Fleet, upstream: AnsweringUpstream) -> None:
    body = asking("What is durable?")
    with fleet.gateway("a") as a:
        post_chat(a.url, encoded(body))
        upstream.generation = 1
        invalidate(a)
    with fleet.gateway("b") as b:
        assert post_chat(b.url, encoded(body)).text == answer_text(body, 1)


def test_a_node_with_another_secret_is_refused(fleet: Fleet) -> None:
    with fleet.gateway("a"):
        stranger = fleet.gateway("stranger", secret="another-secret")
        with pytest.raises(RuntimeError, match="ended with 2"):
            stranger.start()
        assert "server.secret_file" in stranger.log()
        assert "another secret" in stranger.log()
