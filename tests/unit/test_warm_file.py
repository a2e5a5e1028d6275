"""Files of prompts: what they are is told by their content, and what is wrong by file and line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.warm_file import read_prompts

TOOL = {"type": "function", "function": {"name": "read"}}
SYSTEM = {"role": "system", "content": "You are Finn."}
USER = {"role": "user", "content": "hi"}


def user(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def read(tmp_path: Path, text: str, name: str = "prompts") -> list[dict[str, Any]]:
    (tmp_path / name).write_text(text, encoding="utf-8")
    return read_prompts(tmp_path / name)


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        ({"prompt": "hi"}, [user("hi")]),
        ({"text": "<|im_start|>"}, [{"text": "<|im_start|>"}]),
        ({"messages": [SYSTEM, USER]}, [{"messages": [SYSTEM, USER]}]),
        (
            {"model": "m", "temperature": 0, "stream": True, "tools": [TOOL], "messages": [SYSTEM, USER]},
            [{"messages": [SYSTEM, USER], "tools": [TOOL]}],
        ),
        ({"messages": [USER], "tools": []}, [{"messages": [USER]}]),
        ({"body": {"messages": [SYSTEM, USER], "tools": [TOOL]}}, [{"messages": [SYSTEM], "tools": [TOOL]}]),
    ],
)
def test_each_form_is_understood_alone_in_a_list_and_in_lines(
    tmp_path: Path, value: dict[str, Any], prompts: list[dict[str, Any]]
) -> None:
    assert read(tmp_path, json.dumps(value)) == prompts
    assert read(tmp_path, json.dumps(value, indent=2)) == prompts
    other = {"text": "other"}
    assert read(tmp_path, json.dumps([value, other])) == [*prompts, other]
    assert read(tmp_path, f"{json.dumps(value)}\n\n{json.dumps(other)}\r\n") == [*prompts, other]


def test_of_a_capture_only_what_all_turns_share_is_taken_once(tmp_path: Path) -> None:
    developer = {"role": "developer", "content": "Be brief."}
    turns = [
        {"messages": [SYSTEM, developer, USER], "tools": [TOOL]},
        {
            "messages": [SYSTEM, developer, USER, {"role": "assistant", "content": "yes"}, SYSTEM],
            "tools": [TOOL],
        },
        {"messages": [SYSTEM, USER]},
        {"messages": [USER]},  # nothing in common with any other
        {"model": "m", "input": "a request of another API"},
        {"model": "m", "system": "a request of Anthropic's API", "messages": [USER]},
    ]
    requests = [{"path": "/v1/x", "body": body} for body in turns] + [{"path": "/v1/models"}]
    assert read(tmp_path, json.dumps({"scenario": "two turns", "requests": requests})) == [
        {"messages": [SYSTEM, developer], "tools": [TOOL]},
        {"messages": [SYSTEM]},
    ]


def test_any_other_text_is_one_prompt_and_so_is_every_txt_and_md_file(tmp_path: Path) -> None:
    text = "Summarise:\n\n{not JSON}\n"
    assert read(tmp_path, text) == [user(text.strip())]
    for name in ("a.txt", "b.MD"):
        assert read(tmp_path, '{"prompt": "x"}\n', name) == [user('{"prompt": "x"}')]


def test_prompts_that_are_equal_are_sent_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [
        {"prompt": "b"},
        {"prompt": "a"},
        {"messages": user("b")["messages"]},
        {"text": "b"},
        {"prompt": "a"},
    ]
    assert read(tmp_path, "\n".join(map(json.dumps, lines))) == [user("b"), user("a"), {"text": "b"}]


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbf" + json.dumps({"prompt": "东京"}).encode())
    assert read_prompts(tmp_path / "bom") == [user("东京")]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["no prompt"]),
        (" \n", ["no prompt"]),
        ("[]", ["no prompt"]),
        ('{"prompt": "a"}\n{"prompt": \n', ["line 2", "not valid JSON", ".txt"]),
        ('{"prompt":\n\n x}', ["line 3", "not valid JSON"]),
        ('{"prompt": "a"}\n\n{"prmpt": "b"}', ["line 3", '{"prompt": …}']),
        ('[{"prompt": "a"}, {"prompt": ""}]', ["entry 2", "something in it"]),
        ('[{"prompt": "a"}, "b"]', ["entry 2"]),
        ('{"messages": []}', ["at least one"]),
        ('{"messages": ["hi"]}', ["list of messages"]),
        ('{"messages": [{"role": "user"}], "tools": {}}', ["list of tools"]),
        ('{"requests": [{"body": {"input": "x"}}]}', ["a capture", "`messages`"]),
        (
            '{"messages": [{"role": "user"}], "system": "Be kind."}',
            ["Anthropic", "only OpenAI chat requests"],
        ),
        ('{"body": {"messages": [], "tools": [{"name": "a", "input_schema": {}}]}}', ["Anthropic"]),
        ('{"requests": [{"body": {"messages": [], "system": []}}]}', ["a capture", "Anthropic"]),
        ('{"requests": [{"body": {"messages": [{"role": "user"}]}}]}', ["no prompt", "system messages"]),
        ("[" * 100_000, ["not valid JSON|nested too deeply"]),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_the_place(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert str(tmp_path / "prompts") in str(refused.value)
    for part in parts:
        assert any(choice in str(refused.value) for choice in part.split("|"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    for name, said in (("absent", "No such file"), ("latin", "UTF-8"), ("", "directory")):
        with pytest.raises(ConfigError, match=said):
            read_prompts(tmp_path / name)


def test_a_real_capture_of_anthropics_api_is_refused_and_says_why(data_root: Path) -> None:
    with pytest.raises(ConfigError, match="Anthropic's API, whose `system` field is not read"):
        read_prompts(data_root / "openclaw" / "ant.json")


def test_real_captures_give_their_system_prompts_and_tool_sets(data_root: Path) -> None:
    folder = data_root / "openclaw"
    assert [len(p["tools"]) for p in read_prompts(folder / "fullsub.json")] == [55, 34, 41]
    (turns,) = [json.loads((folder / "conv1.json").read_bytes())["requests"]]
    bodies = [r["body"] for r in turns if r["path"] == "/v1/chat/completions"]
    assert len(bodies) > 1
    assert read_prompts(folder / "conv1.json") == [
        {"messages": bodies[0]["messages"][:1], "tools": bodies[0]["tools"]}
    ]
