"""The command line. Everything but `serve` talks HTTP to a running server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from openclaw_cache import __version__, tables
from openclaw_cache.admin_client import AdminClient, NotFoundError, RefusedError, UnreachableError
from openclaw_cache.config import load, value_from_text
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
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
            tables.print_config(loaded, as_json=as_json)
            return
        import uvloop  # noqa: PLC0415

        from openclaw_cache import serving  # noqa: PLC0415 - the other commands need none of it

        uvloop.run(serving.serve(loaded.settings, _say))
    except ConfigError as e:
        _fail(str(e), EXIT_USAGE)
    except asyncio.CancelledError:
        _fail("stopped before it was up", EXIT_NO)


@app.command()
def status(url: UrlOption = None, data_dir: DataDirOption = None, as_json: JsonOption = False) -> None:
    """Show what the server does: upstreams, hits, memory, store."""
    server = _client(url, data_dir)
    shown = {"url": server.url, **server.get("/admin/status")}
    if as_json:
        tables.print_json(shown)
        return
    tables.print_status(shown)


@app.command()
def evict(
    pattern: Annotated[
        str,
        typer.Option(
            "--pattern", help='GLOB, case-sensitive, over model, namespace or the whole prompt: "*finance*".'
        ),
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
        tables.print_json(report)
        return
    tables.print_evicted(report, pattern)


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
        tables.print_json(done)
        return
    tables.print_invalidated(done)


@app.command()
def version(as_json: JsonOption = False) -> None:
    """Print the version."""
    if as_json:
        tables.print_json({"version": __version__})
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

    @property
    def url(self) -> str:
        return self._client.url

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
