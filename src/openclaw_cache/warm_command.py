"""The command `warm`: reads a file, has the server fill a cache with it, and tells of the progress."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from openclaw_cache import kv_tables, semantic_tables
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import print_json
from openclaw_cache.errors import ConfigError
from openclaw_cache.faq_file import read_faq, read_request
from openclaw_cache.running_server import EXIT_NO, EXIT_USAGE, RunningServer, fail
from openclaw_cache.units import parse_duration
from openclaw_cache.warm_file import read_prompts


class WarmType(StrEnum):
    """Which cache `warm` fills."""

    RESULT = "result"
    SEMANTIC = "semantic"
    KV = "kv"


def warm(
    file: Annotated[
        Path,
        typer.Argument(
            help="kv: prompts as text, JSON, JSONL, or an OpenClaw capture. semantic: questions and answers as CSV, "
            "JSONL or Markdown."
        ),
    ],
    type_: Annotated[
        WarmType, typer.Option("--type", metavar="kv|semantic", help="Which cache to fill.")
    ] = WarmType.KV,
    model: Annotated[
        str | None, typer.Option(help="Whose; not needed where an embedded upstream is the only one.")
    ] = None,
    pin: Annotated[str | None, typer.Option(help="kv: never evict them for so long: 1h.")] = None,
    ttl: Annotated[
        str | None,
        typer.Option(help="semantic: keep the file's answers for so long: 12h; the server bounds it."),
    ] = None,
    request: Annotated[
        Path | None,
        typer.Option(
            help="semantic: a JSON request as clients send it; only requests equal to it in all but the last user "
            "message find the answers. Without it: model and question alone."
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Of the requests it is for. Without it: default.")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill a cache ahead of requests.

    kv: compute prompts that requests begin with; what is cached already costs nothing. semantic: store questions with
    their answers; the model is asked for those that are missing. Exit code 1 where some failed.
    """
    if type_ is WarmType.RESULT:
        fail("warm --type result is not built yet: this version warms kv and semantic", EXIT_USAGE)
    order: dict[str, Any] = {"type": type_.value, "model": model, "namespace": namespace}
    try:
        if type_ is WarmType.KV:
            _refuse_options(type_, ttl=ttl, request=request)
            order |= {"prompts": read_prompts(file), "pin": None if pin is None else parse_duration(pin)}
        else:
            _refuse_options(type_, pin=pin)
            order |= {"pairs": read_faq(file), "ttl": None if ttl is None else parse_duration(ttl)}
            order |= {"request": None if request is None else read_request(request)}
    except (ConfigError, ValueError) as e:
        fail(str(e), EXIT_USAGE)
    server = RunningServer(url, data_dir)
    is_warm = _warm_kv if type_ is WarmType.KV else _warm_semantic
    if not is_warm(server, order, as_json=as_json):
        raise typer.Exit(EXIT_NO)


def _warm_kv(server: RunningServer, order: dict[str, Any], *, as_json: bool) -> bool:
    num_prompts = len(order["prompts"])
    lines = kv_tables.warm_progress(server.lines("/admin/warm", order), num_prompts, as_json=as_json)
    summary = kv_tables.warm_summary(lines, num_prompts, order["namespace"])
    if as_json:
        print_json(summary)
    else:
        kv_tables.print_warmed(summary, with_pins=order["pin"] is not None)
    return summary["num_warm"] == num_prompts and not summary["error"]


def _warm_semantic(server: RunningServer, order: dict[str, Any], *, as_json: bool) -> bool:
    questions = [pair["question"] for pair in order["pairs"]]
    lines = semantic_tables.warm_progress(server.lines("/admin/warm", order), len(questions), as_json=as_json)
    summary = semantic_tables.warm_summary(lines, questions)
    if as_json:
        print_json(summary)
    else:
        semantic_tables.print_warmed(summary)
    return summary["num_warm"] == len(questions) and not summary["error"]


def _refuse_options(type_: WarmType, **given: object) -> None:
    """Raises ConfigError for an option that goes with another type."""
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"--{name} does not go with warm --type {type_.value}")
