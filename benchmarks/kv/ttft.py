"""Time to the first token: cold, and with the prompt in each tier, beside the floors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
from benchmarks.kv import floors
from benchmarks.kv.driving import Asked, Driven, Place, driven
from benchmarks.kv.prompts import random_tokens
from benchmarks.kv.report import Section, Target

from openclaw_cache.engine.kv_settings import KvSettings
from openclaw_cache.kv.block import Tier

DEVICE_RATIO = 1.3
MEMCPY_FACTOR = 1.5
WARM_UP_SEED = 999

Summary = Callable[[Sequence[float]], float]


@dataclass(slots=True)
class Samples:
    """Seconds of all rounds, for one length of prompt."""

    num_tokens: int
    num_bytes: int
    cold: list[float] = field(default_factory=list)
    device: list[float] = field(default_factory=list)
    host: list[float] = field(default_factory=list)
    disk: list[float] = field(default_factory=list)
    own_forward: list[float] = field(default_factory=list)
    peer_forward: list[float] = field(default_factory=list)
    memcpy: list[float] = field(default_factory=list)

    def device_ratio(self, of: Summary) -> float:
        """First token with the prompt on the device ÷ one token's forward pass."""
        return of(self.device) / of(self.own_forward)

    def host_ratio(self, of: Summary) -> float:
        """First token with the prompt on the host ÷ what it may take."""
        return of(self.host) / (DEVICE_RATIO * of(self.own_forward) + MEMCPY_FACTOR * of(self.memcpy))


async def measure(place: Place, lengths: list[int], rounds: int) -> Section:
    """Each round asks a new prompt of each length: cold, from device and host, and after a restart from the disk."""
    settings = KvSettings(device_bytes=640_000_000, host_bytes=10**9, disk_bytes=3 * 10**9)
    peer = floors.Peer(place)
    samples: dict[int, Samples] = {}
    async with driven(place, settings, "ttft") as first:
        block_bytes = first.engine.codec.block_bytes
        for num in lengths:
            samples[num] = Samples(num, num // settings.block_tokens * block_bytes)
            peer.forward_s(num)  # fills its cache
        await first.ask(random_tokens(300, WARM_UP_SEED), 2)
        for number in range(rounds):
            for num in lengths:
                await _before_restart(first, peer, samples[num], _prompt(num, number))
    async with driven(place, settings, "ttft") as second:
        await second.ask(random_tokens(300, WARM_UP_SEED + 1), 2)
        for number in range(rounds):
            for num in lengths:
                asked = await _ask(second, _prompt(num, number), Tier.DISK)
                samples[num].disk.append(asked.ttft_s)
    return _section(samples, rounds)


async def _before_restart(driving: Driven, peer: floors.Peer, into: Samples, prompt: list[int]) -> None:
    into.cold.append((await _ask(driving, prompt, None)).ttft_s)
    await driving.settled()
    source, target = np.ones(into.num_bytes, np.uint8), np.zeros(into.num_bytes, np.uint8)
    for _ in range(3):
        into.device.append((await _ask(driving, prompt, Tier.DEVICE)).ttft_s)
        into.own_forward.append(await floors.own_forward_s(driving, prompt))
        into.peer_forward.append(peer.forward_s(into.num_tokens))
        into.memcpy.append(floors.memcpy_s(source, target))
        await driving.evict(Tier.DEVICE)
        into.host.append((await _ask(driving, prompt, Tier.HOST)).ttft_s)


async def _ask(driving: Driven, prompt: list[int], tier: Tier | None) -> Asked:
    """Ask, and make sure that the prompt came from where the figure says."""
    asked = await driving.ask(prompt, 1)
    size = driving.engine.settings.block_tokens
    expected = 0 if tier is None else len(prompt) // size * size
    found = asked.reuse.num_cached if tier is None else getattr(asked.reuse, tier.name.lower())
    if found != expected:
        raise RuntimeError(f"{len(prompt)} tokens from {tier!r}: {asked.reuse}")
    return asked


def _prompt(num_tokens: int, number: int) -> list[int]:
    """Whole blocks, and one token more: the one that has to be computed, whatever is cached."""
    return random_tokens(num_tokens + 1, num_tokens * 1_000 + number)


def _section(samples: dict[int, Samples], rounds: int) -> Section:
    section = Section(
        "time to the first token",
        ("tokens", "", "median ms", "smallest ms", "", "target"),
    )
    for num, s in samples.items():
        own, cold = median(s.own_forward), median(s.cold)
        rows = [
            ("cold", s.cold, ""),
            ("device", s.device, f"{_both(s.device_ratio)} × forward, cold ÷ {cold / median(s.device):,.0f}"),
            ("one-token forward", s.own_forward, ""),
            ("the same, transformers", s.peer_forward, f"{median(s.peer_forward) / own:.2f} × forward"),
            ("host", s.host, f"{_both(s.host_ratio)} × bound, cold ÷ {cold / median(s.host):,.0f}"),
            ("copy of the bytes", s.memcpy, f"{s.num_bytes / median(s.memcpy) / 1e9:.1f} GB/s"),
            ("disk, after a restart", s.disk, f"cold ÷ {cold / median(s.disk):,.0f}"),
        ]
        targets = {"device": f"≤ {DEVICE_RATIO} × forward", "host": "≤ bound"}
        for name, times, note in rows:
            figures = [f"{value * 1e3:,.1f}" for value in (median(times), min(times))]
            section.rows.append((f"{num:,}", name, *figures, note, targets.get(name, "")))
        section.targets += [
            Target(f"device-warm ÷ one-token forward, {num:,} tokens", s.device_ratio(median), DEVICE_RATIO),
            Target(f"host-warm ÷ its bound, {num:,} tokens", s.host_ratio(median), 1.0),
        ]
    section.notes = [
        f"{rounds} prompts of each length and one token more; device, host and floors three times each, in turn.",
        f"bound = {DEVICE_RATIO} × one-token forward + {MEMCPY_FACTOR} × copy of the prompt's fp16 bytes (numpy).",
        "Ratios are of the medians, in brackets of the smallest.",
        "disk: a new engine on the same folder; its files are still in the page cache.",
    ]
    return section


def _both(ratio: Callable[[Summary], float]) -> str:
    return f"{ratio(median):.2f} ({ratio(min):.2f})"
