"""Recognise requests by which agents compact their own context: their replies must never be cached.

Such a prompt is byte-identical when it is asked again, and it is asked again exactly when the agent
rejected the reply. The rules look only at how the system prompt, the first or the last user message *begins*,
word for word as the agents send it, so that a person who asks for a summary of a text does not match.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from openclaw_cache.dialects.openai import texts
from openclaw_cache.types import Json

Place = Literal["system", "first", "last"]
"""Leading system messages; the first, and the last user message. Each of their text parts counts."""


class Summariser(NamedTuple):
    """One rule: the text at `place` begins with `begins`, white space before it aside."""

    id: str
    place: Place
    begins: str


RULES: Final = (
    # OpenClaw, and pi (its agent core) for compaction and branch summaries.
    Summariser("openclaw", "system", "You are a context summarization assistant"),
    # opencode's compaction agent, over time; older ones used Claude Code's sentence.
    Summariser("opencode", "system", "You are an anchored context summarization assistant"),
    Summariser("opencode-agent", "system", "You are a context summarization agent"),
    Summariser("opencode-prompt", "last", "Provide a detailed prompt for continuing our conversation above"),
    # Claude Code's /compact: its own system block, and the message that asks.
    Summariser(
        "claude-code", "system", "You are a helpful AI assistant tasked with summarizing conversations"
    ),
    Summariser(
        "claude-code-prompt", "last", "Your task is to create a detailed summary of the conversation so far,"
    ),
    Summariser("claude-code-guard", "last", "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."),
    # Roo Code sends the same task as its system prompt.
    Summariser("roo-code", "system", "Your task is to create a detailed summary of the conversation so far,"),
    # Codex CLI.
    Summariser("codex", "last", "You are performing a CONTEXT CHECKPOINT COMPACTION"),
    Summariser("codex-system", "system", "You are performing a CONTEXT CHECKPOINT COMPACTION"),
    # Gemini CLI and its fork Qwen Code.
    Summariser("gemini-cli", "system", "You are the component that summarizes internal chat history"),
    # Cline.
    Summariser("cline", "last", '<explicit_instructions type="summarize_task">'),
    # OpenHands' condenser; it has no system prompt.
    Summariser("openhands", "first", "You are maintaining a context-aware state summary"),
    # aider's history summary.
    Summariser("aider", "system", "*Briefly* summarize this partial conversation about programming."),
    # goose.
    Summariser("goose", "system", "## Task Context\n- An llm context limit was reached"),
    # Crush.
    Summariser("crush", "system", "You are summarizing a conversation to preserve context"),
    # Kimi CLI, where the prompt closes the conversation or stands alone.
    Summariser("kimi", "last", "You are tasked with compacting a coding conversation context"),
    # LangChain's summarisation middleware.
    Summariser("langchain", "first", "<role>\nContext Extraction Assistant\n</role>"),
)

_BEGINNINGS: Final[dict[Place, tuple[str, ...]]] = {
    place: tuple(rule.begins for rule in RULES if rule.place == place)
    for place in ("system", "first", "last")
}
_MAX_PARTS: Final = 4
_HEAD_CHARS: Final = 160
"""How much of a text is looked at: some white space, and the longest beginning."""


def find(messages: Sequence[Json]) -> Summariser | None:
    """Return the rule that a conversation matches (`Dialect.messages`), or None. About 2 µs, whatever its size."""
    for place, message in _places(messages):
        for number, text in enumerate(texts(message)):
            if number == _MAX_PARTS:
                break
            head = text[:_HEAD_CHARS].lstrip()
            if head.startswith(_BEGINNINGS[place]):
                return next(rule for rule in RULES if rule.place == place and head.startswith(rule.begins))
    return None


def _places(messages: Sequence[Json]) -> Iterator[tuple[Place, Json]]:
    """Yield the leading system messages, then the first and the last user message."""
    for number, message in enumerate(messages):
        if _role(message) not in ("system", "developer"):
            break
        if number < _MAX_PARTS:
            yield "system", message
    first = next((message for message in messages if _role(message) == "user"), None)
    if first is not None:
        yield "first", first
        yield "last", next(message for message in reversed(messages) if _role(message) == "user")


def _role(message: Json) -> Json:
    return message.get("role") if isinstance(message, dict) else None
