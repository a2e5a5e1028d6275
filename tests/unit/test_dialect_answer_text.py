"""Which replies are one plain answer, and what its text is."""

from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.completions import CompletionsDialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.responses import ResponsesDialect
from support.anthropic_replies import BASIC_MESSAGE, RECORDED
from support.responses_replies import CALL, CUSTOM, REASONING, message, response, text

Json = Any
CHAT, COMPLETIONS, RESPONSES, MESSAGES = (
    ChatDialect(),
    CompletionsDialect(),
    ResponsesDialect(),
    MessagesDialect(),
)
BLANKS = ["", " ", "\n\n", "\u3000\t"]


def chat(fields: Json = None, *, finish: Json = "stop", choice: Json = None, **top: Json) -> dict[str, Json]:
    """A chat completion as OpenAI sends it, with other fields in its message, its choice or itself."""
    told = {"role": "assistant", "content": "At dusk.", "refusal": None, "annotations": [], **(fields or {})}
    only = {"index": 0, "message": told, "logprobs": None, "finish_reason": finish, **(choice or {})}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": [only], **top}


def completion(told: Json = "at dusk.", finish: Json = "stop", **fields: Json) -> dict[str, Json]:
    """A text completion as OpenAI sends it."""
    choice = {"index": 0, "text": told, "logprobs": None, "finish_reason": finish, **fields}
    return {"id": "cmpl-1", "object": "text_completion", "model": "m", "choices": [choice]}


def said(*blocks: Json, **fields: Json) -> dict[str, Json]:
    """Anthropic's recorded message with other blocks."""
    return {**BASIC_MESSAGE, "content": list(blocks), **fields}


def block(told: str, **fields: Json) -> dict[str, Json]:
    return {"type": "text", "text": told, **fields}


def test_the_answer_is_the_text_as_it_stands() -> None:
    told = "  答案 é\n\n🦞 \n"
    assert CHAT.answer_text(chat({"content": told})) == told
    assert COMPLETIONS.answer_text(completion(told)) == told
    assert MESSAGES.answer_text(said(block(told))) == told
    assert RESPONSES.answer_text(response(message(text(told)))) == told


@pytest.mark.parametrize("blank", BLANKS)
def test_a_blank_text_is_no_answer(blank: str) -> None:
    assert CHAT.answer_text(chat({"content": blank})) is None
    assert COMPLETIONS.answer_text(completion(blank)) is None
    assert MESSAGES.answer_text(said(block(blank))) is None
    assert RESPONSES.answer_text(response(message(text(blank)))) is None


@pytest.mark.parametrize("reply", [{}, {"error": {"message": "no"}}, {"choices": []}, {"choices": [None]}])
def test_what_is_no_reply_is_no_answer(reply: dict[str, Json]) -> None:
    for dialect in (CHAT, COMPLETIONS, RESPONSES, MESSAGES, CountTokensDialect()):
        assert dialect.answer_text(reply) is None


@pytest.mark.parametrize(
    "finish", ["length", "content_filter", "tool_calls", "function_call", "error", "", None]
)
def test_only_an_answer_that_stopped_by_itself_counts(finish: str | None) -> None:
    assert CHAT.answer_text(chat(finish=finish)) is None
    assert COMPLETIONS.answer_text(completion(finish=finish)) is None


def test_several_choices_are_not_one_answer() -> None:
    for dialect, reply in ((CHAT, chat()), (COMPLETIONS, completion())):
        assert dialect.answer_text(reply) is not None
        again = {**reply["choices"][0], "index": 1}
        assert dialect.answer_text({**reply, "choices": [*reply["choices"], again]}) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"function_call": {"name": "f", "arguments": "{}"}},
        {"refusal": "I cannot help."},
        {"audio": {"id": "audio_1", "data": "AA==", "expires_at": 1, "transcript": "At dusk."}},
        {"images": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://tides.example/"}}]},
        {"context": {"citations": [{"content": "Herons"}]}},
        {"executed_tools": [{"type": "search"}]},
        {"content": None},
        {"content": 3},
        {"content": []},
        {"content": [{"type": "text", "text": "At"}, {"type": "reference", "reference_ids": [1]}]},
        {"content": [{"type": "text", "text": "At", "annotations": [{"type": "file_citation"}]}]},
        {"content": [{"type": "text", "text": "At", "citations": [{"url": "https://tides.example/"}]}]},
        {"content": [{"type": "text"}]},
        {"content": ["At dusk."]},
        {"role": "user"},
    ],
)
def test_a_chat_message_with_more_than_a_text_is_no_plain_answer(fields: dict[str, Json]) -> None:
    assert CHAT.answer_text(chat(fields)) is None


def test_a_reply_that_cites_or_tells_of_its_prompt_is_no_plain_answer() -> None:
    found = {"citations": ["https://tides.example/"], "search_results": [{"title": "Tides"}]}
    of_prompt = {"prompt_logprobs": [None, {"1": {"logprob": -1}}], "prompt_token_ids": [1, 2]}
    for name, value in (found | of_prompt | {"error": {"message": "cut"}}).items():
        assert CHAT.answer_text(chat(**{name: value})) is None
        assert CHAT.answer_text(chat(choice={name: value})) is None
        assert COMPLETIONS.answer_text(completion(**{name: value})) is None
        assert CHAT.answer_text(chat(**{name: None})) == "At dusk."


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "Birds rest at night."},
        {
            "reasoning": "Birds rest.",
            "reasoning_details": [{"type": "reasoning.text", "text": "Birds rest."}],
        },
        {"tool_calls": [], "function_call": None, "audio": None, "images": [], "prefix": False},
        {"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "At dusk."}]},
        {"content": [{"type": "text", "text": "At "}, {"type": "text", "text": "dusk."}]},
    ],
)
def test_thoughts_and_empty_fields_beside_a_chat_answer_are_no_part_of_it(fields: dict[str, Json]) -> None:
    assert CHAT.answer_text(chat(fields)) == "At dusk."


def test_log_probabilities_and_filters_verdicts_leave_an_answer_plain() -> None:
    logprobs = {"content": [{"token": "At dusk.", "logprob": -0.5}], "refusal": None}
    filtered = {"hate": {"filtered": False, "severity": "safe"}}
    choice = {"logprobs": logprobs, "content_filter_results": filtered, "stop_reason": 2}
    assert CHAT.answer_text(chat(choice=choice, prompt_filter_results=[{"prompt_index": 0}])) == "At dusk."


def test_of_anthropics_recorded_messages_only_the_plain_one_is_an_answer() -> None:
    answers = {name: MESSAGES.answer_text(whole) for name, (_, whole) in RECORDED.items()}
    assert answers == {"basic": "Good day!", "tool": None, "search": None, "beta": None}


@pytest.mark.parametrize(
    "stop",
    ["max_tokens", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded", "new", "", None],
)
def test_only_a_message_that_came_to_its_end_is_an_answer(stop: str | None) -> None:
    assert MESSAGES.answer_text(said(block("a"), stop_reason=stop)) is None


def test_a_stop_sequence_is_an_end() -> None:
    reply = said(block("At dusk"), stop_reason="stop_sequence", stop_sequence=".")
    assert MESSAGES.answer_text(reply) == "At dusk"


def test_thinking_beside_a_messages_text_is_no_part_of_it() -> None:
    thinking = {"type": "thinking", "thinking": "Birds rest at night.", "signature": "Ev0D"}
    redacted = {"type": "redacted_thinking", "data": "Ev0D"}
    reply = said(thinking, redacted, block("At "), block("dusk.", citations=None))
    assert MESSAGES.answer_text(reply) == "At dusk."
    assert MESSAGES.answer_text(said(thinking)) is None


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}},
        {"type": "fallback", "to": {"model": "m"}},
        {"type": "compaction", "content": "They spoke."},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "text", "text": "High.", "citations": [{"type": "char_location", "cited_text": "High"}]},
        {"type": "text", "text": None},
        {"text": "a"},
        "a",
        None,
    ],
)
def test_a_message_with_more_than_text_is_no_plain_answer(odd: Json) -> None:
    assert MESSAGES.answer_text(said(block("At dusk."), odd)) is None
    assert MESSAGES.answer_text(said(odd, block("At dusk."))) is None


@pytest.mark.parametrize(
    "fields",
    [{"type": "error"}, {"role": "user"}, {"container": {"id": "container_1"}}, {"content": "At dusk."}],
)
def test_what_is_no_whole_message_is_no_answer(fields: dict[str, Json]) -> None:
    assert MESSAGES.answer_text({**said(block("At dusk.")), **fields}) is None


def test_a_count_of_tokens_is_no_answer() -> None:
    assert CountTokensDialect().answer_text({"input_tokens": 12}) is None
    assert CountTokensDialect().answer_text(BASIC_MESSAGE) is None


def test_reasoning_beside_a_responses_message_is_no_part_of_its_text() -> None:
    told = message(text("At "), text("dusk."), phase="final_answer")
    assert RESPONSES.answer_text(response(REASONING, told)) == "At dusk."
    assert RESPONSES.answer_text(response(REASONING)) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "failed", "error": {"code": "server_error"}},
        {"status": "in_progress"},
        {"status": None},
        {"error": {"code": "server_error"}},
        {"incomplete_details": {"reason": "content_filter"}},
        {"background": True},
        {"output": None},
    ],
)
def test_a_response_that_is_not_completed_is_no_answer(fields: dict[str, Json]) -> None:
    assert RESPONSES.answer_text({**response(message(text("At dusk."))), **fields}) is None


@pytest.mark.parametrize(
    "output",
    [
        [],
        [message(text("a")), message(text("b"))],
        [message(text("a")), CALL],
        [message(text("a")), CUSTOM],
        [{"type": "web_search_call", "id": "ws_1", "status": "completed"}, message(text("a"))],
        [{"type": "image_generation_call", "id": "ig_1", "result": "AA=="}, message(text("a"))],
        [{"type": "compaction", "encrypted_content": "gAAA"}, message(text("a"))],
        [message(text("a", annotations=[{"type": "file_citation", "file_id": "file_1", "index": 0}]))],
        [message({"type": "refusal", "refusal": "I cannot."})],
        [message(text("a"), {"type": "refusal", "refusal": "I cannot."})],
        [message(text("a"), status="incomplete")],
        [message(text("a"), phase="commentary")],
        [message(text("a"), role="user")],
        [message(text("a"), "b")],
        [message()],
        ["a"],
    ],
)
def test_a_response_with_more_than_one_message_of_text_is_no_plain_answer(output: list[Json]) -> None:
    assert RESPONSES.answer_text(response(*output)) is None
