"""The log writer: whole JSON lines, in order, whatever stands in them, and never in the way of the service."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from openclaw_cache.observe import logs
from openclaw_cache.observe.logs import LineWriter


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.BytesIO]:
    """Where the process's log goes during a test."""
    written = io.BytesIO()
    monkeypatch.setattr(logs, "_writer", LineWriter(written))
    before, handlers, level = structlog.get_config(), logging.root.handlers[:], logging.root.level
    logs.configure()
    yield written
    structlog.configure(**before)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def lines(stream: io.BytesIO) -> list[Any]:
    logs.flush()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_json_with_its_level_and_a_utc_time(stream: io.BytesIO) -> None:
    structlog.get_logger().warning("store is down", reason="no answer")
    (line,) = lines(stream)
    assert (line["event"], line["level"], line["reason"]) == ("store is down", "warning", "no answer")
    assert line["timestamp"].endswith("Z")


def test_a_failure_is_an_error_with_its_traceback_and_what_a_logger_knows_is_on_each_line(
    stream: io.BytesIO,
) -> None:
    log = structlog.get_logger().bind(part="store")
    log.exception("failed", exc_info=ValueError("broken"))
    log.info("back")
    failed, back = lines(stream)
    assert (failed["level"], failed["part"], back["level"], back["part"]) == (
        "error",
        "store",
        "info",
        "store",
    )
    assert "ValueError: broken" in failed["exception"]


@pytest.mark.parametrize(
    "value", ["a\nb", "\x00\x1b[31m", "é東🏰", "\ud800", b"\xff", {1: "a"}, 2**70, float("nan"), object()],
    ids=["newline", "control", "unicode", "lone surrogate", "bytes", "int key", "big int", "nan", "object"],
)  # fmt: skip
def test_no_value_breaks_a_line_or_the_request_that_logs_it(stream: io.BytesIO, value: object) -> None:
    structlog.get_logger().info("request", model=value, status=200)
    (line,) = lines(stream)
    assert (line["event"], line["status"]) == ("request", 200)


async def test_lines_are_written_together_soon_and_in_order() -> None:
    written = io.BytesIO()
    writer = LineWriter(written)
    for number in range(100):
        writer.msg(b"%d" % number)
    assert written.getvalue() == b""
    async with asyncio.timeout(10):
        while not written.getvalue():
            await asyncio.sleep(0.01)
    assert written.getvalue().split() == [b"%d" % number for number in range(100)]
    writer.msg(b"later")
    writer.flush()
    assert written.getvalue().endswith(b"99\nlater\n")


def test_outside_a_loop_a_line_is_written_at_once() -> None:
    written = io.BytesIO()
    LineWriter(written).msg(b"now")
    assert written.getvalue() == b"now\n"


def test_a_closed_stream_stops_nobody() -> None:
    written = io.BytesIO()
    writer = LineWriter(written)
    written.close()
    writer.msg(b"lost")
    writer.flush()


def test_what_libraries_warn_of_comes_as_a_line_of_the_same_form(stream: io.BytesIO) -> None:
    logging.getLogger("uvicorn.error").info("started")
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    logging.getLogger("asyncio").warning("slow %s", "callback")
    first, second = lines(stream)
    assert (first["source"], first["message"]) == ("uvicorn.error", "Exception in ASGI application")
    assert "ZeroDivisionError" in first["exception"]
    assert (second["source"], second["message"]) == ("asyncio", "slow callback")
