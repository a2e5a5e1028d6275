"""What holds for any two prompts."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.prefix.comparison import compare
from openclaw_cache.prefix.lineage import Lineages
from openclaw_cache.prefix.outline import outline, utf8_size
from openclaw_cache.prefix.sameness import common_prefix, common_suffix, shared_bytes

# Odd Unicode on purpose: combining marks, wide characters, lone surrogates, line ends of all kinds.
TEXTS = st.text(
    st.one_of(st.characters(codec=None), st.sampled_from("ab \n\r\t.;,}[]é漢😀\u0301\ud800\u2028")),
    max_size=60,
)
LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "Current time: 10:00\n", "\n", "## x/A.md\n", "long " * 40]), max_size=12
)
CONTENTS = st.one_of(TEXTS, LINES.map("".join))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BLOCKS = st.one_of(
    CONTENTS.map(lambda text: {"type": "text", "text": text}),
    st.builds(lambda text: {"type": "tool_result", "tool_use_id": "t", "content": text}, CONTENTS),
    st.builds(lambda value: {"type": "tool_use", "id": "t", "name": "n", "input": value}, JSON),
)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant", "system", "tool"]),
    CONTENTS | st.lists(BLOCKS, max_size=3),
)
TOOLS = st.builds(lambda name, schema: {"name": name, "input_schema": schema}, st.sampled_from("abcd"), JSON)
BODIES = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGES, max_size=5)},
    optional={
        "tools": st.lists(TOOLS, max_size=4),
        "system": CONTENTS | st.lists(BLOCKS, max_size=2),
        "model": st.just("m"),
    },
)


@given(BODIES, BODIES)
def test_kept_is_within_reachable_is_within_the_earlier_prompt(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    earlier, later = outline(first), outline(second)
    found = compare(earlier, later)
    assert 0 <= found.kept_bytes <= found.reachable_bytes <= earlier.num_bytes
    assert found.kept_bytes <= later.num_bytes
    assert found.cause in ("", found.difference)
    assert found.difference == "" or found.difference in CAUSES


@given(BODIES)
def test_equal_prompts_lose_nothing(body: dict[str, Any]) -> None:
    found = compare(outline(body), outline(body))
    assert (found.kept_bytes, found.lost_bytes, found.difference) == (outline(body).num_bytes, 0, "")


@given(BODIES, st.lists(MESSAGES, max_size=3))
def test_appending_loses_nothing(body: dict[str, Any], more: list[Any]) -> None:
    earlier = outline(body)
    later = outline({**body, "messages": [*body["messages"], *more]})
    found = compare(earlier, later)
    assert found.lost_bytes == 0
    if all(message["role"] != "system" for message in body["messages"]):
        assert found.kept_bytes == earlier.num_bytes


@given(CONTENTS, st.characters(codec=None), st.data())
def test_a_character_put_in_keeps_exactly_what_stands_before_it(
    text: str, char: str, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(text)))
    if text[place : place + 1] == char:
        return
    found = compare(outline({"prompt": text}), outline({"prompt": text[:place] + char + text[place:]}))
    assert found.kept_bytes == len(text[:place].encode("utf-8", "surrogatepass"))


@given(BODIES)
def test_marks_for_a_providers_cache_change_nothing(body: dict[str, Any]) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    marked = {
        **body,
        "tools": [{**tool, **mark} for tool in body.get("tools", [])],
        "messages": [
            {**message, "content": [{**block, **mark} for block in message["content"]]}
            if isinstance(message["content"], list)
            else message
            for message in body["messages"]
        ],
    }
    if isinstance(body.get("system"), list):
        marked["system"] = [{**block, **mark} for block in body["system"]]
    assert [part.text for part in outline(marked).parts] == [part.text for part in outline(body).parts]


@given(JSON)
def test_any_value_in_any_place_reads_without_an_error(value: Any) -> None:
    body = {
        "model": value,
        "tools": value if isinstance(value, list) else [value],
        "system": value,
        "messages": [
            value,
            {"role": value, "content": value, "tool_calls": value},
            {"role": "user", "content": [value]},
        ],
        "input": value,
        "prompt": value,
    }
    prompt = outline(body)
    assert compare(prompt, outline(body)).lost_bytes == 0
    assert prompt.num_bytes == sum(utf8_size(part.text) for part in prompt.parts)


@given(TEXTS, TEXTS)
def test_common_ends_are_the_longest(first: str, second: str) -> None:
    begin, end = common_prefix(first, second), common_suffix(first, second)
    assert first[:begin] == second[:begin]
    assert first[begin : begin + 1] != second[begin : begin + 1] or begin == min(len(first), len(second))
    assert first[len(first) - end :] == second[len(second) - end :]
    assert end == min(len(first), len(second)) or first[-end - 1] != second[-end - 1]


@given(st.lists(CONTENTS, max_size=6), st.lists(CONTENTS, max_size=6))
def test_shared_bytes_are_never_more_than_there_are(first: list[str], second: list[str]) -> None:
    shared = shared_bytes(first, second)
    assert 0 <= shared <= sum(map(utf8_size, first))
    assert shared_bytes(first, first) == sum(map(utf8_size, first))


@given(st.lists(st.text("abc", min_size=1, max_size=3), unique=True, min_size=1, max_size=12), st.data())
def test_of_distinct_texts_all_that_are_left_are_found(texts: list[str], data: st.DataObject) -> None:
    """A subsequence of distinct texts is found whole."""
    kept = [text for text in texts if data.draw(st.booleans())]
    assert shared_bytes([f"<{text}>\n" for text in kept], [f"<{text}>\n" for text in texts]) == sum(
        len(text) + 3 for text in kept
    )


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), BODIES), max_size=12))
def test_what_is_held_is_counted(requests: list[tuple[int, int, dict[str, Any]]]) -> None:
    lineages: Lineages[int] = Lineages(max_bytes=20_000, max_sessions=3)
    for number, (scope, session, body) in enumerate(requests):
        found = lineages.add(scope, session, outline(body), number)
        assert found.kept_bytes <= outline(body).num_bytes
        assert lineages.num_bytes <= 20_000
        assert len(lineages) <= 3
    for scope in (0, 1):
        lineages.forget(scope)
    assert lineages.num_bytes == 0
