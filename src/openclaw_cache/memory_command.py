"""The command `memory`: what agents remember, over HTTP as any client asks for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final
from urllib.parse import quote, urlencode

import typer

from openclaw_cache import memory_tables as tables
from openclaw_cache.command_options import DataDirOption, JsonOption, UrlOption
from openclaw_cache.console import out, plural, print_json
from openclaw_cache.errors import ConfigError
from openclaw_cache.memory_files import MemoryFile, readable_files
from openclaw_cache.running_server import EXIT_NO, EXIT_USAGE, RunningServer, fail

memory_app = typer.Typer(
    help="See, change and move what agents remember.", no_args_is_help=True, rich_markup_mode=None
)

AgentOption = Annotated[
    str, typer.Option("--agent", "-a", envvar="OPENCLAW_CACHE_AGENT", help="Whose memory.")
]
NamespaceOption = Annotated[
    str | None, typer.Option(help="The namespace, within what OPENCLAW_CACHE_KEY may use.")
]
TagOption = Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")]
LimitOption = Annotated[int, typer.Option(help="At most so many.")]
SupersededOption = Annotated[bool, typer.Option("--superseded", help="Superseded ones too.")]
SinceOption = Annotated[str | None, typer.Option(help="ISO 8601, or Unix seconds.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Of the memory.")]
_DEFAULT_AGENT: Final = "main"
"""OpenClaw's own name for the first agent."""


class Mode(StrEnum):
    """By what `search` finds."""

    HYBRID = "hybrid"
    VECTOR = "vector"
    TEXT = "text"
    TIME = "time"


class Form(StrEnum):
    """What `import` reads."""

    AUTO = "auto"
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    TRANSCRIPT = "transcript"


@dataclass(frozen=True, slots=True)
class _Agent:
    """One agent on a running server."""

    server: RunningServer
    name: str

    def path(self, rest: str, **query: object) -> str:
        given = {name: value for name, value in query.items() if value is not None}
        tail = f"?{urlencode(given)}" if given else ""
        return f"/v1/agents/{quote(self.name, safe='')}/{rest}{tail}"


def _agent(name: str, namespace: str | None, url: str | None, data_dir: Path | None) -> _Agent:
    if not name:
        fail("--agent: name one", EXIT_USAGE)
    return _Agent(RunningServer(url, data_dir).as_client(namespace), name)


@memory_app.command()
def search(
    query: Annotated[str, typer.Argument(help='What to look for: "what did we decide last week".')],
    mode: Annotated[Mode, typer.Option(help="By meaning and words, or by one of them.")] = Mode.HYBRID,
    since: Annotated[str | None, typer.Option(help='A moment, or words: "last week".')] = None,
    until: Annotated[str | None, typer.Option(help="A moment, or words.")] = None,
    tag: TagOption = None,
    kind: Annotated[list[str] | None, typer.Option(help="May be given several times.")] = None,
    limit: LimitOption = 10,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each was found.")] = False,
    superseded: SupersededOption = False,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find memories by meaning, words and time. Exit code 1 where there are none."""
    of = _agent(agent, namespace, url, data_dir)
    order: dict[str, Any] = {
        "query": query,
        "mode": mode.value,
        "since": since,
        "until": until,
        "tags": tag or [],
        "kinds": kind or [],
        "limit": limit,
        "explain": explain,
        "include_superseded": superseded,
    }
    reply = of.server.post(of.path("memories:search"), order)
    if as_json:
        print_json(reply)
    else:
        tables.print_found(reply, explain=explain)
    if not reply["results"]:
        raise typer.Exit(EXIT_NO)


@memory_app.command("list")
def list_(
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    tag: Annotated[str | None, typer.Option(help="Only with this tag.")] = None,
    since: SinceOption = None,
    until: SinceOption = None,
    limit: LimitOption = 50,
    superseded: SupersededOption = False,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List memories by id: new ones as they were made, imported ones in between."""
    of = _agent(agent, namespace, url, data_dir)
    memories: list[Any] = []
    cursor: str | None = None
    while len(memories) < limit:
        page = of.server.get(
            of.path(
                "memories",
                cursor=cursor,
                limit=min(limit - len(memories), 1000),
                kind=kind,
                tag=tag,
                since=since,
                until=until,
                superseded="true" if superseded else None,
            )
        )
        memories += page["memories"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    if as_json:
        print_json({"memories": memories, "next_cursor": cursor})
        return
    tables.print_memories(memories)
    if cursor is not None:
        out.print(f"there are more: --limit {2 * limit}")


@memory_app.command()
def show(
    memory_id: IdArgument,
    versions: Annotated[bool, typer.Option("--versions", help="Its earlier versions too.")] = False,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one memory, and where it comes from."""
    of = _agent(agent, namespace, url, data_dir)
    reply = of.server.get(
        of.path(f"memories/{quote(memory_id, safe='')}", versions="true" if versions else None)
    )
    if as_json:
        print_json(reply)
    else:
        tables.print_memory(reply)


@memory_app.command()
def store(
    text: Annotated[str, typer.Argument(help="What to remember.")],
    kind: Annotated[str, typer.Option(help="fact, preference, event, decision, task, note, …")] = "fact",
    tag: TagOption = None,
    time: Annotated[str | None, typer.Option(help="When it was: ISO 8601, or Unix seconds.")] = None,
    slot: Annotated[
        str | None, typer.Option(help="What it is about, where only one such memory can be true: user.city.")
    ] = None,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Store one memory."""
    of = _agent(agent, namespace, url, data_dir)
    order: dict[str, Any] = {"text": text, "kind": kind, "tags": tag or [], "source": "cli"}
    order |= {"time": time} if time is not None else {}
    order |= {"slot": slot} if slot is not None else {}
    reply = of.server.post(of.path("memories"), order)
    if as_json:
        print_json(reply)
        return
    tables.print_memories([reply["memory"]])
    if reply["similar"]:
        out.print("nearly the same:")
        tables.print_memories(one["memory"] for one in reply["similar"])


@memory_app.command()
def forget(
    memory_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="Of the memories.")] = None,
    session: Annotated[str | None, typer.Option(help="Remove the turns of this session.")] = None,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Remove memories for good: all versions, and their text from turns and recalls. Or a session's turns."""
    if not memory_ids and session is None:
        fail("forget: name memories by their ids, or a session with --session", EXIT_USAGE)
    of = _agent(agent, namespace, url, data_dir)
    num_forgotten = num_redacted = num_turns = 0
    if session is not None:
        num_turns = of.server.order("DELETE", of.path(f"sessions/{quote(session, safe='')}"))["removed"]
    for memory_id in memory_ids or ():
        done = of.server.order("DELETE", of.path(f"memories/{quote(memory_id, safe='')}"))
        num_forgotten += done["forgotten"]
        num_redacted += done["redacted"]
    if as_json:
        print_json({"forgotten": num_forgotten, "redacted": num_redacted, "turns": num_turns})
        return
    if memory_ids:
        out.print(f"forgotten: {num_forgotten}, and in {num_redacted} messages and recalls")
    if session is not None:
        out.print(f"{plural(num_turns, 'turn')} removed")


@memory_app.command("export")
def export(
    file: Annotated[Path | None, typer.Argument(help="Where to; - or nothing is standard output.")] = None,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write all that an agent remembers as JSON lines, versions, turns and recalls included."""
    of = _agent(agent, namespace, url, data_dir)
    num_lines = 0
    with _target(file) as target:
        for line in of.server.download(of.path("export")):
            if line.startswith(b'{"done":false'):
                fail("export: the server broke off: the file is not whole", EXIT_NO)
            target.write(line)
            num_lines += 1
    if file is not None and str(file) != "-":
        print_json({"file": str(file), "lines": num_lines}) if as_json else out.print(
            f"{num_lines:,} lines in {file}"
        )


@memory_app.command("import")
def import_(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="Files, or folders: an OpenClaw workspace with MEMORY.md and memory/*.md, a folder of session "
            "transcripts, or what `export` wrote."
        ),
    ],
    form: Annotated[Form, typer.Option("--format", help="What they are; auto looks.")] = Form.AUTO,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take memories from files. Once more changes nothing but what differs. Exit code 1 where a line was skipped."""
    of = _agent(agent, namespace, url, data_dir)
    reports: dict[str, dict[str, Any]] = {}
    try:
        for file in readable_files(paths, None if form is Form.AUTO else form.value):
            report = reports[file.name] = _sent(of, file)
            if not as_json:
                tables.print_imported(file.name, report)
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    if as_json:
        print_json(reports)
    if any(report["skipped"] for report in reports.values()):
        raise typer.Exit(EXIT_NO)


@memory_app.command()
def stats(
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show how much an agent remembers."""
    of = _agent(agent, namespace, url, data_dir)
    reply = of.server.get(of.path("stats"))
    if as_json:
        print_json(reply)
    else:
        tables.print_stats(reply)


@memory_app.command()
def agents(
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the agents that remember something."""
    reply = RunningServer(url, data_dir).as_client(namespace).get("/v1/agents")
    if as_json:
        print_json(reply)
    else:
        tables.print_agents(reply["agents"])


@memory_app.command()
def turns(
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    limit: LimitOption = 20,
    agent: AgentOption = _DEFAULT_AGENT,
    namespace: NamespaceOption = None,
    url: UrlOption = None,
    data_dir: DataDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the log of turns, the oldest first."""
    of = _agent(agent, namespace, url, data_dir)
    reply = of.server.get(of.path("turns", session=session, limit=limit))
    if as_json:
        print_json(reply)
    else:
        tables.print_turns(reply["turns"])


def _sent(of: _Agent, file: MemoryFile) -> dict[str, Any]:
    """What became of a file. Raises ConfigError where it cannot be read."""
    whole: dict[str, Any] = {"added": 0, "updated": 0, "unchanged": 0, "skipped": []}
    for num_before, part in file.parts():
        report = of.server.upload(of.path("import", format=file.form, path=file.name), part)
        for name in ("added", "updated", "unchanged"):
            whole[name] += report[name]
        whole["skipped"] += [one | {"line": one["line"] + num_before} for one in report["skipped"]]
    return whole


@contextmanager
def _target(file: Path | None) -> Iterator[BinaryIO]:
    """Where lines go; a file is only there when it is whole."""
    if file is None or str(file) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    draft = file.with_name(f"{file.name}.part")
    try:
        with draft.open("wb") as target:
            draft.chmod(0o600)
            yield target
        draft.replace(file)
    except OSError as e:
        fail(f"export: cannot write {file}: {e.strerror}", EXIT_USAGE)
    finally:
        draft.unlink(missing_ok=True)
