"""How much of the prompt before is kept from one request to the next, before and after the prefix canonicaliser.

    python -m benchmarks.prefix_share [--json FILE]

No model runs. Requests are read as a model reads them (`prefix.outline`: tools, system, messages) and compared, bytes
of UTF-8, as the client sent them, and at the levels `safe` and `full`. Transitions are sorted by kind:

- within a session: each request against the one before it of the same session, by what kind of turn both are, with the
  cause where the prefix broke as sent; those without one are the ordinary ones;
- across sessions: the first request of a session against that of the session before it of the same agent and model;
- made: the ordinary transitions, to which one known volatile thing was added: another date in
  the later request, a clock with seconds or Claude Code's billing line at the head of both.

kept: of what could be kept (what stands in both, in the same order), how much stands before the first difference. What
only ever stands at the tail is left out of what could be kept: OpenClaw's carrier, and at `full` the message that holds
what was moved. It is in "computed", though: tokens of the later request that stand behind the first difference.

The last table goes through all requests in the order of sending, each against the best of all earlier ones of its model
(what a radix tree without bounds has).

Captured requests are read from $OPENCLAW_CACHE_TEST_DATA/openclaw, text traces from …/traces/lmcache_agent.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from openclaw_cache.canonical import Level, canonicalise
from openclaw_cache.gateway.identity import identify, labels
from openclaw_cache.prefix.comparison import compare, meet
from openclaw_cache.prefix.outline import Outline, outline
from openclaw_cache.prefix.tokens import bytes_per_token
from openclaw_cache.prefix.turns import is_carrier, turn_of

Body = dict[str, Any]
LEVELS = ("as sent", "safe", "full", "dates only")
"""The last is `full` without the rule that moves OpenClaw's whole DYNAMIC section: the date in it moves alone."""
API = {"/v1/messages": "messages", "/v1/responses": "responses", "/v1/chat/completions": "chat"}
BILLING = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch={:05x};\n"


@dataclass(frozen=True)
class Request:
    """One request as its client sent it."""

    seq: int
    api: str
    agent: str
    session: str
    body: Body

    def at(self, level: str) -> Outline:
        """What goes upstream, as a model reads it."""
        if level == "as sent":
            return outline(self.body)
        without = frozenset({"openclaw-dynamic"} if level == "dates only" else ())
        name: Level = "safe" if level == "safe" else "full"
        sent = canonicalise(orjson.dumps(self.body), self.body, self.api, name, without=without).raw
        return outline(orjson.loads(sent))


@dataclass
class Share:
    """Sums over the transitions of one kind: for each level bytes kept, reachable and computed, in tokens too."""

    num: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    reachable: dict[str, int] = field(default_factory=dict)
    computed: dict[str, float] = field(default_factory=dict)

    def add(self, earlier: Request, later: Request) -> None:
        self.num += 1
        for level in LEVELS:
            before, after = without_tail(earlier.at(level)), later.at(level)
            found = compare(before, after)
            self.kept[level] = self.kept.get(level, 0) + found.kept_bytes
            self.reachable[level] = self.reachable.get(level, 0) + found.reachable_bytes
            computed = (after.num_bytes - found.kept_bytes) / bytes_per_token(after)
            self.computed[level] = self.computed.get(level, 0.0) + computed

    def row(self, kind: str) -> dict[str, Any]:
        return {
            "kind": kind,
            "num": self.num,
            **{f"kept_{level}": self.kept[level] / max(1, self.reachable[level]) for level in LEVELS},
            **{f"computed_tokens_{level}": round(self.computed[level] / self.num) for level in LEVELS},
        }


def without_tail(prompt: Outline) -> Outline:
    """Without what only ever stands at the tail: carriers, and a system message behind somebody else's."""
    parts = list(prompt.parts)
    while len(parts) > 1 and parts[-1].kind == "message":
        is_late_system = parts[-1].name in {"system", "developer"} and parts[-2].kind == "message"
        if not (is_carrier(parts[-1]) or is_late_system):
            break
        parts.pop()
    return Outline(prompt.model, parts)


def captured(folder: Path) -> list[Request]:
    """All captured requests in the order of sending."""
    found = []
    for file in sorted(folder.glob("*.json")):
        document = json.loads(file.read_bytes())
        for one in document.get("requests", ()) if "scenario" in document else ():
            if "body" not in one:
                continue
            named = [(name.lower().encode(), value.encode()) for name, value in one["headers"]]
            who = identify(named, labels(one["body"]))
            found.append(
                Request(one["seq"], API[one["path"]], who.agent or "", who.session or "", one["body"])
            )
    return sorted(found, key=lambda request: request.seq)


def traces(folder: Path) -> Iterator[tuple[str, list[Request]]]:
    """The text traces, each a list of whole prompts in order."""
    for file in sorted(folder.glob("*.jsonl.gz")):
        lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
        requests = [
            Request(i, "completions", "", line["session_id"], {"model": "m", "prompt": line["input"]})
            for i, line in enumerate(lines)
        ]
        yield file.name.split(".")[0], requests


def kind_of(earlier: Request, later: Request) -> str:
    """What kinds of turn the two are, and the cause that `prefix.compare` names where the prefix broke."""
    before, after = without_tail(earlier.at("as sent")), later.at("as sent")
    if before == without_tail(after):
        return "the same again (a retry)"
    kinds = turn_of(before) or "user turn", turn_of(after) or "user turn"
    cause = compare(before, after).cause
    because = f" ({cause.replace('_', ' ')})" if cause else ""
    if kinds[0] != kinds[1]:
        return f"{kinds[0]} → {kinds[1]}{because}"
    last = without_tail(after).parts[-1]
    is_step = last.name == "tool" or "_output" in last.text[:60] or "tool_result" in last.text[:200]
    return f"{kinds[0]}: {'tool step' if is_step else 'next turn'}{because}"


def by_session(requests: Sequence[Request]) -> dict[tuple[str, str], list[Request]]:
    sessions: dict[tuple[str, str], list[Request]] = {}
    for request in requests:
        if request.session:
            sessions.setdefault((str(request.body.get("model")), request.session), []).append(request)
    return sessions


def measured(requests: Sequence[Request]) -> dict[str, Share]:
    """The transitions of captured requests by kind."""
    shares: dict[str, Share] = {}
    sessions = by_session(requests)
    ordinary = []
    for run in sessions.values():
        for earlier, later in pairwise(run):
            kind = kind_of(earlier, later)
            shares.setdefault(kind, Share()).add(earlier, later)
            if kind in {"user turn: next turn", "user turn: tool step"}:
                ordinary.append((earlier, later))
    firsts: dict[tuple[str, str], Request] = {}
    for (model, _), run in sessions.items():
        before = firsts.get((model, run[0].agent))
        if before is not None and not turn_of(outline(run[0].body)) and not turn_of(outline(before.body)):
            shares.setdefault("first turn of another session, same agent", Share()).add(before, run[0])
        firsts[model, run[0].agent] = run[0]
    for kind, change in MADE.items():
        for i, (earlier, later) in enumerate(ordinary):
            shares.setdefault(kind, Share()).add(
                change(earlier, 2 * i, False), change(later, 2 * i + 1, True)
            )
    return shares


def _changed(request: Request, change: Callable[[str], str]) -> Request:
    """A request whose first system text is another one."""
    body = json.loads(json.dumps(request.body))
    place, name = _first_system(body)
    place[name] = change(place[name])
    return Request(request.seq, request.api, request.agent, request.session, body)


def _first_system(body: Body) -> tuple[Any, Any]:
    place: Any = body
    name: Any = "system"
    if "system" not in body:
        place, name = (body.get("messages") or body["input"])[0], "content"
    if not isinstance(place[name], str):
        place, name = place[name][0], "text"
    return place, name


def _another_date(request: Request, _: int, is_later: bool) -> Request:
    text = json.dumps(request.body)
    text = re.sub(r"Current date: 2026-11-\d\d", "Current date: 2026-12-01", text) if is_later else text
    return Request(request.seq, request.api, request.agent, request.session, json.loads(text))


MADE: dict[str, Callable[[Request, int, bool], Request]] = {
    "made: the date rolls over": _another_date,
    "made: a clock at the head": lambda request, i, _: _changed(
        request, lambda text: f"Current time: 2026-11-29 17:{i // 60 % 60:02}:{i % 60:02}\n{text}"
    ),
    "made: Claude Code's billing line": lambda request, i, _: _changed(
        request, lambda text: BILLING.format(i) + text
    ),
}


def replayed(requests: Sequence[Request]) -> dict[str, tuple[float, float]]:
    """Tokens of all prompts, and those computed where each takes the best prefix of all earlier ones, by level."""
    totals = {}
    for level in LEVELS:
        known: dict[str, list[Outline]] = {}
        total = computed = 0.0
        for request in requests:
            prompt = request.at(level)
            earlier = known.setdefault(f"{request.api} {prompt.model}", [])
            kept = max((meet(one, prompt).kept_bytes for one in earlier), default=0)
            scale = bytes_per_token(prompt)
            total += prompt.num_bytes / scale
            computed += (prompt.num_bytes - kept) / scale
            earlier.append(prompt)
        totals[level] = (total, computed)
    return totals


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ.get("OPENCLAW_CACHE_TEST_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=default, help="the folder of the real inputs")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    requests = captured(options.data / "openclaw")
    if not requests:
        sys.exit("no requests found: set OPENCLAW_CACHE_TEST_DATA")
    shares = measured(requests)
    for name, prompts in traces(options.data / "traces" / "lmcache_agent"):
        for run in by_session(prompts).values():
            for earlier, later in pairwise(run):
                kind = (
                    "continued"
                    if compare(outline(earlier.body), outline(later.body)).is_continued
                    else "changed"
                )
                shares.setdefault(f"text trace {name}: {kind}", Share()).add(earlier, later)
    rows = [share.row(kind) for kind, share in sorted(shares.items())]
    print(f"| transition | number | kept: {' | '.join(LEVELS)} | computed: {' | '.join(LEVELS)} |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        kept = " | ".join(f"{row[f'kept_{level}']:.1%}" for level in LEVELS)
        computed = " | ".join(f"{row[f'computed_tokens_{level}']:,}" for level in LEVELS)
        print(f"| {row['kind']} | {row['num']} | {kept} | {computed} |")
    print("\n| all requests, best earlier prefix | prompt tokens | computed | kept |\n|---|---|---|---|")
    for level, (total, computed) in replayed(requests).items():
        print(f"| {level} | {total:,.0f} | {computed:,.0f} | {1 - computed / total:.1%} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
