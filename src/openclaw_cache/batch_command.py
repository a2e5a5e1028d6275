"""The command `batch`: sends requests that can wait in the order in which they share most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from openclaw_cache.admin_client import AdminClient, RefusedError, UnreachableError, WholeReply
from openclaw_cache.batch.batch_file import BatchFile, BatchRequest, read_batch
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.presence import Presence, ask
from openclaw_cache.batch.report import Measured, capacity_tokens, groups_at_once, prediction, prompt_bytes
from openclaw_cache.batch.results import Results, failure, result
from openclaw_cache.batch.sender import Sender
from openclaw_cache.batch.sending import RefusesAllError, run
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import out, plural, print_json, printable
from openclaw_cache.errors import ConfigError
from openclaw_cache.prefix.ordering import Place, order
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
        typer.Option("--out", "-o", help="The results, in the given order. Default: FILE.results.jsonl"),
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
        client = _client(server, namespace)
        results = Results.opened(target, read)
        measured = _send(work, client, results, as_json=as_json)
        if measured.bytes_per_token is not None:
            shown["predicted"] = prediction(prompts, places, room, measured.bytes_per_token).as_json()
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    shown |= _what_came(results, measured)
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


def _client(server: RunningServer, namespace: str | None) -> AdminClient:
    """What sends as a client does, to a server that is there."""
    client = server.as_client(namespace).client
    try:
        ask(client)
    except UnreachableError as e:
        fail(str(e), EXIT_UNREACHABLE)
    except UnicodeEncodeError:
        raise ConfigError("--namespace, or OPENCLAW_CACHE_KEY: no header can hold its characters") from None
    return client


@dataclass(frozen=True, slots=True)
class _Keeper:
    """Keeps what comes of requests, and counts it."""

    results: Results
    measured: Measured
    prompt_bytes: dict[int, int]
    """By line."""
    advance: Callable[[int], None]

    def done(self, request: BatchRequest, outcome: WholeReply | NoReply) -> None:
        self.results.add(request.line, _result(request, outcome))
        self.measured.count(request, self.prompt_bytes[request.line], outcome)
        self.advance(1)

    def put_off(self, request: BatchRequest, outcome: NoReply) -> None:
        self.results.note(request.line, _result(request, outcome))


def _send(work: _Work, client: AdminClient, results: Results, *, as_json: bool) -> Measured:
    """Send what has no result yet; returns what came of it."""
    measured = Measured()
    sizes = {request.line: len(prompt) for request, prompt in zip(work.requests, work.prompts, strict=True)}
    left = _Left.of(work, results)
    num_groups = groups_at_once(left.prompts, work.capacity_tokens, work.concurrency)
    with bar("batch", len(left.requests), as_json=as_json) as advance:
        keeper = _Keeper(results, measured, sizes, advance)
        sender, presence = Sender(client.exchange), Presence(lambda: ask(client))
        try:
            run(
                left.requests,
                left.places,
                left.suspects,
                sender,
                presence,
                work.concurrency,
                num_groups,
                keeper,
            )
        except (UnreachableError, RefusesAllError, ConfigError, KeyboardInterrupt) as e:
            fail(f"{str(e) or 'stopped'}; {_what_is_there(results)}", _exit_code(e))
    results.finish()
    return measured


@dataclass(frozen=True, slots=True)
class _Left:
    """What is to be sent in this run."""

    requests: list[BatchRequest]
    prompts: list[bytes]
    places: list[Place]
    """Those that failed before come after the others: what one of them does to the server must not keep these."""
    suspects: range
    """Those that got no reply at all, by index."""

    @classmethod
    def of(cls, work: _Work, results: Results) -> Self:
        index = {request.line: i for i, request in enumerate(work.requests)}
        before = results.failed_before
        new = [i for line, i in index.items() if not results.has(line) and line not in before]
        refused = [i for line, i in index.items() if before.get(line)]
        suspects = [index[line] for line, had_reply in before.items() if not had_reply and line in index]
        chosen = [*new, *refused, *suspects]
        prompts = [work.prompts[i] for i in chosen]
        num_new, num_placed = len(new), len(new) + len(refused)
        return cls(
            [work.requests[i] for i in chosen],
            prompts,
            [*order(prompts[:num_new]), *_moved(order(prompts[num_new:num_placed]), num_new)],
            range(num_placed, len(chosen)),
        )


def _moved(places: list[Place], by: int) -> Iterator[Place]:
    """Places of prompts that come behind so many others."""
    for place in places:
        leader = None if place.leader is None else place.leader + by
        yield replace(place, index=place.index + by, leader=leader)


def _what_came(results: Results, measured: Measured) -> dict[str, Any]:
    failed = {str(status): num for status, num in measured.failed.most_common()}
    if measured.num_no_reply:
        failed["no_reply"] = measured.num_no_reply
    return {
        "num_resumed": results.num_resumed,
        "num_failed": measured.num_failed,
        "failed_by_status": failed,
        "measured": measured.as_json(),
        "results": str(results.out),
    }


def _what_is_there(results: Results) -> str:
    """Close what a run that was stopped has, and say where it is."""
    if results.is_complete:
        results.finish()
        return f"each request has a result in {results.out}: the same command tries those again that failed"
    results.close()
    num, num_all = len(results.offsets), sum(isinstance(line, BatchRequest) for line in results.batch.lines)
    return f"{plural(num, 'result')} of {num_all:,} are in {results.partial}: the same command goes on with the rest"


def _exit_code(fault: BaseException) -> int:
    if isinstance(fault, UnreachableError):
        return EXIT_UNREACHABLE
    return EXIT_USAGE if isinstance(fault, ConfigError | RefusesAllError) else EXIT_NO


def _result(request: BatchRequest, reply: WholeReply | NoReply) -> dict[str, Any]:
    if isinstance(reply, NoReply):
        return failure(request.custom_id, reply.code, reply.reason)
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
        out.print(f"from an earlier run: {plural(shown['num_resumed'], 'result')}")
    if measured["cached_ratio"] is not None:
        out.print(
            f"measured: {measured['cached_tokens']:,} of {measured['prompt_tokens']:,} prompt tokens were cached "
            f"({measured['cached_ratio']:.1%})"
        )
    if measured["num_answered"]:
        out.print(f"{plural(measured['num_answered'], 'request')} answered from the result cache")
    if measured["num_failed"]:
        statuses = ", ".join(
            f"{num:,} without a reply" if status == "no_reply" else f"{num:,} with {status}"
            for status, num in shown["failed_by_status"].items()
        )
        failed = plural(measured["num_failed"], "request")
        out.print(f"{failed} failed ({statuses}); the results say why, and the same command tries them again")
    out.print(f"results: {printable(shown['results'])}")
