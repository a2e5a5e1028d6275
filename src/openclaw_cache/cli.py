"""The command line. Everything but `serve` talks HTTP to a running server."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from openclaw_cache import __version__
from openclaw_cache.admin_client import AdminClient, NotFoundError, RefusedError, UnreachableError
from openclaw_cache.config import Provenance, describe, load, value_from_text
from openclaw_cache.errors import ConfigError

_COMMAND_FLAGS = ("--status", "--evict", "--invalidate", "--version")
EXIT_NO, EXIT_USAGE, EXIT_UNREACHABLE = 1, 2, 3

app = typer.Typer(
    name="openclaw-cache",
    help="A cache between agents and models: every token is computed once.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_out = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)

UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="OPENCLAW_CACHE_URL", help="The server. Default: the one of the data dir."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where to look for a running server. Default: ~/.openclaw-cache"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class EvictType(StrEnum):
    """What `evict` removes."""

    RESULT = "result"
    ALL = "all"


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", envvar="OPENCLAW_CACHE_CONFIG", help="YAML file.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 for any free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="SECTION.FIELD=VALUE; may be given several times.")
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Show every setting and where it came from, then stop.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the gateway."""
    try:
        overrides = _overrides(
            set_ or [], {"server.host": host, "server.port": port, "server.data_dir": data_dir}
        )
        loaded = load(config, overrides=overrides)
        if print_config:
            _print_config(loaded, as_json=as_json)
            return
        import uvloop  # noqa: PLC0415

        from openclaw_cache import app as composition  # noqa: PLC0415 - the other commands need none of it

        uvloop.run(composition.serve(loaded.settings, _say))
    except ConfigError as e:
        _fail(str(e), EXIT_USAGE)
    except asyncio.CancelledError:
        _fail("stopped before it was up", EXIT_NO)


@app.command()
def status(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show what the server does: upstreams, hits, memory, store."""
    shown = _client(url, data_dir).get("/admin/status")
    if as_json:
        _print_json(shown)
        return
    _print_status(shown)


@app.command()
def evict(
    pattern: Annotated[
        str, typer.Option("--pattern", help="GLOB over model, namespace and the stored prompt's text.")
    ],
    type_: Annotated[EvictType, typer.Option("--type", help="What to evict.")] = EvictType.RESULT,
    namespace: Annotated[str | None, typer.Option(help="Only in this namespace.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go.")] = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove stored replies that match a pattern, for example "*finance*"."""
    order = {"pattern": pattern, "type": type_.value, "namespace": namespace, "dry_run": dry_run}
    report = _client(url, data_dir).post("/admin/evict", order)
    if as_json:
        _print_json(report)
        return
    verb = "would go" if report["dry_run"] else "removed"
    table = Table("model", "namespace", "created", "bytes", title=f"{report['num_matched']} entries {verb}")
    for row in report["sample"]:
        table.add_row(
            _printable(row["model"]),
            _printable(row["namespace"]),
            _when(row["created_at"]),
            f"{row['size_bytes']:,}",
        )
    hidden = report["num_matched"] - len(report["sample"])
    if hidden > 0:
        table.add_row("…", "", "", f"and {hidden} more")
    _out.print(table)
    if report["num_corrupt"]:
        _out.print(f"{report['num_corrupt']} unreadable entries {verb} too")


@app.command()
def invalidate(
    model: Annotated[str, typer.Option("--model", help="Its replies are outdated.")],
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make every stored reply of a model unreachable, at once and for good."""
    done = _client(url, data_dir).post("/admin/invalidate", {"model": model})
    if as_json:
        _print_json(done)
        return
    _out.print(f"invalidated: no reply of {model!r} from before now will be served")
    if not done["served"]:
        _out.print(
            f"note: no upstream serves {model!r} at present; `openclaw-cache status` lists what is served"
        )
    if not done["durable"]:
        _out.print(
            "note: the store keeps no append-only file; if it loses its data, everything is recomputed"
        )


@app.command()
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        _print_json({"version": __version__})
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


def _client(url: str | None, data_dir: Path | None) -> _Commands:
    return _Commands(url, data_dir)


class _Commands:
    """The admin client with its errors turned into messages and exit codes."""

    def __init__(self, url: str | None, data_dir: Path | None) -> None:
        try:
            self._client = AdminClient.find(url, data_dir, os.environ)
        except ConfigError as e:
            _fail(str(e), EXIT_USAGE)
        except NotFoundError as e:
            _fail(str(e), EXIT_UNREACHABLE)

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, order: Mapping[str, object]) -> Any:
        return self._call("POST", path, order)

    def _call(self, method: str, path: str, order: Mapping[str, object] | None) -> Any:
        try:
            return self._client.call(method, path, order)
        except UnreachableError as e:
            _fail(str(e), EXIT_UNREACHABLE)
        except RefusedError as e:
            _fail(str(e), EXIT_USAGE if e.status < 500 else EXIT_NO)


def _say(line: str) -> None:
    try:
        typer.echo(line)
        sys.stdout.flush()
    except OSError:
        pass  # nobody reads it any more (`serve | head`): no reason to stop serving


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"openclaw-cache: {message}", err=True)
    raise typer.Exit(code)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def _print_config(loaded: Provenance, *, as_json: bool) -> None:
    rows = describe(loaded)
    if as_json:
        _print_json({field: {"value": value, "source": source} for field, value, source in rows})
        return
    table = Table("setting", "value", "from")
    for row in rows:
        table.add_row(*map(_printable, row))
    _out.print(table)


def _print_status(shown: dict[str, Any]) -> None:
    ratio = shown["hit_ratio"]
    memory = shown["result_cache"]["memory"]
    server = shown["store"].get("server")
    table = Table(
        "", "", title=f"openclaw-cache {shown['version']}, up {_span(shown['uptime_s'])}", show_header=False
    )
    for upstream in shown["upstreams"]:
        state = upstream.get("state", "configured")
        models = ", ".join(upstream["models"])
        table.add_row(f"upstream {upstream['name']}", _printable(f"{upstream['kind']}, {state}: {models}"))
    requests = ", ".join(f"{count:,} {outcome}" for outcome, count in shown["requests"].items() if count)
    table.add_row("requests", requests or "none yet")
    table.add_row(
        "hit ratio, 15 min",
        f"{ratio['ratio']:.3f} ({ratio['num_hits']:,} of {ratio['num_lookups']:,})"
        if ratio["num_lookups"]
        else "–",
    )
    table.add_row("tokens not computed", f"{shown['saved_tokens']:,}")
    table.add_row(
        "result cache, memory",
        f"{memory['num_entries']:,} entries, {_size(memory['memory_bytes'])} of {_size(memory['capacity_bytes'])}",
    )
    store = shown["store"]
    if server:
        table.add_row(
            "store",
            f"{store['kind']}, up, {server['num_keys']:,} keys, {_size(server['used_bytes'])}"
            + (f" of {_size(server['max_bytes'])}" if server["max_bytes"] else ""),
        )
    else:
        table.add_row("store", _printable(f"{store['kind']}, DOWN: {store.get('reason', 'unknown')}"))
    degraded = ", ".join(f"{what} {count:,}" for what, count in shown["degraded"].items())
    table.add_row("degraded", degraded or "never")
    _out.print(table)


def _printable(text: str) -> str:
    """A text without what a terminal may take for a command: a model's name is any client's word."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _size(num_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if num_bytes < 1000:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:.1f} TB"


def _span(seconds: float) -> str:
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if hours < 2 else f"{hours:.1f} h" if days < 2 else f"{days:.1f} d"


def _when(unix: float) -> str:
    from datetime import datetime  # noqa: PLC0415 - only here

    return datetime.fromtimestamp(unix).astimezone().strftime("%Y-%m-%d %H:%M:%S")
