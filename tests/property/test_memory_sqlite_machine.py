"""SqliteStore against a plain Python model: whatever is done in whatever order, both say the same."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from openclaw_cache.errors import VersionConflictError
from openclaw_cache.memory.record import Filter, Memory, Message, Recall, RecalledItem, Turn
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.terms import terms, text_query
from openclaw_cache.testing.memory_samples import memory, message, recall, turn

# Few names and words, so that things meet each other; other characters, so that none is special.
NAMES = st.sampled_from(["a", "b", "c", "B", "小", "a\0", "'\""])
SESSIONS = st.sampled_from(["s1", "s2", "s'3"])
WORDS = ["zebra", "okapi", "tapir", "上海", "naïve", "AND", '"', "x\0y", "🙂"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)
TIMES = st.sampled_from([-1.5, 0.0, 1.0, 2.0, 3.0, 1e9])
TAGS = st.lists(st.sampled_from(["t", "u", "标"]), max_size=3).map(tuple)
FILTERS = st.builds(
    Filter,
    of=st.sampled_from([None, "memory", "message"]),
    kinds=st.sampled_from([(), (), ("fact",), ("task", "fact")]),
    tags=st.sampled_from([(), (), ("t",), ("t", "u")]),
    since=st.none() | TIMES,
    until=st.none() | TIMES,
    session=st.none() | SESSIONS,
    with_superseded=st.booleans(),
    with_heartbeats=st.booleans(),
)
ROLES = st.sampled_from(["user", "assistant", "toolResult", "custom"])


class Model:
    """What a store should hold, in lists and dicts."""

    def __init__(self) -> None:
        self.versions: dict[str, list[Memory]] = {}
        self.turns: list[Turn] = []
        self.recalls: list[Recall] = []

    def put(self, memories: list[Memory]) -> None:
        versions = {name: list(known) for name, known in self.versions.items()}
        for one in memories:
            known = versions.setdefault(one.id, [])
            if one.version != len(known) + 1:
                raise VersionConflictError("not the next")
            known.append(one)
        for one in memories:
            for old in one.supersedes:
                if old != one.id and old in versions:
                    versions[old][-1] = replace(versions[old][-1], superseded_by=one.id)
        self.versions = versions

    def current(self) -> list[Memory]:
        return [known[-1] for _, known in sorted(self.versions.items())]

    def append(self, new: Turn) -> bool:
        if any(old.key == new.key and old.session == new.session for old in self.turns):
            return False
        known = {one.id for old in self.turns if old.session == new.session for one in old.messages}
        messages: dict[str, Message] = {}
        for one in new.messages:
            if one.id not in known:
                messages.setdefault(one.id, one)
        self.turns.append(replace(new, messages=tuple(messages.values())))
        return True

    def messages(self, session: str) -> list[Message]:
        return [one for old in self.turns if old.session == session for one in old.messages]

    def texts(self, within: Filter) -> list[tuple[str, str, float]]:
        """Owner, text and time of everything that a filter admits."""
        found: list[tuple[str, str, float]] = []
        if within.of != "message":
            found += [(one.id, one.text, one.at) for one in self.current() if admits(within, one)]
        if within.of != "memory" and not within.kinds and not within.tags:
            for old in self.turns:
                if within.session in {None, old.session} and (within.with_heartbeats or not old.is_heartbeat):
                    found += [
                        (one.id, one.content, one.at) for one in old.messages if in_time(within, one.at)
                    ]
        return [(owner, text, at) for owner, text, at in found if text]


def in_time(within: Filter, at: float) -> bool:
    return (within.since is None or within.since <= at) and (within.until is None or at < within.until)


def admits(within: Filter, one: Memory) -> bool:
    return (
        in_time(within, one.at)
        and (within.with_superseded or one.superseded_by is None)
        and (not within.kinds or one.kind in within.kinds)
        and set(within.tags) <= set(one.tags)
        and within.session in {None, one.provenance.session}
    )


class StoreMachine(RuleBasedStateMachine):
    """Every rule does one thing to both; the invariants compare all that can be read."""

    folder: Path
    store: SqliteStore

    @initialize(key=st.sampled_from([None, bytes(range(32))]))
    def open(self, key: bytes | None) -> None:
        ram = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(dir=ram if ram.is_dir() else None))
        self.key = key
        self.model = Model()
        self.count = 0
        self.store = SqliteStore.open(self.folder / "agent.db", key=key)

    def teardown(self) -> None:
        with contextlib.suppress(AttributeError):  # where it was never opened
            self.store.close()
            shutil.rmtree(self.folder)

    @rule(
        data=st.lists(
            st.tuples(NAMES, TEXTS, TIMES, TAGS, st.sampled_from(["fact", "task"]), st.integers(0, 9)),
            min_size=1,
            max_size=3,
        ),
        supersedes=st.lists(NAMES, max_size=2).map(tuple),
        slot=st.sampled_from([None, "slot"]),
    )
    def put(self, data: list[tuple[Any, ...]], supersedes: tuple[str, ...], slot: str | None) -> None:
        memories: list[Memory] = []
        for name, text, at, tags, kind, off in data:
            known = len(self.model.versions.get(name, ())) + sum(one.id == name for one in memories)
            version = known + 1 if off else known + 2  # one in ten is a conflict
            memories.append(
                memory(
                    name, text, at, tags=tags, kind=kind, version=version, supersedes=supersedes, slot=slot
                )
            )
        try:
            self.model.put(memories)
        except VersionConflictError:
            with pytest.raises(VersionConflictError):
                self.store.put(memories)
        else:
            self.store.put(memories)

    @rule(names=st.lists(NAMES, max_size=3))
    def forget(self, names: list[str]) -> None:
        expected = [one for name in dict.fromkeys(names) for one in self.model.versions.pop(name, [])]
        assert self.store.forget(names) == expected

    @rule(
        session=SESSIONS,
        key=st.sampled_from(["k1", "k2", "k3", "k4"]),
        names=st.lists(st.tuples(NAMES, TEXTS, TIMES, ROLES), max_size=4),
        is_heartbeat=st.booleans(),
        at=TIMES,
    )
    def append(
        self,
        session: str,
        key: str,
        names: list[tuple[str, str, float, str]],
        at: float,
        *,
        is_heartbeat: bool,
    ) -> None:
        self.count += 1
        # A message's id names its session, too, as ids of real messages do.
        messages = [message(f"{session}/{name}", text, when, role) for name, text, when, role in names]
        new = turn(
            f"turn {self.count}", *messages, session=session, key=key, at=at, is_heartbeat=is_heartbeat
        )
        assert self.store.append(new) is self.model.append(new)

    @rule(session=SESSIONS)
    def drop(self, session: str) -> None:
        gone = [old for old in self.model.turns if old.session == session]
        assert self.store.drop_session(session) == len(gone)
        self.model.turns = [old for old in self.model.turns if old.session != session]
        self.model.recalls = [old for old in self.model.recalls if old.session != session]

    @rule(session=SESSIONS, after=NAMES, owner=NAMES, line=TEXTS)
    def put_recall(self, session: str, after: str, owner: str, line: str) -> None:
        self.count += 1
        new = recall(f"recall {self.count}", after, (owner, line), session=session)
        kept = [old for old in self.model.recalls if (old.session, old.after) == (session, after)]
        if not kept:
            self.model.recalls.append(new)
        assert self.store.put_recall(new) == (kept or [new])[0]

    @rule(parent=SESSIONS, child=SESSIONS)
    def fork(self, parent: str, child: str) -> None:
        self.store.fork(parent, child)
        taken = {old.after for old in self.model.recalls if old.session == child}
        expected = [old for old in self.model.recalls if old.session == parent and old.after not in taken]
        added = self.store.recalls(child)[len(taken) :]
        assert [(one.after, one.text) for one in added] == [(one.after, one.text) for one in expected]
        self.model.recalls += added

    @precondition(lambda self: self.model.recalls)
    @rule(data=st.data(), text=st.sampled_from(["", "less"]))
    def replace_recall(self, data: st.DataObject, text: str) -> None:
        index = data.draw(st.integers(0, len(self.model.recalls) - 1))
        new = replace(self.model.recalls[index], text=text, items=(), num_tokens=1)
        self.store.replace_recalls([new])
        self.model.recalls[index : index + 1] = [new] if text else []

    @rule(said=st.sampled_from(["zebra", "okapi tapir", "上", "ap", '"', "\0"]))
    def redact(self, said: str) -> None:
        count = 0
        for index, old in enumerate(self.model.turns):
            messages = tuple(replace(one, content=one.content.replace(said, "[_]")) for one in old.messages)
            count += sum(new != one for new, one in zip(messages, old.messages, strict=True))
            self.model.turns[index] = replace(old, messages=messages)
        for index, one in enumerate(self.model.recalls):
            items = tuple(
                RecalledItem(of=item.of, owner=item.owner, line=item.line.replace(said, "[_]"))
                for item in one.items
            )
            self.model.recalls[index] = replace(one, text=one.text.replace(said, "[_]"), items=items)
            count += self.model.recalls[index] != one
        assert self.store.redact([said], "[_]") == count

    @rule(fingerprint=st.sampled_from(["old", "new"]), limit=st.integers(0, 3))
    def embed(self, fingerprint: str, limit: int) -> None:
        before = self.store.stats(fingerprint).num_without_vector
        waiting = self.store.without_vector(fingerprint, limit)
        assert [one.at for one in waiting] == sorted((one.at for one in waiting), reverse=True)
        assert len(waiting) == min(limit, before)
        vectors = [(one.number, np.array([one.number, 1], dtype=np.float32)) for one in waiting]
        self.store.put_vectors(fingerprint, vectors)
        assert self.store.stats(fingerprint).num_without_vector == before - len(waiting)
        stored = {number for numbers, _ in self.store.vectors(fingerprint) for number in numbers}
        assert stored >= {one.number for one in waiting}

    @rule()
    def open_again(self) -> None:
        self.store.close()
        self.store = SqliteStore.open(self.folder / "agent.db", key=self.key)

    @rule(within=FILTERS, words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
    def search(self, within: Filter, words: list[str]) -> None:
        """All texts are short here, so each is one passage."""
        expected = self.model.texts(within)
        recent = self.store.admitted(self.store.recent(1000, within), within)
        assert sorted((one.owner, one.text, one.at) for one in recent) == sorted(expected)
        assert [one.at for one in recent] == sorted((one.at for one in recent), reverse=True)
        query = text_query(" ".join(words))
        matched = self.store.match(query, 1000, within)
        found = self.store.admitted([number for number, _ in matched], within)
        wanted = [one for one in expected if set(query.terms) & set(terms(one[1]))]
        assert sorted((one.owner, one.text, one.at) for one in found) == sorted(wanted)
        assert [score for _, score in matched] == sorted((score for _, score in matched), reverse=True)

    @rule(within=FILTERS, after=st.just("") | NAMES, limit=st.integers(0, 4))
    def page(self, within: Filter, after: str, limit: int) -> None:
        admitted = [one for one in self.model.current() if admits(within, one) and within.of != "message"]
        expected = [one for one in admitted if one.id > after][:limit]
        assert self.store.page(after, limit, within) == expected

    @invariant()
    def memories_are_the_same(self) -> None:
        for name, known in self.model.versions.items():
            assert self.store.versions(name) == known
        current = self.model.current()
        assert self.store.page("", 1000, Filter(with_superseded=True)) == current
        valid = [one for one in current if one.superseded_by is None]
        holders = sorted((one for one in valid if one.slot == "slot"), key=lambda one: (one.at, one.id))
        assert self.store.holders("slot") == holders
        texts = [one.text for one in current]
        expected = [next((one for one in valid if one.text == text), None) for text in texts]
        assert self.store.with_text(texts) == expected

    @invariant()
    def the_log_is_the_same(self) -> None:
        assert self.store.turns(None, "", 1000) == self.model.turns
        for session in ("s1", "s2", "s'3"):
            said = self.model.messages(session)
            assert self.store.recalls(session) == [
                one for one in self.model.recalls if one.session == session
            ]
            assert self.store.missing(session, [one.id for one in said]) == []
            if said:
                middle = len(said) // 2
                assert self.store.around(said[middle].id, 1, 2) == said[max(middle - 1, 0) : middle + 3]
        having = {old.session for old in self.model.turns} | {old.session for old in self.model.recalls}
        assert set(self.store.sessions()) == having

    @invariant()
    def counts_are_the_same(self) -> None:
        stats = self.store.stats(None)
        current = self.model.current()
        assert stats.num_memories == len(current)
        assert stats.num_superseded == sum(one.superseded_by is not None for one in current)
        assert stats.num_turns == len(self.model.turns)
        assert stats.num_messages == sum(len(old.messages) for old in self.model.turns)
        assert stats.num_passages == len(self.model.texts(Filter(with_superseded=True, with_heartbeats=True)))
        self.store._db.run("INSERT INTO full_text (full_text) VALUES ('integrity-check')")
        assert self.store._db.rows("PRAGMA foreign_key_check") == []


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
