"""Labels of prefix breaks as data: what `prefix` says in English, read back into a code and its values. Pure.

Labels are kept as text (records, history), so old ones are read too. One that no template fits is only its text: it was
cut to a bounded length, or a name in it has a quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from openclaw_cache.api.sentences import Sentence, said, spoken
from openclaw_cache.types import Json

_MAX_CHARS: Final = 1000
_NUM_KEPT: Final = 4096

ROLES: Final = {
    "label.role.user": "a user message",
    "label.role.assistant": "an assistant message",
    "label.role.tool": "a tool result",
    "label.role.system": "a system message",
    "label.role.other": "a message",
}
TURNS: Final = {
    "label.turn.summariser": "summariser",
    "label.turn.title": "title",
    "label.turn.memory_flush": "memory flush",
    "label.turn.sub_agent": "sub-agent",
    "label.turn.announcement": "sub-agent's announcement",
    "label.turn.heartbeat": "heartbeat",
}
_LEAVES: Final = {
    # Tools
    "label.tools_missing": "tools {names} are missing",
    "label.tools_missing.one": "tool {names} is missing",
    "label.tools_added": "tools {names} are added",
    "label.tools_added.one": "tool {names} is added",
    "label.tools_gone": "all {n:d} tools are missing",
    "label.tools_gone.one": "the only tool is missing",
    "label.tools_first": "{n:d} tools where there were none",
    "label.tools_first.one": "1 tool where there were none",
    "label.tools_repeated": "a tool is offered another number of times",
    "label.tools_order": "the same tools in another order",
    "label.tool_schema": 'the schema of tool "{name}"',
    "label.tool_description": 'the description of tool "{name}"',
    "label.tool_keys": 'tool "{name}" has its JSON keys in another order',
    "label.tool_space": 'tool "{name}" has other white space',
    # System prompt
    "label.other_system": "another system prompt",
    "label.system_text_missing": "a text of the system prompt is missing",
    "label.system_text_new": "a text of the system prompt is new",
    "label.system_section": 'section "{name}" of the system prompt',
    "label.system_line": "line {line:d} of the system prompt",
    "label.tool_list": "the list of tools in the system prompt",
    "label.dynamic_section": 'section "{name}" of OpenClaw\'s DYNAMIC part',
    "label.dynamic": "OpenClaw's DYNAMIC part",
    "label.white_space": "white space or line ends",
    "label.runtime_field": '"{name}" in the Runtime line',
    "label.runtime": "a field of the Runtime line",
    "label.files_missing": "workspace files {names} are missing",
    "label.files_missing.one": "workspace file {names} is missing",
    "label.files_new": "workspace files {names} are new",
    "label.files_new.one": "workspace file {names} is new",
    "label.file_folder": 'the folder of workspace file "{name}"',
    "label.file_elsewhere": 'workspace file "{name}" stands elsewhere',
    "label.file_changed": 'workspace file "{name}" has changed',
    "label.skills_missing": "skills {names} are missing",
    "label.skills_missing.one": "skill {names} is missing",
    "label.skills_added": "skills {names} are added",
    "label.skills_added.one": "skill {names} is added",
    "label.skills": "the list of skills",
    # Lines
    "label.heading": '"{name}"',
    "label.billing_header": "the billing header",
    "label.header_line": "a header line",
    "label.the_date": "the date",
    "label.session_id": "the session id",
    "label.request_id": "the request id",
    "label.run_id": "the run id",
    "label.conversation_id": "the conversation id",
    "label.user_id": "the user id",
    "label.nonce": "a nonce",
    "label.host_name": "the host name",
    "label.process_id": "the process id",
    "label.working_directory": "the working directory",
    "label.workspace_folder": "the workspace's folder",
    "label.model_name": "the model's name",
    "label.reasoning_level": "the reasoning level",
    "label.knowledge_cutoff": "the knowledge cutoff",
    "label.sampling": "the sampling settings",
    "label.context_used": "the context used",
    "label.usage": "the usage",
    "label.count": "a count",
    "label.owner": "lines for the owner",
    "label.date": "a date or time",
    "label.id": "an id",
    "label.path": "a path",
    "label.number": "a number",
    # Messages
    "label.first_message": "the first message differs in front of text that both have",
    "label.summary": "the history was replaced by a summary",
    "label.thinking": "the thinking of an earlier turn",
    "label.oldest_gone": "the {n:d} oldest messages are gone",
    "label.oldest_gone.one": "the oldest message is gone",
    "label.messages_gone": "{n:d} messages are gone from the middle of the history",
    "label.message_gone": "{role} is gone from the middle of the history",
    "label.injected_stands": "an injected message stands in the history",
    "label.injected_gone": "an injected message of the history is gone or has changed",
    "label.inserted": "{n:d} messages were inserted into the history",
    "label.inserted.one": "a message was inserted into the history",
    "label.media": "a picture or file in {role}",
    "label.message_space": "white space in {role}",
    "label.call_id": "the call id in {role}",
    "label.arguments": "tool call arguments written anew as JSON",
    "label.result_shortened": "a tool result was shortened",
    "label.cleared": "{role} was cleared",
    "label.block_gone": "an injected block is gone from {role}",
    "label.block_new": "an injected block has come into {role}",
    "label.block_changed": "an injected block has changed in {role}",
    "label.other_conversation": "another conversation",
    "label.other_message": "message {number:d} of the history is another",
    "label.part_gone": "a part of {role} is gone",
    "label.rewritten": "{role} was rewritten (message {number:d} of the history)",
    "label.prompt_text": "the text of the prompt",
}
_WHOLES: Final = {
    "label.in_turn": "{what} ({turn})",
    "label.first_differs": "{what}, and first differs {first}",
    "label.both": "{what}, {other}",
    "label.in_system": "{what} in the system prompt",
    "label.in_message": "{what} in {role}",
}
"""What is made of other labels."""

_NAMES: Final = {"label.names": "{names}", "label.names_more": "{names} and {num_more:d} more"}

LABELS: Final = {**_LEAVES, **_WHOLES, **_NAMES, **ROLES, **TURNS}
"""All templates, by their code."""

_FIELD: Final = re.compile(r"\{(\w+)(?::d)?\}")
_NUMBER: Final = "[1-9][0-9]{0,14}"
"""What any reader of JSON takes as it is."""
_PATTERNS: Final = {
    "name": r'(?P<name>[^"]+)',
    "names": rf'(?P<names>"[^"]+"(?:, "[^"]+"){{0,2}})(?: and (?P<num_more>{_NUMBER}) more)?',
    "role": f"(?P<role>{'|'.join(map(re.escape, ROLES.values()))})",
    **{number: rf"(?P<{number}>{_NUMBER})" for number in ("n", "line", "number")},
}
_IN_SYSTEM: Final = " in the system prompt"
_ROLE_CODES: Final = {text: code for code, text in ROLES.items()}
_TURN_CODES: Final = {text: code for code, text in TURNS.items()}


def _pattern(template: str) -> re.Pattern[str]:
    pieces = _FIELD.split(template)
    return re.compile(
        "".join(_PATTERNS[piece] if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
    )


_READERS: Final = {code: _pattern(template) for code, template in _LEAVES.items()}


@lru_cache(_NUM_KEPT)
def read(label: str) -> Sentence | None:
    """A label as data; None where it is only its text. Cost: some 0.05 ms, nothing for a label that was read lately."""
    if len(label) > _MAX_CHARS:
        return None
    found = _of_turn(label)
    return found if found is not None and spoken(found, LABELS) == label else None


def shown(label: str) -> list[Json]:
    """A label as JSON: one sentence; none where it is only its text."""
    found = read(label)
    return [] if found is None else [found.shown()]


def _of_turn(label: str) -> Sentence | None:
    """All but the kind of turn that may stand at the end."""
    for turn, code in _TURN_CODES.items():
        if label.endswith(f" ({turn})"):
            what = _with_first(label.removesuffix(f" ({turn})"))
            return None if what is None else said("label.in_turn", what=what, turn=said(code))
    return _with_first(label)


def _with_first(label: str) -> Sentence | None:
    """What came or went, and what differs first; or one place alone."""
    for text, rest in _splits(label, ", and first differs "):
        if (first := _leaf(rest)) is not None and (what := _came_or_went(text)) is not None:
            return said("label.first_differs", what=what, first=first)
    return _came_or_went(label) or _place(label)


def _came_or_went(label: str) -> Sentence | None:
    """One change of a set, or two."""
    for text, rest in _splits(label, ", "):
        if (what := _leaf(text)) is not None and (other := _leaf(rest)) is not None:
            return said("label.both", what=what, other=other)
    return _leaf(label)


def _place(label: str) -> Sentence | None:
    """Something in the system prompt, or in a message."""
    if label.endswith(_IN_SYSTEM):
        what = _leaf(label.removesuffix(_IN_SYSTEM))
        return None if what is None else said("label.in_system", what=what)
    for role, code in _ROLE_CODES.items():
        if label.endswith(f" in {role}"):
            what = _leaf(label.removesuffix(f" in {role}"))
            return None if what is None else said("label.in_message", what=what, role=said(code))
    return None


def _leaf(label: str) -> Sentence | None:
    for code, pattern in _READERS.items():
        if (match := pattern.fullmatch(label)) is not None:
            return Sentence(code.removesuffix(".one"), _values(match, is_one=code.endswith(".one")))
    return None


def _splits(label: str, between: str) -> Iterator[tuple[str, str]]:
    """A text in two, at each place where `between` stands: a name may have it too."""
    at = label.find(between)
    while at >= 0:
        yield label[:at], label[at + len(between) :]
        at = label.find(between, at + 1)


def _values(match: re.Match[str], *, is_one: bool) -> dict[str, Any]:
    """What a template's fields held."""
    held = {name: text for name, text in match.groupdict().items() if text is not None}
    num_more = int(held.pop("num_more", 0))
    values: dict[str, Any] = {"n": 1} if is_one else {}
    for field, text in held.items():
        if field == "name":
            values[field] = text
        elif field == "role":
            values[field] = said(_ROLE_CODES[text])
        elif field == "names":
            names = text[1:-1].split('", "')
            values["n"] = len(names) + num_more
            more = {"num_more": num_more} if num_more else {}
            values[field] = said("label.names_more" if more else "label.names", names=names, **more)
        else:
            values[field] = int(text)
    return values
