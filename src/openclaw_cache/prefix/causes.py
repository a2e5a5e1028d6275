"""Why a prompt leaves the one before it: one word each, what it means, and what helps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cause:
    """One way in which prefixes break."""

    word: str
    means: str
    fix: str


_ALL: Final = (
    # Tools
    Cause(
        "tool_missing",
        "A tool of the earlier prompt is not offered any more. Tools stand first, so everything behind is read anew.",
        "Offer the same tools in every request of a session, and refuse a call in the client where it is not allowed. "
        "Where sets must differ (heartbeats, sub-agents), keep each set stable and use a cache that keeps several "
        "prefixes (a radix tree, not one slot).",
    ),
    Cause(
        "tool_added",
        "A tool is offered that the earlier prompt did not have.",
        "Offer all tools from the first request on, or load them behind a search tool; append new ones at the end.",
    ),
    Cause(
        "tool_changed",
        "A tool of the same name has another description or schema.",
        "Keep dates, counts, paths and lists of users out of descriptions and schemas; fix the tool server's version.",
    ),
    Cause(
        "tool_order",
        "The same tools come in another order.",
        "Sort tools by name before sending; where the client cannot, the canonicaliser's level full does.",
    ),
    Cause(
        "tool_format",
        "A tool says the same in other bytes: the order of its JSON keys, or white space.",
        "Write tools with one serialiser and a fixed order of keys, in the client: the order of parameters is the one "
        "in which a model fills them, so nobody else should change it.",
    ),
    # System prompt
    Cause(
        "billing_header",
        "A line for billing or tracing at the head of the prompt, new in each request.",
        "Turn it off in the client, or let the canonicaliser drop it (canonical: safe).",
    ),
    Cause(
        "date",
        "A date, a time or a time zone stands in front of what could be reused.",
        "Give only the day, or a tool that tells the time, or put the time into the last message; the canonicaliser's "
        "level full moves it.",
    ),
    Cause(
        "id",
        "An id that is new for each session or request (UUID, session, run, host, process).",
        "Leave it out, or put it behind the history; ids that only logs need belong in headers.",
    ),
    Cause(
        "path",
        "A folder or file path differs, for example by agent or by checkout.",
        "Use one fixed path (a mount, a symlink, ~) for all agents, or name the folder behind the stable text.",
    ),
    Cause(
        "counter",
        "A number that counts: tokens used, money, messages, percent of a context.",
        "Put counters into the last message, or leave them out.",
    ),
    Cause(
        "workspace_file",
        "A file of the workspace that stands in the prompt has changed (AGENTS.md, MEMORY.md, CLAUDE.md, …).",
        "Collect changes and write them between sessions, or keep what changes in a file that is read by a tool; a "
        "memory that recalls into the last message costs nothing behind it.",
    ),
    Cause(
        "skills",
        "The list of skills has changed.",
        "Keep the set of skills of a session fixed, sorted, and the same for all kinds of turns.",
    ),
    Cause(
        "owner",
        "Lines that stand there only for an owner, an elevated run or a certain sender.",
        "Give such rights by policy in the client, not by text in front of the history.",
    ),
    Cause(
        "identity",
        "The line that tells the model its name, its reasoning level or its knowledge cutoff.",
        "Keep one model per session; put the line behind the stable text.",
    ),
    Cause(
        "tool_text",
        "The list of tools that is written into the system prompt has changed.",
        "As for a missing tool: the same list in every request of a session.",
    ),
    Cause(
        "dynamic",
        "The section that the client itself marks as dynamic has changed.",
        "The canonicaliser's level full moves it behind the history.",
    ),
    Cause(
        "system_format",
        "The system prompt differs in white space or line ends only.",
        "Write it with one template and one kind of line end.",
    ),
    Cause(
        "system_changed",
        "The system prompt has other text.",
        "Put what changes at its end, or into the last message.",
    ),
    Cause(
        "role",
        "Another system prompt altogether: a summariser, a sub-agent, a title, another program.",
        "Side tasks that need the conversation: append the instruction to the live prompt instead of writing the "
        "conversation anew into another one. Others cost what they cost; keep each one's own head stable.",
    ),
    # Messages
    Cause(
        "history_cut",
        "The oldest messages are gone, so all later ones have moved.",
        "Cut rarely and much at a time, or compact; a window that slides by one message never hits.",
    ),
    Cause(
        "compacted",
        "The history was replaced by a summary.",
        "Compact late and rarely; let the summariser append to the live prompt, so that at least it hits.",
    ),
    Cause(
        "message_removed",
        "Messages in the middle of the history are gone.",
        "Leave the history as it was sent, or prune in few large steps.",
    ),
    Cause(
        "message_inserted",
        "Messages stand in the middle of the history that were not there before.",
        "Append them at the end.",
    ),
    Cause(
        "recall",
        "A block that was injected into a message (recalled memories, context) is gone, or has come.",
        "Keep injected text where it was sent, or inject only into the last message as a message of its own; this "
        "server's context engine stores a recall before its turn and repeats it byte for byte.",
    ),
    Cause(
        "tool_result",
        "The result of a tool call was shortened or cleared.",
        "Shorten a result before it is first sent, not later; clear old ones in few large steps.",
    ),
    Cause(
        "reasoning",
        "The thinking of an earlier turn was taken out, or put back.",
        "Send a turn back as it was generated, or never send thinking.",
    ),
    Cause(
        "message_format",
        "A message says the same in other bytes: white space, one text or a list of texts, call ids, or arguments "
        "that were written anew as JSON.",
        "Send back the bytes that were received.",
    ),
    Cause(
        "media",
        "A picture or file in the history was changed, taken out or added.",
        "Keep media where they were sent, in the same bytes.",
    ),
    Cause(
        "message_edited",
        "A message of the history has other text.",
        "Leave the history as it was sent.",
    ),
    Cause(
        "conversation",
        "Another conversation.",
        "Nothing to mend: only tools and system prompt can be shared.",
    ),
    Cause(
        "text_changed",
        "A prompt that is one bare text has other text.",
        "Put what is the same for all prompts first, what differs last.",
    ),
)

CAUSES: Final = {cause.word: cause for cause in _ALL}
"""All of them, by their word."""
