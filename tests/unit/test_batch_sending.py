"""Requests of a batch on their way, when somebody stops the run."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from openclaw_cache.admin_client import WholeReply
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.batch.sending import Sender, run
from openclaw_cache.prefix.ordering import Place, order


def test_the_replies_to_what_was_on_its_way_are_kept_when_a_run_is_stopped() -> None:
    requests = [BatchRequest(n, f"q{n}", "/v1/chat/completions", {"n": n}) for n in range(1, 5)]
    places: list[Place] = order([b"a" * 200, b"b" * 200, b"c" * 200, b"d" * 200])
    under_way, stopped = threading.Barrier(2), threading.Event()
    kept: list[int] = []

    def exchange(_path: str, _body: bytes) -> WholeReply:
        if under_way.wait() == 0:  # both that may go are on their way
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            threading.Timer(0.5, stopped.set).start()
        stopped.wait()
        return WholeReply(200, {}, b"{}")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            run(requests, places, Sender(exchange), 2, 4, lambda request, _: kept.append(request.line))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(kept) == 2
