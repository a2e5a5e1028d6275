"""Files that the command `memory import` can send: found in folders, told apart, and parted where they are large."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from openclaw_cache.errors import ConfigError

PART_BYTES: Final = 16 * 10**6
"""An export is sent in parts of about so much: a server takes 64 MB at once unless it is told otherwise."""
_HEADER: Final = b'"openclaw-cache-memory"'
_MARKDOWN: Final = frozenset({".md", ".markdown"})
_KINDS: Final = ("memory", "turn", "recall")


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """One file: `name` is its place in the agent's workspace, by which the server knows it again."""

    path: Path
    name: str
    form: str

    def parts(self) -> Iterator[tuple[int, bytes]]:
        """Its content in what is sent at once, each with the number of lines before it that are not its own.

        Raises:
            ConfigError: it cannot be read.
        """
        raw = _read(self.path)
        if self.form != "jsonl" or len(raw) <= PART_BYTES:
            yield 0, raw
            return
        header, _, rest = raw.partition(b"\n")
        lines = rest.split(b"\n")
        start, size = 0, 0
        for number, line in enumerate(lines):
            size += len(line) + 1
            if size >= PART_BYTES or number == len(lines) - 1:
                yield start, _headed(header, lines[start : number + 1])
                start, size = number + 1, 0


def readable_files(paths: Sequence[Path], form: str | None) -> list[MemoryFile]:
    """The files of these paths, in order; a folder's are those under it that can be read: `*.md` and `*.jsonl`.

    Args:
        paths: Files and folders.
        form: What they all are; None = told by name and first line.

    Raises:
        ConfigError: there is none, or one cannot be read.
    """
    found: list[MemoryFile] = []
    for path in paths:
        if path.is_dir():
            found += _of_workspace(path, form)
        else:
            found.append(MemoryFile(path, path.name, form or _form(path)))
    if not found:
        raise ConfigError(f"no memory under {', '.join(map(str, paths))}: MEMORY.md, memory/*.md, *.jsonl")
    return found


def _of_workspace(folder: Path, form: str | None) -> list[MemoryFile]:
    """MEMORY.md, memory/*.md and transcripts; not a workspace's other Markdown, which is no memory."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and _is_memory(path, folder))
    return [MemoryFile(path, path.relative_to(folder).as_posix(), form or _form(path)) for path in files]


def _is_memory(path: Path, folder: Path) -> bool:
    parts = path.relative_to(folder).parts
    if any(part.startswith(".") or part == "node_modules" for part in parts):
        return False
    if path.suffix == ".jsonl":
        return True
    in_memory = "memory" in parts[:-1] or folder.name == "memory"
    return path.suffix.lower() in _MARKDOWN and (in_memory or path.name in ("MEMORY.md", "memory.md"))


def _form(path: Path) -> str:
    if path.suffix.lower() in _MARKDOWN:
        return "markdown"
    try:
        with path.open("rb") as file:
            first = file.readline(4096)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    return "jsonl" if _HEADER in first else "transcript"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None


def _headed(header: bytes, lines: list[bytes]) -> bytes:
    """Some lines of an export under a header that promises just these."""
    try:
        told: dict[str, Any] = json.loads(header)
    except ValueError:
        return b"\n".join([header, *lines])  # the server says what is wrong
    counts = {kind: sum(line.startswith(b'{"%s":' % kind.encode()) for line in lines) for kind in _KINDS}
    told |= {"num_memories": counts["memory"], "num_turns": counts["turn"], "num_recalls": counts["recall"]}
    return b"\n".join([json.dumps(told).encode(), *lines])
