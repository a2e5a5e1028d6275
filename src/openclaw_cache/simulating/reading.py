"""A file as requests of a trace, whatever it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from openclaw_cache.errors import ConfigError
from openclaw_cache.prefix.outline import outline
from openclaw_cache.request_logs.log import KNOWN as KNOWN_LOGS
from openclaw_cache.request_logs.log import RequestLog
from openclaw_cache.request_logs.logged_request import LoggedRequest, Skipped
from openclaw_cache.request_logs.opening import READ_ERRORS, STDIN, name, opened, why
from openclaw_cache.request_logs.reading import Reading
from openclaw_cache.simulating.options import Options
from openclaw_cache.simulation.forms import forms
from openclaw_cache.simulation.forms.forms import Opened
from openclaw_cache.simulation.prompts import BLOCK_TOKENS, PromptBlocks
from openclaw_cache.simulation.request import Request


@contextmanager
def trace_of(options: Options, notes: list[str]) -> Iterator[Opened]:
    """The trace, open: its requests are read as they are asked for. What people should know of it goes to `notes`.

    Raises:
        ConfigError: it cannot be read; also later, when its requests are.
    """
    if options.trace != STDIN and Path(options.trace).is_dir():
        log = RequestLog([options.trace])
        yield _of_log(options, log.requests(), notes)
        _tell(log.num_skipped, log.skipped, notes)
        return
    with opened(options.trace) as (head, stream):
        file = name(options.trace)
        try:
            form = forms.form_of(head)
        except ConfigError as e:
            raise ConfigError(f"{file}: {e}") from None
        if form is not None:
            yield forms.opened(
                form,
                _lines(stream, file),
                file,
                block_tokens=options.block_tokens,
                num_users=options.num_users,
                max_gap_s=options.max_gap_s(),
            )
            return
        skipped: list[Skipped] = []
        yield _of_log(options, _logged(Reading(file, head, stream), file, skipped), notes)
        _tell(len(skipped), skipped, notes)


def _lines(stream: BinaryIO, file: str) -> Iterator[bytes]:
    try:
        yield from stream
    except READ_ERRORS as e:
        raise ConfigError(f"cannot read {file}: {why(e)}") from None


def _logged(reading: Reading, file: str, skipped: list[Skipped]) -> Iterator[LoggedRequest]:
    """The requests of one file, in its order."""
    num_found = 0
    try:
        for one in reading.run():
            if isinstance(one, LoggedRequest):
                num_found += 1
                yield one
            else:
                skipped.append(one)
    except READ_ERRORS as e:
        raise ConfigError(f"cannot read {file}: {why(e)}") from None
    if not num_found:
        fault = f" (line {skipped[0].line}: {skipped[0].reason})" if skipped else ""
        raise ConfigError(f"{file}: no request is in it{fault}; known are {forms.KNOWN}: {KNOWN_LOGS}")


def _of_log(options: Options, logged: Iterable[LoggedRequest], notes: list[str]) -> Opened:
    """Prompts of a log as requests of a trace, in order of time. Memory: about a tenth of the log's size."""
    encode = options.encoder()
    blocks = PromptBlocks(options.block_tokens or BLOCK_TOKENS, encode)
    if encode is None:
        notes.append(
            f"tokens are estimated, {blocks.unit_bytes:.2f} bytes of text each; --model with a model that is installed "
            "counts them"
        )

    def requests() -> Iterator[Request]:
        has_times, found = True, []
        for one in logged:
            has_times &= one.at is not None
            found.append(
                blocks.request(outline(one.body), one.at or 0.0, session=one.session or "", place=one.place)
            )
        if has_times:
            found.sort(key=lambda request: request.at)
        else:
            notes.append("not all requests tell their time: they are taken in the order of the file")
        yield from found

    return Opened("log", blocks.block_tokens, requests())


def _tell(num_skipped: int, skipped: list[Skipped], notes: list[str]) -> None:
    if num_skipped:
        first = skipped[0]
        entries = "1 entry" if num_skipped == 1 else f"{num_skipped:,} entries"
        notes.append(f"{entries} could not be read, the first at {first.file}:{first.line}: {first.reason}")
