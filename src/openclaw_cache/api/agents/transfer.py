"""All of an agent's memory as a stream of lines, and back; and what other programs kept it in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, cast, get_args

import msgspec

from openclaw_cache.api.agents.ask import Ask, Reply, Table
from openclaw_cache.api.agents.failures import as_request_error
from openclaw_cache.errors import MemoryStoreError, RequestError
from openclaw_cache.memory.forms.fault import FormError
from openclaw_cache.memory.transfer import Form, exported, imported

MOST_PATH_CHARS: Final = 512
_FORMS: Final = get_args(Form)


async def export(ask: Ask) -> Reply:
    """Everything, line by line. What cannot be opened is refused before the first."""
    ask.only()
    lines = _exported(ask)
    first = await anext(lines)
    return Reply(lines=_joined(first, lines))


async def import_(ask: Ask) -> Reply:
    """Take in a file."""
    ask.only("format", "path")
    form = ask.query.get("format", "jsonl")
    if form not in _FORMS:
        raise RequestError(400, f"format: one of {', '.join(_FORMS)}", param="format")
    path = ask.query.get("path", "")
    if (form == "markdown" and not path) or len(path) > MOST_PATH_CHARS or not path.isprintable():
        raise RequestError(
            400, "path: the file's place in the agent's workspace, such as memory/2026-11-03.md", param="path"
        )
    async with ask.memory(create=True) as memory:
        try:
            report = await imported(memory, cast(Form, form), ask.raw, path)
        except FormError as e:
            raise RequestError(400, f"the body: {e}", code="not_importable") from None
    shown = {
        "added": report.added,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "skipped": msgspec.to_builtins(report.skipped),
    }
    if report.num_skipped > len(report.skipped):
        shown["num_skipped"] = report.num_skipped
    return Reply(shown)


async def _exported(ask: Ask) -> AsyncIterator[bytes]:
    async with ask.memory() as memory:
        async for lines in exported(memory):
            yield lines


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Both; a failure ends them as the reply's last line says it. Raises RequestError."""
    yield first
    try:
        async for lines in rest:
            yield lines
    except MemoryStoreError as e:
        raise as_request_error(e) from None


ROUTES: Final[Table] = {("GET", "export"): export, ("POST", "import"): import_}
