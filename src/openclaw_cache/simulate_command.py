"""`openclaw-cache simulate`: what a KV cache of another size, policy or tier would have found."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from openclaw_cache import simulate_tables
from openclaw_cache.command_options import JsonOption
from openclaw_cache.console import print_json
from openclaw_cache.errors import ConfigError
from openclaw_cache.progress import bar
from openclaw_cache.running_server import EXIT_USAGE, fail


def simulate(
    trace: Annotated[
        str,
        typer.Argument(help="A trace of block ids, or a log of requests: a file, a folder of logs, or -."),
    ],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="lru, s3fifo, lfu, agent; belady and held are bounds. Again for more; lru without it."
        ),
    ] = None,
    tier: Annotated[
        list[str] | None, typer.Option(help="device=2GB, host=8GB, disk=100GB: what each tier would find.")
    ] = None,
    write: Annotated[
        str, typer.Option(help="How blocks go down: through or back, as kv_cache.write.")
    ] = "through",
    sample: Annotated[
        str,
        typer.Option(help="auto: all, or as much as memory takes; off: all; or a share of the blocks: 1%."),
    ] = "auto",
    model: Annotated[
        str | None,
        typer.Option(
            help="For the size of its KV, and its tokenizer: a known name, a folder, or a GGUF file."
        ),
    ] = None,
    bytes_per_token: Annotated[
        list[str] | None, typer.Option(help="KV of a token: 128KiB; of a tier alone: device=256KiB.")
    ] = None,
    block_tokens: Annotated[
        int | None, typer.Option(min=1, max=1 << 20, help="Tokens of a block, where the trace does not say.")
    ] = None,
    users: Annotated[
        int,
        typer.Option(min=1, help="Of a trace of sessions with times of their own: how many run at a time."),
    ] = 40,
    max_gap: Annotated[
        str, typer.Option(help="Of such sessions: longer idle times are cut to this.")
    ] = "10m",
    room_price: Annotated[
        list[str] | None, typer.Option(help="$ for a GB in a month, instead of ours: host=2.50.")
    ] = None,
    token_price: Annotated[
        float | None, typer.Option(min=0, help="What computing a million prompt tokens costs, in $.")
    ] = None,
    prefill_speed: Annotated[
        float | None, typer.Option(min=0, help="Prompt tokens that are computed in a second.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this file: .png or .svg.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find out what a larger cache would find.

    Reads a trace or a log, and shows the share of prompt tokens that a KV cache finds, by its size, policy and tiers,
    with what that costs. No server is needed.
    """
    try:
        from openclaw_cache.simulating.options import Options  # noqa: PLC0415 - numpy comes with an extra
        from openclaw_cache.simulating.run import simulated  # noqa: PLC0415
    except ImportError as e:
        fail(f"simulate needs {e.name}: pip install 'openclaw-cache[engine]'", EXIT_USAGE)
    options = Options(
        trace=trace,
        policies=policy or (),
        tiers=tier or (),
        write=write,
        sample=sample,
        model=model,
        bytes_per_token=bytes_per_token or (),
        block_tokens=block_tokens,
        num_users=users,
        max_gap=max_gap,
        room_prices=room_price or (),
        token_price=token_price,
        prefill_speed=prefill_speed,
        plot=plot,
    )
    try:
        shown = simulated(options, partial(bar, as_json=as_json))
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    except OSError as e:
        fail(f"--plot: cannot write {plot}: {e.strerror}", EXIT_USAGE)
    show = print_json if as_json else simulate_tables.print_simulation
    show(shown)
