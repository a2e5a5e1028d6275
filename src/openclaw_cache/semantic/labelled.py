"""Labelled pairs of questions, as an operator hands them in: JSON lines, or CSV with a header."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

DEFAULT_DOMAIN: Final = "default"
_FIELDS: Final = ("a", "b", "same_answer")
_YES: Final = ("true", "1", "yes")
_NO: Final = ("false", "0", "no")


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two questions, and whether one answer serves both."""

    a: str
    b: str
    same_answer: bool
    domain: str = DEFAULT_DOMAIN


def read_pairs(path: Path) -> list[LabelledPair]:
    """All pairs of a file: `*.csv`, anything else as JSON lines. Other fields than ours are let be.

    Raises ConfigError, naming line and field: no such file, not UTF-8, a line that is no pair, or no pair at all.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    rows = _csv_rows(path, text) if path.suffix.lower() == ".csv" else _json_rows(path, text)
    pairs = [_pair(f"{path}, line {number}", row) for number, row in rows]
    if not pairs:
        raise ConfigError(f"{path}: holds no pair; each has the fields {', '.join(_FIELDS)}")
    return pairs


def _json_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: no JSON: {error}") from error
        if not isinstance(row, dict):
            raise ConfigError(f"{path}, line {number}: a JSON object is needed, with {', '.join(_FIELDS)}")
        yield number, row


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    missing = [name for name in _FIELDS if name not in (reader.fieldnames or ())]
    if missing:
        raise ConfigError(f"{path}, line 1: the header lacks {', '.join(missing)}")
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise ConfigError(f"{path}, line {reader.line_num}: no CSV: {error}") from error


def _pair(where: str, row: Mapping[str, object]) -> LabelledPair:
    return LabelledPair(
        a=_text(where, row, "a"),
        b=_text(where, row, "b"),
        same_answer=_truth(where, row.get("same_answer")),
        domain=_text(where, row, "domain") if row.get("domain") else DEFAULT_DOMAIN,
    )


def _text(where: str, row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{where}: `{field}` must be a text that is not empty")
    return value


def _truth(where: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise ConfigError(f"{where}: `same_answer` must be true or false")
