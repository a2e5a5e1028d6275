"""Two prompts of a session, one after the other: what was kept, what could have been, where and why it broke."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.prefix.hunk import first_hunk
from openclaw_cache.prefix.message_change import Turnout, message_change
from openclaw_cache.prefix.outline import Outline, Part, utf8_size
from openclaw_cache.prefix.sameness import common_prefix, shared_bytes
from openclaw_cache.prefix.text_change import Named, files_changed, named, section_around
from openclaw_cache.prefix.tokens import bytes_per_token
from openclaw_cache.prefix.tool_change import Spot, same_tool, tool_set
from openclaw_cache.prefix.turns import is_carrier, num_tail, turn_of, without_stamp

MIN_LOST_TOKENS: Final = 64
MIN_LOST_RATIO: Final = 0.01
"""An alarm needs so many tokens lost, and so much of what was reachable."""

_MAX_SHARED_ROLE: Final = 0.1
_EXCERPT_BEFORE: Final = 40
_EXCERPT_AFTER: Final = 160


@dataclass(frozen=True, slots=True)
class Comparison:
    """The later prompt against the earlier one. Bytes are UTF-8, in the order in which a model reads the prompt."""

    kept_bytes: int
    """Shared from the start, in whole characters."""
    reachable_bytes: int
    """Of the earlier prompt: what stands in the later one too, in the same order; `kept_bytes` is part of it."""
    cause: str
    """`prefix.causes.CAUSES`; empty where nothing worth a word was lost."""
    label: str
    """For people, in the client's own terms. It names tools, files of the workspace and skills, and holds no other
    text of a prompt."""
    pointer: str
    """Of the later body (of the earlier one where something is missing): a JSON pointer."""
    offset: int
    """Bytes into that text."""
    before: str
    after: str
    """A little of what stood there, and of what stands there now; for the terminal of whoever owns the prompts."""
    fix: str
    """What to do about it."""
    difference: str = ""
    """The cause by its word, however little was lost; empty where the later prompt goes on from the earlier one, or
    is its beginning."""
    is_continued: bool = False
    """Whether the later prompt begins with all of the earlier one, what only ever stands at the tail aside."""
    turn: str = ""
    """The kind of turn of the later prompt, where its client says it (`prefix.turns`)."""

    @property
    def lost_bytes(self) -> int:
        """Reachable, and not kept."""
        return self.reachable_bytes - self.kept_bytes


@dataclass(frozen=True, slots=True)
class Meeting:
    """How far two prompts go together."""

    num_parts: int
    """Whole parts that are the same."""
    num_chars: int
    """Of the part behind them."""
    kept_bytes: int
    is_continued: bool
    is_beginning: bool
    """Whether the later prompt is the beginning of the earlier one."""


def is_worth_an_alarm(lost_tokens: float, reachable_tokens: float) -> bool:
    """Whether so much was lost that somebody should hear of it."""
    return lost_tokens >= MIN_LOST_TOKENS and lost_tokens >= MIN_LOST_RATIO * reachable_tokens


def meet(earlier: Outline, later: Outline) -> Meeting:
    """How far `later` follows `earlier`. Cost: O(size) to compare, nothing where parts are the same objects."""
    ours, theirs = earlier.parts, later.parts
    num_parts, kept = 0, 0
    for one, other in zip(ours, theirs, strict=False):
        if one is not other and (one.kind != other.kind or one.text != other.text):
            break
        num_parts += 1
        kept += one.num_bytes
    rest, rest2 = ours[num_parts:], theirs[num_parts:]
    num_chars = 0
    if (
        rest
        and rest2
        and rest[0].kind == rest2[0].kind
        and (rest[0].kind != "message" or rest[0].name == rest2[0].name)
    ):
        num_chars = common_prefix(rest[0].text, rest2[0].text)
        kept += utf8_size(rest[0].text[:num_chars])
    continued = not rest or (len(rest) == 1 and bool(rest2) and num_chars == len(rest[0].text))
    continued = continued or len(rest) <= num_tail(ours)
    beginning = not rest2 or (len(rest2) == 1 and bool(rest) and num_chars == len(rest2[0].text))
    return Meeting(num_parts, num_chars, kept, continued, beginning)


def compare(earlier: Outline, later: Outline, meeting: Meeting | None = None) -> Comparison:
    """Where `later` first leaves `earlier`. Cost: O(size) where the prefix holds, O(lines) more where it broke.

    Args:
        earlier: the prompt that may be known.
        later: the one that comes.
        meeting: what `meet` said of both, where it was asked already.
    """
    met = meeting or meet(earlier, later)
    turn = turn_of(later)
    kept = met.kept_bytes
    if met.is_continued or met.is_beginning:
        continued = met.is_continued
        return Comparison(kept, kept, "", "", "", 0, "", "", "", is_continued=continued, turn=turn)
    reachable = kept
    if not _is_asked_again(earlier, later, met):
        reachable += _reachable_behind(earlier, later, met)
    scale = bytes_per_token(earlier)
    is_alarm = is_worth_an_alarm((reachable - kept) / scale, reachable / scale)
    found, spot = _explained(earlier, later, met)
    if found.cause == "conversation" and is_alarm:
        found = Named("text_changed", "the first message differs in front of text that both have")
    is_other_turn = turn and turn != turn_of(earlier) and turn not in found.label
    before, after = _excerpts(earlier.parts[met.num_parts], later.parts[met.num_parts], met.num_chars)
    return Comparison(
        kept_bytes=kept,
        reachable_bytes=reachable,
        cause=found.cause if is_alarm else "",
        label=f"{found.label} ({turn})" if is_other_turn else found.label,
        pointer=spot.pointer,
        offset=spot.offset,
        before=before,
        after=after,
        fix=CAUSES[found.cause].fix,
        difference=found.cause,
        turn=turn,
    )


def _reachable_behind(earlier: Outline, later: Outline, met: Meeting) -> int:
    """Bytes behind the first difference that stand in both. What only ever stands at the tail cannot be reached."""
    ours, theirs = (_behind(prompt.parts, met.num_parts) for prompt in (earlier, later))
    if _num_assistant(theirs) > _num_assistant(ours):
        theirs = _without_pending(theirs)
    rests = [
        [
            part.text[met.num_chars :] if part is parts[0] else part.text
            for part in parts
            if not is_carrier(part)
        ]
        for parts in (ours, theirs)
    ]
    return shared_bytes([text for text in rests[0] if text], [text for text in rests[1] if text])


def _behind(parts: Sequence[Part], begin: int) -> Sequence[Part]:
    return parts[begin : max(begin, len(parts) - num_tail(parts))]


def _is_asked_again(earlier: Outline, later: Outline, met: Meeting) -> bool:
    """Whether the last message was only sent again with a new time stamp, as clients do after an error."""
    ours, theirs = (_behind(prompt.parts, met.num_parts) for prompt in (earlier, later))
    return (
        len(ours) == len(theirs) == 1
        and ours[0].name == "user"
        and without_stamp(ours[0]) == without_stamp(theirs[0])
    )


def _num_assistant(parts: Sequence[Part]) -> int:
    return sum(part.name == "assistant" and part.kind == "message" for part in parts)


def _without_pending(parts: Sequence[Part]) -> Sequence[Part]:
    """Without what follows the model's last turn.

    A conversation that moved on has it for the first time; where it looks like an earlier tail it moves along.
    """
    last = max(
        number for number, part in enumerate(parts) if part.name == "assistant" and part.kind == "message"
    )
    return parts[: last + 1]


def _explained(earlier: Outline, later: Outline, met: Meeting) -> tuple[Named, Spot]:
    old, new = earlier.parts[met.num_parts], later.parts[met.num_parts]
    if "tool" in (old.kind, new.kind):
        return _explained_tools(earlier, later, old, new)
    if "system" in (old.kind, new.kind):
        return _explained_system(earlier, later, met)
    num_before = sum(part.kind == "message" for part in earlier.parts[: met.num_parts])
    found = message_change(Turnout(earlier.parts[met.num_parts :], later.parts[met.num_parts :], num_before))
    is_gone = found.cause in ("history_cut", "message_removed")
    return found, _spot(old, 0) if is_gone else _spot(new, met.num_chars)


def _explained_tools(earlier: Outline, later: Outline, old: Part, new: Part) -> tuple[Named, Spot]:
    ours, theirs = _of_kind(earlier, "tool"), _of_kind(later, "tool")
    if old.kind == new.kind and old.name == new.name:
        found, spot = same_tool(old, new)
        if {part.name for part in ours} == {part.name for part in theirs}:
            return found, spot
        whole = tool_set(ours, theirs)
        return Named(whole.cause, f"{whole.label}, and first differs {found.label}"), spot
    is_gone = old.kind == "tool" and old.name not in {part.name for part in theirs}
    spot = Spot(old.pointer if is_gone or new.kind != "tool" else new.pointer, 0)
    if not (ours and theirs) and _is_other_role(earlier, later):
        return Named("role", "another system prompt"), spot
    return tool_set(ours, theirs), spot


def _explained_system(earlier: Outline, later: Outline, met: Meeting) -> tuple[Named, Spot]:
    old, new = earlier.parts[met.num_parts], later.parts[met.num_parts]
    if _is_other_role(earlier, later):
        return Named("role", "another system prompt"), _spot(new, met.num_chars)
    ours = _of_kind(earlier, "system", met.num_parts)
    theirs = _of_kind(later, "system", met.num_parts)
    if not theirs or any(part.text == new.text for part in ours[1:]):
        return _block(old.text, "") or Named(
            "system_changed", "a text of the system prompt is missing"
        ), _spot(old, 0)
    if not ours or any(part.text == old.text for part in theirs[1:]):
        return _block("", new.text) or Named("system_changed", "a text of the system prompt is new"), _spot(
            new, 0
        )
    hunk = first_hunk(old.text, new.text, met.num_chars)
    found = named(hunk)
    if found is None:
        section = section_around(hunk)
        number = old.text.count("\n", 0, hunk.begin) + 1
        place = f'section "{section}"' if section else f"line {number}"
        found = Named("system_changed", f"{place} of the system prompt")
    if found.cause in ("system_changed", "dynamic", "owner"):
        files = files_changed(old.text[hunk.begin :], new.text[hunk.begin :])
        if files:  # what a client says of a file that is there or not often stands before the file
            found = Named("workspace_file", f"{files}, and first differs {found.label}")
    elif found.cause in ("date", "id", "path", "counter", "identity") and "Runtime line" not in found.label:
        found = Named(found.cause, f"{found.label} in the system prompt")
    return found, _spot(new, met.num_chars)


def _block(old: str, new: str) -> Named | None:
    """What a whole system text is about that came or went."""
    found = named(first_hunk(old, new, 0))
    return None if found is None or found.cause in ("system_format", "dynamic") else found


def _is_other_role(earlier: Outline, later: Outline) -> bool:
    """Whether hardly anything of the system prompt is the same."""
    ours = [part.text for part in _of_kind(earlier, "system")]
    theirs = [part.text for part in _of_kind(later, "system")]
    size = max(sum(map(utf8_size, ours)), sum(map(utf8_size, theirs)))
    if size < 200 or (ours and theirs and common_prefix(ours[0], theirs[0]) > size // 4):
        return bool(ours) != bool(theirs) and size >= 200
    return shared_bytes(ours, theirs) <= _MAX_SHARED_ROLE * size


def _of_kind(prompt: Outline, kind: str, begin: int = 0) -> list[Part]:
    return [part for part in prompt.parts[begin:] if part.kind == kind]


def _spot(part: Part, num_chars: int) -> Spot:
    """The place in a body of a character of a part."""
    if part.kind != "message":
        return Spot(part.pointer, utf8_size(part.text[:num_chars]))
    found = next((span for span in reversed(part.spans) if span[0] <= num_chars), None)
    if found is None:
        return Spot(part.pointer, 0)
    return Spot(part.pointer + found[1], utf8_size(part.text[found[0] : num_chars]))


def _excerpts(old: Part, new: Part, num_chars: int) -> tuple[str, str]:
    begin = old.text.rfind("\n", 0, num_chars) + 1
    begin = max(begin, num_chars - _EXCERPT_BEFORE)
    return old.text[begin : num_chars + _EXCERPT_AFTER], new.text[begin : num_chars + _EXCERPT_AFTER]
