"""Does the gateway's memory stay flat? Resident bytes over a mix of hits, misses and streams."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.gateway import load, servers
from benchmarks.gateway.cases import write_bodies
from rich.console import Console

SAMPLE_S = 4
CONNECTIONS = 8
WARM_REQUESTS = 20_000
MEMORY_TIER = "8MB"
STORE_MEMORY = "64MB"
FLAT_RATIO = 1.05


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of the gateway process after so many requests, the first sample after warm-up."""

    requests: list[int]
    rss_bytes: list[int]

    @property
    def growth_ratio(self) -> float:
        """The last sample ÷ the first."""
        return self.rss_bytes[-1] / self.rss_bytes[0]

    @property
    def flat(self) -> bool:
        """Whether it grew by less than 5 %."""
        return self.growth_ratio <= FLAT_RATIO

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "growth_ratio": self.growth_ratio}


def measure_memory(
    folder: Path, server_core: int, load_core: int, num_requests: int, *, console: Console
) -> Memory:
    """Send `num_requests` after a warm-up that fills the (small) memory tier, sampling on the way."""
    bodies = write_bodies(folder)
    result = Memory([], [])
    with (
        servers.stub(folder, load_core) as stub,
        servers.gateway(
            folder,
            server_core,
            stub.url,
            "memory",
            store={"max_memory": STORE_MEMORY},
            result_cache={"max_memory": MEMORY_TIER},
        ) as server,
    ):
        sent, run = -WARM_REQUESTS, 0
        while sent < num_requests:
            run += 1
            lua = load.script(
                folder / "mixed.lua", load.mixed_bodies(bodies["plain"], bodies["stream"], run), {}
            )
            seen = load.drive(server.target, lua, core=load_core, connections=CONNECTIONS, seconds=SAMPLE_S)
            if seen.errors:
                raise RuntimeError(f"the memory run failed: {seen}")
            sent += seen.requests
            if sent >= 0:
                result.requests.append(sent)
                result.rss_bytes.append(load.rss_bytes(server.pid))
                console.print(f"[dim]memory: {sent} requests, {result.rss_bytes[-1] / 1e6:.1f} MB")
    return result
