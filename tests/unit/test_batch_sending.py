"""Requests of a batch on their way: who is next, what a stop keeps, what is waited for."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from openclaw_cache.admin_client import UnreachableError, WholeReply
from openclaw_cache.batch import sender
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.presence import Presence
from openclaw_cache.batch.sender import Sender, Stopped, retry_after_s
from openclaw_cache.batch.sending import run
from openclaw_cache.prefix.ordering import Place, order

A_REPLY = WholeReply(200, {}, b"{}")


class Kept:
    """Takes what comes, by line."""

    def __init__(self) -> None:
        self.outcomes: dict[int, WholeReply | NoReply] = {}
        self.num_put_off = 0

    def done(self, request: BatchRequest, outcome: WholeReply | NoReply) -> None:
        self.outcomes[request.line] = outcome

    def put_off(self, request: BatchRequest, outcome: NoReply) -> None:
        self.num_put_off += 1


def test_the_replies_to_what_was_on_its_way_are_kept_when_a_run_is_stopped() -> None:
    requests = [BatchRequest(n, f"q{n}", "/v1/chat/completions", {"n": n}) for n in range(1, 5)]
    places: list[Place] = order([b"a" * 200, b"b" * 200, b"c" * 200, b"d" * 200])
    under_way, stopped = threading.Barrier(2), threading.Event()
    kept = Kept()

    def exchange(_path: str, _body: bytes) -> WholeReply:
        if under_way.wait() == 0:  # both that may go are on their way
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Timer(0.5, stopped.set).start()
        stopped.wait()
        return A_REPLY

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run(requests, places, [], Sender(exchange), Presence(lambda: None), 2, 4, kept)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(kept.outcomes) == 2


def sent(replies: list[WholeReply]) -> tuple[WholeReply | NoReply, int]:
    """What comes of a request to which a server gives these replies, and how many it gave."""
    left = iter(replies)
    outcome = Sender(lambda _path, _body: next(left)).send(BatchRequest(1, "q", "/v1/chat/completions", {}))
    return outcome, len(replies) - len(list(left))


def test_a_server_that_says_for_how_long_it_is_busy_is_not_asked_again_where_that_is_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "_FIRST_WAIT_S", 0.001)
    an_hour = WholeReply(429, {"retry-after": "3600"}, b"{}")
    assert sent([an_hour, A_REPLY]) == (an_hour, 1)
    at_once = WholeReply(503, {"retry-after": "0"}, b"{}")
    assert sent([at_once, at_once, A_REPLY]) == (A_REPLY, 3)
    overloaded = WholeReply(529, {"retry-after": "0"}, b"{}")
    assert sent([overloaded] * 7) == (overloaded, 6)


class Waits(threading.Event):
    """Waits for nothing, and notes for how long it was to."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.told.append(timeout)
        return self.is_set()


@pytest.mark.parametrize(
    ("headers", "waits"),
    [({}, [1, 2, 4, 8, 16]), ({"retry-after": "5"}, [5, 5, 5, 8, 16]), ({"retry-after": "90"}, [90, 90, 90])],
    ids=["six tries", "not sooner than asked for", "five minutes"],
)
def test_not_now_is_waited_out_for_longer_each_time_and_not_for_ever(
    headers: dict[str, str], waits: list[float]
) -> None:
    num_sent = 0

    def exchange(_path: str, _body: bytes) -> WholeReply:
        nonlocal num_sent
        num_sent += 1
        return WholeReply(503, headers, b"{}")

    one = Sender(exchange)
    one._stop = waiting = Waits()
    outcome = one.send(BatchRequest(1, "q", "/v1/chat/completions", {}))
    assert isinstance(outcome, WholeReply)
    assert (outcome.status, waiting.told, num_sent) == (503, waits, len(waits) + 1)


def test_who_waits_for_another_try_sends_nothing_more_when_the_run_is_stopped() -> None:
    sent_paths: list[str] = []

    def exchange(path: str, _body: bytes) -> WholeReply:
        sent_paths.append(path)
        one.stop()
        return WholeReply(503, {}, b"{}")

    one = Sender(exchange)
    with pytest.raises(Stopped):
        one.send(BatchRequest(1, "q", "/v1/chat/completions", {}))
    assert len(sent_paths) == 1


@pytest.mark.parametrize(
    ("told", "code"),
    [(TimeoutError("timed out"), "timeout"), (TimeoutError(110, "Connection timed out"), "no_reply")],
    ids=["we waited in vain", "the network gave up"],
)
def test_a_host_that_vanished_is_told_from_a_server_that_says_nothing(told: TimeoutError, code: str) -> None:
    def exchange(_path: str, _body: bytes) -> WholeReply:
        try:
            raise told
        except TimeoutError:
            raise UnreachableError("cannot reach it") from None

    outcome = Sender(exchange).send(BatchRequest(1, "q", "/v1/chat/completions", {}))
    assert isinstance(outcome, NoReply)
    assert (outcome.code, "900 s" in outcome.reason) == (code, code == "timeout")


def test_a_time_to_wait_is_read_as_rfc_9110_writes_it() -> None:
    # The RFC's own examples, 10.2.3; 1999-12-31 23:59:59 GMT is 946,684,799 unix seconds.
    date = {"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}
    assert retry_after_s({"retry-after": "120"}, 0.0) == 120
    assert retry_after_s(date, 946684799 - 30) == 30
    assert retry_after_s(date, 946684799 + 30) == 0
    undated = {"retry-after": "Fri, 31 Dec 1999 23:59:59 -0000"}  # no zone is told: UTC
    assert retry_after_s(undated, 946684799 - 30) == 30
    for told in ({}, {"retry-after": "soon"}, {"retry-after": "-1"}, {"retry-after": "nan"}):
        assert retry_after_s(told, 0.0) is None
    many = "9" * 20
    for text in (f"Fri, 31 Dec {many} 23:59:59 GMT", f"Fri, 31 Dec 1999 23:59:59 +{many}"):
        assert retry_after_s({"retry-after": text}, 0.0) is None


def test_a_reply_that_is_no_json_is_none() -> None:
    for body in (b'{"id": "chatcmpl-1", "cho', b"", b"<html>sign in</html>"):
        outcome, _ = sent([WholeReply(200, {}, body)])
        assert isinstance(outcome, NoReply)
    refused, _ = sent([WholeReply(404, {}, b"<html>nothing here</html>")])
    assert isinstance(refused, WholeReply)
