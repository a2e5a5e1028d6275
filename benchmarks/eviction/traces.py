"""The traces: prompts as paths of block ids, with the time of each.

A block id stands for the block and all that is before it, so equal ids are equal prefixes. Every trace comes
in two halves that share no conversation: one to tune on, one to report. The data folder's README names the
sources and licences.
"""

from __future__ import annotations

import gzip
import heapq
import importlib.util
import json
import os
import random
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.kv.rhythm import Hint

Half = Literal["tune", "report", "whole"]

_TEXT_BLOCK = 16
_MAX_GAP_S = 600.0
_PAUSE_S = 60.0
_START_S = 600.0


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt: when it came (s), the ids of its blocks (int32 [n]), its length, how its reply will end."""

    at: float
    ids: NDArray[np.int32]
    num_tokens: int
    hint: Hint = Hint.NONE


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of time, the tokens of a block, and capacities (blocks) to try."""

    requests: list[Request]
    block_tokens: int
    num_blocks: int
    capacities: list[int]


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
    rows = (
        (row["t"], tuple(row["hash_ids"]), row["input_length"])
        for row in loader(folder).mooncake("conversation")
        if _is_in(half, str(row["hash_ids"][:2]))
    )
    return _trace(rows, 512, [0.005, 0.01, 0.03, 0.06, 0.15, 0.5])


def coding_agents(folder: Path, half: Half, num_users: int, *, has_hints: bool = False) -> Trace:
    """Coding-agent sessions, `num_users` at a time; pauses over 600 s are cut to that.

    `has_hints`: whether a reply asked for a tool or ended the turn is known to the cache, as it is to an engine.
    """
    sessions = []
    for name, session, rows in loader(folder).cc_weka_sessions():
        if _is_in(half, name):
            hints = _hints(session) if has_hints else [Hint.NONE] * len(rows)
            pairs = zip(rows, hints, strict=True)
            sessions.append([(row["t"], (row["hash_ids"], hint), row["input_length"]) for row, hint in pairs])
    rows = (
        (at, _Numbered(number, ids), num_tokens, hint)
        for at, number, (ids, hint), num_tokens in _interleave(sessions, num_users)
    )
    return _trace(rows, 64, [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5])


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

    return _trace(_chained(rows()), _TEXT_BLOCK, [0.005, 0.01, 0.03, 0.1, 0.25, 0.5])


def lmcache_agents(folder: Path, half: Half, num_users: int) -> Trace:
    """Text of software and airline agents, tokenised, `num_users` at a time."""
    encode = _encoder()
    by_session: dict[str, list[tuple[float, object, int]]] = defaultdict(list)
    for name in ("miniswe", "taubench"):
        with gzip.open(folder / f"lmcache_agent/{name}.jsonl.gz") as file:
            for line in file:
                row = json.loads(line)
                if _is_in(half, row["session_id"]):
                    tokens = encode(row["input"])
                    by_session[row["session_id"]].append((int(row["timestamp"]) / 1e6, tokens, len(tokens)))
    sessions = []
    for rows in by_session.values():
        rows.sort(key=lambda row: row[0])
        sessions.append([(at - rows[0][0], tokens, num) for at, tokens, num in rows])

    def paths() -> Iterator[tuple[float, tuple[object, ...], int]]:
        for at, _, tokens, num in _interleave(sessions, num_users):
            starts = range(0, len(tokens) - _TEXT_BLOCK + 1, _TEXT_BLOCK)
            yield at, tuple(tuple(tokens[i : i + _TEXT_BLOCK]) for i in starts), num

    return _trace(_chained(paths()), _TEXT_BLOCK, [0.01, 0.05, 0.1, 0.25, 0.5])


TRACES: dict[str, Callable[[Path, Half], Trace]] = {
    "mooncake": mooncake,
    "coding-40": lambda folder, half: coding_agents(folder, half, 40),
    "coding-100": lambda folder, half: coding_agents(folder, half, 100),
    "coding-40-hints": lambda folder, half: coding_agents(folder, half, 40, has_hints=True),
    "ragpulse": ragpulse,
    "lmcache-8": lambda folder, half: lmcache_agents(folder, half, 8),
}


class _Numbered(tuple):  # type: ignore[type-arg]
    """Block ids that are local to a session, made unique by its number."""

    __slots__ = ()

    def __new__(cls, number: int, ids: Iterable[int]) -> _Numbered:
        return super().__new__(cls, (np.asarray(ids, np.int64) + (number << 32)).tolist())


def _hints(session: dict) -> list[Hint]:  # type: ignore[type-arg]
    """What each reply of a session says of the next call, in the order of the loader's rows."""
    found: list[tuple[float, Hint]] = []
    by_stop = {"tool_use": Hint.TOOL, "end_turn": Hint.IDLE}

    def walk(rows: list[dict], start: float) -> None:  # type: ignore[type-arg]
        for row in rows:
            at = start + (row.get("t") or 0.0)
            if "sub" in row:
                walk(row["sub"], at)
            else:
                found.append((at, by_stop.get(row.get("stop"), Hint.NONE)))

    walk(session["requests"], 0.0)
    return [hint for _, hint in sorted(found, key=lambda pair: pair[0])]


def _is_in(half: Half, conversation: str) -> bool:
    return half == "whole" or (zlib.crc32(conversation.encode()) & 1 == 0) == (half == "tune")


def _interleave(sessions: list[list[tuple]], num_users: int) -> list[tuple]:  # type: ignore[type-arg]
    """(time, number of the session, ids, tokens): every user runs sessions back to back, in a fixed order."""
    rng = random.Random(0)  # the same order in every run
    order = list(range(len(sessions)))
    rng.shuffle(order)
    free = [(rng.random() * _START_S, user) for user in range(num_users)]
    heapq.heapify(free)
    events = []
    for number in order:
        at, user = heapq.heappop(free)
        last = 0.0
        for t, ids, num_tokens in sessions[number]:
            at += min(max(0.0, t - last), _MAX_GAP_S)
            last = t
            events.append((at, number, ids, num_tokens))
        heapq.heappush(free, (at + _PAUSE_S, user))
    events.sort(key=lambda event: event[0])
    return events


def _chained(
    rows: Iterable[tuple[float, tuple[object, ...], int]],
) -> Iterator[tuple[float, tuple[int, ...], int]]:
    """Name every block by all that is before it."""
    numbers: dict[tuple[int, object], int] = {}
    for at, path, num_tokens in rows:
        ids, parent = [], -1
        for block in path:
            parent = numbers.setdefault((parent, block), len(numbers))
            ids.append(parent)
        yield at, tuple(ids), num_tokens


def _trace(rows: Iterable[tuple], block_tokens: int, ratios: list[float]) -> Trace:  # type: ignore[type-arg]
    """Renumber the blocks densely; capacities are shares of all blocks, rounded."""
    numbers: dict[int, int] = {}
    requests = []
    for at, path, num_tokens, *hint in rows:
        ids = np.array([numbers.setdefault(block, len(numbers)) for block in path], np.int32)
        if len(ids):
            requests.append(Request(float(at), ids, num_tokens, *hint))
    num = len(numbers)
    return Trace(requests, block_tokens, num, [max(1, round(ratio * num)) for ratio in ratios])


def _encoder() -> Callable[[str], list[int]]:
    """SmolLM2's tokenizer where its folder is given, else bytes in place of tokens."""
    folder = os.environ.get("OPENCLAW_CACHE_TOKENIZER")
    if not folder:
        return lambda text: list(text.encode())
    from tokenizers import Tokenizer  # noqa: PLC0415  only here

    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return lambda text: list(tokenizer.encode(text).ids)
