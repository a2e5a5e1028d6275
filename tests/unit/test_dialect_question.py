"""What was asked in a request, apart from all else in it: in every dialect by the same rules."""

import copy
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.completions import CompletionsDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.question import Question
from openclaw_cache.dialects.responses import ResponsesDialect

Json = Any
CHAT, COMPLETIONS, RESPONSES, MESSAGES = (
    ChatDialect(),
    CompletionsDialect(),
    ResponsesDialect(),
    MessagesDialect(),
)
IMAGE = {
    "chat": {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVyb24="}},
    "responses": {"type": "input_image", "image_url": "data:image/png;base64,aGVyb24="},
    "messages": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "aGVyb24="},
    },
}
PART = {"chat": "text", "responses": "input_text", "messages": "text"}
TALKS = pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES], ids=lambda dialect: dialect.name)


def field(dialect: Dialect) -> str:
    """Where the messages stand."""
    return "input" if dialect.name == "responses" else "messages"


def body(dialect: Dialect, *messages: Json, **fields: Json) -> dict[str, Json]:
    return {"model": "m", field(dialect): list(messages), **fields}


def user(content: Json) -> dict[str, Json]:
    return {"role": "user", "content": content}


def text(dialect: Dialect, told: str, **fields: Json) -> dict[str, Json]:
    return {"type": PART[dialect.name], "text": told, **fields}


def asked(dialect: Dialect, request: dict[str, Json]) -> Question:
    question = dialect.question(request)
    assert question is not None
    return question


SYSTEM = {"role": "system", "content": "Be kind."}
DEVELOPER = {"role": "developer", "content": "Use metres."}
ANSWER = {"role": "assistant", "content": "At dusk."}
WHERE = user("Where do herons sleep?")


@TALKS
def test_the_last_user_text_is_taken_out_and_all_else_stays(dialect: Dialect) -> None:
    request = body(dialect, SYSTEM, WHERE, temperature=0.5, tools=[{"name": "f"}], x_unknown={"a": [1]})
    assert asked(dialect, request) == Question(
        text="Where do herons sleep?",
        rest={
            "model": "m",
            field(dialect): [{"role": "system", "content": "Be kind."}, {"role": "user", "content": ""}],
            "temperature": 0.5,
            "tools": [{"name": "f"}],
            "x_unknown": {"a": [1]},
        },
        has_earlier_turns=False,
        without_history=None,
    )


@TALKS
def test_images_beside_the_text_and_fields_of_its_part_and_message_stay_in_the_rest(dialect: Dialect) -> None:
    image = IMAGE[dialect.name]
    content = [image, text(dialect, "What bird?", cache_control={"type": "ephemeral"}), image]
    request = body(dialect, {**user(content), "name": "ann", "id": "msg_1"})
    question = asked(dialect, request)
    assert question.text == "What bird?"
    assert question.rest[field(dialect)] == [
        {
            "role": "user",
            "content": [
                image,
                {"type": PART[dialect.name], "text": "", "cache_control": {"type": "ephemeral"}},
                image,
            ],
            "name": "ann",
            "id": "msg_1",
        }
    ]


@TALKS
def test_the_body_is_unchanged_and_what_is_equal_is_shared(dialect: Dialect) -> None:
    tools = [{"name": "f"}]
    request = body(dialect, SYSTEM, user("a?"), ANSWER, user([text(dialect, "b?")]), tools=tools)
    before = copy.deepcopy(request)
    question = asked(dialect, request)
    assert request == before
    assert question.rest["tools"] is tools
    assert question.rest[field(dialect)][2] is ANSWER
    assert list(question.rest) == list(request)


@TALKS
def test_earlier_turns_are_told_and_left_out_without_the_system_texts_among_them(dialect: Dialect) -> None:
    last = user([text(dialect, "And in winter?")])
    question = asked(dialect, body(dialect, SYSTEM, user("a?"), DEVELOPER, ANSWER, DEVELOPER, last, seed=1))
    assert question.has_earlier_turns
    assert question.without_history == {
        "model": "m",
        field(dialect): [SYSTEM, DEVELOPER, DEVELOPER, user([text(dialect, "")])],
        "seed": 1,
    }


@TALKS
def test_system_texts_alone_are_no_earlier_turns(dialect: Dialect) -> None:
    question = asked(dialect, body(dialect, SYSTEM, DEVELOPER, WHERE))
    assert not question.has_earlier_turns
    assert question.without_history is None


@TALKS
@pytest.mark.parametrize(
    "before",
    [
        [user("Which bird is this?")],
        [ANSWER, user("Which bird is this?")],
        [user("Which bird is this?"), SYSTEM],
        [{"role": "tool", "tool_call_id": "c", "content": "12"}],
        [{"type": "function_call_output", "call_id": "c", "output": "12"}],
        [{"role": "critic", "content": "No."}],
        ["hello"],
        [None],
    ],
    ids=["user", "again", "before-system", "tool", "output", "unknown-role", "string", "null"],
)
def test_a_message_after_another_that_nobody_answered_is_no_certain_question(
    dialect: Dialect, before: list[Json]
) -> None:
    assert dialect.question(body(dialect, *before, WHERE)) is None


@TALKS
@pytest.mark.parametrize(
    "last",
    [
        ANSWER,
        SYSTEM,
        {"role": "tool", "content": "12"},
        {"role": "User", "content": "a?"},
        {"content": "a?"},
        {"role": "user"},
        {"role": ["user"], "content": "a?"},
        user(None),
        user(3),
        user({"type": "text", "text": "a?"}),
        user([]),
        user(""),
        user(" \n\t\u3000"),
        user(["a?"]),
        user([None]),
        "a?",
        None,
    ],
)
def test_what_is_no_user_message_with_a_text_is_no_question(dialect: Dialect, last: Json) -> None:
    assert dialect.question(body(dialect, SYSTEM, last)) is None


@TALKS
def test_several_texts_are_no_question_even_where_one_is_blank(dialect: Dialect) -> None:
    one, blank = text(dialect, "a?"), text(dialect, " ")
    for content in ([one, one], [one, blank], [blank, one], [blank], [one, {"type": "text2", "text": "b"}]):
        assert dialect.question(body(dialect, user(content))) is None


@TALKS
def test_parts_that_are_no_parts_make_no_question(dialect: Dialect) -> None:
    one = text(dialect, "a?")
    for odd in ("b", None, 1, [], {}, {"type": None}, {"type": 3}, {"type": PART[dialect.name]}):
        assert dialect.question(body(dialect, user([one, odd]))) is None


@TALKS
@pytest.mark.parametrize("kind", ["tool_result", "mcp_tool_result", "web_search_tool_result", "tool_use"])
def test_a_tools_result_beside_the_text_makes_no_question(dialect: Dialect, kind: str) -> None:
    result = {"type": kind, "tool_use_id": "t", "content": "12"}
    for content in ([result], [result, text(dialect, "a?")], [text(dialect, "a?"), result]):
        assert dialect.question(body(dialect, user("b?"), ANSWER, user(content))) is None


@TALKS
@pytest.mark.parametrize("messages", [[], None, {}, 3])
def test_a_body_without_messages_asks_nothing(dialect: Dialect, messages: Json) -> None:
    assert dialect.question({"model": "m", field(dialect): messages}) is None
    assert dialect.question({"model": "m"}) is None


@TALKS
def test_a_string_and_a_part_of_the_same_text_have_different_rests(dialect: Dialect) -> None:
    by_string, by_part = (
        asked(dialect, body(dialect, user(content))) for content in ("a?", [text(dialect, "a?")])
    )
    assert by_string.text == by_part.text
    assert by_string.rest != by_part.rest


def test_anthropics_system_prompt_is_no_message_and_stays() -> None:
    system = [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}]
    question = asked(MESSAGES, body(MESSAGES, user("a?"), ANSWER, user("b?"), system=system))
    assert question.rest["system"] is system
    assert question.without_history == {"model": "m", "messages": [user("")], "system": system}


def test_a_document_beside_the_question_stays_in_the_rest() -> None:
    document = {
        "type": "document",
        "source": {"type": "text", "data": "Herons sleep in trees."},
        "title": "Herons",
    }
    question = asked(MESSAGES, body(MESSAGES, user([document, {"type": "text", "text": "Where?"}])))
    assert question.text == "Where?"
    assert question.rest["messages"][0]["content"][0] is document


def test_a_thread_that_anthropic_holds_is_an_earlier_turn() -> None:
    question = asked(MESSAGES, body(MESSAGES, WHERE, thread={"id": "thread_1"}))
    assert question.has_earlier_turns
    assert question.without_history == question.rest


def test_tokens_are_counted_of_one_wording_only() -> None:
    request = body(MESSAGES, WHERE)
    assert MESSAGES.question(request) is not None
    assert CountTokensDialect().question(request) is None


def test_a_responses_input_may_be_the_question_itself() -> None:
    request = {"model": "m", "instructions": "Be kind.", "input": "Where do herons sleep?", "store": False}
    assert RESPONSES.question(request) == Question(
        text="Where do herons sleep?",
        rest={"model": "m", "instructions": "Be kind.", "input": "", "store": False},
        has_earlier_turns=False,
        without_history=None,
    )


@pytest.mark.parametrize("given", ["", " \n", None])
def test_a_blank_responses_input_asks_nothing(given: Json) -> None:
    assert RESPONSES.question({"model": "m", "input": given}) is None


@pytest.mark.parametrize("given", ["a?", [{"type": "message", "role": "user", "content": "a?"}]])
@pytest.mark.parametrize(
    "held",
    [{"previous_response_id": "resp_1"}, {"conversation": {"id": "conv_1"}}, {"prompt": {"id": "pmpt_1"}}],
)
def test_what_openai_holds_counts_as_earlier_turns_and_is_never_left_out(
    given: Json, held: dict[str, Json]
) -> None:
    question = asked(RESPONSES, {"model": "m", "input": given, **held})
    assert question.has_earlier_turns
    assert question.rest.items() >= held.items()
    assert question.without_history == question.rest


@pytest.mark.parametrize(
    "last",
    [
        {"type": "function_call_output", "call_id": "c", "output": "12"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "compaction_trigger"},
        {"type": "note", "role": "user", "content": "a?"},
    ],
)
def test_a_last_item_that_is_no_message_is_no_question(last: Json) -> None:
    assert RESPONSES.question(body(RESPONSES, last)) is None


def test_settings_among_the_input_items_stay_where_the_turns_are_left_out() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    more = {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "c", "output": "12"}
    spoken = [user("a?"), call, given, {"type": "reasoning", "summary": []}, ANSWER]
    question = asked(RESPONSES, body(RESPONSES, more, *spoken, update, user("b?")))
    assert question.without_history == body(RESPONSES, more, update, user(""))
    assert not asked(RESPONSES, body(RESPONSES, more, update, user("b?"))).has_earlier_turns


def test_a_completions_prompt_is_the_question_and_its_suffix_is_not() -> None:
    request = {"model": "m", "prompt": "Herons sleep", "suffix": "at night.", "max_tokens": 5}
    assert COMPLETIONS.question(request) == Question(
        text="Herons sleep",
        rest={"model": "m", "prompt": "", "suffix": "at night.", "max_tokens": 5},
        has_earlier_turns=False,
        without_history=None,
    )
    assert request["prompt"] == "Herons sleep"


@pytest.mark.parametrize("prompt", [["a"], ["a", "b"], [1, 2], [[1, 2]], [], None, "", "\n ", 3])
def test_a_prompt_that_is_not_one_text_asks_nothing(prompt: Json) -> None:
    assert COMPLETIONS.question({"model": "m", "prompt": prompt}) is None


def test_a_prompt_that_is_to_be_echoed_asks_nothing() -> None:
    assert COMPLETIONS.question({"model": "m", "prompt": "a", "echo": True}) is None
    assert COMPLETIONS.question({"model": "m", "prompt": "a", "echo": False}) is not None
