"""History of a real gateway process with its own Valkey: what a kill, a stop and a second gateway do to it."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.admin import metric
from support.answering_upstream import AnsweringUpstream
from support.raw_http import encoded, post_chat
from support.running import RunningGateway

FLUSHED_S = 5.5
"""After so long without a request everything is in the store."""


SHIPS = " ".join(f"Ship number {i} carries {3 * i} barrels of salt." for i in range(30))


@pytest.fixture
def upstream() -> Iterator[AnsweringUpstream]:
    with AnsweringUpstream() as running:
        yield running


@pytest.fixture
def gateway(tmp_path: Path, upstream: AnsweringUpstream) -> Iterator[RunningGateway]:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    config = {"upstreams": [{"name": "peer", "kind": "openai", "urls": [upstream.url]}]}
    with RunningGateway(data_dir, config) as running:
        yield running


def ask(gateway: RunningGateway, prompt: str) -> None:
    body = {"model": "peer-1", "messages": [{"role": "user", "content": prompt}]}
    assert post_chat(gateway.url, encoded(body)).status == 200


def history(gateway: RunningGateway) -> dict[str, Any]:
    """The last hour."""
    with urllib.request.urlopen(f"{gateway.url}/admin/history", timeout=10) as reply:
        found: dict[str, Any] = json.loads(reply.read())
        return found


def asked(gateway: RunningGateway) -> dict[str, int]:
    """Requests of the last hour by outcome, when all that is stored was read."""
    found = history(gateway)
    assert found["is_complete"]
    requests: dict[str, int] = found["total"]["requests"]
    return requests


def test_a_kill_loses_at_most_the_last_seconds_and_a_stop_nothing(gateway: RunningGateway) -> None:
    for _ in range(10):
        ask(gateway, "before")
    time.sleep(FLUSHED_S)
    ask(gateway, "may be lost")
    gateway.stop(signal.SIGKILL)
    gateway.start()
    kept = asked(gateway)
    assert kept["miss"] in (1, 2)
    assert kept["exact"] == 9
    for _ in range(5):
        ask(gateway, "before")
    before = asked(gateway)
    assert before["exact"] == 14
    assert gateway.stop() == 0
    gateway.start()
    assert asked(gateway) == before
    assert sum(before.values()) in (15, 16)


def test_the_name_of_a_gateway_stays_and_a_killed_one_leaves_no_lock(gateway: RunningGateway) -> None:
    name = (gateway.data_dir / "node").read_text()
    assert len(name.strip()) == 16
    gateway.stop(signal.SIGKILL)
    gateway.start()
    assert (gateway.data_dir / "node").read_text() == name


def test_history_is_there_while_the_store_dies_and_comes_back(gateway: RunningGateway) -> None:
    ask(gateway, "one")
    pid = int(next((gateway.data_dir / "valkey").glob("*.pid")).read_text())
    time.sleep(FLUSHED_S)
    os.kill(pid, signal.SIGKILL)
    for _ in range(3):
        ask(gateway, "two")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = history(gateway)
        assert sum(found["total"]["requests"].values()) == 4
        if found["is_complete"]:
            break
        time.sleep(0.2)
    time.sleep(FLUSHED_S)
    assert gateway.stop() == 0
    gateway.start()
    assert sum(asked(gateway).values()) == 4


@pytest.mark.model
def test_the_engines_kv_saving_stands_apart_and_is_what_the_metrics_say(
    fresh_data_dir: Callable[[], Path],
) -> None:
    config = {"kv_cache": {"device": "200MB", "host": "0", "disk": "0", "preallocation": "0"}}
    with RunningGateway(fresh_data_dir(), config) as gateway:
        for question in ("Which ship is the heaviest?", "Which ship is the lightest?", "How many?"):
            messages = [{"role": "system", "content": SHIPS}, {"role": "user", "content": question}]
            body = {"model": "smollm2-135m", "messages": messages, "max_tokens": 4}
            for _ in range(2):
                assert post_chat(gateway.url, encoded(body)).status == 200
        time.sleep(1)
        total = history(gateway)["total"]
        kv = metric(gateway.url, 'openclaw_cache_saved_tokens_total{layer="kv"}')
        computed = metric(gateway.url, 'openclaw_cache_prompt_tokens_total{source="computed"}')
        saved_s = metric(gateway.url, "openclaw_cache_saved_prefill_seconds_total")
        assert gateway.stop() == 0
        gateway.start()
        with urllib.request.urlopen(f"{gateway.url}/admin/savings?by=upstream", timeout=10) as reply:
            ledger = json.loads(reply.read())
    assert kv > 500  # of three prompts with some 400 tokens in common, two
    assert total["requests"] == {"miss": 3, "exact": 3}
    assert total["saved_tokens"]["kv"] == kv
    assert total["prompt_tokens"]["computed"] == computed
    assert total["hits"]["kv"] == kv
    assert total["lookups"]["kv"] == kv + computed
    [row] = ledger["rows"]
    assert (row["kv_saved_tokens"], row["computed_tokens"]) == (kv, computed)
    assert row["upstream_cached_tokens"] == 0
    assert row["result_saved_tokens"] == total["saved_tokens"]["result"] > 0
    assert ledger["total"]["kv_saved_s"] == pytest.approx(saved_s, abs=1e-5)
    assert row["saved_s"] > 0
