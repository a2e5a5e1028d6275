import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.dialects.anthropic import CountTokensDialect, MessagesDialect
from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.errors import RequestError

MESSAGES: Dialect = MessagesDialect()
COUNT: Dialect = CountTokensDialect()
TURN = {"role": "user", "content": "Hello"}
BODY = {"model": "m", "max_tokens": 9, "messages": [TURN]}
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
FILE = {"type": "document", "source": {"type": "file", "file_id": "file_01"}}
TEXT_FILE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}}


def said(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {**BODY, "messages": [{"role": role, "content": list(blocks)}]}


def result(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "toolu_1", "content": list(blocks)}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ([], None),
        ({"messages": []}, "model"),
        ({"model": "", "messages": []}, "model"),
        ({"model": 1, "messages": []}, "model"),
        ({"model": "m"}, "messages"),
        ({"model": "m", "messages": {}}, "messages"),
        ({"model": "m", "messages": [], "stream": 1}, "stream"),
        ({"model": "m", "messages": [], "stream": "true"}, "stream"),
    ],
)
@pytest.mark.parametrize("dialect", [MESSAGES, COUNT])
def test_what_we_cannot_go_on_without_is_refused_by_name(
    dialect: Dialect, body: Any, param: str | None
) -> None:
    with pytest.raises(RequestError) as refused:
        dialect.parse(body)
    assert (refused.value.status, refused.value.param) == (400, param)


def test_the_clients_own_values_are_kept_as_they_are() -> None:
    request = MESSAGES.parse({**BODY, "temperature": 0.0, "stream": True, "seed": 7, "n": 2})
    assert (request.model, request.stream, request.limit, request.temperature) == ("m", True, 9, 0.0)
    assert (request.n, request.seed) == (None, None)  # fields that this API does not have
    assert request.num_messages == 1
    assert request.wants_usage
    assert MESSAGES.parse({**BODY, "stream": None}).stream is False


def test_messages_whose_shape_is_wrong_are_the_upstreams_to_refuse() -> None:
    odd = [1, None, "a", {}, {"content": 5}, {"content": [1, None, {"type": 5, "content": {}, "source": []}]}]
    request = MESSAGES.parse({**BODY, "messages": odd, "tools": 5, "system": 5})
    assert (request.num_messages, request.state) == (6, "")
    assert MESSAGES.prompt_text({**BODY, "messages": odd, "system": 5}) == ""


@pytest.mark.parametrize(
    "body",
    [
        {**BODY, "tools": [{"name": "f", "input_schema": {}}]},
        said({"type": "tool_use", "id": "a", "name": "f", "input": {}}, role="assistant"),
        said(result()),
        said({"type": "server_tool_use", "id": "a", "name": "f", "input": {}}, role="assistant"),
        said({"type": "web_search_tool_result", "tool_use_id": "a", "content": []}, role="assistant"),
        said({"type": "mcp_tool_use", "id": "a", "name": "f", "input": {}}, role="assistant"),
        said({"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}),
    ],
)
def test_a_request_has_tools_where_it_offers_or_has_used_them(body: dict[str, Any]) -> None:
    assert MESSAGES.parse(body).has_tools


def test_text_images_and_thinking_are_no_tools() -> None:
    body = said(
        {"type": "text", "text": "tool_use"}, {"type": "image", "source": {"type": "url", "url": "u"}}
    )
    assert not MESSAGES.parse({**body, "tools": []}).has_tools


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"container": "container_1"}, "container"),
        ({"container": {"skills": [{"type": "custom", "skill_id": "s"}]}}, "container"),
        ({"thread": {"type": "create"}}, "thread"),
        ({"mcp_servers": [{"type": "url", "url": "https://mcp.example"}]}, "mcp_servers"),
        ({"diagnostics": {"previous_message_id": "msg_1"}}, "diagnostics"),
        ({"fallback_credit_token": "t"}, "fallback_credit_token"),
        ({"tools": [WEB_SEARCH]}, "tools"),
        ({"tools": [{"name": "f", "input_schema": {}}, {"type": "web_fetch_20260318"}]}, "tools"),
        ({"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]}, "tools"),
        ({"tools": [{"type": "mcp_toolset", "mcp_server_name": "s"}]}, "tools"),
        ({"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "m"}]}, "tools"),
        ({"tools": [{"type": "a_tool_of_next_year", "name": "x"}]}, "tools"),
        (said(FILE), "file_id"),
        (said({"type": "image", "source": {"type": "file", "file_id": "f"}}), "file_id"),
        (said({"type": "container_upload", "file_id": "f"}), "file_id"),
        (said(result({"type": "text", "text": "a"}, FILE)), "file_id"),
        (said({"type": "document", "source": {"type": "content", "content": [FILE]}}), "file_id"),
        (
            said(
                {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": dict(WEB_SEARCH)}}
            ),
            "tools",
        ),
    ],
)
def test_what_the_upstream_keeps_or_looks_up_is_named(fields: dict[str, Any], state: str) -> None:
    assert MESSAGES.parse({**BODY, **fields}).state == state


@pytest.mark.parametrize(
    "fields",
    [
        {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
        {"compaction": {"type": "enabled"}},
        {"container": None, "mcp_servers": [], "diagnostics": None, "thread": None},
        {"tools": [{"name": "f", "input_schema": {}}, {"type": "custom", "name": "g", "input_schema": {}}]},
        {"tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"tools": [{"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}]},
        {"tools": [{"type": "computer_20250124", "name": "computer"}, {"type": "computer_toolset_20260801"}]},
        {"tools": [{"type": "browser_toolset_20260801"}, {"type": "memory_20250818", "name": "memory"}]},
        {"tools": [{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]},
        said({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
        said({"type": "text", "text": "file_id", "cache_control": {"type": "ephemeral"}}),
    ],
)
def test_what_depends_on_the_request_alone_is_no_state(fields: dict[str, Any]) -> None:
    assert MESSAGES.parse({**BODY, **fields}).state == ""


def test_counting_tokens_calls_no_tool_and_draws_nothing_but_needs_the_files() -> None:
    asked = COUNT.parse({**BODY, "tools": [WEB_SEARCH]})
    assert (asked.has_tools, asked.state, asked.temperature, asked.stream) == (False, "", 0, False)
    assert COUNT.parse(said(FILE)).state == "file_id"
    assert COUNT.parse({**BODY, "thread": {"type": "continue", "previous_message_id": "a"}}).state == "thread"


def test_counting_tokens_never_streams() -> None:
    assert COUNT.parse({**BODY, "stream": False}).stream is False
    with pytest.raises(RequestError, match="one reply") as refused:
        COUNT.parse({**BODY, "stream": True})
    assert (refused.value.status, refused.value.param) == (400, "stream")


def test_the_system_prompt_is_the_first_message() -> None:
    parts = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert MESSAGES.messages(BODY) == [TURN]
    assert MESSAGES.messages({**BODY, "system": ""}) == [TURN]
    assert MESSAGES.messages({**BODY, "system": "Be."}) == [{"role": "system", "content": "Be."}, TURN]
    assert MESSAGES.messages({**BODY, "system": parts}) == [{"role": "system", "content": parts}, TURN]


def test_prompt_text_has_every_text_in_order_and_nothing_encoded() -> None:
    body = said(
        {"type": "thinking", "thinking": "thought", "signature": "SIGNED"},
        {"type": "redacted_thinking", "data": "REDACTED"},
        {"type": "text", "text": "spoken"},
        {"type": "tool_use", "id": "IDENT", "name": "f", "input": {"path": "ARGUMENT"}},
        result({"type": "text", "text": "found"}, {"type": "image", "source": {"data": "BASE64"}}),
        {"type": "tool_result", "tool_use_id": "b", "content": "plainly"},
        {"type": "tool_result", "tool_use_id": "c"},
        {**TEXT_FILE, "title": "letter", "context": "from home"},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "PDF"}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "nested"}]}},
        {
            "type": "search_result",
            "source": "https://x",
            "title": "hit",
            "content": [{"type": "text", "text": "b"}],
        },
    )
    body["system"] = [{"type": "text", "text": "rules"}]
    body["messages"].append({"role": "user", "content": "最后"})
    assert MESSAGES.prompt_text(body).split("\n") == [
        *("rules", "thought", "spoken", "found", "plainly", "letter", "from home", "plain", "nested"),
        *("hit", "b", "最后"),
    ]


def test_asking_for_usage_changes_nothing_because_every_stream_tells_it() -> None:
    raw = b'{"model": "m"}'
    assert MESSAGES.ask_usage(raw, {"model": "m"}) is raw
    assert not MESSAGES.is_usage_event(b'{"type":"message_delta","usage":{"output_tokens":1}}')


def test_captured_requests_of_openclaw_are_read(data_root: Path) -> None:
    captured = json.loads((data_root / "openclaw" / "ant.json").read_bytes())["requests"]
    assert len(captured) == 3
    for call in captured:
        body = call["body"]
        request = MESSAGES.parse(body)
        assert (request.model, request.stream, request.limit) == ("ant-model", True, 8192)
        assert request.has_tools
        assert request.state == ""
        assert request.num_messages == len(body["messages"])
        system, first, *_ = MESSAGES.messages(body)
        assert system == {"role": "system", "content": body["system"]}
        assert first == body["messages"][0]
        text = MESSAGES.prompt_text(body)
        assert text.startswith("<!-- openclaw:attempt:STABLE -->\nYou are a personal assistant")
        assert "Hello there." in text
