"""Run the benchmarks of the KV cache and print what was measured against the targets.

python -m benchmarks.kv [--quick] [--json FILE] [--cases "ttft; mixed; fairness; int8; tree"]
"""

from __future__ import annotations

# isort: off
from benchmarks.kv import environment  # first of all: it says how many threads torch may have
# isort: on

import argparse
import asyncio
import inspect
import json
import os
import platform
import sys
import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.kv import fairness, int8, mixed, tree, ttft
from benchmarks.kv.driving import Place
from benchmarks.kv.report import Section, show_targets
from rich.console import Console

MODEL_DIR = Path("~/.cache/openclaw-cache-bench").expanduser()

Case = Callable[[Place], Section | Awaitable[Section]]

FULL: dict[str, Case] = {
    "ttft": lambda place: ttft.measure(place, [512, 1024, 2048, 4096], rounds=5),
    "mixed": lambda place: mixed.measure(place, num_agents=8, num_turns=6, num_system=2048),
    "fairness": lambda place: fairness.measure(place, num_tokens=4096, num_reply_tokens=100),
    "int8": lambda place: int8.measure(place, num_prompts=6, num_prefix=1024, num_reply=64),
    "tree": lambda _: tree.measure(num_tokens=4096, num_prompts=200),
}
QUICK: dict[str, Case] = {
    "ttft": lambda place: ttft.measure(place, [512, 1024], rounds=2),
    "mixed": lambda place: mixed.measure(place, num_agents=3, num_turns=3, num_system=512),
    "fairness": lambda place: fairness.measure(place, num_tokens=1024, num_reply_tokens=40),
    "int8": lambda place: int8.measure(place, num_prompts=2, num_prefix=512, num_reply=16),
    "tree": lambda _: tree.measure(num_tokens=4096, num_prompts=50),
}


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kv", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small cases: does it run, and roughly how fast")
    parser.add_argument(
        "--cases", default="; ".join(FULL), help="which cases to run, separated by semicolons"
    )
    parser.add_argument("--model-dir", type=Path, default=MODEL_DIR, help="where the converted model is kept")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    chosen = [name.strip() for name in options.cases.split(";")]
    if unknown := set(chosen) - FULL.keys():
        parser.error(f"--cases: there is no {min(unknown)!r}; there are {'; '.join(FULL)}")
    console = Console() if sys.stdout.isatty() else Console(width=120)
    with tempfile.TemporaryDirectory(prefix="openclaw-cache-bench-") as folder:
        place = Place(options.model_dir, Path(folder), environment.NUM_THREADS)
        cases = QUICK if options.quick else FULL
        sections = asyncio.run(_measure([(name, cases[name]) for name in chosen], place, console))
    show_targets(sections, console)
    if options.json:
        options.json.write_text(json.dumps(_as_json(sections), indent=1) + "\n")


async def _measure(cases: list[tuple[str, Case]], place: Place, console: Console) -> list[Section]:
    sections = []
    for name, case in cases:
        console.print(f"[dim]{name}")
        result = case(place)
        section = await result if inspect.isawaitable(result) else result
        section.show(console)
        sections.append(section)
    return sections


def _as_json(sections: list[Section]) -> dict[str, object]:
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "threads": environment.NUM_THREADS,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg()[0],
        "sections": [section.as_json() for section in sections],
    }


if __name__ == "__main__":
    main()
