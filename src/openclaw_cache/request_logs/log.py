"""Files of requests, read one request at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs.logged_request import LoggedRequest, Skipped
from openclaw_cache.request_logs.opening import READ_ERRORS, STDIN, name, opened, why
from openclaw_cache.request_logs.order import in_order
from openclaw_cache.request_logs.reading import Reading
from openclaw_cache.request_logs.records import NO_PROMPT
from openclaw_cache.request_logs.sessions import SessionFinder

_MOST_SKIPPED: Final = 100
KNOWN: Final = (
    "requests as JSONL (bodies of OpenAI's or Anthropic's API, lines of the batch API, or objects with `body` or "
    '`request`), a capture {"requests": [{"body": …}]}, a HAR file, a transcript of OpenClaw, or a trace of texts '
    '{"timestamp", "input", "output", "session_id"}; also packed as .gz or .xz'
)


@dataclass(slots=True)
class _Counts:
    """Of one file, as far as it has been read."""

    num_found: int = 0
    num_other: int = 0
    num_skipped: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, skipped: Skipped) -> None:
        if skipped.reason == NO_PROMPT:
            self.num_other += 1
            return
        self.num_skipped += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(skipped)


class RequestLog:
    """The requests of some files and folders, `-` being the standard input. Several files are read in order of time.

    Memory: one request and the line or entry that it stands in, a bounded memory of sessions, and of a transcript its
    messages. Several files are read twice: first for the time that each covers.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Find the files.

        Raises:
            ConfigError: there is no such file, or nothing in a folder.
        """
        self.files = list(dict.fromkeys(file for path in paths for file in _files(path)))
        self._named = set(paths)
        self._counts: dict[str, _Counts] = {}

    @property
    def num_skipped(self) -> int:
        """Lines and entries that could not be read, so far."""
        return sum(counts.num_skipped for counts in self._counts.values())

    @property
    def skipped(self) -> list[Skipped]:
        """The first of them."""
        return [one for counts in self._counts.values() for one in counts.skipped][:_MOST_SKIPPED]

    @property
    def num_other(self) -> int:
        """Requests without a prompt to reply to, such as for embeddings, so far."""
        return sum(counts.num_other for counts in self._counts.values())

    def requests(self) -> Iterator[LoggedRequest]:
        """Each request in turn.

        Raises:
            ConfigError: a file cannot be read, or no request is in it; the message says what is understood.
        """
        finder = SessionFinder()
        for request in self._in_order():
            session = finder.session_of(request)
            yield request if session == request.session else replace(request, session=session)
        if not any(counts.num_found for counts in self._counts.values()):
            raise ConfigError(f"no request is in these files; known are {KNOWN}")

    def _in_order(self) -> Iterator[LoggedRequest]:
        if len(self.files) == 1 or STDIN in self.files:  # which cannot be read twice
            return (request for file in self.files for request in self._of_file(file))
        return in_order([partial(self._of_file, file) for file in self.files])

    def _of_file(self, file: str) -> Iterator[LoggedRequest]:
        counts = self._counts[file] = _Counts()
        with opened(file) as (head, stream):
            try:
                for found in Reading(name(file), head, stream).run():
                    if isinstance(found, LoggedRequest):
                        counts.num_found += 1
                        yield found
                    else:
                        counts.skip(found)
            except READ_ERRORS as e:
                if not counts.num_found:
                    raise ConfigError(f"cannot read {name(file)}: {why(e)}") from None
                counts.skip(Skipped(name(file), 0, f"the rest cannot be read: {why(e)}"))
        if not counts.num_found:
            self._refuse(file, counts)

    def _refuse(self, file: str, counts: _Counts) -> None:
        """Raises ConfigError for a file without a request, unless it only lies in a folder with others."""
        if file in self._named:
            first = next(iter(counts.skipped), None)
            fault = f" (line {first.line}: {first.reason})" if first else ""
            other = ", only such as have no prompt" if counts.num_other else ""
            raise ConfigError(f"{name(file)}: no request is in it{other}{fault}; known are {KNOWN}")
        if not counts.num_other:
            counts.num_skipped, counts.skipped = 1, [Skipped(name(file), 0, "no request is in this file")]


def _files(path: str) -> list[str]:
    if path == STDIN:
        return [STDIN]
    place = Path(path)
    if place.is_dir():
        files = (file for file in place.rglob("*") if file.is_file() and not file.name.startswith("."))
        if not (found := sorted(map(str, files), key=_in_numbers)):
            raise ConfigError(f"{path}: there is no file in it")
        return found
    if not place.exists():
        raise ConfigError(f"there is no file {path}")
    return [path]


def _in_numbers(name: str) -> list[tuple[int, str]]:
    """For sorting: `2.json` before `10.json`."""
    return [(int(run), "") if run.isdecimal() else (0, run) for run in re.split(r"(\d+)", name)]
