"""Prompts of a file, as `warm` sends them: what the file is, is told by its content.

Understood are, in JSON or one in each line (JSONL), alone or in a list:

- `{"prompt": "…"}`: a prompt as a user would send it;
- `{"text": "…"}`: the very text that the model reads, with no chat template around it;
- `{"messages": […], "tools": […]}`: a chat, or a whole OpenAI request with it;
- a capture, `{"requests": [{"body": {…}}, …]}`, or its requests `{"body": {…}}` alone: of each chat request only
  what all turns have in common, its leading system messages and its tools;

of OpenAI's chat API only: requests of Anthropic's, whose system prompt is no message, are refused;

and any other text, which is one prompt of a user. A file named `.txt` or `.md` is always that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openclaw_cache.errors import ConfigError

Prompt = dict[str, Any]
"""What `POST /admin/warm` takes: `messages` with or without `tools`, or `text`."""

_PLAIN_SUFFIXES = (".txt", ".md")
_LEADING_ROLES = ("system", "developer")
_ANTHROPIC = "a request of Anthropic's API, whose `system` field is not read: only OpenAI chat requests are"


class _FaultError(Exception):
    """What is wrong with one value of the file."""


def read_prompts(path: Path) -> list[Prompt]:
    """The distinct prompts of a file, in its order.

    Raises:
        ConfigError: names the file, and the line or entry at fault.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    found: dict[str, Prompt] = {}
    for place, value in _values(path, text):
        try:
            prompts = list(_prompts(value))
        except _FaultError as e:
            raise ConfigError(f"{place}: {e}") from None
        for prompt in prompts:
            found.setdefault(json.dumps(prompt, sort_keys=True), prompt)
    if not found:
        raise ConfigError(f"{path}: there is no prompt in it (of a capture, leading system messages count)")
    return list(found.values())


def _values(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of the file with its place; of plain text one prompt."""
    if path.suffix.lower() in _PLAIN_SUFFIXES or not text.lstrip().startswith(("{", "[")):
        if text.strip():
            yield str(path), {"prompt": text.strip()}
        return
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        if e.msg != "Extra data":
            raise _not_json(path, e.lineno, e) from None
        yield from _lines(path, text)
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    else:
        if isinstance(value, list):
            yield from ((f"{path}, entry {i + 1}", entry) for i, entry in enumerate(value))
        else:
            yield str(path), value


def _lines(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Each line's JSON value with its place."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except json.JSONDecodeError as e:
                raise _not_json(path, number, e) from None


def _not_json(path: Path, line: int, error: json.JSONDecodeError) -> ConfigError:
    return ConfigError(
        f"{path}, line {line}: not valid JSON ({error.msg}); a prompt that only looks like JSON belongs "
        "into a .txt file"
    )


def _prompts(value: Any) -> Iterator[Prompt]:
    """The prompts that one value stands for. Raises _FaultError."""
    match value:
        case {"requests": list(requests)}:
            bodies = [request.get("body") for request in requests if isinstance(request, dict)]
            chats = [body for body in bodies if isinstance(body, dict) and "messages" in body]
            readable = [body for body in chats if not _is_anthropic(body)]
            if not readable:
                fault = (
                    f"each chat is {_ANTHROPIC}"
                    if chats
                    else "none of its requests is a chat with `messages`"
                )
                raise _FaultError(f"a capture, but {fault}")
            for body in readable:
                yield from _common_part(body)
        case {"messages": _} as body if _is_anthropic(body):
            raise _FaultError(_ANTHROPIC)
        case {"body": {"messages": _} as body} if _is_anthropic(body):
            raise _FaultError(_ANTHROPIC)
        case {"body": {"messages": _} as body}:
            yield from _common_part(body)
        case {"messages": _}:
            yield _chat(value)
        case {"prompt": str(prompt)} if prompt:
            yield {"messages": [{"role": "user", "content": prompt}]}
        case {"text": str(text)} if text:
            yield {"text": text}
        case _:
            raise _FaultError(
                'expected {"prompt": …}, {"text": …} or {"messages": […]}, each with something in it, '
                "or a capture with `requests`"
            )


def _is_anthropic(body: dict[str, Any]) -> bool:
    """Whether a chat request is one of Anthropic's: it has a field `system`, or tools that are no functions."""
    tools = body.get("tools")
    described = [t for t in tools if isinstance(t, dict)] if isinstance(tools, list) else []
    return "system" in body or any("input_schema" in tool for tool in described)


def _common_part(body: dict[str, Any]) -> Iterator[Prompt]:
    """The leading system messages of a request and its tools; nothing where it has no system message."""
    chat = _chat(body)
    leading = []
    for message in chat["messages"]:
        if message.get("role") not in _LEADING_ROLES:
            break
        leading.append(message)
    if leading:
        yield chat | {"messages": leading}


def _chat(body: dict[str, Any]) -> Prompt:
    messages, tools = body["messages"], body.get("tools")
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise _FaultError("`messages` must be a list of messages, with at least one in it")
    if tools is not None and not (isinstance(tools, list) and all(isinstance(t, dict) for t in tools)):
        raise _FaultError("`tools` must be a list of tools")
    return {"messages": messages, "tools": tools} if tools else {"messages": messages}
