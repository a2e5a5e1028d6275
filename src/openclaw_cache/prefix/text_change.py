"""What a change of a text is about: small rules over the first lines that differ, in order."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from openclaw_cache.prefix.hunk import Hunk
from openclaw_cache.prefix.volatile import changed_kind, masked


class Named(NamedTuple):
    """A cause, and what it is about in words that hold no text of a prompt."""

    cause: str
    label: str


class _Line(NamedTuple):
    """A line that says what it is: its phrase names it."""

    cause: str
    pattern: re.Pattern[str]
    phrase: str


def _line(cause: str, pattern: str, phrase: str) -> _Line:
    return _Line(cause, re.compile(pattern, re.IGNORECASE), phrase)


_BILLING: Final = (
    _line("billing_header", r"^\s*x-[\w-]*billing[\w-]*\s*:", "the billing header"),
    _line("billing_header", r"^[^\n]{0,200}\bcch=\w+;?", "the billing header"),
    _line("billing_header", r"^\s*x-[a-z][\w-]{1,60}\s*:\s", "a header line"),
)

_LINES: Final = (
    _line("date", r"current date (?:and|&) time", '"Current date and time"'),
    _line("date", r"current time|当前时间|现在时间", '"Current time"'),
    _line("date", r"current date|当前日期", '"Current date"'),
    _line("date", r"today'?s date|\btoday is\b|今天是|今日", '"Today\'s date"'),
    _line("date", r"time ?zone|时区", '"Time zone"'),
    _line("date", r"reference utc", '"Reference UTC"'),
    _line("date", r"local time|\bdate\s*[:=]|\btime\s*[:=]|日期", "the date"),
    _line("id", r"session[ _-]?(?:id|key)", "the session id"),
    _line("id", r"(?:request|trace|span|message)[ _-]?id", "the request id"),
    _line("id", r"run[ _-]?id", "the run id"),
    _line("id", r"(?:conversation|thread|chat)[ _-]?id", "the conversation id"),
    _line("id", r"(?:user|account|organization|agent)[ _-]?id", "the user id"),
    _line("id", r"\bnonce\b", "a nonce"),
    _line("id", r"host ?name|\bhost\s*[:=]", "the host name"),
    _line("id", r"\bpid\b|process id", "the process id"),
    _line("path", r"working directory|\bcwd\b|工作目录", "the working directory"),
    _line("path", r"workspace|\brepo(?:sitory)?\b|\bgit ?root\b|project root", "the workspace's folder"),
    _line(
        "identity",
        r"(?:current )?model identity|powered by|exact model|\bmodel(?: id| name)?\s*[:=]|你使用的模型",
        "the model's name",
    ),
    _line(
        "identity", r"\breasoning\s*[:=]|thinking(?: level)?\s*[:=]|\beffort\s*[:=]", "the reasoning level"
    ),
    _line("identity", r"knowledge cut-?off", "the knowledge cutoff"),
    _line("identity", r"\btemperature\s*[:=]|\btop_p\s*[:=]", "the sampling settings"),
    _line(
        "counter",
        r"context(?: window| used| usage| left)?\s*[:=]|tokens? (?:used|left|remaining|usage)"
        r"|[\d.,]+[kKM]?\s*/\s*[\d.,]+[kKM]?\s*tokens",
        "the context used",
    ),
    _line("counter", r"\busage\b|\bquota\b|\bbudget\b|\bcost\b|用量", "the usage"),
    _line("counter", r"turns?\s*[:=#]|messages?\s*[:=#]|step\s*[:=#]", "a count"),
    _line("owner", r"\bowner\b|\belevated\b|authori[sz]ed senders?|\ballow-?list", "lines for the owner"),
)
"""In order: the first that fits names the line."""

_OPENING: Final = re.compile(r"(?:\W|the |your |it is |you are )*", re.IGNORECASE)

_KIND_PHRASES: Final = {"date": "a date or time", "id": "an id", "path": "a path", "counter": "a number"}

_RUNTIME: Final = re.compile(r"^\s*Runtime: (?=agent=)")
_RUNTIME_FIELDS: Final = {
    "session": "id", "sessionid": "id", "agent": "id", "host": "id", "active_node": "id", "channel": "id",
    "repo": "path", "os": "identity", "node": "identity", "model": "identity", "default_model": "identity",
    "shell": "identity", "thinking": "identity",
}  # fmt: skip

_FILE_HEADS: Final = re.compile(
    r"^(?:#{1,3} (?P<a>(?:\S{0,400}[/\\])?[\w.-]{1,80}\.(?:md|mdc|txt|json|ya?ml|toml))"
    r"|Contents of (?P<b>\S{0,400}[/\\][\w.-]{1,80})\b[^\n]{0,200}:"
    r"|# (?P<c>[\w.-]{1,80}\.md) instructions for \S{1,400}"
    r'|<(?:file|document|rule)[^>\n]{0,40} (?:path|name|source)="(?P<d>(?:[^"\n]{0,400}[/\\])?[\w.-]{1,80}\.\w{1,8})"'
    r"[^>\n]*>)[ \t]*$",
    re.MULTILINE,
)
"""How clients head a file that they write into a prompt: OpenClaw, Claude Code, Codex, tags. A name of it that is no
file's is free text, and is not told."""
_FILE_ENDS: Final = re.compile(
    r"^(?:<!-- /?openclaw:[^\n]*-->|</system-reminder>|</(?:file|document|rule)>|</INSTRUCTIONS>"
    r"|# (?:currentDate|gitStatus|userEmail|important-instruction-reminders)\b|<env>|gitStatus:)",
    re.MULTILINE,
)

_SKILLS: Final = re.compile(
    r"<available_skills>|^#{1,3} (?:Available )?Skills\b", re.MULTILINE | re.IGNORECASE
)
_SKILLS_END: Final = re.compile(r"</available_skills>|^#{1,2} (?!#)", re.MULTILINE)
_SKILL_NAMES: Final = re.compile(
    r"<name>\s*([\w.:-]{1,64})\s*</name>|^[-*] \*{0,2}([\w.:-]{1,64})\*{0,2}:", re.MULTILINE
)
_TOOL_TEXT: Final = re.compile(
    r"^#{1,3} (?:Tooling|Tools|Available Tools|Deferred Tool Schemas)\b", re.MULTILINE
)
_TOOL_ITEM: Final = re.compile(r"\s*[-*] [`*]{0,2}[\w.:-]{1,64}[`*]{0,2}(?:$|:| \()")
_TITLE: Final = re.compile(r"^(?:#{1,3} ([^\n]{1,60})$|gitStatus:|<env>)", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,3} ", re.MULTILINE)
_SECTIONS: Final = frozenset(
    {
        # OpenClaw
        "Tooling", "Deferred Tool Schemas", "Tool Call Style", "Execution Bias", "Promised Work", "Safety",
        "Runtime Context", "OpenClaw Control", "Skills", "Skill Workshop", "Memory Recall", "Workspace",
        "Documentation", "Bootstrap Pending", "Workspace Files (injected)", "Project Context", "Temporal Context",
        "Assistant Output Directives", "Silent Replies", "UI Presentation", "Messaging", "message tool",
        "Conversation Context", "Runtime", "Subagent Context", "Sub-Agent Spawning", "Heartbeats", "Reactions",
        "Group Chat Context", "Authorized Senders", "User Identity", "Current Date & Time", "Reply Tags", "Voice (TTS)",
        # Claude Code, Codex
        "Tone and style", "Doing tasks", "Task Management", "Tool usage policy", "Environment", "Code References",
        "Using your tools", "System", "auto memory", "MCP Server Instructions", "Proactiveness", "Personality",
        "Sandbox and approvals", "Environment context", "Output Style", "Language", "currentDate", "claudeMd",
        "gitStatus", "env",
    }
)  # fmt: skip
"""Headings that clients write themselves. Others may be a user's text, and are not named."""
_DYNAMIC: Final = "<!-- openclaw:attempt:DYNAMIC -->"
_MAX_NAMES: Final = 3


def billing(hunk: Hunk) -> Named | None:
    """A line for billing or tracing."""
    for line in _BILLING:
        if line.pattern.search(hunk.before) or line.pattern.search(hunk.after):
            return Named(line.cause, line.phrase)
    return None


def white_space(hunk: Hunk) -> Named | None:
    """Lines that are the same but for white space, in the whole text that is left."""
    if _bare(hunk.before) != _bare(hunk.after) and _bare("".join(hunk.removed)) != _bare("".join(hunk.added)):
        return None
    same = _bare(hunk.earlier[hunk.begin :]) == _bare(hunk.later[hunk.begin :])
    return Named("system_format", "white space or line ends") if same else None


def runtime_line(hunk: Hunk) -> Named | None:
    """A field of OpenClaw's `Runtime:` line."""
    if not (_RUNTIME.match(hunk.before) and _RUNTIME.match(hunk.after)):
        return None
    pairs = zip(_fields(hunk.before), _fields(hunk.after), strict=False)
    field = next((one[0] for one, other in pairs if one != other), "")
    cause = _RUNTIME_FIELDS.get(field.lower(), "id")
    known = f'"{field}" in' if field.lower() in _RUNTIME_FIELDS else "a field of"
    return Named(cause, f"{known} the Runtime line")


def workspace_file(hunk: Hunk) -> Named | None:
    """A file that the client writes into the prompt: its heading, or something in it."""
    old, new = _file_head(hunk.before), _file_head(hunk.after)
    if old and new and _basename(old) == _basename(new):
        return Named("path", f'the folder of workspace file "{_basename(old)}"')
    if old or new:
        earlier, later = set(_file_names(hunk.earlier)), set(_file_names(hunk.later))
        if old and _basename(old) not in later:
            return Named("workspace_file", f'workspace file "{_basename(old)}" is missing')
        if new and _basename(new) not in earlier:
            return Named("workspace_file", f'workspace file "{_basename(new)}" is new')
        if old and new:
            return Named("workspace_file", f'workspace file "{_basename(new)}" stands elsewhere')
    inside = _file_around(hunk.later, hunk.begin) or _file_around(hunk.earlier, hunk.begin)
    return Named("workspace_file", f'workspace file "{inside}" has changed') if inside else None


def skills(hunk: Hunk) -> Named | None:
    """The list of skills."""
    if not (
        _is_within(hunk.earlier, hunk.begin, _SKILLS, _SKILLS_END) or "<available_skills>" in hunk.removed
    ):
        return None
    old, new = (
        [name for pair in _SKILL_NAMES.findall(_section(text)) for name in pair if name]
        for text in (hunk.earlier, hunk.later)
    )
    gone, come = without(old, new), without(new, old)
    if gone:
        return Named("skills", f"{names('skill', gone)} missing")
    return Named("skills", f"{names('skill', come)} added" if come else "the list of skills")


def volatile(hunk: Hunk) -> Named | None:
    """A date, id, path or number in a line that is otherwise the same."""
    if not (hunk.removed and hunk.added):
        return None
    kind = changed_kind(hunk.before, hunk.after)
    if not kind:
        return None
    own = next(
        (line for line in _LINES if line.cause in ("identity", "id") and _says(line, hunk.before)), None
    )
    if own is not None:
        return Named(own.cause, own.phrase)
    phrase = next(
        (line.phrase for line in _LINES if line.cause == kind and line.pattern.search(hunk.before)),
        _KIND_PHRASES[kind],
    )
    return Named(kind, phrase)


def named_line(hunk: Hunk) -> Named | None:
    """A line that says what it is, in another wording or on one side only."""
    first, second = hunk.before.strip(), hunk.after.strip()
    if first and second and not hunk.is_in_one_line and not _begin_alike(first, second):
        second = ""
    for text in filter(None, (first, second)):
        for line in _LINES:
            is_there = line.pattern.search(text) if line.cause == "owner" else _says(line, text)
            if is_there and _is_short(text, line.cause):
                return Named(line.cause, line.phrase)
    return None


def tool_text(hunk: Hunk) -> Named | None:
    """The list of tools in the text."""
    is_item = _TOOL_ITEM.match(hunk.before) or _TOOL_ITEM.match(hunk.after)
    if not is_item or not _is_within(hunk.earlier, hunk.begin, _TOOL_TEXT, _HEADING):
        return None
    return Named("tool_text", "the list of tools in the system prompt")


def dynamic(hunk: Hunk) -> Named | None:
    """Something behind OpenClaw's mark of what changes."""
    if hunk.earlier.rfind(_DYNAMIC, 0, hunk.begin) < 0 and _DYNAMIC not in hunk.removed:
        return None
    section = section_around(hunk)
    return Named(
        "dynamic",
        f'section "{section}" of OpenClaw\'s DYNAMIC part' if section else "OpenClaw's DYNAMIC part",
    )


RULES: Final[tuple[Callable[[Hunk], Named | None], ...]] = (
    billing, white_space, runtime_line, workspace_file, skills, tool_text, volatile, named_line, dynamic,
)  # fmt: skip
"""In order: the first that says something names the change."""


def named(hunk: Hunk) -> Named | None:
    """What a change is about; None where no rule knows it."""
    for rule in RULES:
        found = rule(hunk)
        if found is not None:
            return found
    return None


def files_changed(earlier: str, later: str) -> str:
    """What of the workspace's files in a text came or went, in words; empty for nothing."""
    old, new = _file_names(earlier), _file_names(later)
    gone, come = without(old, new), without(new, old)
    said = [f"{names('workspace file', gone)} missing"] if gone else []
    return ", ".join([*said, f"{names('workspace file', come)} new"] if come else said)


def section_around(hunk: Hunk) -> str:
    """The heading above a change, where it is one that clients write; else empty."""
    head = _last(_TITLE, hunk.earlier, hunk.begin) or _TITLE.match(hunk.before)
    title = (head[1] or head[0].strip("<>:")).strip() if head else ""
    return title if title in _SECTIONS else ""


def without(some: Iterable[str], others: Iterable[str]) -> list[str]:
    """Names that are not among others, each once, in order."""
    known = set(others)
    return list(dict.fromkeys(name for name in some if name not in known))


def names(what: str, found: list[str]) -> str:
    """`tool "a" is`, `tools "a", "b", "c" and 4 more are`."""
    shown = ", ".join(f'"{safe_name(name)}"' for name in found[:_MAX_NAMES])
    more = f" and {len(found) - _MAX_NAMES} more" if len(found) > _MAX_NAMES else ""
    return f"{what} {shown} is" if len(found) == 1 else f"{what}s {shown}{more} are"


def safe_name(name: str) -> str:
    """A name cut to a bounded length, printable."""
    return "".join(char if char.isprintable() else "?" for char in name[:64])


def _says(line: _Line, text: str) -> bool:
    """Whether a text begins with what makes it such a line."""
    start = _OPENING.match(text)
    return line.pattern.match(text, start.end() if start else 0) is not None


def _bare(text: str) -> str:
    return "".join(text.split())


def _is_short(line: str, cause: str) -> bool:
    """Whether a line is made for its value: prose that happens to mention a date is not."""
    return cause == "owner" or len(line) <= 120 or bool(masked(line[:400])[1])


def _begin_alike(first: str, second: str) -> bool:
    size = min(12, len(first), len(second))
    return first[:size] == second[:size]


def _fields(line: str) -> Iterable[tuple[str, str]]:
    for field in line.partition(": ")[2].split(" | "):
        name, _, value = field.partition("=")
        yield name, value


def _file_head(line: str) -> str:
    match = _FILE_HEADS.match(line)
    return _path(match) if match else ""


def _path(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _basename(path: str) -> str:
    return re.split(r"[/\\]", path)[-1][:80]


def _file_names(text: str) -> list[str]:
    return [_basename(_path(match)) for match in _FILE_HEADS.finditer(text)]


def _file_around(text: str, at: int) -> str:
    """The file whose text stands at a place; empty for none."""
    head = _last(_FILE_HEADS, text, at)
    if head is None or _FILE_ENDS.search(text, head.end(), at) is not None:
        return ""
    return _basename(_path(head))


def _is_within(text: str, at: int, begins: re.Pattern[str], ends: re.Pattern[str]) -> bool:
    start = _last(begins, text, at)
    return start is not None and ends.search(text, start.end(), at) is None


def _last(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """The last match before a place."""
    found = deque(pattern.finditer(text, 0, at), maxlen=1)
    return found[0] if found else None


def _section(text: str) -> str:
    start = _SKILLS.search(text)
    opened = text.find("<available_skills>")
    begin = opened if opened >= 0 else start.end() if start else 0
    end = _SKILLS_END.search(text, begin + 1)
    return text[begin : end.start() if end else len(text)]
