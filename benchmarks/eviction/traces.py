"""The traces: prompts as paths of block ids, with the time of each.

Every trace comes in two halves that share no conversation: one to tune on, one to report. The data folder's README
names the sources and licences.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.forms import coding
from openclaw_cache.simulation.forms import mooncake as mooncake_form
from openclaw_cache.simulation.interleave import interleave
from openclaw_cache.simulation.request import Request
from openclaw_cache.simulation.trace import Trace, collected

Half = Literal["tune", "report", "whole"]

_TEXT_BLOCK = 16


def data_folder() -> Path:
    """Where the traces are: $OPENCLAW_CACHE_TRACES, or a checkout's sibling `shared/data/traces`."""
    given = os.environ.get("OPENCLAW_CACHE_TRACES")
    return Path(given) if given else Path(__file__).resolve().parents[3] / "shared/data/traces"


def loader(folder: Path) -> ModuleType:
    """The folder's own loader."""
    spec = importlib.util.spec_from_file_location("load_traces", folder / "load_traces.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(folder / "load_traces.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mooncake(folder: Path, half: Half) -> Trace:
    """Chat and tools of a public service; a conversation is known by its second block."""
    with (folder / "mooncake/conversation_trace.jsonl").open("rb") as file:
        requests = (
            request
            for request in mooncake_form.requests(file, "mooncake")
            if _is_in(half, str(request.ids[:2].tolist()))
        )
        return collected(requests, mooncake_form.BLOCK_TOKENS)


def coding_agents(folder: Path, half: Half, num_users: int, *, has_hints: bool = False) -> Trace:
    """Coding-agent sessions, `num_users` at a time; pauses over 600 s are cut to that.

    `has_hints`: whether a reply asked for a tool or ended the turn is known to the cache, as it is to an engine.
    """
    rng = random.Random(0)  # the same order in every run
    requests = interleave(coding_sessions(folder, half, rng), num_users, rng=rng)
    if not has_hints:
        requests = (replace(request, hint=Hint.NONE) for request in requests)
    return collected(requests, 64)


def coding_sessions(folder: Path, half: Half, rng: random.Random) -> Iterator[list[Request]]:
    """Those of a half, in a random order. Only their lines are kept in memory."""
    lines = []
    for file in sorted((folder / "cc_weka").glob("*.jsonl.gz")):
        with gzip.open(file) as stream:
            lines += [line for line in stream if _is_in(half, json.loads(line)["id"])]
    rng.shuffle(lines)
    return (session for line in lines for _, session in coding.sessions([line], "cc_weka"))


def ragpulse(folder: Path, half: Half) -> Trace:
    """Retrieval: system prompt, passages, history, question, each in whole blocks of 16 tokens."""

    def rows() -> Iterator[tuple[float, tuple[object, ...], int]]:
        for row in loader(folder).ragpulse():
            if _is_in(half, str(row["session"])):
                path = [
                    (component, i)
                    for component, num_tokens in row["components"]
                    for i in range(num_tokens // _TEXT_BLOCK)
                ]
                yield row["t"], tuple(path), row["input_length"]

    return collected(_chained(rows()), _TEXT_BLOCK)


def lmcache_agents(folder: Path, half: Half, num_users: int) -> Trace:
    """Text of software and airline agents, tokenised, `num_users` at a time."""
    encode = _encoder()
    rows = []
    for name in ("miniswe", "taubench"):
        with gzip.open(folder / f"lmcache_agent/{name}.jsonl.gz") as file:
            rows += [row for row in map(json.loads, file) if _is_in(half, row["session_id"])]

    def paths() -> Iterator[tuple[float, tuple[object, ...], int]]:
        for row in rows:
            tokens = encode(row["input"])
            starts = range(0, len(tokens) - _TEXT_BLOCK + 1, _TEXT_BLOCK)
            path = tuple(tuple(tokens[i : i + _TEXT_BLOCK]) for i in starts)
            yield int(row["timestamp"]) / 1e6, path, len(tokens)

    by_session: dict[str, list[Request]] = defaultdict(list)
    for row, request in zip(rows, _chained(paths()), strict=True):
        by_session[row["session_id"]].append(request)
    sessions = [_from_its_start(session) for session in by_session.values()]
    rng = random.Random(0)
    rng.shuffle(sessions)
    return collected(interleave(sessions, num_users, rng=rng, has_own_ids=False), _TEXT_BLOCK)


TRACES: dict[str, Callable[[Path, Half], Trace]] = {
    "mooncake": mooncake,
    "coding-40": lambda folder, half: coding_agents(folder, half, 40),
    "coding-100": lambda folder, half: coding_agents(folder, half, 100),
    "coding-40-hints": lambda folder, half: coding_agents(folder, half, 40, has_hints=True),
    "ragpulse": ragpulse,
    "lmcache-8": lambda folder, half: lmcache_agents(folder, half, 8),
}


# Capacities to try, as shares of all blocks.
SHARES: dict[str, list[float]] = {
    "mooncake": [0.005, 0.01, 0.03, 0.06, 0.15, 0.5],
    "coding-40": [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5],
    "coding-100": [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5],
    "coding-40-hints": [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5],
    "ragpulse": [0.005, 0.01, 0.03, 0.1, 0.25, 0.5],
    "lmcache-8": [0.01, 0.05, 0.1, 0.25, 0.5],
}


def _is_in(half: Half, conversation: str) -> bool:
    return half == "whole" or (zlib.crc32(conversation.encode()) & 1 == 0) == (half == "tune")


def _from_its_start(session: list[Request]) -> list[Request]:
    """In order of time, counted from the first request on."""
    session = sorted(session, key=lambda request: request.at)
    return [replace(request, at=request.at - session[0].at) for request in session]


def _chained(rows: Iterable[tuple[float, tuple[object, ...], int]]) -> Iterator[Request]:
    """Name every block by all that is before it."""
    numbers: dict[tuple[int, object], int] = {}
    for at, path, num_tokens in rows:
        ids, parent = [], -1
        for block in path:
            parent = numbers.setdefault((parent, block), len(numbers))
            ids.append(parent)
        yield Request(at, np.array(ids, np.int64), num_tokens)


def _encoder() -> Callable[[str], list[int]]:
    """SmolLM2's tokenizer where its folder is given, else bytes in place of tokens."""
    folder = os.environ.get("OPENCLAW_CACHE_TOKENIZER")
    if not folder:
        return lambda text: list(text.encode())
    from tokenizers import Tokenizer  # noqa: PLC0415  only here

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return lambda text: list(tokenizer.encode(text).ids)
