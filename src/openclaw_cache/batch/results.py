"""Results of a batch: kept as they come, written in the given order at the end.

As they come they go to `OUT.partial`: a header that names the batch, then one result a line, each with the number of
its request's line. A run that was killed goes on with what is missing; a last line that was torn is dropped.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Self

from openclaw_cache.batch.batch_file import BadLine, BatchFile
from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs.logged_request import decoded, encoded
from openclaw_cache.types import Json

Result = dict[str, Json]
"""A line of OpenAI's batch output: `id`, `custom_id`, `response`, `error`."""


def result(custom_id: str, status: int, request_id: str, body: Json) -> Result:
    """What the server replied."""
    response = {"status_code": status, "request_id": request_id, "body": body}
    return {"id": _new_id(), "custom_id": custom_id, "response": response, "error": None}


def failure(custom_id: str, code: str, message: str) -> Result:
    """What was not sent, or got no reply.

    Args:
        custom_id: the request's.
        code: `invalid_line`, `no_reply` or `timeout`.
        message: in plain words.
    """
    return {
        "id": _new_id(),
        "custom_id": custom_id,
        "response": None,
        "error": {"code": code, "message": message},
    }


def is_done(one: Result) -> bool:
    """Whether a result is a reply without an error."""
    response = one["response"]
    return isinstance(response, dict) and is_success(response["status_code"])


def is_success(status: int) -> bool:
    """Whether a reply is what was asked for: one that sends us elsewhere is none."""
    return 200 <= status < 300


def _partial(out: Path) -> Path:
    return out.with_name(out.name + ".partial")


def _new_id() -> str:
    return f"batch_req_{uuid.uuid4().hex}"


@dataclass(slots=True)
class Results:
    """The results of one batch so far. Made by `opened`; to be closed.

    Each is in the file before `add` returns: a kill loses none, a power cut the last few seconds.
    """

    out: Path
    batch: BatchFile
    _descriptor: int
    """Of the partial file, for appending."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Where the result of a line begins in the partial file, by the line's number."""
    failed_before: dict[int, bool] = field(default_factory=dict)
    """Lines that failed in an earlier run, by number: whether there was a reply. Those tried last are last."""
    num_resumed: int = 0
    num_failed: int = 0

    @classmethod
    def opened(cls, out: Path, batch: BatchFile) -> Self:
        """Begin, or go on with what an earlier run of the same file left.

        Raises:
            ConfigError: the partial file is another batch's, another run is at work on it, or it cannot be written.
        """
        partial = _partial(out)
        try:
            descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as e:
            raise ConfigError(f"cannot write {partial}: {e.strerror}") from None
        results = cls(out, batch, descriptor)
        try:
            results._begin()
        except OSError as e:
            results.close()
            raise ConfigError(f"cannot write {partial}: {e.strerror}") from None
        except ConfigError:
            results.close()
            raise
        return results

    @property
    def partial(self) -> Path:
        """Where results are kept until all are there."""
        return _partial(self.out)

    def has(self, line: int) -> bool:
        """Whether the result of a line is there."""
        return line in self.offsets

    @property
    def is_complete(self) -> bool:
        """Whether each request has a result."""
        return all(isinstance(line, BadLine) or self.has(line.line) for line in self.batch.lines)

    def add(self, line: int, one: Result) -> None:
        """Keep a result. A failed one is tried again by a later run.

        Raises:
            ConfigError: it cannot be written; nothing of it is kept.
        """
        self.offsets[line] = self._kept(line, one)
        self.num_failed += not is_done(one)

    def note(self, line: int, one: Result) -> None:
        """Keep for a later run how a request failed that is to be sent again: there it comes after the others.

        Raises:
            ConfigError: it cannot be written; nothing of it is kept.
        """
        self._kept(line, one)

    def finish(self) -> None:
        """Write all results in the given order, with those of lines that could not be sent.

        The partial file goes, unless some failed: another run then sends only these.

        Raises:
            ConfigError: it cannot be written.
        """
        written = self.out.with_name(self.out.name + ".new")
        try:
            with self.partial.open("rb") as kept, open(written, "wb", opener=_opener) as new:
                for line in self.batch.lines:
                    if isinstance(line, BadLine):
                        one = failure(line.custom_id, "invalid_line", f"line {line.line}: {line.reason}")
                    else:
                        kept.seek(self.offsets[line.line])
                        one = decoded(kept.readline())["result"]
                    new.write(encoded(one) + b"\n")
                new.flush()
                os.fsync(new.fileno())
            written.replace(self.out)
        except OSError as e:
            raise ConfigError(f"cannot write {self.out}: {e.strerror}") from None
        if not self.num_failed:
            self.partial.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the partial file."""
        os.close(self._descriptor)

    def _begin(self) -> None:
        try:  # the lock goes with the descriptor, also where the process is killed
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{self.partial}: another run is at work on it") from None
        own = encoded({"batch": self.batch.fingerprint}) + b"\n"
        with self.partial.open("rb") as kept:
            header = kept.readline()
            if _fingerprint(header) == self.batch.fingerprint:
                os.ftruncate(self._descriptor, self._take_over(kept))  # behind it is what a kill tore
            elif own.startswith(header):
                os.ftruncate(self._descriptor, 0)
                self._append(own)
            else:
                raise ConfigError(
                    f"{self.partial} has results of another batch file: name another --out, or remove it"
                )

    def _take_over(self, kept: BinaryIO) -> int:
        """Note the results of an earlier run; returns where the whole ones end."""
        while True:
            offset = kept.tell()
            raw = kept.readline()
            if not raw.endswith(b"\n") or (found := _result(raw)) is None:
                return offset
            line, one = found
            self.failed_before.pop(line, None)
            if not is_done(one):
                self.failed_before[line] = one["response"] is not None
            else:
                self.offsets[line] = offset
                self.num_resumed += 1

    def _kept(self, line: int, one: Result) -> int:
        """Write one result; returns where it begins."""
        offset = os.fstat(self._descriptor).st_size
        try:
            self._append(encoded({"line": line, "result": one}) + b"\n")
        except OSError as e:
            os.ftruncate(self._descriptor, offset)
            raise ConfigError(f"cannot write {self.partial}: {e.strerror}") from None
        return offset

    def _append(self, raw: bytes) -> None:
        left = memoryview(raw)
        while left:
            left = left[os.write(self._descriptor, left) :]


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _fingerprint(header: bytes) -> str | None:
    try:
        value: Any = decoded(header) if header.endswith(b"\n") else None
    except ValueError:
        return None
    return value.get("batch") if isinstance(value, dict) else None


def _result(raw: bytes) -> tuple[int, Result] | None:
    try:
        value: Any = decoded(raw)
    except ValueError:
        return None
    match value:
        case {"line": int(line), "result": {"custom_id": str(), "response": _, "error": _}}:
            return line, value["result"]
    return None
