"""What a person sees who starts the gateway: the first start, the line to try, and the second start."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.admin import status
from support.raw_http import encoded, post_chat
from support.running import RunningGateway

pytestmark = pytest.mark.model

HIT = "openclaw-cache; hit; detail=exact"
QUESTION: dict[str, Any] = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}


@pytest.fixture(scope="module")
def own_gateway(fresh_data_dir: Callable[[], Path]) -> Iterator[RunningGateway]:
    """A gateway of this module's own: it is stopped and started again."""
    with RunningGateway(fresh_data_dir(), {}) as running:
        yield running


def printed(gateway: RunningGateway) -> list[str]:
    """The lines for people; the others are the log."""
    deadline = time.monotonic() + 10
    while not any(line.startswith("  curl ") for line in gateway.log().splitlines()):
        assert time.monotonic() < deadline, gateway.log()
        time.sleep(0.05)
    return [line for line in gateway.log().splitlines() if not line.startswith("{")]


def test_it_prints_where_it_listens_and_which_model_answers(own_gateway: RunningGateway) -> None:
    lines = printed(own_gateway)
    assert f"listening on {own_gateway.url}" in lines
    assert f"dashboard: {own_gateway.url}/dashboard" in lines
    assert "upstream local: smollm2-135m" in lines
    assert len([line for line in lines if line.startswith("  curl ")]) == 1


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_printed_curl_line_works_as_it_stands(own_gateway: RunningGateway) -> None:
    line = next(line for line in printed(own_gateway) if line.startswith("  curl "))
    replies = [
        subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120, check=True).stdout
        for _ in range(2)
    ]
    heads = [reply.partition("\n\n")[0].replace("\r", "").lower() for reply in replies]
    assert all(reply.startswith("HTTP/1.1 200") and "Paris" in reply for reply in replies)
    assert "cache-status: openclaw-cache; fwd=miss; stored" in heads[0].partition("\n\n")[0]
    assert f"cache-status: {HIT}" in heads[1].partition("\n\n")[0]
    assert "\nage: " in heads[1]


def test_the_second_start_converts_nothing_and_still_has_the_reply(own_gateway: RunningGateway) -> None:
    first = post_chat(own_gateway.url, encoded(QUESTION))
    assert "Paris" in first.text
    models = own_gateway.data_dir / "models"
    before = {file: file.stat().st_mtime_ns for file in models.rglob("*") if file.is_file()}
    assert before
    old_pid = status(own_gateway.url)["pid"]

    assert own_gateway.stop(signal.SIGTERM) == 0
    own_gateway.log_file.unlink()
    own_gateway.start()

    assert {file: file.stat().st_mtime_ns for file in models.rglob("*") if file.is_file()} == before
    assert not any("convert" in line for line in printed(own_gateway))
    shown = status(own_gateway.url)
    assert shown["pid"] != old_pid
    assert shown["result_cache"]["memory"]["num_entries"] == 0, "nothing but Valkey can know the reply"
    second = post_chat(own_gateway.url, encoded(QUESTION))
    assert (second.cache_status, second.body) == (HIT, first.body)
    assert int(second.headers["age"]) >= 0
    assert status(own_gateway.url)["result_cache"]["memory"]["num_entries"] == 1


def test_the_command_finds_the_server_by_its_data_dir(own_gateway: RunningGateway) -> None:
    command = [sys.executable, "-m", "openclaw_cache", "status", "--data-dir", str(own_gateway.data_dir)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "smollm2-135m" in ran.stdout
    own_gateway.stop(signal.SIGTERM)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ran.returncode == 3
    assert "openclaw-cache serve" in ran.stderr
