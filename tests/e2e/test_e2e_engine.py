"""The real model's process when its clients leave, and when it dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.admin import status
from support.running import RunningGateway

pytestmark = pytest.mark.model

MODEL = "smollm2-135m"


def story(about: str, max_tokens: int) -> dict[str, Any]:
    """A request that keeps the small model busy."""
    question = f"Write a very long story about {about}, with many chapters."
    return {"model": MODEL, "messages": [{"role": "user", "content": question}], "max_tokens": max_tokens}


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="sk-any", max_retries=0, timeout=90) as sdk:
        yield sdk


def engine_pid(gateway: RunningGateway) -> int:
    pid: int = status(gateway.url)["upstreams"][0]["pid"]
    return pid


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, all threads (Linux: proc_pid_stat(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_idle(pid: int) -> bool:
    """Whether a process works for less than a tenth of half a second: a waiting server, not a model."""
    before = cpu_seconds(pid)
    time.sleep(0.5)
    return cpu_seconds(pid) - before < 0.05


def read_some(stream: openai.Stream[Any], num_chunks: int = 4) -> None:
    for _ in range(num_chunks):
        next(iter(stream))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processor time is read from Linux's /proc")
def test_a_client_that_leaves_mid_stream_frees_the_engine(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(**story("a lighthouse", 4000), stream=True)
    read_some(stream)
    pid = engine_pid(gateway)
    assert not is_idle(pid), "the engine should be generating"
    stream.close()
    # Without the cancel it would go on for minutes: 4,000 tokens at about ten a second.
    deadline = time.monotonic() + 5
    while not is_idle(pid):
        assert time.monotonic() < deadline, "the engine still generates for nobody"
    assert status(gateway.url)["flights"] == 0
    reply = client.chat.completions.with_raw_response.create(
        **story("a lighthouse", 4000) | {"max_tokens": 4}
    )
    assert "fwd=miss" in reply.headers["cache-status"]


def test_one_of_two_clients_leaving_does_not_hurt_the_other(client: openai.OpenAI) -> None:
    body = story("two friends", 40)
    leaver = client.chat.completions.create(**body, stream=True)
    read_some(leaver)
    with client.chat.completions.with_streaming_response.create(**body, stream=True) as raw:
        assert raw.headers["cache-status"] == "openclaw-cache; fwd=miss; collapsed"
        leaver.close()
        stayed = list(raw.parse())
    assert stayed[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stayed)
    stored = client.chat.completions.with_raw_response.create(**body)
    assert stored.headers["cache-status"] == "openclaw-cache; hit; detail=exact"
    assert stored.parse().choices[0].message.content == text
    assert stored.parse().usage.completion_tokens == 40


def test_many_at_once_are_computed_once(client: openai.OpenAI) -> None:
    body = story("seven brothers", 12)
    seen: list[tuple[str, str]] = []

    def ask() -> None:
        reply = client.chat.completions.with_raw_response.create(**body)
        seen.append((reply.headers["cache-status"], reply.parse().id))

    threads = [threading.Thread(target=ask) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 7
    assert len({reply_id for _, reply_id in seen}) == 1, "each computation has an id of its own"
    assert sum("collapsed" not in how and "hit" not in how for how, _ in seen) == 1


def test_the_engine_killed_at_rest_answers_the_next_request(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    killed = engine_pid(gateway)
    os.kill(killed, signal.SIGKILL)
    reply = client.chat.completions.create(**story("a phoenix", 4))
    assert reply.usage.completion_tokens == 4
    assert engine_pid(gateway) != killed


def test_the_engine_killed_mid_stream_is_an_error_once_and_nothing_is_stored(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    body = story("a broken bridge", 60)
    stream = client.chat.completions.create(**body, stream=True)
    read_some(stream)
    killed = engine_pid(gateway)
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(openai.APIError):
        list(stream)
    reply = client.chat.completions.with_raw_response.create(**body)
    assert reply.headers["cache-status"] == "openclaw-cache; fwd=miss; stored"
    assert reply.parse().usage.completion_tokens == 60
    assert engine_pid(gateway) != killed
