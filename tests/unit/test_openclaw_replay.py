"""The replay of recorded requests counts what a tree and slots would have had: small runs, counted by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.openclaw_replay import Reader, Request, captured, lines_of, recorded, replay

TOOL = {"type": "function", "function": {"name": "read"}}


def by_bytes(text: str) -> list[int]:
    return list(text.encode())


def sent(session: str, *runs: tuple[int, int], model: str = "m") -> Request:
    """A prompt made of runs of (token, how many)."""
    return Request(model, session, np.repeat(*np.array(runs, np.int32).T).astype(np.int32))


def test_the_tree_counts_whole_blocks_and_slots_count_tokens() -> None:
    share = replay(
        "by hand",
        [
            sent("a", (1, 40)),
            sent("b", (1, 20), (2, 20)),  # 20 as "a": one whole block of 16; its session is new
            sent("a", (1, 40), (3, 8)),  # 40 as its session's last: two whole blocks; 20 as the last of all
            sent("b", (1, 20), (2, 20)),  # the same again: 39, as the last is computed; 32 in whole blocks
        ],
    )
    assert (share.num_requests, share.num_tokens) == (4, 40 + 40 + 48 + 40)
    assert share.tree == 0 + 16 + 32 + 32
    assert share.per_session == 0 + 0 + 40 + 39
    assert share.single == 0 + 20 + 20 + 20
    assert share.row()["tree_ratio"] == pytest.approx(80 / 168)


def test_one_model_has_nothing_of_another() -> None:
    share = replay("models", [sent("a", (1, 40)), sent("a", (1, 40), model="other")])
    assert (share.tree, share.per_session, share.single) == (0, 0, 0)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {
                "tools": [TOOL],
                "messages": [{"role": "system", "content": "Be."}, {"role": "user", "content": "é"}],
            },
            [
                '{"type":"function","function":{"name":"read"}}\n',
                '{"role":"system","content":"Be."}\n',
                '{"role":"user","content":"é"}\n',
            ],
        ),
        (
            {"instructions": "Be.", "input": "hi", "tools": []},
            ['{"role":"system","content":"Be."}\n', '"hi"\n'],
        ),
        (
            {
                "system": [{"type": "text", "text": "Be.", "cache_control": {"type": "ephemeral"}}],
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {}}]}
                ],
                "max_tokens": 5,
            },
            [
                '{"role":"system","content":[{"type":"text","text":"Be."}]}\n',
                '{"role":"user","content":[{"type":"text","text":"hi"}]}\n',
            ],
        ),
    ],
)
def test_a_prompt_is_tools_then_system_then_messages_without_marks_for_a_cache(
    body: dict[str, Any], expected: list[str]
) -> None:
    assert list(lines_of(body)) == expected


def test_a_folder_of_requests_is_read_by_file_name_with_or_without_their_headers(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    (tmp_path / "2.json").write_text(json.dumps({"body": body, "headers": {"Session_Id": "s2:0"}}))
    (tmp_path / "1.json").write_text(json.dumps({**body, "prompt_cache_key": "s1:0"}))
    (tmp_path / "3.json").write_text(json.dumps({"body": body, "headers": [["session_id", "s3"]]}))
    requests = recorded(tmp_path, Reader(by_bytes))
    assert [request.session for request in requests] == ["s1", "s2", "s3"]
    assert len(requests[0].tokens) == len('{"role":"user","content":"hi"}\n')


def test_what_was_captured_is_read_as_a_whole(data_root: Path) -> None:
    runs = captured(data_root / "openclaw", Reader(by_bytes))
    assert (len(runs), len(runs["all"])) == (18, 104)
    share = replay("hb", runs["hb"])
    # A tree has whatever a slot has, but for the block that is not whole.
    assert share.tree + 16 * share.num_requests > max(share.per_session, share.single) > 0
