"""Structured logs: one line per request, one line per change of state. Never prompt or reply text."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import IO, Any, TextIO

import orjson
import structlog

FLUSH_INTERVAL_S = 0.05


class LineWriter:
    """Buffers log lines and writes them together, at most `FLUSH_INTERVAL_S` late.

    Outside a running event loop every line is written at once.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lines = bytearray()
        self._timer: asyncio.TimerHandle | None = None

    def msg(self, line: bytes) -> None:
        """Append one line (without its newline)."""
        # Copied at once: orjson's result is a large block cut to size, and keeping it makes each later one dearer.
        self._lines += line
        self._lines += b"\n"
        if self._timer is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            self._timer = loop.call_later(FLUSH_INTERVAL_S, self.flush)

    log = debug = info = warning = error = exception = critical = msg

    def flush(self) -> None:
        """Write what is buffered. A closed stream drops it: logs never stop the service."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, bytearray()
        if not lines:
            return
        try:
            self._stream.write(lines)
            self._stream.flush()
        except (OSError, ValueError):
            pass


class Logger(structlog.BoundLogger):
    """structlog's own, with a shorter way for `info`: each request writes such a line."""

    def info(self, event: str, **fields: object) -> None:
        """Write a line."""
        line: Any = {**self._context, **fields, "event": event}
        try:
            for process in self._processors:
                line = process(self._logger, "info", line)
        except structlog.DropEvent:
            return
        self._logger.msg(line)


def _stderr() -> IO[bytes]:
    """Python has none where a process was started with it closed (`2>&-`): what is said there is for nobody."""
    told: TextIO | None = sys.stderr
    return open(os.devnull, "wb") if told is None else told.buffer


_writer = LineWriter(_stderr())


def configure() -> None:
    """Route structlog to JSON lines on stderr. Call once per process."""
    structlog.configure(
        processors=[_render],
        wrapper_class=Logger,
        logger_factory=lambda *_: _writer,
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_FromLibraries()], force=True)


class _FromLibraries(logging.Handler):
    """What the libraries warn of, as lines like ours."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError):
            return  # a request that the end of a drain cuts off has its own line
        structlog.get_logger().warning(
            "library", source=record.name, message=record.getMessage(), exc_info=record.exc_info
        )


def flush() -> None:
    """Write all buffered lines now."""
    _writer.flush()


def _render(logger: object, method: str, event: MutableMapping[str, Any]) -> bytes:
    """One JSON line, UTC to the microsecond. In one step: structlog's own chain takes four times as long."""
    if "exc_info" in event:
        event = structlog.processors.format_exc_info(logger, method, event)
    event["level"] = "error" if method == "exception" else method
    event["timestamp"] = datetime.now(UTC)
    try:
        return orjson.dumps(event, default=str, option=orjson.OPT_UTC_Z)
    except TypeError:  # a client's half surrogate, a huge integer: no reason to fail its request
        event["timestamp"] = event["timestamp"].isoformat().replace("+00:00", "Z")
        return json.dumps(event, default=str, skipkeys=True).encode()
