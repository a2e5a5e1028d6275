"""How much of what OpenClaw sends is known already as a prefix: by one radix tree, by a slot per session, by one slot.

    python benchmarks/openclaw_replay.py [--json FILE]
    python benchmarks/openclaw_replay.py --requests plain/ --requests with-plugin/

No model runs. Each request is written as the prompt that it would become: first its tools, then its system text, then
its messages, one line of compact JSON each; what only steers the reply or a provider's cache is left out. Each line is
tokenised by itself with SmolLM2's tokenizer (49,152 tokens; a large vocabulary makes fewer), so that equal lines are
equal tokens. Then in the order in which they were sent:

- tree: `kv.radix`, 16-token blocks, without bounds, one for each model; what counts is whole blocks.
- per session: the longest common prefix with the session's request before, as servers have it that keep a slot for each
  conversation. Whose session is not told (summarisers) share one.
- single: the same with the request before, whoever sent it.

The last token of a prompt is always computed. "all" goes through all scenarios in one run, as one server sees them.

The captured requests are read from $OPENCLAW_CACHE_TEST_DATA/openclaw (`{"requests": [{"seq", "body", "headers"}]}`).
With --requests FOLDER: its *.json files by name, each a body or `{"body", "headers"}`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.engine.gguf_meta import GgufMeta
from openclaw_cache.engine.gguf_tokenizer import build_tokenizer, special_tokens
from openclaw_cache.engine.source import resolve
from openclaw_cache.gateway.identity import identify, labels
from openclaw_cache.kv.radix import RadixTree

BLOCK_TOKENS = 16

Tokens = NDArray[np.int32]
Tokenize = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Request:
    """One request in the order of sending: its prompt, and whose it is."""

    model: str
    session: str
    tokens: Tokens


@dataclass
class Share:
    """Prompt tokens of a run of requests, and how many of them each of the three would have had."""

    name: str
    num_requests: int = 0
    num_tokens: int = 0
    tree: int = 0
    per_session: int = 0
    single: int = 0

    def row(self) -> dict[str, Any]:
        total = max(1, self.num_tokens)
        return {
            "name": self.name,
            "num_requests": self.num_requests,
            "num_prompt_tokens": self.num_tokens,
            "tree_ratio": self.tree / total,
            "per_session_ratio": self.per_session / total,
            "single_ratio": self.single / total,
        }


def lines_of(body: dict[str, Any]) -> Iterator[str]:
    """The prompt of a request in chat completions, Responses or Anthropic's form, line by line."""
    for tool in body.get("tools") or ():
        yield _line(tool)
    for name in ("system", "instructions"):
        if body.get(name):
            yield _line({"role": "system", "content": body[name]})
    turns = body.get("messages") or body.get("input") or ()
    for turn in [turns] if isinstance(turns, str) else turns:
        yield _line(turn)


def _line(value: Any) -> str:
    return json.dumps(_unmarked(value), ensure_ascii=False, separators=(",", ":")) + "\n"


def _unmarked(value: Any) -> Any:
    """Without the marks for a provider's cache, which move from turn to turn and are no part of the prompt."""
    if isinstance(value, dict):
        return {name: _unmarked(one) for name, one in value.items() if name != "cache_control"}
    return [_unmarked(one) for one in value] if isinstance(value, list) else value


class Reader:
    """Makes requests of what was captured. Lines are tokenised once."""

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize
        self._known: dict[str, Tokens] = {}

    def request(self, body: dict[str, Any], headers: list[list[str]]) -> Request:
        named = [(name.lower().encode(), value.encode()) for name, value in headers]
        session = identify(named, labels(body)).session
        lines = [self._tokens(line) for line in lines_of(body)]
        return Request(str(body.get("model")), session or "none told", np.concatenate(lines))

    def _tokens(self, line: str) -> Tokens:
        if line not in self._known:
            self._known[line] = np.array(self._tokenize(line), np.int32)
        return self._known[line]


def replay(name: str, requests: Sequence[Request]) -> Share:
    """Send requests in order past an empty tree and empty slots."""
    share, tree, num_blocks = Share(name), RadixTree(BLOCK_TOKENS), 0
    sessions: dict[tuple[str, str], Tokens] = {}
    last: Request | None = None
    for now, request in enumerate(requests):
        tokens, most = request.tokens, len(request.tokens) - 1
        share.num_requests += 1
        share.num_tokens += len(tokens)
        root = request.model.encode()
        match = tree.match(root, tokens, limit=most)
        share.tree += match.num_blocks * BLOCK_TOKENS
        own = sessions.get((request.model, request.session))
        share.per_session += min(most, common(tokens, own))
        same_model = last is not None and last.model == request.model
        share.single += min(most, common(tokens, last.tokens if last is not None and same_model else None))
        sessions[request.model, request.session], last = tokens, request
        num_new = len(tokens) // BLOCK_TOKENS
        blocks = np.arange(num_blocks, num_blocks + num_new, dtype=np.int32)
        num_blocks += num_new
        tree.insert(root, tokens, blocks, now=float(now))
    return share


def common(left: Tokens, right: Tokens | None) -> int:
    """How many leading tokens two prompts share."""
    if right is None:
        return 0
    num = min(len(left), len(right))
    different = np.flatnonzero(left[:num] != right[:num])
    return int(different[0]) if len(different) else num


def captured(folder: Path, reader: Reader) -> dict[str, list[Request]]:
    """The captured scenarios, and all of them in the order of sending."""
    scenarios, ordered = {}, []
    for file in sorted(folder.glob("*.json")):
        document = json.loads(file.read_bytes())
        if "requests" not in document or "scenario" not in document:
            continue
        sent = [one for one in document["requests"] if "body" in one]
        requests = [(one["seq"], reader.request(one["body"], one["headers"])) for one in sent]
        scenarios[document["scenario"]] = [request for _, request in requests]
        ordered += requests
    everything = [request for _, request in sorted(ordered, key=lambda pair: pair[0])]
    return {**scenarios, "all": everything} if scenarios else {}


def recorded(folder: Path, reader: Reader) -> list[Request]:
    """A folder of recorded requests, by file name."""
    documents = [json.loads(file.read_bytes()) for file in sorted(folder.glob("*.json"))]
    return [reader.request(one.get("body", one), _pairs(one.get("headers"))) for one in documents]


def _pairs(headers: Any) -> list[list[str]]:
    return [list(pair) for pair in headers.items()] if isinstance(headers, dict) else headers or []


def smollm2() -> Tokenize:
    """The tokenizer of the embedded engine's own model."""
    from gguf import GGUFReader  # noqa: PLC0415 - part of the [engine] extra

    file = resolve("smollm2-135m").path
    meta = GgufMeta(file, {key: field.contents() for key, field in GGUFReader(file).fields.items()})
    tokenizer = build_tokenizer(meta, special_tokens(meta))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Path(os.environ.get("OPENCLAW_CACHE_TEST_DATA", "../shared/data")) / "openclaw"
    parser.add_argument("--data", type=Path, default=default, help="the folder of the captured scenarios")
    parser.add_argument(
        "--requests", type=Path, action="append", help="a folder of recorded requests instead"
    )
    parser.add_argument("--json", type=Path, help="write the figures there too")
    options = parser.parse_args()
    reader = Reader(smollm2())
    if options.requests:
        runs = {str(folder): recorded(folder, reader) for folder in options.requests}
    else:
        runs = captured(options.data, reader)
    if not runs or not all(runs.values()):
        sys.exit("no requests found: set OPENCLAW_CACHE_TEST_DATA, or name a folder with --requests")
    print("| scenario | requests | prompt tokens | tree | per session | single |\n|---|---|---|---|---|---|")
    rows = [replay(name, requests).row() for name, requests in runs.items()]
    for row in rows:
        ratios = " | ".join(f"{row[f'{kind}_ratio']:.1%}" for kind in ("tree", "per_session", "single"))
        print(f"| {row['name']} | {row['num_requests']} | {row['num_prompt_tokens']:,} | {ratios} |")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
