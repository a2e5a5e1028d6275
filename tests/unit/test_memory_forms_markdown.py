"""What OpenClaw's memory files say, and what an edited one changes."""

from datetime import UTC, datetime

import msgspec
import pytest

from openclaw_cache.memory.forms.edits import Edits, edits, file_tag
from openclaw_cache.memory.forms.markdown import MOST_CHARS, read_markdown
from openclaw_cache.memory.record import Memory

NOW = 1_796_000_000.0
NOON = datetime(2026, 11, 3, 12, tzinfo=UTC).timestamp()

LONG_TERM = """\
---
summary: "x"
---
# MEMORY.md

Some words about what this is,
on two lines.

## Projects

<!-- kept by hand -->
- **Atlas** ships in May. <!-- trigger: atlas, shipping --> <!-- importance: 9 -->
- Keep the gateway on loopback. <!-- project: github.com/acme/gateway -->
- Kestrel:
  - owner is Priya
  - [ ] write the brief
  - [x] book the room

### Release

1. Tag it.
2. Run:
```sh
# not a heading
make release
```

---

| host | port |
|------|------|
| blue | 8443 |
| red  | 9000 |

Setext
------
> a quoted line
> and its end
"""


def said(text: str, path: str = "MEMORY.md") -> list[str]:
    return [note.text for note in read_markdown(text, path)]


def test_bullets_paragraphs_rows_and_code_are_notes_under_what_they_stand_under() -> None:
    assert said(LONG_TERM) == [
        "Some words about what this is, on two lines.",
        "Projects: Atlas ships in May.",
        "Projects: Keep the gateway on loopback.",
        "Projects: Kestrel:",
        "Projects: Kestrel: owner is Priya",
        "Projects: Kestrel: write the brief",
        "Projects: Kestrel: book the room",
        "Release: Tag it.",
        "Release: Run:\n# not a heading\nmake release",
        "Release: host: blue; port: 8443",
        "Release: host: red; port: 9000",
        "Setext: a quoted line and its end",
    ]


def test_notes_know_their_line_their_headings_and_their_kind() -> None:
    notes = {note.text: note for note in read_markdown(LONG_TERM, "MEMORY.md")}
    lines = LONG_TERM.split("\n")
    atlas = notes["Projects: Atlas ships in May."]
    assert lines[atlas.line - 1].startswith("- **Atlas**")
    assert (atlas.kind, atlas.tags) == ("fact", ("Projects",))
    assert notes["Projects: Keep the gateway on loopback."].tags == (
        "Projects",
        "project:github.com/acme/gateway",
    )
    assert notes["Release: Tag it."].tags == ("Projects", "Release")
    assert notes["Projects: Kestrel: write the brief"].kind == "task"
    assert notes["Projects: Kestrel: book the room"].tags == ("Projects", "done")


def test_the_files_name_gives_kind_and_day() -> None:
    (note,) = read_markdown("- Rain all day", "memory/2026-11-03-rain.md")
    assert (note.kind, note.at) == ("note", NOON)
    assert [(n.kind, n.at) for n in read_markdown("- Prefer tabs", "USER.md")] == [("preference", None)]
    assert [n.at for n in read_markdown("- x y", "memory/2026-02-30.md")] == [None], "no such day"


def test_a_heading_with_a_date_gives_its_day() -> None:
    assert [n.at for n in read_markdown("# M\n## 2026-11-03\n- Rain", "MEMORY.md")] == [NOON]
    assert said("# M\n## 2026-11-03\n- Rain") == ["Rain"]


def test_superseded_directives_of_the_user_file_are_left_out_and_active_ones_have_their_day() -> None:
    text = (
        "# USER.md\n\n<!-- observed: 2026-05-10 | status: superseded -->\n\n- Prefer long answers.\n\n"
        "<!-- observed: 2026-11-03 | status: active -->\n\n- Prefer short answers.\n"
    )
    assert [(n.text, n.at) for n in read_markdown(text, "USER.md")] == [("Prefer short answers.", NOON)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("\n\n---\n\n", []),
        ("<!-- a\n- not a note\n-->\n- a note", ["a note"]),
        ("<!-- never closed\n- not a note", []),
        ("```\nnever closed", ["never closed"]),
        ("- one\n- one\n", ["one"]),
        ("- one\r\n- two\r\n", ["one", "two"]),
        ("\ufeff- one", ["one"]),
        ("- first line\n  goes on here", ["first line goes on here"]),
        ("- **Session Key**: agent:main\n- **Session ID**: 5\n- real", ["real"]),
        ("* 周五发版", ["周五发版"]),
        ("~~~\n```\n~~~\n- after", ["```", "after"]),
        ("a | b is no table", ["a | b is no table"]),
    ],
)
def test_odd_files(text: str, wanted: list[str]) -> None:
    assert said(text) == wanted


def test_a_long_note_is_cut_where_a_line_or_word_ends_and_loses_nothing() -> None:
    words = " ".join(f"word{n}" for n in range(2_000))
    pieces = said(words)
    assert all(len(piece) <= MOST_CHARS for piece in pieces)
    assert " ".join(pieces) == words


def imported(text: str, path: str = "MEMORY.md", known: list[Memory] | None = None) -> Edits:
    return edits(path, read_markdown(text, path), known or [], NOW)


def after(change: Edits, known: list[Memory]) -> list[Memory]:
    """What the store has then."""
    current = {memory.id: memory for memory in known}
    current.update({memory.id: memory for memory in [*change.added, *change.updated]})
    return list(current.values())


def test_a_first_import_adds_all_and_a_second_one_changes_nothing() -> None:
    first = imported(LONG_TERM)
    assert len(first.added) == 12
    assert all(m.tags[0] == file_tag("MEMORY.md") and m.source == "import" for m in first.added)
    again = imported("\n\n" + LONG_TERM.replace("ships in May.", "ships in may"), known=first.added)
    assert (again.added, again.updated, again.unchanged, again.gone) == ([], [], 12, [])


def test_ids_come_from_path_and_text_alone() -> None:
    assert [m.id for m in imported("- a b\n- c d").added] == [
        m.id for m in imported("x y\n\n- a b\n- c d").added
    ][1:]
    assert imported("- a b").added[0].id != imported("- a b", "USER.md").added[0].id


def test_an_edited_line_is_the_next_version_of_its_memory() -> None:
    known = imported("- Atlas ships in May.\n- Priya owns Kestrel.").added
    change = imported("- Atlas ships in June.\n- Priya owns Kestrel.\n- New line here", known=known)
    assert [(m.id, m.text, m.version) for m in change.updated] == [(known[0].id, "Atlas ships in June.", 2)]
    assert [m.text for m in change.added] == ["New line here"]
    again = imported(
        "- Atlas ships in June.\n- Priya owns Kestrel.\n- New line here", known=after(change, known)
    )
    assert (again.added, again.updated, again.unchanged) == ([], [], 3)


def test_a_line_that_was_edited_and_comes_back_is_another_memory() -> None:
    known = imported("- Atlas ships in May.").added
    known = after(imported("- Atlas ships in June.", known=known), known)
    both = imported("- Atlas ships in June.\n- Atlas ships in May.", known=known)
    assert [m.text for m in both.added] == ["Atlas ships in May."]
    assert both.added[0].id not in {m.id for m in known}


def test_a_line_that_is_gone_stays_remembered() -> None:
    known = imported("- Atlas ships in May.\n- Priya owns Kestrel.").added
    change = imported("- Priya owns Kestrel.", known=known)
    assert (change.added, change.updated, change.unchanged) == ([], [], 1)
    assert [m.text for m in change.gone] == ["Atlas ships in May."]


def test_a_memory_that_was_changed_here_is_not_overwritten() -> None:
    (memory,) = imported("- Atlas ships in May.").added
    mine = msgspec.structs.replace(memory, text="Atlas ships in July.", source="api", version=2)
    change = imported("- Atlas ships in May.", known=[mine])
    assert (change.added, change.updated, change.unchanged, change.gone) == ([], [], 1, [])


def test_a_file_written_anew_is_new() -> None:
    known = imported("- Atlas ships in May.").added
    change = imported("- The cat is called Otto and likes fish.", known=known)
    assert (len(change.added), change.updated, len(change.gone)) == (1, [], 1)


def test_the_marks_of_a_line_that_mean_nothing_are_read_in_linear_time() -> None:
    # Each of these took over a minute, with nothing else running meanwhile.
    for marks in ("# ", " # "):
        assert read_markdown(marks * 50_000 + "a!", "MEMORY.md") == []
    assert read_markdown("a **b: " * 50_000, "MEMORY.md")[0].text.startswith("a **b: a **b: ")
