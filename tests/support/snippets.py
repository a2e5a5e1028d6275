"""The fenced blocks of a Markdown document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block: the section that it stands in, its language, its number among those of both, its text."""

    section: str
    language: str
    number: int
    text: str

    @property
    def name(self) -> str:
        """Names it in a test's id, for example `curl/bash/0`."""
        return f"{self.section}/{self.language}/{self.number}"


def snippets(document: Path) -> dict[str, Snippet]:
    """All blocks of a document by their names."""
    text = document.read_text()
    headings = [(found.start(), found[1]) for found in _HEADING.finditer(text)]
    seen: dict[tuple[str, str], int] = {}
    blocks = {}
    for found in _FENCED.finditer(text):
        section = next((title for start, title in reversed(headings) if start < found.start()), "")
        number = seen.get((section, found[1]), 0)
        seen[section, found[1]] = number + 1
        block = Snippet(section, found[1], number, found[2])
        blocks[block.name] = block
    return blocks
