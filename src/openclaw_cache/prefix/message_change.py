"""What a change of a prompt's history is about: small rules over the messages from the first that differs, in order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from openclaw_cache.prefix.content import CALL, MEDIA, THINKING
from openclaw_cache.prefix.hunk import first_hunk
from openclaw_cache.prefix.outline import Part
from openclaw_cache.prefix.sameness import common_prefix, common_suffix
from openclaw_cache.prefix.text_change import Named, named
from openclaw_cache.prefix.volatile import changed_kind


@dataclass(frozen=True)
class Turnout:
    """Messages of two prompts from the first that differs."""

    earlier: Sequence[Part]
    """Never empty: a prompt that was only appended to has not changed."""
    later: Sequence[Part]
    """Never empty either."""
    num_before: int
    """Messages before them, equal in both."""

    @property
    def old(self) -> Part:
        """The message that stood there."""
        return self.earlier[0]

    @property
    def new(self) -> Part:
        """The message that stands there."""
        return self.later[0]

    @cached_property
    def place_of_new(self) -> int:
        """Where the new message stood in the earlier prompt; 0 where it did not."""
        for place, part in enumerate(self.earlier):
            if part.text == self.new.text:
                return place
        if len(self.later) > 1:  # a client may add to what is now its first message: see what follows it
            for place, part in enumerate(self.earlier[2:], 1):
                if part.text == self.later[1].text and _is_longer_form(self.earlier[place], self.new):
                    return place
        return 0

    @cached_property
    def place_of_old(self) -> int:
        """Where the old message stands in the later prompt; 0 where it does not."""
        return next((place for place, part in enumerate(self.later) if part.text == self.old.text), 0)

    @property
    def role(self) -> str:
        """Whose message changed, in words for labels."""
        return _ROLES.get(self.old.name, "a message")


_ROLES: Final = {
    "user": "a user message",
    "assistant": "an assistant message",
    "tool": "a tool result",
    "function": "a tool result",
    "system": "a system message",
    "developer": "a system message",
}

_SUMMARY: Final = re.compile(
    r"(?is).{0,200}?(?:compacted into the following summary|continued from a previous conversation"
    r"|conversation is summarized below|<(?:conversation[-_ ]?|context[-_ ]?)?summary>"
    r"|summary of the (?:conversation|earlier|previous)|(?:conversation|context|session) summary\b"
    r"|对话摘要|以下是.{0,20}摘要)"
)
_OPENING: Final = re.compile(
    r"<(?P<tag>[A-Za-z][\w:-]{1,60})(?:\s[^<>\n]{0,200})?>|<<<BEGIN_(?P<mark>\w{1,60})>>>"
)
_MAX_UNCLOSED: Final = 32
"""Tags without an end, after which no more blocks are looked for: the search stays linear in hostile text."""
_RECALL_TAGS: Final = re.compile(
    r"<[\w:-]*(?:memor|recall|context|knowledge|reminder|retriev|document)[\w:-]*|<<<BEGIN_", re.IGNORECASE
)
_PRUNED: Final = re.compile(
    r"(?i)\[[^\]\n]{0,80}\b(?:cleared|pruned|omitted|truncated|removed|trimmed|elided|compacted)\b[^\]\n]{0,80}\]"
    r"|<(?:cleared|pruned|omitted|truncated)\b|\bcontent cleared\b"
)
_LEADS: Final = re.compile(r"^(?:<call |<result )(\S*)", re.MULTILINE)
_MIN_REST: Final = 8
_MAX_MEDIA_CHARS: Final = 600


def compaction(change: Turnout) -> Named | None:
    """A summary stands where messages stood."""
    known = {part.text for part in change.earlier}
    if any(_SUMMARY.match(_body(part)) and part.text not in known for part in change.later[:2]):
        return Named("compacted", "the history was replaced by a summary")
    return None


def reasoning_item(change: Turnout) -> Named | None:
    """Thinking that is an item of its own is gone, or has come."""
    moved = change.earlier[: change.place_of_new] or change.later[: change.place_of_old]
    if moved and all(map(_is_thinking, moved)):
        return Named("reasoning", "the thinking of an earlier turn")
    return None


def cut(change: Turnout) -> Named | None:
    """Messages from the front, or from the middle, are gone; what follows is the same."""
    place = change.place_of_new
    if not place:
        return None
    if change.num_before <= 2 and _goes_on(change.earlier[place:], change.later):
        what = "the oldest message is gone" if place == 1 else f"the {place} oldest messages are gone"
        return Named("history_cut", what)
    what = f"{change.role} is gone" if place == 1 else f"{place} messages are gone"
    return Named("message_removed", f"{what} from the middle of the history")


def inserted(change: Turnout) -> Named | None:
    """Messages stand before the old one that were not there."""
    place = change.place_of_old
    if not place:
        return None
    if _RECALL_TAGS.search(_body(change.new)[:400]):
        return Named("recall", "an injected message stands in the history")
    what = "a message was" if place == 1 else f"{place} messages were"
    return Named("message_inserted", f"{what} inserted into the history")


def injected_message(change: Turnout) -> Named | None:
    """An injected message of its own is gone, or another stands there."""
    old = _RECALL_TAGS.match(_body(change.old).lstrip()[:400])
    if old is None or change.old.name not in ("user", "system", "developer"):
        return None
    return Named("recall", "an injected message of the history is gone or has changed")


def media(change: Turnout) -> Named | None:
    """Only pictures or files differ."""
    if change.old.name != change.new.name or not (MEDIA in change.old.text or MEDIA in change.new.text):
        return None
    old, new = _without_media(change.old.text), _without_media(change.new.text)
    if "".join(old.split()) != "".join(new.split()):
        return None
    return Named("media", f"a picture or file in {change.role}")


def reasoning(change: Turnout) -> Named | None:
    """Only the thinking differs."""
    if change.old.name != change.new.name or not (THINKING in change.old.text or THINKING in change.new.text):
        return None
    if "".join(_without_thinking(change.old).split()) != "".join(_without_thinking(change.new).split()):
        return None
    return Named("reasoning", "the thinking of an earlier turn")


def form(change: Turnout) -> Named | None:
    """White space, call ids, or the form of JSON arguments."""
    if change.old.name != change.new.name:
        return None
    old, new = change.old.text, change.new.text
    if "".join(old.split()) == "".join(new.split()):
        return Named("message_format", f"white space in {change.role}")
    if _LEADS.sub("", old) == _LEADS.sub("", new) or _heads_aside(old) == _heads_aside(new):
        return Named("message_format", f"the call id in {change.role}")
    if CALL in old and _canonical(old) == _canonical(new):
        return Named("message_format", "tool call arguments written anew as JSON")
    return None


def pruned(change: Turnout) -> Named | None:
    """A tool result became shorter, or a mark stands in its place."""
    if change.old.name != change.new.name:
        return None
    is_result = change.old.name in ("tool", "function") or "<result " in change.old.text
    if is_result and len(change.new.text) < len(change.old.text):
        return Named("tool_result", "a tool result was shortened")
    if _PRUNED.search(change.new.text[:2000]) and not _PRUNED.search(change.old.text[:2000]):
        return Named("tool_result", f"{change.role} was cleared")
    return None


def injected_block(change: Turnout) -> Named | None:
    """A block is gone from a message, or has come into it; all else is the same."""
    if change.old.name != change.new.name or change.old.name not in ("user", "system", "developer"):
        return None
    (old, *old_blocks), (new, *new_blocks) = _blocks(change.old.text), _blocks(change.new.text)
    blocks = old_blocks, new_blocks
    if blocks[0] == blocks[1] or "".join(old.split()) != "".join(new.split()):
        return None
    if len(old) < _MIN_REST + len(change.old.name):
        return None  # the block is all there is
    if len(blocks[0]) != len(blocks[1]):
        what = "is gone from" if len(blocks[0]) > len(blocks[1]) else "has come into"
    elif any(map(_RECALL_TAGS.match, [*blocks[0], *blocks[1]])):
        what = "has changed in"
    else:
        return None
    return Named("recall", f"an injected block {what} {change.role}")


def text(change: Turnout) -> Named | None:
    """A date, an id, a workspace file in a message that is otherwise the same."""
    old, new = change.old.text, change.new.text
    if change.old.name != change.new.name or change.old.name not in ("user", "system", "developer"):
        return None
    at = common_prefix(old, new)
    found = named(first_hunk(old, new, at))
    if found is None or found.cause in ("system_format", "tool_text", "owner", "identity", "counter"):
        return None
    is_small = changed_kind(old[:20_000], new[:20_000]) == found.cause
    is_text_of_client = found.cause in ("workspace_file", "skills") or found.label.endswith("Runtime line")
    if is_small or is_text_of_client:
        return Named(found.cause, f"{found.label} in {change.role}")
    return None


def conversation(change: Turnout) -> Named | None:
    """Nothing of the history is the same."""
    if change.num_before:
        return None
    known = {part.text for part in change.earlier if part.name != "assistant" and len(part.text) > 20}
    if any(part.text in known for part in change.later[1:]):
        return None
    return Named("conversation", "another conversation")


def edited(change: Turnout) -> Named | None:
    """A part of a message was taken out, put in, or written anew."""
    number = change.num_before + 1
    if change.old.name != change.new.name:
        return Named("message_edited", f"message {number} of the history is another")
    if _is_cut_out(change.old.text, change.new.text):
        return Named("recall", f"a part of {change.role} is gone") if change.old.name == "user" else None
    return None


RULES: Final[tuple[Callable[[Turnout], Named | None], ...]] = (
    compaction, reasoning_item, cut, inserted, form, media, reasoning, text, injected_block, pruned, injected_message,
    conversation, edited,
)  # fmt: skip
"""In order: the first that says something names the change."""


def message_change(change: Turnout) -> Named:
    """What a change of the history is about."""
    for rule in RULES:
        found = rule(change)
        if found is not None:
            return found
    if change.old.name == "prompt":
        return Named("text_changed", "the text of the prompt")
    return Named(
        "message_edited", f"{change.role} was rewritten (message {change.num_before + 1} of the history)"
    )


def _is_thinking(part: Part) -> bool:
    return len(part.spans) == 1 and part.text.startswith(f"{part.name}\n{THINKING}\n")


def _body(part: Part) -> str:
    return part.text[part.spans[0][0] :] if part.spans else part.text


def _goes_on(earlier: Sequence[Part], later: Sequence[Part]) -> bool:
    """Whether what follows is the same for as long as both last (a pending tail aside)."""
    size = max(1, min(len(earlier), len(later)) - 2)
    return all(one.text == other.text for one, other in zip(earlier[1:size], later[1:size], strict=True))


def _is_longer_form(one: Part, other: Part) -> bool:
    return one.name == other.name and common_prefix(one.text, other.text) * 2 > len(one.text) + len(one.name)


def _blocks(text: str) -> list[str]:
    """A text without the blocks that stand between tags, and the blocks."""
    rest: list[str] = []
    blocks: list[str] = []
    begin, num_unclosed = 0, 0
    while num_unclosed < _MAX_UNCLOSED and (match := _OPENING.search(text, begin)):
        closing = f"</{match['tag']}>" if match["tag"] else f"<<<END_{match['mark']}>>>"
        end = text.find(closing, match.end())
        if end < 0:
            num_unclosed += 1
            rest.append(text[begin : match.end()])
            begin = match.end()
        else:
            rest.append(text[begin : match.start()])
            begin = end + len(closing)
            blocks.append(text[match.start() : begin])
    return ["".join([*rest, text[begin:]]), *blocks]


def _without_media(text: str) -> str:
    first, *rest = text.split(MEDIA)
    return "".join([first, *(piece[piece.find(">", 0, _MAX_MEDIA_CHARS) + 1 :] for piece in rest)])


def _without_thinking(part: Part) -> str:
    text, begin = part.text, 0
    if not part.spans:
        return text
    kept: list[str] = []
    ends = [*(start for start, _ in part.spans[1:]), len(text)]
    for (start, _), end in zip(part.spans, ends, strict=True):
        if text.endswith(f"\n{THINKING}\n", 0, start):
            kept.append(text[begin : start - len(THINKING) - 2])
            lead = text.rfind("\n<", start, end) if end < len(text) and text[end - 2 : end] == ">\n" else -1
            begin = lead if lead >= 0 else end if end == len(text) else end - 1
    return "".join([*kept, text[begin:]])


def _heads_aside(text: str) -> str:
    """A message without the ids in its head line and its calls."""
    head, line_break, rest = text.partition("\n")
    return f"{head.split(' ')[0]}{line_break}{_LEADS.sub('', rest)}"


def _canonical(text: str) -> str:
    """A message with the arguments of its calls in one form, ids aside."""
    lines = []
    for line in _LEADS.sub("", text).split("\n"):
        try:
            lines.append(json.dumps(json.loads(line), sort_keys=True) if line[:1] in "{[" and line else line)
        except (ValueError, RecursionError):
            lines.append(line)
    return "\n".join(lines)


def _is_cut_out(longer: str, shorter: str) -> bool:
    """Whether the shorter text is the longer one without one run of at least 20 characters."""
    if len(longer) < len(shorter) + 20:
        return False
    begin = common_prefix(longer, shorter)
    return begin + common_suffix(longer[begin:], shorter[begin:]) >= len(shorter)
