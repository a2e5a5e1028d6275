"""Questions and answers of a file, as `warm --type semantic` sends them: what the file is, is told by its name.

- `.csv` (also `.tsv`): a line of headings with `question`, and `answer` or `domain` where there are any;
- `.jsonl`, `.json`: objects with `question`, and `answer` or `domain` where there are any; one in each line, or a list;
- `.md`, `.txt`: see `faq_prose`.

Where there is no answer the model is asked for it.
"""

from __future__ import annotations

import csv
import difflib
import functools
import io
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from openclaw_cache.errors import ConfigError
from openclaw_cache.faq_prose import read_prose
from openclaw_cache.settings import DOMAIN_PATTERN

Faq = dict[str, str]
"""`question`, and where they are known `answer` and `domain`."""

_FIELDS: Final = ("question", "answer", "domain")
_OTHER_NAMES: Final = {
    "question": ("q", "prompt", "问题", "问"),
    "answer": ("a", "response", "reply", "答案", "回答", "回复", "解答", "答"),
    "domain": ("领域",),
}
_NAMES: Final = {other: name for name, others in _OTHER_NAMES.items() for other in others}
_DOMAIN: Final = re.compile(DOMAIN_PATTERN)


def read_faq(path: Path) -> list[Faq]:
    """The questions of a file in its order, each once for each of its domains.

    Raises:
        ConfigError: names the file, and the line or entry at fault.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text: save it as UTF-8 (in Excel: CSV UTF-8)") from None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    match path.suffix.lower():
        case ".csv" | ".tsv":
            found = _rows(path, text, "\t" if path.suffix.lower() == ".tsv" else ",")
        case ".jsonl" | ".ndjson" | ".json":
            found = _objects(path, text)
        case ".md" | ".markdown" | ".txt":
            found = read_prose(path, text)
        case _:
            raise ConfigError(
                f"{path}: name it .csv, .tsv, .jsonl, .json or .md, so that it is clear how to read it"
            )
    pairs = _distinct(found)
    if not pairs:
        raise ConfigError(f"{path}: there is no question in it")
    return pairs


def read_request(path: Path) -> dict[str, Any]:
    """A chat request as clients send it. Raises ConfigError, naming the file, for anything but a JSON object."""
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror}") from None
    except json.JSONDecodeError as e:
        raise _not_json(path, e.lineno, e) from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: a request is a JSON object, with model and messages")
    return value


def _distinct(found: Iterable[tuple[str, Faq]]) -> list[Faq]:
    """Each question of a domain once. Of two that are the same, the one with an answer stays."""
    pairs: dict[tuple[str, str], Faq] = {}
    for place, pair in found:
        _check(place, pair)
        known = pairs.setdefault((pair["question"], pair.get("domain", "")), pair)
        if "answer" in pair and known.setdefault("answer", pair["answer"]) != pair["answer"]:
            raise ConfigError(f"{place}: the same question came before, with another answer")
    return list(pairs.values())


def _check(place: str, pair: Faq) -> None:
    if "question" not in pair:
        raise ConfigError(f"{place}: there is no question")
    domain = pair.get("domain")
    if domain is not None and not _DOMAIN.fullmatch(domain):
        raise ConfigError(f"{place}: domain {domain!r}: it has 1-64 lower-case letters, digits and _ . -")
    for name, value in pair.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{place}: {name} has half of a UTF-16 pair in it, which is no text") from None


# Tables.


def _rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[str, Faq]]:
    first_line = text.partition("\n")[0]
    if delimiter not in first_line and ";" in first_line:
        delimiter = ";"  # as spreadsheets write it where a comma is for decimals
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        heads = _heads(path, next(reader, []))
        line = reader.line_num + 1
        for row in reader:
            place, line = f"{path}, line {line}", reader.line_num + 1
            if any(cell.strip() for cell in row):
                if any(cell.strip() for cell in row[len(heads) :]):
                    raise ConfigError(
                        f"{place}: {len(row)} cells, but {len(heads)} columns: a cell with {delimiter!r} in it needs "
                        "quotes around it"
                    )
                cells = zip(heads, (cell.strip() for cell in row), strict=False)
                yield place, {name: cell for name, cell in cells if name in _FIELDS and cell}
    except csv.Error as e:
        raise ConfigError(f"{path}, line {reader.line_num}: not valid CSV: {e}") from None


def _heads(path: Path, row: list[str]) -> list[str]:
    heads = [_field(name) for name in row]
    if mistyped := _mistyped(tuple(heads)):
        raise ConfigError(f"{path}, line 1: column {mistyped}")
    if "question" not in heads:
        raise ConfigError(f"{path}, line 1: no column is named question")
    if twice := {name for name in _FIELDS if heads.count(name) > 1}:
        raise ConfigError(f"{path}, line 1: two columns are for {min(twice)}")
    return heads


def _field(name: str) -> str:
    name = name.strip().lower()
    return _NAMES.get(name, name)


@functools.lru_cache(maxsize=1000)
def _mistyped(names: tuple[str, ...]) -> str:
    """What is wrong with the one of the names that is nearly one of ours; empty where there is none."""
    absent = [name for name in _FIELDS if name not in names]
    for name in names:
        if name not in _FIELDS and (near := difflib.get_close_matches(name, absent, n=1, cutoff=0.8)):
            return f"{name!r}: did you mean {near[0]!r}?"
    return ""


# JSON.


def _objects(path: Path, text: str) -> Iterator[tuple[str, Faq]]:
    for place, value in _values(path, text):
        if not isinstance(value, dict):
            raise ConfigError(f'{place}: expected {{"question": "…", "answer": "…"}}')
        if mistyped := _mistyped(tuple(map(_field, value))):
            raise ConfigError(f"{place}: field {mistyped}")
        pair: Faq = {}
        for name, member in value.items():
            field = _field(name)
            if field not in _FIELDS or member is None:
                continue
            if not isinstance(member, str):
                raise ConfigError(f"{place}: {name} must be a text")
            if field in pair:
                raise ConfigError(f"{place}: two fields are for {field}")
            if member.strip():
                pair[field] = member.strip()
        yield place, pair


def _values(path: Path, text: str) -> Iterator[tuple[str, Any]]:
    """Each JSON value of the file with its place."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as e:
        if e.msg != "Extra data" or text.lstrip().startswith("["):
            raise _not_json(path, e.lineno, e) from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    else:
        if isinstance(value, list):
            yield from ((f"{path}, entry {i}", entry) for i, entry in enumerate(value, 1))
        else:
            yield str(path), value
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield f"{path}, line {number}", json.loads(line)
            except json.JSONDecodeError as e:
                raise _not_json(path, number, e) from None
            except RecursionError:
                raise ConfigError(f"{path}, line {number}: nested too deeply") from None


def _not_json(path: Path, line: int, error: json.JSONDecodeError) -> ConfigError:
    return ConfigError(f"{path}, line {line}: not valid JSON: {error.msg}")
