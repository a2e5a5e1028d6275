"""Every label that `prefix` can write is read back as data, and data says the same label again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw_cache import prefix
from openclaw_cache.api import break_labels
from openclaw_cache.api.break_labels import LABELS, read
from openclaw_cache.api.sentences import Sentence, said, spoken
from openclaw_cache.history.table import shortened
from openclaw_cache.prefix import message_change, text_change
from openclaw_cache.prefix.turns import TURNS
from unit.prefix_prompts import SHAPES
from unit.test_prefix_causes import CASES, _compared

ROLES = sorted({*message_change._ROLES.values(), "a message"})
PHRASES = sorted(
    {line.phrase for line in (*text_change._BILLING, *text_change._LINES)}
    | set(text_change._KIND_PHRASES.values())
)
NAMES = ["t", "a", "b", "c", "d"]
HOLES = {
    # What stands in the braces of a label, as the code writes it: all that it can be, or examples.
    "change.role": ROLES,
    "change.num_before + 1": ["7", "1204"],
    "found.label": [
        '"Current time"', "lines for the owner", "a field of the Runtime line", 'section "Safety" of the system prompt',
    ],
    "whole.label": ['tool "x" is missing', 'tools "a", "b" are added, tool "x" is missing'],
    "turn": sorted({turn.name for turn in TURNS}),
    "files": [
        'workspace file "A.md" is missing', 'workspace files "A.md", "B.md" are missing, workspace file "C.md" is new',
    ],
    "name": ["exec", "mcp__a.b:c"],
    "section": ["Safety", "Current Date & Time"],
    "number": ["3", "1204"],
    "len(new)": ["5"],
    "len(old)": ["5"],
    "change.place_of_new": ["2", "12"],
    "change.place_of_old": ["2", "12"],
    "known": ['"host" in', "a field of"],
    "inside": ["MEMORY.md"],
    "_basename(old)": ["MEMORY.md"],
    "_basename(new)": ["MEMORY.md"],
    **{
        f"names('{what}', {found})": [text_change.names(what, NAMES[:num]) for num in (1, 2, 3, 5)]
        for what, found in product(("tool", "skill", "workspace file"), ("gone", "come"))
    },
}  # fmt: skip
PLACES = {"found.label": [*PHRASES, 'workspace file "A.md" has changed', 'skill "x" is missing']}
"""What is named in the system prompt, or in a message."""


def assigned(function: ast.FunctionDef, line: int) -> dict[str, list[ast.expr]]:
    """What each name of a function may be at a line, where it is given a text: in either branch, or for all."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and node.lineno < line:
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=True))
            for target, value in pairs:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(value)
    always = {id(node.value): node.lineno for node in function.body if isinstance(node, ast.Assign)}
    for values in found.values():
        last = max((always.get(id(value), 0) for value in values if value.lineno < line), default=0)
        values[:] = [value for value in values if value.lineno >= last]
    return found


def texts(node: ast.expr, known: dict[str, list[ast.expr]]) -> Iterator[str]:
    """All that an expression for a label can be, holes filled by `HOLES`. Fails on a hole that is new."""
    source = ast.unparse(node)
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body, known)
        yield from texts(node.orelse, known)
    elif isinstance(node, ast.JoinedStr):
        pieces = [
            list(texts(p.value if isinstance(p, ast.FormattedValue) else p, known)) for p in node.values
        ]
        is_placed = source.rstrip("'\"").endswith((" in {change.role}", " in the system prompt"))
        if is_placed and "found.label" in source:
            pieces[0] = PLACES["found.label"]
        yield from map("".join, product(*pieces))
    elif source in HOLES:
        yield from HOLES[source]
    elif source in ("line.phrase", "own.phrase", "phrase"):
        yield from PHRASES
    elif isinstance(node, ast.Name) and node.id in known:
        for value in known[node.id]:
            yield from texts(value, known)
    else:
        pytest.fail(f"a label is made of {source}: tell here what that can be, and give it a template")


def labels() -> Iterator[tuple[str, str]]:
    """`(where, label)` of every `Named(cause, label)` in `prefix`, and of the labels that are made of them."""
    for file in sorted(Path(prefix.__file__).parent.glob("*.py")):
        for function in ast.walk(ast.parse(file.read_text())):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                is_named = isinstance(node, ast.Call) and ast.unparse(node.func) == "Named"
                found = [node.args[1]] if is_named and isinstance(node, ast.Call) else []
                found += [
                    word.value
                    for word in getattr(node, "keywords", ())
                    if isinstance(node, ast.Call)
                    and ast.unparse(node.func) == "Comparison"
                    and word.arg == "label"
                ]
                for one in found:
                    if ast.unparse(one) != "found.label":
                        known = assigned(function, one.lineno)
                        yield from ((f"{file.name}: {ast.unparse(one)}", text) for text in texts(one, known))


LABELS_OF_THE_CODE = list(labels())


def codes(sentence: Sentence) -> Iterator[str]:
    yield sentence.code
    if sentence.values.get("n") == 1:
        yield f"{sentence.code}.one"
    for value in sentence.values.values():
        if isinstance(value, Sentence):
            yield from codes(value)


def test_every_label_in_the_code_is_found_and_read() -> None:
    assert len(LABELS_OF_THE_CODE) > 150
    assert [(where, text) for where, text in LABELS_OF_THE_CODE if read(text) is None] == []


def test_what_is_read_says_the_same_again() -> None:
    for _, text in LABELS_OF_THE_CODE:
        found = read(text)
        assert found is not None
        assert spoken(found, LABELS) == text


def test_no_template_is_left_that_no_label_needs() -> None:
    needed = {
        code for _, text in LABELS_OF_THE_CODE if (found := read(text)) is not None for code in codes(found)
    }
    assert LABELS.keys() - needed == set()


@pytest.mark.parametrize("shape", SHAPES)
def test_labels_of_real_comparisons_are_read(shape: str) -> None:
    made = {name: _compared(shape, before, after).label for name, (before, after, _, _) in CASES.items()}
    assert {name: label for name, label in made.items() if read(label) is None} == {}


def test_names_are_kept_apart_from_words() -> None:
    names = said("label.names_more", names=["exec", "openclaw", "read"], num_more=1)
    missing = said("label.tools_missing", n=4, names=names)
    assert read('tools "exec", "openclaw", "read" and 1 more are missing') == missing
    heartbeat = read('tool "a, b" is missing, and first differs the schema of tool "c" (heartbeat)')
    assert heartbeat == said(
        "label.in_turn",
        what=said(
            "label.first_differs",
            what=said("label.tools_missing", n=1, names=said("label.names", names=["a, b"])),
            first=said("label.tool_schema", name="c"),
        ),
        turn=said("label.turn.heartbeat"),
    )
    assert read('"Current time" in the system prompt') == said(
        "label.in_system", what=said("label.heading", name="Current time")
    )


def test_what_data_would_say_otherwise_is_only_its_text() -> None:
    for text in (
        'tool "a", "b" is missing',
        "the 1 oldest messages are gone",
        f'the schema of tool "{"a" * 1000}"',
    ):
        assert read(text) is None


def test_what_no_template_fits_is_only_its_text() -> None:
    long = 'tools "{0}", "{0}", "{0}" and 12 more are missing'.format("a" * 60)
    for text in ("", "other", "something new", 'the schema of tool "a"b"', shortened(long), "x" * 10**6):
        assert read(text) is None
        assert break_labels.shown(text) == []


@given(st.lists(st.text(min_size=1, max_size=64).map(text_change.safe_name), min_size=1, max_size=6))
@example([", ", ", and first differs ", " in the system prompt", " (heartbeat)", " and 2 more"])
@example(["tool", "{0}", "{names}"])
def test_names_that_clients_choose_come_back_as_they_are(names: list[str]) -> None:
    found = read(f"{text_change.names('tool', names)} missing")
    if any('"' in name for name in names[:3]):
        return  # only its text, or what it looks like
    assert found is not None
    assert found.code == "label.tools_missing"
    assert found.values["n"] == len(names)
    assert found.values["names"].values["names"] == names[:3]


@given(st.text(st.sampled_from('ab", ()')).map(lambda text: f'tool "{text}" is missing' * 2))
def test_hostile_names_make_nothing_up(label: str) -> None:
    found = read(label)
    assert found is None or spoken(found, LABELS) == label


def test_a_number_that_no_reader_of_json_keeps_makes_a_label_only_its_text() -> None:
    for number in ("9" * 16, "1" + "0" * 40, "1\u0663"):
        assert read(f"line {number} of the system prompt") is None
    assert read(f"line {'9' * 15} of the system prompt") is not None


def test_templates_are_told_apart() -> None:
    """No two say the same of the same values."""
    plain = [re.sub(r"\{(\w+)(?::\w)?\}", r"{\1}", text) for text in LABELS.values()]
    assert len(plain) == len(set(plain))
