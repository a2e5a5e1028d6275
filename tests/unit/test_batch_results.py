"""Results of a batch as they come: what is kept when there is no room, and who may write."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest

from openclaw_cache.admin_client import WholeReply
from openclaw_cache.batch.batch_file import BatchFile, BatchRequest
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.report import Measured
from openclaw_cache.batch.results import Results, failure, result
from openclaw_cache.errors import ConfigError

BATCH = BatchFile([BatchRequest(n, f"q{n}", "/v1/chat/completions", {}) for n in (1, 2)], "f" * 64)


def reply(number: int, text: str) -> dict[str, object]:
    return result(f"q{number}", 200, "r", {"text": text})


def test_a_result_for_which_there_is_no_room_leaves_the_others_whole(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    results = Results.opened(out, BATCH)
    results.add(1, reply(1, "one"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(ConfigError, match=r"cannot write .*out\.jsonl\.partial"):
            results.add(2, reply(2, "x" * 5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous)
    results.close()

    again = Results.opened(out, BATCH)
    assert (again.has(1), again.has(2), again.num_resumed) == (True, False, 1)
    again.add(2, reply(2, "two"))
    again.finish()
    rows = [json.loads(row) for row in out.read_text().splitlines()]
    assert [row["response"]["body"]["text"] for row in rows] == ["one", "two"]


def test_a_later_run_knows_what_failed_how_and_which_was_tried_last(tmp_path: Path) -> None:
    batch = BatchFile([BatchRequest(n, f"q{n}", "/v1/chat/completions", {}) for n in range(1, 6)], "e" * 64)
    first = Results.opened(tmp_path / "out.jsonl", batch)
    first.note(1, failure("q1", "no_reply", "closed"))
    first.add(2, result("q2", 503, "r", {}))
    first.note(3, failure("q3", "no_reply", "closed"))
    first.add(1, failure("q1", "no_reply", "closed again"))
    first.note(4, failure("q4", "no_reply", "closed"))
    first.add(4, reply(4, "four"))
    first.add(5, result("q5", 301, "r", {}))
    assert (first.num_failed, first.has(3), first.is_complete) == (3, False, False)
    first.close()
    later = Results.opened(tmp_path / "out.jsonl", batch)
    assert list(later.failed_before.items()) == [(2, True), (3, False), (1, False), (5, True)]
    assert [later.has(line) for line in range(1, 6)] == [False, False, False, True, False]
    later.close()


def test_two_runs_never_write_the_results_of_one_batch_together(tmp_path: Path) -> None:
    first = Results.opened(tmp_path / "out.jsonl", BATCH)
    with pytest.raises(ConfigError, match="another run is at work"):
        Results.opened(tmp_path / "out.jsonl", BATCH)
    first.close()
    Results.opened(tmp_path / "out.jsonl", BATCH).close()


def test_requests_that_failed_are_counted_by_their_status() -> None:
    measured = Measured()
    for status in (401, 401, 503):
        measured.count(BatchRequest(1, "q1", "/v1/chat/completions", {}), 10, WholeReply(status, {}, b"{}"))
    assert (measured.num_failed, dict(measured.failed)) == (3, {401: 2, 503: 1})
    assert measured.as_json()["num_failed"] == 3
    measured.count(BatchRequest(1, "q1", "/v1/chat/completions", {}), 10, NoReply("closed"))
    assert (measured.num_failed, measured.num_no_reply, measured.num_done) == (4, 1, 0)
