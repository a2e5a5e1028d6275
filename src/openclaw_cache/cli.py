"""The command line. Everything but `serve` talks HTTP to a running server."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from openclaw_cache import __version__, kv_tables, tables
from openclaw_cache.analyze_command import analyze
from openclaw_cache.batch_command import batch
from openclaw_cache.calibrate_command import calibrate
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.config import load, value_from_text
from openclaw_cache.connect_command import connect_app
from openclaw_cache.console import print_json
from openclaw_cache.doctor_command import doctor
from openclaw_cache.engine.pod import engine_command
from openclaw_cache.errors import ConfigError
from openclaw_cache.memory_command import memory_app
from openclaw_cache.running_server import EXIT_NO, EXIT_USAGE, RunningServer, fail
from openclaw_cache.savings_command import savings
from openclaw_cache.simulate_command import simulate
from openclaw_cache.warm_command import warm

_COMMAND_FLAGS = (
    "--status", "--analyze", "--evict", "--invalidate", "--warm", "--calibrate", "--tree", "--rekey", "--version",
    "--doctor", "--batch", "--simulate", "--savings",
)  # fmt: skip

app = typer.Typer(
    name="openclaw-cache",
    help="A cache between agents and models: every token is computed once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="SECTION.FIELD=VALUE; may be given several times.")
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", envvar="OPENCLAW_CACHE_CONFIG", help="YAML file.")
]
PrefixCachingOption = Annotated[
    bool | None,
    typer.Option(
        "--enable-prefix-caching/--no-enable-prefix-caching",
        help="The embedded engine's KV cache: kv_cache.enabled.",
    ),
]
BlockSizeOption = Annotated[int | None, typer.Option(help="Tokens of a KV block: kv_cache.block_tokens.")]


class EvictType(StrEnum):
    """What `evict` removes."""

    RESULT = "result"
    SEMANTIC = "semantic"
    KV = "kv"
    MEMORY = "memory"
    ALL = "all"


@app.command()
def serve(
    config: ConfigOption = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    enable_prefix_caching: PrefixCachingOption = None,
    block_size: BlockSizeOption = None,
    set_: SetOption = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show every setting and where it came from, then stop.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --print-config: print JSON.")] = False,
) -> None:
    """Run the gateway."""
    try:
        named: dict[str, object] = {
            "server.host": host,
            "server.port": port,
            "server.data_dir": data_dir,
            "kv_cache.enable_prefix_caching": enable_prefix_caching,
            "kv_cache.block_size": block_size,
        }
        overrides = _overrides(set_ or [], named)
        loaded = load(config, overrides=overrides)
        if print_config:
            tables.print_config(loaded, as_json=as_json)
            return
        import uvloop  # noqa: PLC0415

        from openclaw_cache import serving  # noqa: PLC0415 - the other commands need none of it

        uvloop.run(serving.serve(loaded.settings, _say))
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    except asyncio.CancelledError:
        fail("stopped before it was up", EXIT_NO)


@app.command()
def status(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show what the server does: upstreams, hits, memory, store."""
    server = RunningServer(url, data_dir)
    shown = {"url": server.url, **server.get("/admin/status")}
    if as_json:
        print_json(shown)
        return
    tables.print_status(shown)


@app.command()
def evict(
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern",
            help="GLOB, case-sensitive, over model, namespace or the whole prompt; of memory, over its text: "
            '"*finance*".',
        ),
    ],
    type_: Annotated[EvictType, typer.Option("--type", help="What to evict.")] = EvictType.RESULT,
    namespace: Annotated[str | None, typer.Option(help="Only in this namespace.")] = None,
    agent: Annotated[str | None, typer.Option(help="memory: only what this agent remembers.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go.")] = False,
    pinned: Annotated[
        bool, typer.Option("--pinned", help="End the pins of matching prefixes too (types kv and all).")
    ] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove replies, cached prefixes or memories by a pattern.

    A pattern must match the whole text: "*finance*" finds a part of it, "*" everything. With type semantic replies stay
    for the very same requests, but answer no others any more. Type all is all caches: memories go with memory only.
    """
    order = {
        "pattern": pattern,
        "type": type_.value,
        "namespace": namespace,
        "agent": agent,
        "dry_run": dry_run,
        "pinned": pinned,
    }
    report = RunningServer(url, data_dir).post("/admin/evict", order)
    if as_json:
        print_json(report)
        return
    tables.print_evicted(report, pattern, pinned=pinned)


@app.command()
def invalidate(
    model: Annotated[str, typer.Option("--model", help="Its replies are outdated.")],
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make every stored reply of a model unreachable.

    It holds at once and for good.
    """
    done = RunningServer(url, data_dir).post("/admin/invalidate", {"model": model})
    if as_json:
        print_json(done)
        return
    tables.print_invalidated(done)


@app.command()
def rekey(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Encrypt what is stored under the current key.

    Replies and history, after a key was put before the others in the variable of
    result_cache.encryption_key_env, or encryption was switched on. Exit code 1 where some of it cannot be read: keep
    the older key then.
    """
    report = RunningServer(url, data_dir).post("/admin/rekey", {})
    if as_json:
        print_json(report)
    else:
        tables.print_rekeyed(report)
    if report["num_unreadable"]:
        raise typer.Exit(EXIT_NO)


@app.command()
def key(
    namespace: Annotated[str, typer.Option(help="What its user sees.")] = "default",
    as_json: JsonOption = False,
) -> None:
    """Make a client key, and the line that lets it in.

    The line is for server.keys_file (or server.keys) and does not give the key away.
    """
    from openclaw_cache.api.new_key import new_key  # noqa: PLC0415 - the other commands need none of it

    try:
        made, line = new_key(namespace)
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    if as_json:
        print_json({"key": made, "line": line})
    else:
        typer.echo(f"key, shown once: {made}\nline for server.keys_file:\n{line}")


app.command()(warm)
app.command()(doctor)
app.command()(batch)
app.command()(simulate)
app.command()(analyze)
app.command()(savings)
app.command()(calibrate)
app.add_typer(connect_app, name="connect")
app.add_typer(memory_app, name="memory")


@app.command()
def tree(
    text: Annotated[bool, typer.Option("--text", help="Show the prompts' text too.")] = False,
    limit: Annotated[int, typer.Option(help="At most so many nodes.")] = 200,
    upstream: Annotated[
        str | None, typer.Option(help="Whose; not needed with one embedded upstream.")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the tree of cached prefixes.

    Green: computed once. Blue: hit again. Red: evicted.
    """
    query = {"limit": str(limit)} | ({"text": "1"} if text else {})
    query |= {"upstream": upstream} if upstream else {}
    shown = RunningServer(url, data_dir).get(f"/admin/tree?{urlencode(query)}")
    if as_json:
        print_json(shown)
        return
    kv_tables.print_tree(shown)


@app.command()
def engine(
    model: Annotated[str, typer.Option("--model", help="A registered name, a folder or a .gguf file.")],
    config: ConfigOption = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on. The engine asks for no key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.")] = 8000,
    data_dir: Annotated[Path | None, typer.Option(help="Where models and KV are kept.")] = None,
    device: Annotated[str, typer.Option(help="Where it computes: auto, cpu, cuda or mps.")] = "auto",
    enable_prefix_caching: PrefixCachingOption = None,
    block_size: BlockSizeOption = None,
    set_: SetOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Tell of its start on stdout, one JSON object a line.")
    ] = False,
) -> None:
    """Run an embedded engine alone, as a pod.

    A gateway elsewhere reaches it as `kind: openai`. Its KV cache it shows and changes for its own machine only,
    under /kv/status, /kv/tree, /kv/evict and /kv/warm; it has no /admin.
    """
    named: dict[str, object] = {
        "server.data_dir": data_dir,
        "kv_cache.enable_prefix_caching": enable_prefix_caching,
        "kv_cache.block_size": block_size,
    }
    try:
        settings = load(config, overrides=_overrides(set_ or [], named)).settings
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    kv = settings.kv_cache.for_engine()
    command = engine_command(model, settings.server.data_dir, kv=kv, device=device)
    command += ["--host", host, "--port", str(port), *(["--json"] if as_json else [])]
    os.execv(command[0], command)  # noqa: S606 - our own, no shell


@app.command()
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": __version__})
    else:
        typer.echo(__version__)


def main() -> None:
    """Entry point. `--status`, `--evict`, … anywhere on the line mean the commands of these names."""
    args = sys.argv[1:]
    named = next((arg for arg in args if arg in _COMMAND_FLAGS), None)
    if named is not None:
        args.remove(named)
        args.insert(0, named.removeprefix("--"))
    app(args=args, prog_name="openclaw-cache")


def _overrides(pairs: list[str], named: dict[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for pair in pairs:
        field, equals, text = pair.partition("=")
        if not equals:
            raise ConfigError(f"command line: --set {pair!r}: write --set SECTION.FIELD=VALUE")
        values[field.strip()] = value_from_text(text, f"command line: --set {field.strip()}")
    return values | {field: value for field, value in named.items() if value is not None}


def _say(line: str) -> None:
    with suppress(OSError):  # nobody reads it any more (`serve | head`): no reason to stop serving
        typer.echo(line)
