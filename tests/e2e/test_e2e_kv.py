"""The KV cache of a real gateway and its engine: over restarts, and with settings that cannot be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.admin import status
from support.raw_http import encoded, post_chat
from support.running import RunningGateway

pytestmark = pytest.mark.model

SMALL = {"device": "200MB", "host": "0", "disk": "200MB", "preallocation": "0"}
FACTS = " ".join(f"Ship number {i} carries {3 * i} barrels of salt." for i in range(30))
NO_RESULT_CACHE = [("content-type", "application/json"), ("cache-control", "no-cache")]


def asking(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": FACTS}, {"role": "user", "content": question}]
    return {"model": "smollm2-135m", "messages": messages, "max_tokens": 4}


def reuse(gateway: RunningGateway, question: str) -> dict[str, int]:
    """Where the prompt's tokens came from, as the engine says."""
    reply = post_chat(gateway.url, encoded(asking(question)), NO_RESULT_CACHE)
    assert reply.status == 200
    pairs = (pair.split("=") for pair in reply.headers["x-openclaw-kv"].split(", "))
    return {name: int(count) for name, count in pairs}


@pytest.mark.parametrize("write", ["through", "back"])
def test_a_stop_leaves_on_disk_what_the_next_start_needs(
    fresh_data_dir: Callable[[], Path], write: str
) -> None:
    data_dir = fresh_data_dir()
    config = {"kv_cache": SMALL | {"write": write}}
    with RunningGateway(data_dir, config) as gateway:
        first = reuse(gateway, "Which ship is the heaviest?")
        assert first["computed"] > 350
        assert gateway.stop(signal.SIGTERM) == 0
    with RunningGateway(data_dir, config) as gateway:
        second = reuse(gateway, "Which ship is the lightest?")
    assert second["disk"] >= first["computed"] - 48  # all but the question, and the block that it begins in
    assert second["computed"] <= 32


def test_a_killed_engine_has_on_disk_what_it_had_computed(fresh_data_dir: Callable[[], Path]) -> None:
    with RunningGateway(fresh_data_dir(), {"kv_cache": SMALL}) as gateway:
        first = reuse(gateway, "Which ship is the heaviest?")
        reuse(gateway, "Any answer: by now the first prompt is written.")
        os.kill(status(gateway.url)["upstreams"][0]["pid"], signal.SIGKILL)
        assert reuse(gateway, "Which ship is the lightest?")["disk"] >= first["computed"] - 48


@pytest.mark.parametrize(
    ("kv", "named"),
    [
        ('{"host_bytes": 1000000000000000}', "kv_cache.host"),
        ('{"device_bytes": 1000000000000000}', "kv_cache.device"),
    ],
)
def test_an_engine_that_cannot_have_its_memory_says_which_setting_and_is_not_started_again(
    model_data_dir: Path, kv: str, named: str
) -> None:
    command = [sys.executable, "-m", "openclaw_cache.engine", "--model", "smollm2-135m", "--kv", kv]
    run = subprocess.run(
        [*command, "--data-dir", str(model_data_dir)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 2
    assert named in run.stderr
