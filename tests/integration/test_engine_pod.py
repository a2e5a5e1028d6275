"""The life of the engine's process: it comes back when killed, and never outlives its parent."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import aiohttp
import pytest

from openclaw_cache.engine.pod import EmbeddedPod
from openclaw_cache.errors import ConfigError

FRANCE = {
    "model": "smollm2-135m",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}


# Little memory, and nothing that outlives the test in the folder of the models.
SMALL = {"device_bytes": 100_000_000, "host_bytes": 0, "disk_bytes": 0, "preallocation": 0.0}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while is_running(pid):
            await asyncio.sleep(0.02)


async def answer(pod: EmbeddedPod) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{pod.url}/v1/chat/completions", json=FRANCE) as response,
    ):
        reply = await response.json()
    return str(reply["choices"][0]["message"]["content"])


@pytest.mark.model
async def test_a_killed_engine_is_started_again_and_a_stopped_one_is_gone(model_data_dir: Path) -> None:
    said: list[str] = []
    pod = EmbeddedPod(model="smollm2-135m", data_dir=model_data_dir, kv=SMALL, on_event=said.append)
    assert (pod.state, pod.url) == ("stopped", None)
    async with pod:
        assert pod.state == "starting"
        assert pod.model_ids[0] == "smollm2-135m"
        await pod.wait_ready(120)
        assert "Paris" in await answer(pod)
        first, fingerprint = pod.pid, pod.fingerprint
        assert first is not None
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(30):
            while pod.state == "ready":
                await asyncio.sleep(0.01)
        assert (pod.state, pod.url, pod.reason) == ("restarting", None, "killed by signal 9")
        await pod.wait_ready(120)
        assert pod.pid != first
        assert pod.fingerprint == fingerprint
        assert "Paris" in await answer(pod)
        second = pod.pid
        assert second is not None
    assert (pod.state, pod.url) == ("stopped", None)
    await gone(second)
    assert any("killed by signal 9" in line for line in said)
    assert "capital" not in " ".join(said)


@pytest.mark.model
async def test_the_engine_ends_when_its_parent_is_killed(model_data_dir: Path) -> None:
    script = f"""
import asyncio, pathlib
from openclaw_cache.engine.pod import EmbeddedPod
async def main():
    async with EmbeddedPod(model="smollm2-135m", data_dir=pathlib.Path({str(model_data_dir)!r}), kv={SMALL}) as pod:
        while pod.url is None:
            await asyncio.sleep(0.01)
        print(pod.pid, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        child = int(await asyncio.to_thread(parent.stdout.readline))
    assert is_running(child)
    parent.kill()
    parent.wait()
    await gone(child)


async def test_a_model_that_cannot_be_found_is_refused_at_start(tmp_path: Path) -> None:
    pod = EmbeddedPod(model="no-such-model", data_dir=tmp_path)
    with pytest.raises(ConfigError, match="no-such-model"):
        await pod.start()
    assert pod.state == "stopped"


@pytest.mark.model
async def test_a_model_that_cannot_be_loaded_fails_for_good_with_the_engines_reason(
    model_data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"not a model" * 100)
    async with EmbeddedPod(model=str(tmp_path / "broken.gguf"), data_dir=tmp_path) as pod:
        with pytest.raises(ConfigError, match=r"broken\.gguf is not a readable GGUF file"):
            await pod.wait_ready(120)
        assert (pod.state, pod.url) == ("failed", None)


@pytest.mark.model
async def test_waiting_for_an_engine_that_takes_longer_says_what_it_is_doing(model_data_dir: Path) -> None:
    async with EmbeddedPod(model="smollm2-135m", data_dir=model_data_dir, kv=SMALL) as pod:
        with pytest.raises(TimeoutError, match="not ready after 0"):
            await pod.wait_ready(0.01)
        pid = pod.pid
    if pid is not None:
        await gone(pid)


@pytest.mark.model
def test_an_engine_alone_tells_programs_its_port_and_people_what_to_try(model_data_dir: Path) -> None:
    kv = json.dumps(SMALL)
    with subprocess.Popen(
        [sys.executable, "-m", "openclaw_cache.engine", "--model", "smollm2-135m", "--json", "--kv", kv,
         "--data-dir", str(model_data_dir)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as engine:  # fmt: skip
        assert engine.stdout is not None
        listening, ready = (json.loads(engine.stdout.readline()) for _ in range(2))
        url = f"http://127.0.0.1:{listening['port']}"
        with urllib.request.urlopen(f"{url}/kv/status", timeout=30) as reply:
            assert json.load(reply)["enabled"] is True
        engine.terminate()
        _, said = engine.communicate(timeout=60)
    assert (listening["event"], ready["event"], ready["model"]) == ("listening", "ready", "smollm2-135m")
    assert f"engine: listening on {url}\n" in said
    assert f"\n  curl -i {url}/v1/chat/completions " in said
