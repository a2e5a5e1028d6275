"""An export is read back as it was; memory files and transcripts are read whatever they hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.forms.edits import edits, file_tag
from openclaw_cache.memory.forms.exported import Header, History, export_lines, read_lines
from openclaw_cache.memory.forms.fault import FormError
from openclaw_cache.memory.forms.markdown import read_markdown
from openclaw_cache.memory.forms.transcript import read_transcript
from openclaw_cache.memory.record import Memory, Message, Provenance, Recall, Turn
from openclaw_cache.memory.retrieval.block import Noted, render

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
MAYBE = st.none() | TEXT
TIMES = st.floats(0, 4e9, allow_nan=False)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PROVENANCE = st.builds(Provenance, MAYBE, MAYBE, MAYBE, MAYBE, st.none() | st.integers(1, 9999))
MEMORY = st.builds(
    Memory, TEXT, TEXT.filter(str.strip), TEXT, st.lists(TEXT, max_size=3).map(tuple), TEXT, TIMES, TIMES, TIMES,
    st.integers(1, 50), MAYBE, st.lists(TEXT, max_size=2).map(tuple), MAYBE, PROVENANCE,
)  # fmt: skip
MESSAGE = st.builds(Message, TEXT, TEXT, JSON, TIMES, MAYBE, MAYBE)
TURN = st.builds(
    Turn, TEXT, TEXT, TEXT, TIMES, st.lists(MESSAGE, max_size=3).map(tuple), MAYBE, st.booleans(),
    st.sampled_from(["commit", "reconciled", "import"]),
)  # fmt: skip
NOTED = st.builds(Noted, st.sampled_from(["memory", "message"]), TEXT, TEXT, TIMES)
RECALL = st.builds(
    lambda name, session, after, block, at: Recall(
        name, session, after, block.text, block.items, block.num_tokens, at
    ),
    TEXT, TEXT, TEXT, st.lists(NOTED, max_size=3).map(render), TIMES,
)  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> tuple[Memory, ...]:
    memory_id = draw(TEXT)
    versions = draw(st.lists(MEMORY, min_size=1, max_size=3))
    fields = [{f: getattr(m, f) for f in m.__struct_fields__} for m in versions]
    return tuple(Memory(**{**f, "id": memory_id, "version": n}) for n, f in enumerate(fields, 1))


@settings(max_examples=100, deadline=None)
@given(st.lists(histories(), max_size=3), st.lists(TURN, max_size=3), st.lists(RECALL, max_size=3), TEXT)
def test_everything_that_a_store_keeps_survives_an_export(
    memories: list[tuple[Memory, ...]], turns: list[Turn], recalls: list[Recall], agent: str
) -> None:
    header = Header(
        agent=agent,
        exported_at=1.5,
        num_memories=len(memories),
        num_turns=len(turns),
        num_recalls=len(recalls),
    )
    lines = list(export_lines(header, memories, turns, recalls))
    assert list(read_lines(lines)) == [header, *map(History, memories), *turns, *recalls]


LINES = (
    "# A^## 2026-11-03^- one^  - two^* [x] three^```^~~~^<!--^-->^<!-- a -->^| a | b |^|---|---|^---^^words"
    "^> quoted^1. four^<!-- observed: 2026-11-03 | status: superseded -->^==="
)
MARKDOWN = st.lists(st.sampled_from(LINES.split("^")) | TEXT, max_size=15).map("\n".join)
ENTRIES = st.sampled_from(
    [b'{"type":"session","id":"s"}', b'{"type":"message","message":{"role":"user","content":"x"}}']
)


@settings(max_examples=200, deadline=None)
@given(MARKDOWN, MARKDOWN)
def test_importing_a_file_again_changes_nothing_whatever_was_imported_before(old: str, new: str) -> None:
    first = edits("M.md", read_markdown(old, "M.md"), [], 1.0)
    known = {m.id: m for m in first.added}
    notes = read_markdown(new, "M.md")
    second = edits("M.md", notes, list(known.values()), 2.0)
    assert len(second.added) + len(second.updated) + second.unchanged == len(notes)
    known |= {m.id: m for m in [*second.added, *second.updated]}
    assert all(file_tag("M.md") in m.tags for m in known.values())
    third = edits("M.md", notes, list(known.values()), 3.0)
    assert (third.added, third.updated) == ([], [])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40) | ENTRIES, max_size=8))
def test_a_transcript_of_any_bytes_is_read_or_refused(lines: list[bytes]) -> None:
    try:
        transcript = read_transcript(lines, "s.jsonl")
    except FormError:
        return
    ids = [message_id for message_id, _ in transcript.history]
    assert len(set(ids)) == len(ids)
    assert sum(len(turn.messages) for turn in transcript.turns(ids, 1.0)) == len(ids)
