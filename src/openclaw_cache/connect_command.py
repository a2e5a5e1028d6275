"""The command `connect`: puts this gateway into another program's settings, and takes it out again."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args

import typer

from openclaw_cache import connect_output as output
from openclaw_cache.admin_client import AdminClient, NotFoundError, RefusedError, UnreachableError
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.config import load
from openclaw_cache.connect import place, plugin_files, record, shown, writing
from openclaw_cache.connect.connection import Choice, Connection, findings
from openclaw_cache.connect.openclaw_cli import OpenClawError, is_old
from openclaw_cache.connect.plan import plan
from openclaw_cache.connect.proof import NoProofError, is_gateway_up, prove
from openclaw_cache.connect.wish import NAME, ApiKind, default_model, settings
from openclaw_cache.console import print_json
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices
from openclaw_cache.running_server import EXIT_NO, EXIT_UNREACHABLE, EXIT_USAGE, fail

_APIS: Final = get_args(ApiKind)

_CheckOption = Annotated[
    bool, typer.Option("--check", help="Change nothing; say what is wrong, with the remedy of each.")
]
_UndoOption = Annotated[bool, typer.Option("--undo", help="Take back what connecting changed.")]
_YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before writing.")]
_ApiOption = Annotated[
    str | None,
    typer.Option(metavar="|".join(_APIS), help=f"What OpenClaw is to speak with us. Default: {_APIS[0]}"),
]
_ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="For OpenClaw; may be given several times. Default: all that fit."),
]
_WindowOption = Annotated[
    int | None,
    typer.Option(min=1, help="Tokens of a model whose upstream does not tell; a bound for one that does."),
]
_KeyEnvOption = Annotated[
    str | None,
    typer.Option(help="Variable with the key for this server. OpenClaw reads it too; no key is written."),
]
_DefaultOption = Annotated[
    bool, typer.Option("--set-default", help="Have OpenClaw's agents use the (first) model from now on.")
]
_PluginOption = Annotated[
    bool, typer.Option("--plugin/--no-plugin", help="With our plugin for memory and Context Engine.")
]
_ProofOption = Annotated[
    bool, typer.Option("--proof/--no-proof", help="Ask two real questions through OpenClaw.")
]
_AgentOption = Annotated[str, typer.Option(help="The OpenClaw agent that is asked, and checked.")]
_ConfigOption = Annotated[
    Path | None, typer.Option(help="OpenClaw's config file. Default: the one that it uses itself.")
]
_PatchOption = Annotated[
    bool, typer.Option("--print-patch", help="Change nothing; print the settings as JSON.")
]

connect_app = typer.Typer(
    help="Put this gateway into another program's settings.", no_args_is_help=True, rich_markup_mode=None
)


@dataclass(frozen=True, slots=True)
class _Options:
    choice: Choice
    config: Path | None
    url: str | None
    data_dir: Path | None
    agent: str
    yes: bool
    proof: bool
    print_patch: bool
    as_json: bool

    def plugin_copy(self) -> Path:
        """Where OpenClaw finds our plugin."""
        data_dir = self.data_dir or Path(
            os.environ.get("OPENCLAW_CACHE_SERVER__DATA_DIR") or load(env={}).settings.server.data_dir
        )
        return data_dir.expanduser().absolute() / plugin_files.FOLDER_NAME

    def admin(self) -> AdminClient:
        return AdminClient.find(self.url, self.data_dir, os.environ)


@connect_app.callback()
def connect() -> None:
    """Put this gateway into another program's settings."""


@connect_app.command()
def openclaw(
    check: _CheckOption = False,
    undo: _UndoOption = False,
    yes: _YesOption = False,
    api: _ApiOption = None,
    model: _ModelOption = None,
    context_window: _WindowOption = None,
    key_env: _KeyEnvOption = None,
    set_default: _DefaultOption = False,
    plugin: _PluginOption = True,
    proof: _ProofOption = True,
    agent: _AgentOption = "main",
    openclaw_config: _ConfigOption = None,
    print_patch: _PatchOption = False,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Connect OpenClaw: a provider for its models, and a plugin for its memory and Context Engine.

    It shows what it will change and asks. A backup is kept beside the config, and OpenClaw checks the result. Exit code
    1: a check or the proof failed.
    """
    if api is not None and api not in _APIS:
        fail(f"--api {api}: write one of {', '.join(_APIS)}", EXIT_USAGE)
    if sum((check, undo, print_patch)) > 1:
        fail("--check, --undo and --print-patch do not go together", EXIT_USAGE)
    choice = Choice(
        tuple(model or ()), context_window, cast("ApiKind | None", api), key_env, plugin, set_default
    )
    config = openclaw_config.expanduser().absolute() if openclaw_config is not None else None
    options = _Options(choice, config, url, data_dir, agent, yes, proof, print_patch, as_json)
    try:
        if undo:
            _undo(options)
        elif check:
            _check(options)
        else:
            _connect(options)
    except (ConfigError, OpenClawError) as e:
        fail(str(e), EXIT_USAGE)
    except (NotFoundError, UnreachableError) as e:
        fail(str(e), EXIT_UNREACHABLE)
    except RefusedError as e:
        fail(f"{e}{': name its variable with --key-env' if e.status == 401 else ''}", EXIT_USAGE)
    except (writing.RefusedConfigError, NoProofError) as e:
        fail(str(e), EXIT_NO)


def _connect(options: _Options) -> None:
    connection = Connection.find(os.environ, options.config)
    cli = connection.cli
    assert cli is not None  # noqa: S101 - it had to be there
    if is_old(version := cli.version()):
        raise ConfigError(
            f"OpenClaw {version} is too old for our plugin: `openclaw update` to 2026.9 or newer"
        )
    server = connection.server(options.admin(), options.choice.key_env)
    copy = options.plugin_copy()
    wished, notes = connection.wish(options.choice, server, copy)
    wanted = settings(wished, Prices.load(), connection.files.value)
    if options.print_patch:
        print_json(shown.patch(wanted))
        return
    default = default_model(connection.files.value)
    if wished.default is None and not (default or "").startswith(f"{NAME}/"):
        notes.append(
            f"OpenClaw's agents go on using {default or 'their own choice'}: --set-default gives them "
            f"{NAME}/{wished.models[0].id}"
        )
    planned = plan(connection.files, wanted)
    report: dict[str, Any] = {
        "config": str(connection.files.root), "url": server.url, "models": [m.id for m in wished.models],
        "changes": [line.strip() for line in shown.lines(planned.changes)], "notes": notes, "backups": [],
        "proof": None,
    }  # fmt: skip
    say = output.quiet if options.as_json else typer.echo
    output.plan_lines(planned.changes, notes, say)
    if planned.changes:
        place.require_writable(os.environ)
        _ask_first(options)
    if wished.plugin is not None:
        report["plugin"] = _place_plugin(copy, say)
    if planned.changes:
        backups = writing.apply(connection.files, planned, cli, os.environ, datetime.now(UTC))
        report["backups"] = [str(backup) for backup in backups]
        output.written(connection.files.root, backups, say)
    if options.proof:
        is_up = is_gateway_up(cli)
        proved = prove(cli, server, options.agent, wished.models[0].id, is_gateway_up=is_up, say=say)
        report["proof"] = proved.as_json()
        output.proof(proved, with_plugin=wished.plugin is not None, say=say)
    if options.as_json:
        print_json(report)
    if options.proof and wished.plugin is not None and proved.num_turns == 0:
        raise NoProofError(
            "the plugin did not hand over the turns: `openclaw-cache connect openclaw --check` says why"
        )


def _place_plugin(copy: Path, say: output.Say) -> dict[str, str | None]:
    source = plugin_files.packaged()
    if not plugin_files.is_same(source, copy):
        had = plugin_files.version(copy)
        plugin_files.place_copy(source, copy)
        say(f"the plugin {plugin_files.version(source)} is in {copy}" + (f" (was {had})" if had else ""))
    return {"path": str(copy), "version": plugin_files.version(copy)}


def _ask_first(options: _Options) -> None:
    if options.yes:
        return
    if options.as_json or not sys.stdin.isatty():
        fail("nothing was changed: say --yes to have it written", EXIT_USAGE)
    if not typer.confirm("Write this?"):
        fail("nothing was changed", EXIT_NO)


def _undo(options: _Options) -> None:
    place.require_writable(os.environ)
    connection = Connection.find(os.environ, options.config, needs_cli=False)
    kept = record.load(connection.files.root)
    if kept is None:
        if options.as_json:
            print_json({"config": str(connection.files.root), "done": [], "notes": ["it is not connected"]})
        else:
            typer.echo(f"{connection.files.root} is not connected: nothing to take back")
        return
    if not options.as_json:
        output.kept_lines(kept, typer.echo)
    _ask_first(options)
    done, notes = writing.undo(connection.files, kept, connection.cli, os.environ)
    plugin_files.remove_copy(options.plugin_copy())
    if options.as_json:
        print_json({"config": str(connection.files.root), "done": done, "notes": notes})
    else:
        output.undone(done, notes, typer.echo)


def _check(options: _Options) -> None:
    connection = Connection.find(os.environ, options.config)
    try:
        server = connection.server(options.admin(), options.choice.key_env)
    except NotFoundError:
        server = None
    plugin = options.plugin_copy() if options.choice.with_plugin else None
    found = findings(connection, server, options.agent, plugin, time.time())
    if options.as_json:
        print_json({"config": str(connection.files.root), "checks": [asdict(f) for f in found]})
    else:
        output.findings(found, typer.echo)
    failed = {f.name for f in found if f.state == "fail"}
    if failed:
        is_reached = server is not None and "server" not in failed
        raise typer.Exit(EXIT_NO if is_reached else EXIT_UNREACHABLE)
