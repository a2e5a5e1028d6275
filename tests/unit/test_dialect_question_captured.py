"""What was asked in the requests that OpenClaw really sends.

It ends every turn with a message of its own, in the user's name, after what the user said: so the last text of such
a request is not the question. Without that message the request has the shape of any other agent's.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.responses import ResponsesDialect

Json = Any
DIALECTS: dict[str, tuple[Dialect, str]] = {
    "/v1/chat/completions": (ChatDialect(), "messages"),
    "/v1/responses": (ResponsesDialect(), "input"),
    "/v1/messages": (MessagesDialect(), "messages"),
}
INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
SYSTEM = ("system", "developer")


@pytest.fixture(scope="module")
def captured(data_root: Path) -> list[tuple[str, dict[str, Json]]]:
    """Path and body of every request."""
    files = sorted((data_root / "openclaw").glob("*.json"))
    found = [one for file in files for one in json.loads(file.read_bytes()).get("requests", ())]
    return [(one["path"], one["body"]) for one in found if "body" in one and one["path"] in DIALECTS]


def spelled(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def written(message: dict[str, Json]) -> list[str]:
    """The texts of a message."""
    content = message["content"]
    return (
        [content] if isinstance(content, str) else [part["text"] for part in content or () if "text" in part]
    )


def is_internal(message: dict[str, Json]) -> bool:
    return message["role"] == "user" and written(message)[0].startswith(INTERNAL)


def without_internal(
    captured: list[tuple[str, dict[str, Json]]],
) -> Iterator[tuple[Dialect, str, dict[str, Json]]]:
    """The requests without OpenClaw's own message at their end."""
    for path, body in captured:
        dialect, field = DIALECTS[path]
        turns = body[field]
        yield dialect, field, {**body, field: turns[:-1]} if is_internal(turns[-1]) else body


def test_every_api_was_captured(captured: list[tuple[str, dict[str, Json]]]) -> None:
    assert {path for path, _ in captured} == set(DIALECTS)


def test_what_openclaw_says_in_the_users_name_is_never_taken_for_the_question(
    captured: list[tuple[str, dict[str, Json]]],
) -> None:
    num_internal = 0
    for path, body in captured:
        dialect, field = DIALECTS[path]
        if is_internal(body[field][-1]):
            num_internal += 1
            assert dialect.question(body) is None
    assert num_internal > 20


def test_the_question_is_the_last_users_text_and_everything_else_is_rest(
    captured: list[tuple[str, dict[str, Json]]],
) -> None:
    num_asked = dict.fromkeys(DIALECTS, 0)
    for dialect, field, body in without_internal(captured):
        before = spelled(body)
        question = dialect.question(body)
        assert spelled(body) == before
        speakers = [turn.get("role") for turn in body[field] if turn.get("role") not in SYSTEM]
        if speakers[-1] != "user" or speakers[-2:-1] not in ([], ["assistant"]):
            assert question is None
            continue
        assert question is not None
        [text] = written(body[field][-1])
        assert question.text == text
        assert question.has_earlier_turns == (len(speakers) > 1)
        told, left = spelled(body), spelled(question.rest)
        at = told.rindex(spelled(text))
        assert left == told[:at] + '""' + told[at + len(spelled(text)) :]
        num_asked[next(path for path, known in DIALECTS.items() if known[0] is dialect)] += 1
    assert all(num_asked.values())


def test_without_history_only_the_system_texts_and_the_question_are_left(
    captured: list[tuple[str, dict[str, Json]]],
) -> None:
    num_with_history = 0
    for dialect, field, body in without_internal(captured):
        question = dialect.question(body)
        if question is None or question.without_history is None:
            continue
        num_with_history += 1
        system = [turn for turn in body[field] if turn.get("role") in SYSTEM]
        assert question.without_history[field] == [*system, question.rest[field][-1]]
        assert {**question.without_history, field: 0} == {**body, field: 0}
    assert num_with_history > 0


def test_a_count_of_tokens_has_no_question(captured: list[tuple[str, dict[str, Json]]]) -> None:
    bodies = [body for _, _, body in without_internal(captured) if "messages" in body]
    assert bodies
    assert all(CountTokensDialect().question(body) is None for body in bodies)
