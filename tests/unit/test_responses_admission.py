from typing import Any

import pytest

from openclaw_cache.dialects.responses import REFUSALS, parse, refusal_to_store
from support.responses_replies import CALL, CUSTOM, REASONING, message, response, text

ANSWER = message(text("a"))


def refusal(reply: Any, **asked: Any) -> str | None:
    return refusal_to_store(reply, parse({"model": "m", "input": "a", **asked}))


@pytest.mark.parametrize(
    "output",
    [
        [ANSWER],
        [REASONING, ANSWER],
        [CALL],
        [REASONING, CUSTOM],
        [message(text("")), CALL],
        [message(text(" "))],
        [{"type": "message", "content": [{"type": "output_text", "text": "a"}]}],
        [{"type": "local_shell_call", "status": "completed", "call_id": "c"}],
    ],
)
def test_complete_answers_are_stored(output: list[dict[str, Any]]) -> None:
    assert refusal(response(*output)) is None


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (response(ANSWER, error={"code": "server_error", "message": "x"}), "error"),
        (response(ANSWER, status="failed"), "error"),
        ({"error": {"message": "x"}}, "error"),
        (response(ANSWER, background=True), "background"),
        (response(status="queued", background=True), "background"),
        (response(message({"type": "refusal", "refusal": "I cannot"})), "refusal"),
        (response(message(text("a"), {"type": "refusal", "refusal": "I cannot"})), "refusal"),
        (response(ANSWER, status="in_progress"), "unfinished"),
        (response(status="queued"), "unfinished"),
        (response(ANSWER, status="cancelled"), "unfinished"),
        (response({**ANSWER, "status": "incomplete"}), "unfinished"),
        (response({**CALL, "status": "in_progress"}), "unfinished"),
        (response({"type": "image_generation_call", "status": "failed"}), "unfinished"),
        (response(), "empty"),
        (response(REASONING), "empty"),
        (response(message(text(""))), "empty"),
        (response(message()), "empty"),
        (response({"type": "compaction", "encrypted_content": "x"}), "empty"),
        (response(ANSWER, status=None), "shape"),
        (response("a"), "shape"),  # type: ignore[arg-type]
        ({"object": "chat.completion", "choices": []}, "shape"),
        ([], "shape"),
        (None, "shape"),
        ("x", "shape"),
    ],
)
def test_everything_else_is_refused_by_name(reply: Any, reason: str) -> None:
    assert refusal(reply) == reason
    assert reason in REFUSALS


@pytest.mark.parametrize(
    ("limit", "num_tokens", "details", "reason"),
    [
        (87, 87, {"reason": "max_output_tokens"}, None),
        (88, 87, {"reason": "max_output_tokens"}, "truncated"),
        (None, 87, {"reason": "max_output_tokens"}, "truncated"),
        (87, None, {"reason": "max_output_tokens"}, "truncated"),
        (1, True, {"reason": "max_output_tokens"}, "truncated"),
        (True, 1, {"reason": "max_output_tokens"}, "truncated"),
        (87, 87, {"reason": "content_filter"}, "filtered"),
        (87, 87, {"reason": "max_messages"}, "truncated"),
        (87, 87, {"reason": "steered"}, "truncated"),
        (87, 87, {}, "truncated"),
        (87, 87, None, "truncated"),
    ],
)
def test_a_cut_response_is_stored_only_at_the_requests_own_limit(
    limit: Any, num_tokens: Any, details: Any, reason: str | None
) -> None:
    cut = {**ANSWER, "status": "incomplete"}
    reply = response(
        cut, status="incomplete", incomplete_details=details, usage={"output_tokens": num_tokens}
    )
    assert refusal(reply, max_output_tokens=limit) == reason


def test_a_cut_response_that_never_got_to_its_answer_is_empty() -> None:
    reply = response(
        REASONING,
        status="incomplete",
        incomplete_details={"reason": "max_output_tokens"},
        usage={"output_tokens": 16},
    )
    assert refusal(reply, max_output_tokens=16) == "empty"


def test_a_response_nested_deeper_than_it_could_be_replayed_is_refused() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    assert refusal(response(ANSWER, deep=deep)) == "shape"
