"""Equal rests mean requests that differ in nothing but the text of their question.

The bodies have the shapes of what OpenClaw and the vendors' SDKs send: system texts, history with calls and their
results, tools, parameters, images, and fields that nobody here knows.
"""

import copy
import json
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.anthropic import MessagesDialect
from openclaw_cache.dialects.completions import CompletionsDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.responses import ResponsesDialect

Json = Any
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (ChatDialect(), CompletionsDialect(), ResponsesDialect(), MessagesDialect())
}
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["", " ", "系统", "user"]
)
TOLD = TEXT.filter(lambda text: bool(text.strip()))
NAMES = st.text(alphabet="abcxyz_", min_size=2, max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | st.floats(-2, 2) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES | st.sampled_from(["type", "text", "role", "content"]), inner, max_size=3)
    ),
    max_leaves=5,
)
UNKNOWN = st.dictionaries(NAMES, VALUES, max_size=2)
PARAMS = st.fixed_dictionaries(
    {"model": st.sampled_from(["m", "gpt-heron"])},
    optional={
        "temperature": st.floats(0, 2) | st.integers(0, 1),
        "top_p": st.floats(0, 1),
        "max_tokens": st.integers(1, 100),
        "stream": st.booleans(),
        "stop": TEXT | st.lists(TEXT, max_size=2),
        "response_format": st.fixed_dictionaries({"type": st.sampled_from(["text", "json_object"])}),
        "metadata": st.dictionaries(NAMES, TEXT, max_size=2),
        "tools": st.lists(
            st.fixed_dictionaries({"name": NAMES, "description": TEXT, "input_schema": UNKNOWN}), max_size=2
        ),
        "suffix": TEXT,
        "instructions": TEXT,
        "system": TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2),
        "previous_response_id": st.none() | TEXT,
        "thread": st.none() | UNKNOWN,
    },
)
IMAGES = st.builds(lambda data: {"type": "image", "source": {"data": data}}, TEXT)


@st.composite
def contents(draw: st.DrawFn, part: str, told: st.SearchStrategy[str]) -> Json:
    """A text, alone or with images about it."""
    text = draw(told)
    if draw(st.booleans()):
        return text
    images = st.lists(IMAGES, max_size=2)
    return [*draw(images), {"type": part, "text": text, **draw(st.just({}) | UNKNOWN)}, *draw(images)]


@st.composite
def histories(draw: st.DrawFn, part: str) -> list[Json]:
    """Some turns that an assistant's message ends, with system texts at any place."""
    turns: list[Json] = []
    system = st.lists(
        st.builds(
            lambda role, text: {"role": role, "content": text}, st.sampled_from(["system", "developer"]), TEXT
        ),
        max_size=1,
    )
    for _ in range(draw(st.integers(0, 3))):
        turns += draw(system)
        turns.append({"role": "user", "content": draw(contents(part, TEXT)), **draw(UNKNOWN)})
        if draw(st.booleans()):
            call = {"id": draw(NAMES), "function": {"name": draw(NAMES), "arguments": draw(TEXT)}}
            turns.append({"role": "assistant", "content": None, "tool_calls": [call]})
            turns.append({"role": "tool", "tool_call_id": call["id"], "content": draw(TEXT)})
        turns.append({"role": "assistant", "content": draw(TEXT)})
    return turns + draw(system)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[Dialect, dict[str, Json]]:
    """A dialect, and a request in it that asks something."""
    name = draw(st.sampled_from(sorted(DIALECTS)))
    told = {**draw(UNKNOWN), **draw(PARAMS)}
    if name == "completions":
        return DIALECTS[name], {**told, "prompt": draw(TOLD)}
    part = "input_text" if name == "responses" else "text"
    if name == "responses" and draw(st.booleans()):
        return DIALECTS[name], {**told, "input": draw(TOLD)}
    last = {"role": "user", **draw(UNKNOWN), "content": draw(contents(part, TOLD))}
    field = "input" if name == "responses" else "messages"
    return DIALECTS[name], {**told, field: [*draw(histories(part)), last]}


def spelled(value: Json) -> str:
    """JSON that tells 1 from 1.0 and from true, and does not depend on the order of members."""
    return json.dumps(value, sort_keys=True)


def reworded(body: Json, text: str) -> Json:
    """The body with another text in the place of its question: found here by walking, not by the code under test."""
    body = copy.deepcopy(body)
    if "prompt" in body:
        body["prompt"] = text
        return body
    field = "input" if "input" in body else "messages"
    if isinstance(body[field], str):
        body[field] = text
        return body
    last = body[field][-1]
    if isinstance(last["content"], str):
        last["content"] = text
    else:
        [part] = [part for part in last["content"] if part["type"] in ("text", "input_text")]
        part["text"] = text
    return body


def places(value: Json) -> list[tuple[Json, Json]]:
    """Every member and item of a value, as its container and the key or index in it."""
    members = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    found: list[tuple[Json, Json]] = [(value, key) for key, _ in members]
    for _, inner in members:
        found += places(inner)
    return found


@st.composite
def changed(draw: st.DrawFn, body: Json) -> Json:
    """The body with one change anywhere: a value replaced, removed, added, doubled, or two items swapped."""
    body = copy.deepcopy(body)
    container, key = draw(st.sampled_from(places(body)))
    kind = draw(st.sampled_from(["replace", "remove", "add", "double", "swap"]))
    if kind == "replace":
        container[key] = draw(VALUES)
    elif kind == "remove":
        del container[key]
    elif isinstance(container, dict):
        container[draw(NAMES)] = draw(VALUES)
    elif kind == "add":
        container.insert(key, draw(VALUES))
    elif kind == "double":
        container.insert(key, copy.deepcopy(container[key]))
    else:
        other = draw(st.integers(0, len(container) - 1))
        container[key], container[other] = container[other], container[key]
    return body


@settings(max_examples=200, deadline=None)
@given(bodies(), TOLD)
def test_another_wording_has_an_equal_rest(asked: tuple[Dialect, dict[str, Json]], text: str) -> None:
    dialect, body = asked
    first, second = dialect.question(body), dialect.question(reworded(body, text))
    assert first is not None
    assert second is not None
    assert second.text == text
    assert spelled(first.rest) == spelled(second.rest)
    assert spelled(first.without_history) == spelled(second.without_history)


@settings(max_examples=200, deadline=None)
@given(bodies())
def test_the_rest_is_the_body_with_an_empty_text_and_the_body_stays(
    asked: tuple[Dialect, dict[str, Json]],
) -> None:
    dialect, body = asked
    before = copy.deepcopy(body)
    question = dialect.question(body)
    assert spelled(body) == spelled(before)
    assert question is not None
    assert spelled(question.rest) == spelled(reworded(body, ""))
    assert question.has_earlier_turns == (question.without_history is not None)


@settings(max_examples=600, deadline=None)
@given(bodies(), st.data())
def test_any_change_but_another_wording_has_another_rest_or_no_question(
    asked: tuple[Dialect, dict[str, Json]], data: st.DataObject
) -> None:
    dialect, body = asked
    other = data.draw(changed(body))
    question, changed_question = dialect.question(body), dialect.question(other)
    assert question is not None
    if changed_question is None:
        return
    assume(spelled(other) != spelled(reworded(body, changed_question.text)))
    assert spelled(changed_question.rest) != spelled(question.rest)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), st.dictionaries(NAMES, VALUES, max_size=2), VALUES)
def test_no_body_of_any_shape_fails(name: str, fields: dict[str, Json], messages: Json) -> None:
    turns = [messages, {"role": "user", "content": messages}]
    for value in (messages, [messages], turns, [{"role": "user", "content": [messages]}]):
        DIALECTS[name].question({**fields, "messages": value, "input": value, "prompt": value})
