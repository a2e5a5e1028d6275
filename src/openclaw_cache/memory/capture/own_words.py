"""What of a message its user said himself: all else in it is blanked out, so that it cannot plant a memory."""

from __future__ import annotations

import re
from typing import Final

MOST_CHARS: Final = 20_000
"""What lies beyond is not looked at: nobody types as much."""
_TYPED_CHARS: Final = 1_500
"""A text that is longer than this is taken for a pasted one, but for its first paragraph."""

QUOTED: Final = "\x00"
"""Stands for each character of a quotation: it may be a value, never a statement."""

_HOST_TEXT: Final = re.compile(
    r"""\s* (?: \[[^\]\n]{3,160}\] \s* )?+ (?:
        \[OpenClaw\ heartbeat | \[Subagent\ (?:Context|Task)\] | A\ background\ task\ completed
      | Pre-compaction\ memory\ flush | Follow\ the\ heartbeat | <conversation> | <summary>
      | The\ conversation\ history\ before\ this\ point | Read\ HEARTBEAT\.md | A\ scheduled\ reminder
      | \[cron: | System:\ \[
    )""",
    re.VERBOSE,
)
"""How messages begin that the host writes in the user's name."""

_CARRIER: Final = re.compile(
    r"<<<(?:BEGIN_)?(?P<name>[A-Z_]{4,60})[^>\n]{0,200}>>>.*?(?:<<<END_(?P=name)[^>\n]{0,200}>>>|\Z)",
    re.DOTALL,
)
_FENCE: Final = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_ENVELOPE: Final = re.compile(r"^[ \t]*(?:\[[^\]\n]{3,160}\][ \t]*)+", re.MULTILINE)
_FOREIGN_LINE: Final = re.compile(
    r"^(?:[ \t]*(?:>|\||\#{1,6}[ ]|[-*=_]{3,}[ \t]*$|Runtime:\ agent=|System:|[A-Za-z]{2,12}://)|(?:[ ]{4}|\t)).*$",
    re.MULTILINE | re.VERBOSE,
)
_TAG: Final = re.compile(r"<(?P<name>[A-Za-z][\w:-]{0,60})(?:\s[^<>]{0,300})?>")
_QUOTATION: Final = re.compile(
    r"""  "[^"\n]{1,1000}" | “[^“”\n]{1,1000}” | 「[^「」\n]{1,1000}」 | 『[^『』\n]{1,1000}』 | «[^«»\n]{1,1000}»
        | `[^`\n]{1,1000}` | (?<![^\s(:：]) ' (?=\S) [^'\n]{1,300} (?<=\S) ' (?!\w)
        | (?<![^\s(:：]) ‘ [^’\n]{1,300} ’ (?!\w)
    """,
    re.VERBOSE,
)  # fmt: skip


def own_words(text: str) -> str:
    """The text, character for character, with line feeds in place of what its user did not say himself.

    That is: what the host adds (time stamps, envelopes, carriers, whole messages in his name), code, quoted lines,
    tables, marked-up documents, and all but the first paragraph of a text too long to be typed. Quotations within a
    line become `QUOTED`. Cost: linear.
    """
    if _HOST_TEXT.match(text):
        return "\n" * len(text)
    words = text[:MOST_CHARS]
    for pattern in (_CARRIER, _FENCE):
        words = pattern.sub(_blank, words)
    words = _without_documents(words)
    for pattern in (_ENVELOPE, _FOREIGN_LINE):
        words = pattern.sub(_blank, words)
    words = _QUOTATION.sub(lambda match: QUOTED * len(match[0]), words)
    return _typed(words).ljust(len(text), "\n")


def _blank(match: re.Match[str]) -> str:
    return "\n" * len(match[0])


def _without_documents(text: str) -> str:
    """Blank what stands between a tag and the last end tag of its name."""
    kept: list[str] = []
    at = 0
    unclosed: set[str] = set()
    for tag in _TAG.finditer(text):
        if tag.start() < at or tag["name"] in unclosed:
            continue
        end_tag = f"</{tag['name']}>"
        close = text.rfind(end_tag, tag.end())
        if close < 0:
            unclosed.add(tag["name"])
            continue
        end = close + len(end_tag)
        kept += (text[at : tag.start()], "\n" * (end - tag.start()))
        at = end
    return "".join(kept) + text[at:]


def _typed(words: str) -> str:
    if len(words) - words.count("\n") <= _TYPED_CHARS:
        return words
    begin = len(words) - len(words.lstrip())
    end = words.find("\n\n", begin)
    return words[:end] if 0 <= end - begin <= _TYPED_CHARS else ""
