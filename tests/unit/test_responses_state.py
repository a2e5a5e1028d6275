from typing import Any

import pytest

from openclaw_cache.dialects.responses import kept_state

MESSAGE = {"role": "user", "content": "a"}


def state(*items: Any, **fields: Any) -> str:
    return kept_state({"model": "m", "store": False, "input": list(items) or "a", **fields})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1", "version": "2"}}, "prompt"),
        ({"store": True}, "store"),
        ({"store": None}, "store"),
        ({"prompt_cache_options": {"prewarm": True}}, "prompt_cache_options"),
        ({"prompt_cache_options": {"comparison_response_id": "resp_1"}}, "prompt_cache_options"),
        ({"previous_response_id": None, "conversation": None, "prompt": None, "background": False}, ""),
        ({"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "prompt_cache_key": "k"}, ""),
        ({"include": ["reasoning.encrypted_content"]}, ""),
    ],
)
def test_state_is_named_by_the_field_that_asks_for_it(fields: dict[str, Any], name: str) -> None:
    assert state(**fields) == name


def test_to_store_is_the_default() -> None:
    assert kept_state({"model": "m", "input": "a"}) == "store"


def test_the_first_field_names_the_state() -> None:
    assert state(store=True, background=True, conversation="c", previous_response_id="r") == (
        "previous_response_id"
    )
    assert state({"id": "msg_1"}, tools=[{"type": "web_search"}]) == "item_reference"


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ({"type": "item_reference", "id": "msg_1"}, "item_reference"),
        ({"id": "msg_1"}, "item_reference"),
        ({"type": None, "id": "msg_1"}, "item_reference"),
        ({"type": "reasoning", "id": "rs_1", "summary": []}, "item_reference"),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None}, "item_reference"),
        ({"type": "image_generation_call", "id": "ig_1"}, "item_reference"),
        ({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}, ""),
        ({"type": "reasoning", "id": "rs_1", "content": [{"type": "reasoning_text", "text": "a"}]}, ""),
        ({"type": "message", "id": "msg_1", "role": "assistant", "content": []}, ""),
        ({"id": "msg_1", "role": "assistant", "content": "a"}, ""),
        ({"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}, "file_id"),
        ({"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}, "file_id"),
        ({"role": "user", "content": [{"type": "input_file", "file_id": None, "file_data": "x"}]}, ""),
        (
            {"type": "function_call_output", "output": [{"type": "input_image", "file_id": "file-1"}]},
            "file_id",
        ),
        (
            {"type": "computer_call_output", "output": {"type": "computer_screenshot", "file_id": "file-1"}},
            "file_id",
        ),
        # a citation in an answer of before: text for the model, nothing is looked up
        (
            {"role": "assistant", "content": [{"type": "output_text", "annotations": [{"file_id": "f"}]}]},
            "",
        ),
    ],
)
def test_input_that_stands_for_what_the_upstream_keeps_is_state(item: dict[str, Any], name: str) -> None:
    assert state(MESSAGE, item) == name


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "web_search"},
        {"type": "web_search_preview_2025_03_11"},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "image_generation"},
        {"type": "mcp", "server_label": "s", "server_url": "https://mcp.test"},
        {"type": "programmatic_tool_calling"},
        {"type": "tool_search"},
        {"type": "shell"},
        {"type": "shell", "environment": {"type": "container_auto"}},
        {"type": "of_tomorrow"},
        {"type": "namespace", "tools": [{"type": "function", "name": "f"}, {"type": "mcp"}]},
        {},
        "web_search",
    ],
)
def test_tools_that_run_on_the_server_are_state(tool: Any) -> None:
    function = {"type": "function", "name": "f"}
    assert state(tools=[function, tool]) == "tools"
    assert state({"type": "additional_tools", "role": "developer", "tools": [tool]}) == "tools"


@pytest.mark.parametrize(
    "tool",
    [
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "f"},
        {"type": "local_shell"},
        {"type": "apply_patch"},
        {"type": "computer"},
        {"type": "computer_use_preview", "environment": "linux"},
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "tool_search", "execution": "client"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}, {"type": "custom"}]},
    ],
)
def test_tools_that_the_client_runs_are_none(tool: dict[str, Any]) -> None:
    assert state(tools=[tool]) == ""


def test_malformed_input_is_left_for_the_upstream_to_refuse() -> None:
    assert state(1, None, {"content": 3}, tools={"type": "web_search"}) == ""
