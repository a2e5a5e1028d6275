"""Everything that an agent's store keeps, out as lines and in again, in steps that let other callers in."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from openclaw_cache.memory.forms.edits import edits, file_tag
from openclaw_cache.memory.forms.exported import Header, History, export_lines, read_lines
from openclaw_cache.memory.forms.fault import FormError, Skipped
from openclaw_cache.memory.forms.markdown import read_markdown
from openclaw_cache.memory.forms.merging import Outcome, merged
from openclaw_cache.memory.forms.transcript import read_transcript
from openclaw_cache.memory.record import Filter, Memory, Recall, Turn

if TYPE_CHECKING:
    from openclaw_cache.memory.agent import AgentMemory
    from openclaw_cache.memory.store import MemoryStore

T = TypeVar("T")
Form = Literal["jsonl", "markdown", "transcript"]

_PAGE: Final = 200
_MOST_SKIPPED: Final = 1000
"""Lines that are named; more are only counted."""
_EVERY: Final = Filter(of="memory", with_superseded=True)


@dataclass(slots=True)
class ImportReport:
    """What an import did, in memories, turns and recalls (of a transcript: messages)."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    num_skipped: int = 0
    skipped: list[Skipped] = field(default_factory=list)

    def skip(self, skipped: Skipped) -> None:
        """Count a line that was passed over."""
        self.num_skipped += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(skipped)

    def count(self, outcome: Outcome) -> None:
        """Count what became of one thing."""
        setattr(self, outcome, getattr(self, outcome) + 1)


async def exported(agent: AgentMemory) -> AsyncIterator[bytes]:
    """An agent's memory as lines, some at a time. What changes meanwhile is in it as it was or as it is.

    Raises:
        MemoryStoreError.
    """
    sessions, header = await agent.run(lambda store: _header(store, agent.id, agent.now()))
    yield b"".join(export_lines(header, (), (), ()))
    async for histories in _pages(agent, _histories, lambda versions: versions[-1].id):
        yield _lines(histories=histories)
    async for turns in _pages(agent, _turns, lambda turn: turn.id):
        yield _lines(turns=turns)
    for start in range(0, len(sessions), _PAGE):
        some = sessions[start : start + _PAGE]
        yield _lines(recalls=await agent.run(functools.partial(_recalls, some)))


async def imported(agent: AgentMemory, form: Form, raw: bytes, path: str) -> ImportReport:
    """Take in what a file says. Doing it again changes nothing but what differs.

    Args:
        agent: Whose.
        form: What it is.
        raw: The file's content.
        path: Its place in the agent's workspace.

    Raises:
        FormError: it is not what it should be; nothing was stored.
        MemoryStoreError: what came before is stored: repeat it.
    """
    report = ImportReport()
    if form == "jsonl":
        items = read_lines(raw.split(b"\n"))
        while await agent.run(lambda store: _take_some(store, items, report)):
            pass
    elif form == "markdown":
        await agent.run(lambda store: _take_markdown(store, raw, path, agent.now(), report))
    else:
        transcript = read_transcript(raw.split(b"\n"), path)
        for skipped in transcript.skipped:
            report.skip(skipped)
        ids = [message_id for message_id, _ in transcript.history]
        missing = set(await agent.run(lambda store: store.missing(transcript.session, ids)))
        turns = transcript.turns(missing, agent.now())
        for start in range(0, len(turns), _PAGE):
            await agent.run(functools.partial(_append, turns[start : start + _PAGE]))
        report.added, report.unchanged = len(missing), len(ids) - len(missing)
    if report.added or report.updated:
        agent.touched()
    return report


def _header(store: MemoryStore, agent: str, now: float) -> tuple[list[str], Header]:
    """The sessions that have recalls, perhaps, and the first line."""
    stats, sessions = store.stats(None), store.sessions()
    header = Header(
        agent=agent,
        exported_at=now,
        num_memories=stats.num_memories,
        num_turns=stats.num_turns,
        num_recalls=stats.num_recalls,
    )
    return sessions, header


def _histories(store: MemoryStore, after: str) -> list[Sequence[Memory]]:
    page = store.page(after, _PAGE, _EVERY)
    return [store.versions(memory.id) if memory.version > 1 else [memory] for memory in page]


def _turns(store: MemoryStore, after: str) -> list[Turn]:
    return store.turns(None, after, _PAGE)


def _recalls(sessions: Sequence[str], store: MemoryStore) -> list[Recall]:
    return [recall for session in sessions for recall in store.recalls(session)]


async def _pages(
    agent: AgentMemory, page: Callable[[MemoryStore, str], list[T]], id_of: Callable[[T], str]
) -> AsyncIterator[list[T]]:
    after = ""
    while found := await agent.run(_from(page, after)):
        yield found
        after = id_of(found[-1])


def _from(page: Callable[[MemoryStore, str], list[T]], after: str) -> Callable[[MemoryStore], list[T]]:
    return lambda store: page(store, after)


def _lines(
    histories: Sequence[Sequence[Memory]] = (), turns: Sequence[Turn] = (), recalls: Sequence[Recall] = ()
) -> bytes:
    header = Header(agent="", exported_at=0, num_memories=0, num_turns=0, num_recalls=0)
    lines = export_lines(header, histories, turns, recalls)
    next(lines)
    return b"".join(lines)


def _take_some(
    store: MemoryStore, items: Iterator[Header | History | Turn | Recall | Skipped], report: ImportReport
) -> bool:
    """Take the next things of an export; returns whether there were any."""
    some = list(islice(items, _PAGE))
    histories = [item for item in some if isinstance(item, History)]
    known = dict(zip(_ids(histories), store.get(_ids(histories)), strict=True))
    with store.together():
        for item in some:
            match item:
                case History(versions):
                    merge = merged(versions, known[versions[0].id])
                    if merge.puts:
                        store.put(merge.puts)
                        known[versions[0].id] = merge.puts[-1]
                    report.count(merge.outcome)
                case Turn():
                    report.count("added" if store.append(item) else "unchanged")
                case Recall():
                    is_known = any(kept.after == item.after for kept in store.recalls(item.session))
                    store.put_recall(item)
                    report.count("unchanged" if is_known else "added")
                case Skipped():
                    report.skip(item)
                case Header():
                    pass
    return bool(some)


def _ids(histories: Sequence[History]) -> list[str]:
    return [history.versions[0].id for history in histories]


def _take_markdown(store: MemoryStore, raw: bytes, path: str, now: float, report: ImportReport) -> None:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormError("it is not text in UTF-8") from None
    within = Filter(of="memory", tags=(file_tag(path),), with_superseded=True)
    known: list[Memory] = []
    while page := store.page(known[-1].id if known else "", _PAGE, within):
        known += page
    found = edits(path, read_markdown(text, path), known, now)
    told = store.with_text([memory.text for memory in found.added])
    added = [memory for memory, same in zip(found.added, told, strict=True) if same is None]
    if added or found.updated:
        store.put([*found.updated, *added])
    report.added, report.updated = len(added), len(found.updated)
    report.unchanged = found.unchanged + len(found.added) - len(added)


def _append(turns: Sequence[Turn], store: MemoryStore) -> None:
    with store.together():
        for turn in turns:
            store.append(turn)
