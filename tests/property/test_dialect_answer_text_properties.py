"""A stream and a whole reply give the same answer, and nothing beside an answer's text changes it."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.dialects.anthropic import MessagesDialect
from openclaw_cache.dialects.completions import CompletionsDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.dialects.responses import ResponsesDialect
from openclaw_cache.dialects.sse import SseParser
from support.anthropic_replies import BASIC_MESSAGE
from support.responses_replies import REASONING, message, response, text

Json = Any
DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (ChatDialect(), CompletionsDialect(), ResponsesDialect(), MessagesDialect())
}
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=40) | st.sampled_from(
    ["", " \n", "答案 🦞", "[DONE]"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 300) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "message", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def reply(name: str, told: str, thought: str) -> dict[str, Json]:
    """A whole reply of this text, with what the model thought where the dialect has a place for it."""
    head = {"id": "r_1", "created": 1, "model": "m"}
    if name == "completions":
        choice = {"index": 0, "text": told, "logprobs": None, "finish_reason": "stop"}
        return {**head, "object": "text_completion", "choices": [choice]}
    if name == "messages":
        thinking = {"type": "thinking", "thinking": thought, "signature": "Ev0D"}
        return {**BASIC_MESSAGE, "content": [thinking, {"type": "text", "text": told}]}
    if name == "responses":
        return response(REASONING, message(text(told)))
    said = {"role": "assistant", "reasoning_content": thought, "content": told}
    return {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop"}],
    }


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), TEXT, TEXT)
def test_an_answer_is_the_text_that_was_given_unless_blank(name: str, told: str, thought: str) -> None:
    expected = told if told.strip() else None
    assert DIALECTS[name].answer_text(reply(name, told, thought)) == expected


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), TEXT, TEXT)
def test_a_stream_adds_up_to_the_same_answer(name: str, told: str, thought: str) -> None:
    dialect, whole = DIALECTS[name], reply(name, told, thought)
    stream = dialect.split(whole, Request(model="m", stream=True))
    merged = dialect.merge([event.data for event in SseParser().feed(stream)])
    assert dialect.answer_text(merged) == dialect.answer_text(whole)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), TEXT)
def test_whatever_is_an_answer_may_be_stored(name: str, told: str) -> None:
    whole = reply(name, told, "so")
    if DIALECTS[name].answer_text(whole) is not None:
        assert DIALECTS[name].refusal_to_store(whole, Request(model="m")) is None


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(DIALECTS)), st.data(), VALUES)
def test_no_reply_of_any_shape_fails(name: str, data: st.DataObject, value: Json) -> None:
    """Any member or item of a good reply replaced by any value."""
    whole = copy.deepcopy(reply(name, "At dusk.", "so"))
    container: Json = whole
    for _ in range(data.draw(st.integers(0, 4))):
        inner = container.values() if isinstance(container, dict) else container
        nested = [one for one in inner if isinstance(one, dict | list) and one]
        if not nested:
            break
        container = data.draw(st.sampled_from(nested))
    keys = list(container) if isinstance(container, dict) else list(range(len(container)))
    container[data.draw(st.sampled_from(keys))] = value
    assert isinstance(DIALECTS[name].answer_text(whole), str | None)
