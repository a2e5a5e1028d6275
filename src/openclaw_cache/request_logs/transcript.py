"""Transcripts of OpenClaw's sessions as the prompts they tell of.

A transcript has the messages, and with each reply its usage; not the system prompt and the tools. Each reply makes one
request: the messages on its branch before it, after a compaction the summary and what was kept.
"""

from __future__ import annotations

import json
from typing import Any, Final

from openclaw_cache.dialects.usage import Usage, count
from openclaw_cache.request_logs.logged_request import LoggedRequest
from openclaw_cache.request_logs.moments import moment
from openclaw_cache.request_logs.records import NoRequestError
from openclaw_cache.types import Json

_KINDS: Final = frozenset(
    {
        "session", "message", "custom_message", "compaction", "branch_summary", "model_change",
        "thinking_level_change", "reset", "custom", "label", "session_info", "leaf",
    }
)  # fmt: skip
_MOST_DEPTH: Final = 1_000_000


def is_transcript(value: Json) -> bool:
    """Whether a line is the header of a transcript, or one of its entries."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    if kind == "session":
        return "version" in value or "cwd" in value or isinstance(value.get("id"), str)
    return kind == "message" and isinstance(value.get("message"), dict) and "role" in value["message"]


class TranscriptReader:
    """Reads one transcript, line by line. Keeps its messages in memory, as its host does."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._session: str | None = None
        self._entries: dict[str, dict[str, Any]] = {}
        self._last: str | None = None
        self._path: list[tuple[str, dict[str, Any]]] = []  # the branch up to the last entry: id, entry

    def read(self, value: Json, line: int) -> LoggedRequest | None:
        """Take one entry; returns the request whose reply it is, if it is one.

        Raises:
            NoRequestError: it is no entry of a transcript.
        """
        kind = value.get("type") if isinstance(value, dict) else None
        if kind not in _KINDS:
            raise NoRequestError("not an entry of a transcript")
        if kind == "session":
            told = value.get("id")
            self._session = told if isinstance(told, str) else self._session
            return None
        self._step_to(value.get("parentId", self._last))
        message = value.get("message")
        request = None
        if kind == "message" and isinstance(message, dict) and message.get("role") == "assistant":
            request = self._request(message, value, line)
        own = value.get("id")
        self._last = own if isinstance(own, str) else f"line {line}"
        self._path.append((self._last, value))
        self._entries[self._last] = value
        return request

    def _step_to(self, parent: Json) -> None:
        """Make `_path` the branch that ends with the parent. O(1) where it goes on, O(depth) on another branch."""
        if parent == self._last or not isinstance(parent, str):
            return
        branch: list[tuple[str, dict[str, Any]]] = []
        own: Json = parent
        while isinstance(own, str) and own in self._entries and len(branch) < _MOST_DEPTH:
            entry = self._entries[own]
            branch.append((own, entry))
            own = entry.get("parentId")
        self._path, self._last = branch[::-1], parent

    def _request(self, reply: dict[str, Any], entry: dict[str, Any], line: int) -> LoggedRequest | None:
        usage = _usage(reply.get("usage"))
        if usage is not None and not usage.prompt_tokens and not usage.completion_tokens:
            return None  # the host put it there itself
        model = reply.get("model")
        messages = self._context()
        if not messages:
            return None
        return LoggedRequest(
            body={"model": model, "messages": messages} if isinstance(model, str) else {"messages": messages},
            api="chat",
            at=moment(reply) or moment(entry),
            headers=[],
            session=self._session or self._file,
            agent=None,
            model=model if isinstance(model, str) else "",
            usage=usage,
            file=self._file,
            line=line,
            is_whole=False,
        )

    def _context(self) -> list[Json]:
        """What the model was shown: all, or after the last compaction its summary, what it kept, and what came then."""
        last = next((i for i in range(len(self._path) - 1, -1, -1) if self._is_compaction(i)), None)
        if last is None:
            return [message for _, entry in self._path if (message := _message(entry)) is not None]
        entry = self._path[last][1]
        first_kept = entry.get("firstKeptEntryId")
        start = next((i for i, (own, _) in enumerate(self._path[:last]) if own == first_kept), last)
        kept = [*self._path[start:last], *self._path[last + 1 :]]
        summary = {"role": "user", "content": f"<summary>\n{entry.get('summary', '')}\n</summary>"}
        return [summary, *(message for _, one in kept if (message := _message(one)) is not None)]

    def _is_compaction(self, index: int) -> bool:
        return self._path[index][1].get("type") == "compaction"


def _message(entry: dict[str, Any]) -> Json:
    """The message of an entry in the form of the chat API; None where the model was not shown one."""
    kind = entry.get("type")
    if kind == "custom_message":
        return {"role": "user", "content": entry.get("content")}
    if kind == "branch_summary":
        return {"role": "user", "content": f"<summary>\n{entry.get('summary', '')}\n</summary>"}
    message = entry.get("message")
    if kind != "message" or not isinstance(message, dict):
        return None
    if message.get("excludeFromContext") is True or message.get("runtimeContextCarrier") is True:
        return None
    return _said(message)


def _said(message: dict[str, Any]) -> Json:
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return _assistant(content)
    if role in ("toolResult", "tool"):
        return {"role": "tool", "tool_call_id": message.get("toolCallId"), "content": content}
    if role == "bashExecution":
        content = f"$ {message.get('command', '')}\n{message.get('output', '')}"
    return {"role": "user", "content": content}


def _assistant(content: Json) -> Json:
    if not isinstance(content, list):
        return {"role": "assistant", "content": content}
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    calls = [
        {
            "id": part.get("id"),
            "type": "function",
            "function": {
                "name": part.get("name"),
                "arguments": json.dumps(part.get("arguments"), ensure_ascii=False, separators=(",", ":")),
            },
        }
        for part in content
        if isinstance(part, dict) and part.get("type") == "toolCall"
    ]
    said: dict[str, Json] = {"role": "assistant", "content": "".join(texts) or None}
    return said | {"tool_calls": calls} if calls else said


def _usage(usage: Json) -> Usage | None:
    """OpenClaw's own form: `input` is what was neither read from the provider's cache nor written to it."""
    if not isinstance(usage, dict):
        return None
    rest, completion = count(usage.get("input")), count(usage.get("output"))
    if rest is None:
        return None
    cached, written = count(usage.get("cacheRead")) or 0, count(usage.get("cacheWrite")) or 0
    return Usage(rest + cached + written, completion, cached, written)
