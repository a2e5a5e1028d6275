"""Traces in every form that is read, and what is said of those that are not."""

from __future__ import annotations

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from openclaw_cache.kv.rhythm import Hint
from openclaw_cache.simulation.forms import blocks, coding, mooncake
from openclaw_cache.simulation.forms.forms import form_of, opened
from openclaw_cache.simulation.interleave import interleave
from openclaw_cache.simulation.request import Request, TraceError

MOONCAKE = b'{"timestamp": 3000, "input_length": 1030, "output_length": 5, "hash_ids": [0, 14, 15]}\n'
HEAD = b'{"form": "openclaw-cache-trace", "block_tokens": 16}\n'


def session(*requests: object, block_size: int = 64, name: str = "s") -> bytes:
    return json.dumps({"id": name, "block_size": block_size, "requests": requests}).encode() + b"\n"


def test_mooncakes_form() -> None:
    (request,) = mooncake.requests([MOONCAKE, b"\n"], "m")
    assert (request.at, request.num_tokens, request.ids.tolist()) == (3.0, 1030, [0, 14, 15])


def test_our_own_form_with_names_numbers_and_runs() -> None:
    rows = [
        b'{"at": 1.5, "num_tokens": 40, "blocks": ["a", "b"], "session": "s1", "next": "tool"}',
        b'{"at": 2, "num_tokens": 20, "blocks": ["a"]}',
        b'{"num_tokens": 5, "blocks": []}',
    ]
    size, found = blocks.requests([HEAD, *rows], "b")
    first, second, third = found
    assert size == 16
    assert (first.at, first.hint, first.session) == (1.5, Hint.TOOL, "s1")
    assert first.ids[0] == second.ids[0] != first.ids[1]
    assert len(third.ids) == 0
    _, (request,) = blocks.requests([HEAD, b'{"num_tokens": 99, "blocks": [7, [100, 3], 9]}'], "b")
    assert request.ids.tolist() == [7, 100, 101, 102, 9]


def test_coding_sessions_share_with_the_request_before_them_in_the_file() -> None:
    line = session(
        {"t": 0.0, "in": 200, "lcp": 0, "suf": [[1, 3]], "stop": "tool_use"},
        {"t": 50.0, "sub": [{"t": 1.0, "in": 130, "lcp": 1, "suf": [[9, 1]], "stop": "end_turn"}]},
        {"t": 20.0, "in": 330, "lcp": 1, "suf": [[2, 2], [12, 2]], "stop": ""},
    )
    ((size, found),) = coding.sessions([line], "c")
    assert size == 64
    # In order of time; the sub-agent's begins at 50 + 1 s.
    assert [(r.at, r.ids.tolist(), r.hint) for r in found] == [
        (0.0, [1, 2, 3], Hint.TOOL),
        (20.0, [1, 2, 3, 12, 13], Hint.NONE),
        (51.0, [1, 9], Hint.IDLE),
    ]


def test_coding_sessions_are_read_as_their_own_loader_reads_them(data_root: Path) -> None:
    """Against the loader that stands beside the data, written by others."""
    folder = data_root / "traces"
    spec = importlib.util.spec_from_file_location("load_traces", folder / "load_traces.py")
    assert spec is not None
    assert spec.loader is not None
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    with gzip.open(folder / "cc_weka/cc_weka_00.jsonl.gz") as file:
        ours = coding.sessions((line for line, _ in zip(file, range(25), strict=False)), "c")
        for (_, found), (_, _, theirs) in zip(ours, loader.cc_weka_sessions(), strict=False):
            assert len(found) == len(theirs)
            for request, row in zip(found, theirs, strict=True):
                assert (request.at, request.num_tokens) == (row["t"], row["input_length"])
                assert request.ids.tolist() == row["hash_ids"]


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (MOONCAKE, "mooncake"),
        (HEAD, "blocks"),
        (session(), "coding"),
        (b'{"id":"x","block_size":64,"requests":[{"t":0,"in":9,"lcp":0,"suf":[[1,', "coding"),
        (b'{"timestamp": 1, "input_length": 9, "hash_ids": [1, 2, ', "mooncake"),
        (b'{"model": "m", "messages": []}\n', None),
        (b'{"requests": [{"body": {"messages": "block_size"}}]}\n', None),
        (b"[1]\n", None),
        (b"", None),
        (b"\xff\xfe\n", None),
    ],
)
def test_the_form_is_told_by_the_first_line_also_where_it_is_cut(head: bytes, form: str | None) -> None:
    assert form_of(head) == form


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "only times and lengths"),
        (b'{"hash_ids": {"sys_prompt": [1]}, "input_length": 3}\n', "components of prompts, not blocks"),
    ],
)
def test_a_trace_that_cannot_be_simulated_is_refused_with_the_reason(head: bytes, why: str) -> None:
    with pytest.raises(TraceError, match=why):
        form_of(head)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([MOONCAKE, b"{"], r"^f:2: "),
        ([MOONCAKE, b'{"timestamp": 1, "hash_ids": []}'], r"^f:2: .*`input_length`"),
        ([b'{"timestamp": 1, "input_length": "9", "hash_ids": []}'], r"^f:1: input_length: .*got `str`"),
        ([b'{"timestamp": -1, "input_length": 9, "hash_ids": []}'], r"^f:1: timestamp: "),
        ([b'{"timestamp": 1, "input_length": -9, "hash_ids": []}'], r"^f:1: input_length: "),
        ([b'{"timestamp": 1, "input_length": 9, "hash_ids": [1, 2.5]}'], r"^f:1: hash_ids\[1\]: "),
        ([b'{"timestamp": 1, "input_length": 900, "hash_ids": [1, "a"]}'], r"^f:1: hash_ids: either all"),
        ([b'{"timestamp": 1, "input_length": 512, "hash_ids": [1, 2]}'], r"^f:1: hash_ids: 2 blocks of 512"),
        ([b'{"timestamp": 1e400, "input_length": 512, "hash_ids": [1]}'], r"^f:1: "),
    ],
)
def test_a_wrong_line_is_named_with_its_field(lines: list[bytes], fault: str) -> None:
    with pytest.raises(TraceError, match=fault):
        list(opened("mooncake", lines, "f").requests)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([], r"^f:1: the first line must be"),
        ([b'{"form": "openclaw-cache-trace"}'], r"^f:1: .*`block_tokens`"),
        (
            [HEAD, b'{"num_tokens": 5, "blocks": [1, 2]}'],
            r"^f:2: blocks: 2 blocks of 16 tokens are more than",
        ),
        ([HEAD, b'{"num_tokens": 99, "blocks": [[0, 1000000000]]}'], r"^f:2: blocks: 1000000000 blocks"),
        ([HEAD, b'{"num_tokens": 99, "blocks": ["a", [0, 1]]}'], r"^f:2: blocks: runs are of integers"),
        ([HEAD, b"", b'{"num_tokens": 99, "blocks": [], "next": "x"}'], r"^f:3: next: "),
    ],
)
def test_wrong_lines_of_our_own_form(rows: list[bytes], fault: str) -> None:
    with pytest.raises(TraceError, match=fault):
        list(opened("blocks", rows, "f").requests)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (
            session({"t": 0, "in": 64, "lcp": 2, "suf": []}),
            r"^f:1: requests\[0\].lcp: 2, but the prompt before",
        ),
        (session({"t": 0, "in": 64, "lcp": 0, "suf": [[0, 3]]}), r"^f:1: requests\[0\].suf: 3 blocks of 64"),
        (session({"t": 0, "sub": [{"in": 1, "lcp": 4}]}), r"^f:1: requests\[0\].sub\[0\].lcp: 4"),
        (session({"t": 0, "in": 64, "suf": [[0, -1]]}), r"^f:1: requests\[0\].suf\[0\]\[1\]: "),
        (session(block_size=0), r"^f:1: block_size: "),
        (session() + session(block_size=32), r"^f: block_size: 32 after 64"),
    ],
)
def test_wrong_sessions(line: bytes, fault: str) -> None:
    with pytest.raises(TraceError, match=fault):
        list(opened("coding", line.splitlines(), "f").requests)


def requests(*times: float) -> list[Request]:
    return [Request(at, np.array([0, i + 1]), 128) for i, at in enumerate(times)]


def test_users_run_sessions_back_to_back_and_long_pauses_are_cut() -> None:
    one, two = requests(0, 10, 5000), requests(0, 1)
    found = list(interleave([one, two], 1, max_gap_s=600))
    start = found[0].at
    assert 0 <= start <= 600
    # The second session begins a minute after the end of the first.
    assert [round(r.at - start, 6) for r in found] == [0, 10, 610, 670, 671]
    # Ids 0 to 3 are the first session's; the second's are moved behind them.
    assert [r.ids.tolist() for r in found] == [[0, 1], [0, 2], [0, 3], [4, 5], [4, 6]]


def test_traffic_of_many_users_is_in_order_of_time_and_complete() -> None:
    sessions = [requests(*range(0, 200, 7 + n)) for n in range(30)]
    found = list(interleave(sessions, 4))
    assert len(found) == sum(map(len, sessions))
    assert [r.at for r in found] == sorted(r.at for r in found)
    assert len({int(r.ids[0]) for r in found}) == 30
    shared = list(interleave(sessions, 4, has_own_ids=False))
    assert {int(r.ids[0]) for r in shared} == {0}
