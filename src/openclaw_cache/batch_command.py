"""The command `batch`: sends requests that can wait in the order in which they share most."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from openclaw_cache.admin_client import RefusedError, UnreachableError, WholeReply
from openclaw_cache.batch.batch_file import BatchFile, BatchRequest, read_batch
from openclaw_cache.batch.report import Measured, capacity_tokens, groups_at_once, prediction, prompt_bytes
from openclaw_cache.batch.results import Results, result
from openclaw_cache.batch.sending import Sender, run
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import out, plural, print_json, printable
from openclaw_cache.errors import ConfigError
from openclaw_cache.prefix.ordering import order
from openclaw_cache.progress import bar
from openclaw_cache.request_logs.logged_request import decoded
from openclaw_cache.request_logs.opening import STDIN
from openclaw_cache.running_server import EXIT_NO, EXIT_UNREACHABLE, EXIT_USAGE, RunningServer, fail

_MOST_AT_ONCE: Final = 256


def batch(
    file: Annotated[
        str,
        typer.Argument(help="Requests as for OpenAI's batch API, or bodies, one in each line; - is stdin."),
    ],
    out_: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Where the results go, in the given order. Default: FILE.results.jsonl"
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(help="How many requests at the same time.")] = 4,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be reused, in this order and in ours.")
    ] = False,
    kv_tokens: Annotated[
        int | None,
        typer.Option(help="How many tokens the KV cache has room for, where the server does not tell."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="The namespace, within what OPENCLAW_CACHE_KEY may use.")
    ] = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send offline prompts in the order of their shared prefixes.

    Results come in the given order. All go through the server, whatever URL a line names. A run that was stopped goes
    on where it was when it is started again with the same file. Exit code 1 where some requests failed.
    """
    try:
        read = read_batch(file)
        target = _target(file, out_, dry_run=dry_run)
        _check(concurrency, kv_tokens)
        requests = [line for line in read.lines if isinstance(line, BatchRequest)]
        prompts = [prompt_bytes(request) for request in requests]
        server = None if dry_run and kv_tokens is not None else RunningServer(url, data_dir)
        room = kv_tokens if server is None or kv_tokens is not None else _room(server)
        places = order(prompts)
        foretold = prediction(prompts, places, room)
        shown: dict[str, Any] = {
            "num_requests": len(requests),
            "num_bad_lines": len(read.lines) - len(requests),
            "predicted": foretold.as_json(),
        }
        if server is None or dry_run:
            _print(shown, as_json=as_json)
            return
        work = _Work(read, requests, prompts, concurrency, foretold.capacity_tokens)
        results = Results.opened(target, read)
        measured = _send(work, server.as_client(namespace), results, as_json=as_json)
        if measured.bytes_per_token is not None:
            shown["predicted"] = prediction(prompts, places, room, measured.bytes_per_token).as_json()
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    shown |= {"num_resumed": results.num_resumed, "num_failed": measured.num_failed}
    shown["failed_by_status"] = {str(status): num for status, num in measured.failed.most_common()}
    shown |= {"measured": measured.as_json(), "results": str(target)}
    _print(shown, as_json=as_json)
    if shown["num_bad_lines"] or shown["num_failed"]:
        raise typer.Exit(EXIT_NO)


def _check(concurrency: int, kv_tokens: int | None) -> None:
    if not 1 <= concurrency <= _MOST_AT_ONCE:
        raise ConfigError(f"--concurrency: {concurrency} is not between 1 and {_MOST_AT_ONCE}")
    if kv_tokens is not None and kv_tokens < 1:
        raise ConfigError(f"--kv-tokens: {kv_tokens} is not a number of tokens")


def _room(server: RunningServer) -> int | None:
    """Tokens that the server's largest KV cache holds; None where it does not tell, or not us."""
    try:
        return capacity_tokens(server.client.call("GET", "/admin/status"))
    except RefusedError:  # only an operator may ask; a client may send a batch all the same
        return None
    except UnreachableError as e:
        fail(str(e), EXIT_UNREACHABLE)


def _target(file: str, out_: Path | None, *, dry_run: bool) -> Path:
    if out_ is None:
        if file == STDIN and not dry_run:
            raise ConfigError("--out: name a file for the results of what comes from standard input")
        return Path(f"{file}.results.jsonl")
    if file != STDIN and out_.exists() and out_.samefile(file):
        raise ConfigError(f"--out: {out_} is the batch file itself")
    if out_.is_dir() or not out_.parent.is_dir():
        raise ConfigError(f"--out: {out_} is not a file in a folder that there is")
    return out_


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be sent, and with how much at once."""

    batch: BatchFile
    requests: list[BatchRequest]
    prompts: list[bytes]
    concurrency: int
    capacity_tokens: int


def _send(work: _Work, server: RunningServer, results: Results, *, as_json: bool) -> Measured:
    """Send what has no result yet; returns what came of it."""
    measured = Measured()
    sizes = {request.line: len(prompt) for request, prompt in zip(work.requests, work.prompts, strict=True)}
    left = [i for i, request in enumerate(work.requests) if not results.has(request.line)]
    requests, prompts = [work.requests[i] for i in left], [work.prompts[i] for i in left]
    num_groups = groups_at_once(prompts, work.capacity_tokens, work.concurrency)
    with bar("batch", len(left), as_json=as_json) as advance:

        def done(request: BatchRequest, reply: WholeReply) -> None:
            results.add(request.line, _result(request, reply))
            measured.count(request, sizes[request.line], reply)
            advance(1)

        try:
            run(requests, order(prompts), Sender(server.client.exchange), work.concurrency, num_groups, done)
        except (UnreachableError, ConfigError, KeyboardInterrupt) as e:
            results.close()
            fail(
                f"{str(e) or 'stopped'}; {plural(len(results.offsets), 'result')} of {len(work.requests):,} are in "
                f"{results.partial}: the same command goes on with the rest",
                _exit_code(e),
            )
    results.finish()
    return measured


def _exit_code(fault: BaseException) -> int:
    if isinstance(fault, UnreachableError):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(fault, ConfigError) else EXIT_NO


def _result(request: BatchRequest, reply: WholeReply) -> dict[str, Any]:
    try:
        body = decoded(reply.body)
    except ValueError:
        body = reply.body.decode("utf-8", "replace")
    return result(request.custom_id, reply.status, reply.headers.get("x-request-id", ""), body)


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
        return
    foretold = shown["predicted"]
    bad = f", {plural(shown['num_bad_lines'], 'line')} cannot be sent" if shown["num_bad_lines"] else ""
    out.print(f"{plural(shown['num_requests'], 'request')}{bad}")
    told = "the server does not tell how many" if foretold["is_assumed"] else "room"
    out.print(
        f"prompt tokens that a prefix cache of {foretold['capacity_tokens']:,} tokens ({told}) would have: "
        f"{foretold['given_order_ratio']:.1%} in the given order, {foretold['our_order_ratio']:.1%} in ours"
    )
    if "measured" not in shown:
        return
    measured = shown["measured"]
    if shown["num_resumed"]:
        out.print(f"{plural(shown['num_resumed'], 'result')} were there from an earlier run")
    if measured["cached_ratio"] is not None:
        out.print(
            f"measured: {measured['cached_tokens']:,} of {measured['prompt_tokens']:,} prompt tokens were cached "
            f"({measured['cached_ratio']:.1%})"
        )
    if measured["num_answered"]:
        out.print(f"{plural(measured['num_answered'], 'request')} answered from the result cache")
    if measured["num_failed"]:
        statuses = ", ".join(f"{num:,} with {status}" for status, num in shown["failed_by_status"].items())
        failed = plural(measured["num_failed"], "request")
        out.print(f"{failed} failed ({statuses}); the results say why, and the same command tries them again")
    out.print(f"results: {printable(shown['results'])}")
