"""The lossy codec: its size, its cost, and what it does to a reply, against fp16."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from benchmarks.kv.driving import Place
from benchmarks.kv.floors import timed
from benchmarks.kv.prompts import documents
from benchmarks.kv.report import Section
from numpy.typing import NDArray

from openclaw_cache.engine.arena import Arena
from openclaw_cache.engine.plan import Segment
from openclaw_cache.engine.runner import Runner, kv_layout
from openclaw_cache.kv.codec import Codec

BLOCK = 16
PREFILL_TOKENS = 256
ROUNDS = 5

Int32s = NDArray[np.int32]


@dataclass(slots=True)
class Deviation:
    """How far the logits on an int8 prefix are from those on the fp16 one, over the same reply."""

    largest: float = 0.0
    means: list[float] = field(default_factory=list)
    ranges: list[float] = field(default_factory=list)
    divergences: list[float] = field(default_factory=list)
    matches: list[bool] = field(default_factory=list)


def measure(place: Place, num_prompts: int, num_prefix: int, num_reply: int) -> Section:
    """Several prompts: prefilled once, their whole blocks stored both ways, the fp16 reply replayed on both."""
    model = place.load()
    layout = kv_layout(model.network.config, BLOCK)
    exact, lossy = Codec("fp16", layout), Codec("int8", layout)
    num_blocks = -(-(num_prefix + num_reply) // BLOCK)
    arena = Arena(layout, 2 * num_blocks, model.dtype, model.device)
    runner = Runner(model.network, arena, exact)
    text = documents(model)
    found, costs = Deviation(), {"fp16": _Cost(), "int8": _Cost()}
    own, copy = np.arange(num_blocks, dtype=np.int32), np.arange(num_blocks, 2 * num_blocks, dtype=np.int32)
    for prompt in _prompts(text, num_prompts, num_prefix):
        first = _prefill(runner, prompt, own)
        num_whole = (len(prompt) - 1) // BLOCK
        for codec in (exact, lossy):
            costs[codec.kind].add(_stored(arena, codec, own[:num_whole], copy[:num_whole]))
        num_stored = num_whole * BLOCK
        after = runner.forward([Segment(prompt[num_stored:], num_stored, copy)])[0]
        _replay(runner, prompt, (own, copy), (first, after), num_reply, found)
    return _section(found, costs, (exact, lossy), num_prompts, num_prefix, num_reply)


def _prompts(text: Int32s, num_prompts: int, num_prefix: int) -> Iterator[Int32s]:
    """Pieces of the documents, spread over them."""
    for start in np.linspace(0, len(text) - num_prefix, num_prompts).astype(int).tolist():
        yield text[start : start + num_prefix]


def _prefill(runner: Runner, prompt: Int32s, table: Int32s) -> torch.Tensor:
    """Logits [vocabulary] after the prompt."""
    logits = torch.empty(0)
    for start in range(0, len(prompt), PREFILL_TOKENS):
        logits = runner.forward([Segment(prompt[start : start + PREFILL_TOKENS], start, table)])[0]
    return logits


@dataclass(slots=True)
class _Cost:
    encode_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)

    def add(self, one: tuple[list[float], list[float]]) -> None:
        self.encode_s += one[0]
        self.decode_s += one[1]


def _stored(arena: Arena, codec: Codec, source: Int32s, target: Int32s) -> tuple[list[float], list[float]]:
    """Encode blocks and decode them into others, several times; seconds per token of each."""
    num, num_layers = len(source), codec.layout.num_layers
    payload = torch.zeros(num, codec.block_bytes, dtype=torch.uint8)
    columns = [payload[:, i * codec.layer_bytes : (i + 1) * codec.layer_bytes] for i in range(num_layers)]

    def encode() -> None:
        for layer, column in enumerate(columns):
            codec.encode_layer(arena.read_layer(source, layer), column)

    def decode() -> None:
        for layer, column in enumerate(columns):
            codec.decode_layer(column, arena.read_layer(target, layer))

    times: list[list[float]] = [
        [timed(step) / (num * BLOCK) for _ in range(ROUNDS)] for step in (encode, decode)
    ]
    return times[0], times[1]


def _replay(
    runner: Runner,
    prompt: Int32s,
    tables: tuple[Int32s, Int32s],
    logits: tuple[torch.Tensor, torch.Tensor],
    num_reply: int,
    into: Deviation,
) -> None:
    """Feed the greedy fp16 reply to both, token by token, and compare their logits."""
    exact, lossy = logits
    for number in range(num_reply):
        _compare(exact, lossy, into)
        token = np.array([int(exact.argmax())], np.int32)
        both = [Segment(token, len(prompt) + number, table) for table in tables]
        exact, lossy = runner.forward(both)


def _compare(exact: torch.Tensor, lossy: torch.Tensor, into: Deviation) -> None:
    error = (exact - lossy).abs()
    into.largest = max(into.largest, float(error.max()))
    into.means.append(float(error.mean()))
    into.ranges.append(float(exact.max() - exact.min()))
    expected, found = torch.log_softmax(exact, -1), torch.log_softmax(lossy, -1)
    into.divergences.append(float((expected.exp() * (expected - found)).sum()))
    into.matches.append(bool(exact.argmax() == lossy.argmax()))


def _section(
    found: Deviation, costs: dict[str, _Cost], codecs: tuple[Codec, ...], num_prompts: int, num_prefix: int,
    num_reply: int,
) -> Section:  # fmt: skip
    section = Section(
        f"codecs, on {num_prompts} prompts of {num_prefix:,} tokens",
        ("codec", "bytes a token", "encode µs a token", "decode µs a token"),
    )
    for codec in codecs:
        cost: Any = costs[codec.kind]
        micros = [median(times) * 1e6 for times in (cost.encode_s, cost.decode_s)]
        section.rows.append((codec.kind, f"{codec.block_bytes / BLOCK:,.0f}", *(f"{m:.1f}" for m in micros)))
    runs = [found.matches[i : i + num_reply] for i in range(0, len(found.matches), num_reply)]
    same = [run.index(False) if False in run else num_reply for run in runs]
    section.notes = [
        f"int8 against fp16 over replies of {num_reply} tokens: logits differ by {found.largest:.3f} at most and "
        f"{fmean(found.means):.4f} on average, of a range of {fmean(found.ranges):.0f}; "
        f"KL {fmean(found.divergences):.1e}.",
        f"Greedy choice the same at {sum(found.matches)} of {len(found.matches)} places (the fp16 reply fed to both); "
        f"left to itself it differs from token {', '.join(f'{n}' if n < num_reply else 'none' for n in same)}.",
    ]
    return section
