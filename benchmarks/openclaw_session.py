"""What a prefix cache has of a long session with the real OpenClaw: plain, with our plugin, with passing recalls.

    PYTHONPATH=src:tests .venv/bin/python -m benchmarks.openclaw_session record plain ours unkept --out recorded
    PYTHONPATH=src:tests .venv/bin/python -m benchmarks.openclaw_session read plain ours unkept --out recorded

`record` goes through the script of `tests/support/openclaw_session.py` with the real OpenClaw (installed on first use,
650 MB), our real gateway and a scripted model, and writes each request that reaches the model into a folder of the way:

- plain: our gateway as provider; OpenClaw's own memory and context engine.
- ours: the plugin in both slots, as `openclaw-cache connect openclaw` leaves it.
- unkept: the plugin with `recall: false`, and beside it one that puts what our server recalls before the turn's own
  text (`before_prompt_build`), as memory plugins without a context engine do.

`read` counts, with the tokenizer and the three caches of `openclaw_replay`: what each would have had, and for each kind
of request what of it the tree has, what of it the session's request before begins with, and what is left to compute.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.openclaw_replay import BLOCK_TOKENS, Reader, Request, common, recorded, replay, smollm2

from support.openclaw_session import SECRET, Session
from support.real_openclaw import installed
from support.scripted_model import Asked

KINDS = {
    "first request": "of an agent",
    "turn": "the user's, after a turn of the user's",
    "turn after a recall": "the same, where the turn before had a recall",
    "tool step": "the next request of a turn, with a tool's result",
    "turn after a compaction": "",
    "other provider": "the user's, after a turn through another one",
    "heartbeat": "after a turn of the user's",
    "turn after a heartbeat": "",
    "sub-agent": "its first request",
    "announcement": "of a sub-agent's result, in its parent's session",
    "turn after an announcement": "",
    "memory flush": "a turn of the host's before a compaction",
    "turn after a memory flush": "",
    "summary": "requests of a compaction",
}


_AGENT = re.compile(r" \| session=agent:(\w+):")
_MODEL = re.compile(r" \| model=(\S+)")


@dataclass(frozen=True)
class Cell:
    """Requests of one kind."""

    num_requests: int
    num_tokens: int
    num_in_tree: int
    num_as_before: int


def record(way: str, folder: Path) -> None:
    """Go through the session, and write its requests."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as work, Session(installed(), Path(work), way) as session:  # type: ignore[arg-type]
        session.run(print)
        asked = list(session.model.asked)
    for number, one in enumerate(asked, 1):
        kept = {name: value for name, value in one.headers.items() if name.lower() != "authorization"}
        document = {"headers": kept, "body": one.body}
        (folder / f"{number:03}.json").write_text(json.dumps(document, ensure_ascii=False))


def kinds_of(asked: Sequence[Asked]) -> Iterator[str]:
    """The kind of each request, in order; `KINDS` says what they mean."""
    known: set[str] = set()
    before, recalled, model = "", False, ""
    for one in asked:
        kind = _kind(one)
        if kind == "turn":
            agent, now_model = _found(_AGENT, one), _found(_MODEL, one)
            if agent not in known:
                kind = "first request"
            elif agent == "main" and now_model != model:
                kind = "other provider"
            elif agent == "main" and before != "turn":
                kind = f"turn after a{'n' if before[0] == 'a' else ''} {before}"
            elif agent == "main" and recalled:
                kind = "turn after a recall"
            known.add(agent)
            if agent == "main":
                before, recalled, model = "turn", "<recalled_notes>" in "".join(one.texts[-2:]), now_model
        elif kind == "summary":
            before = "compaction"
        elif kind not in ("tool step", "sub-agent") and before != "compaction":
            before = kind
        yield kind


def _found(pattern: re.Pattern[str], asked: Asked) -> str:
    found = pattern.search(asked.prompt)
    return found[1] if found else ""


def _kind(asked: Asked) -> str:
    if asked.is_summary:
        return "summary"
    last = asked.texts[-1]
    marks = {
        "Pre-compaction memory flush": "memory flush",
        "Follow the heartbeat monitor": "heartbeat",
        "[Subagent Context]": "sub-agent",
        "[Inter-session message]": "announcement",
        "A background task completed": "announcement",
    }
    own = last.rpartition("</recalled_notes>")[2][:400]
    found = next((kind for mark, kind in marks.items() if mark in own), None)
    return found or ("tool step" if last.startswith("tool:") else "turn")


def cells(requests: Sequence[Request], kinds: Sequence[str]) -> dict[str, Cell]:
    """For each kind of request, what was known of it."""
    found = dict.fromkeys(KINDS, Cell(0, 0, 0, 0))
    for number, (request, kind) in enumerate(zip(requests, kinds, strict=True)):
        earlier = [one for one in requests[:number] if one.model == request.model]
        most = len(request.tokens) - 1
        in_tree = max((common(request.tokens, one.tokens) for one in earlier), default=0)
        own = [one for one in earlier if one.session == request.session]
        as_before = common(request.tokens, own[-1].tokens) if own else 0
        cell = found[kind]
        found[kind] = Cell(
            cell.num_requests + 1,
            cell.num_tokens + len(request.tokens),
            cell.num_in_tree + min(most, in_tree) // BLOCK_TOKENS * BLOCK_TOKENS,
            cell.num_as_before + min(most, as_before),
        )
    return {kind: cell for kind, cell in found.items() if cell.num_requests}


def read(ways: Sequence[str], folder: Path) -> dict[str, Any]:
    """Print the tables; returns the figures."""
    reader = Reader(smollm2())
    figures: dict[str, Any] = {}
    print("| way | requests | prompt tokens | tree | per session | single | tree leaves to compute |")
    print("|---|---|---|---|---|---|---|")
    runs = {way: recorded(folder / way, reader) for way in ways}
    for way, requests in runs.items():
        row = figures[way] = replay(way, requests).row()
        ratios = " | ".join(f"{row[f'{cache}_ratio']:.1%}" for cache in ("tree", "per_session", "single"))
        computed = round(row["num_prompt_tokens"] * (1 - row["tree_ratio"]))
        print(f"| {way} | {row['num_requests']} | {row['num_prompt_tokens']:,} | {ratios} | {computed:,} |")
    print(
        "\n| kind | way | requests | prompt tokens | tree | as the request before | tree leaves to compute |"
    )
    print("|---|---|---|---|---|---|---|")
    tables = {way: cells(requests, list(kinds_of(_asked_in(folder / way)))) for way, requests in runs.items()}
    for kind in KINDS:
        for way, table in tables.items():
            if cell := table.get(kind):
                tree, before = cell.num_in_tree / cell.num_tokens, cell.num_as_before / cell.num_tokens
                left = cell.num_tokens - cell.num_in_tree
                name = f"| {kind} | {way} | {cell.num_requests} | {cell.num_tokens:,} "
                print(f"{name}| {tree:.1%} | {before:.1%} | {left:,} |")
                figures[way].setdefault("kinds", {})[kind] = vars(cell)
    for way in ways:
        last = json.dumps(_documents(folder / way)[-1]["body"])
        print(
            f"{way}: what was told in turn 2 {'stands' if SECRET in last else 'is missing'} in the last prompt"
        )
    return figures


def _documents(folder: Path) -> list[Any]:
    return [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))]


def _asked_in(folder: Path) -> list[Asked]:
    bodies = [(one["headers"], one["body"]) for one in _documents(folder)]
    return [Asked("", headers, body, json.dumps(body, ensure_ascii=False), 0, {}) for headers, body in bodies]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "read"))
    parser.add_argument("ways", nargs="+", choices=("plain", "ours", "unkept"))
    parser.add_argument("--out", type=Path, default=Path("recorded"), help="a folder for each way's requests")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    if options.what == "record":
        for way in options.ways:
            if (options.out / way).exists():
                sys.exit(f"{options.out / way} is there already")
            record(way, options.out / way)
    else:
        figures = read(options.ways, options.out)
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
