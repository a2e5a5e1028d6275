"""One request that a log tells of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import orjson

from openclaw_cache.dialects.usage import Usage
from openclaw_cache.types import Headers, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequest:
    """A request as it was sent, so far as the log has it."""

    body: dict[str, Json]
    api: str
    """`chat`, `completions`, `responses`, `messages`, or `text` for a trace of texts."""
    at: float | None = None
    """Unix seconds; None where the log does not tell."""
    headers: Headers
    session: str | None = None
    """As the request tells it (`gateway.identity`), or the log; a name that begins with `~` was inferred."""
    agent: str | None = None
    model: str = ""
    usage: Usage | None = None
    label: str = ""
    """What the log calls it: `custom_id`, a capture's label."""
    file: str = ""
    line: int = 0
    """Its line, or which entry of the file it is, from 1."""
    is_whole: bool = True
    """False where the log leaves out the system prompt and the tools, as transcripts do."""

    @property
    def place(self) -> str:
        """`requests.jsonl:12`."""
        return f"{self.file}:{self.line}"

    @property
    def raw(self) -> bytes:
        """The body as compact JSON: the bytes that were sent, of most clients. Cost: O(size)."""
        return encoded(self.body)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line or entry that no request could be read from."""

    file: str
    line: int
    reason: str


def decoded(raw: bytes | str) -> Any:
    """A JSON value, lenient where orjson is strict (big numbers, `NaN`, lone surrogates).

    Raises:
        ValueError: it is none.
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(raw)
        except (RecursionError, UnicodeDecodeError) as e:
            raise ValueError(
                "nested too deeply" if isinstance(e, RecursionError) else "it is not UTF-8"
            ) from None


def encoded(value: Json) -> bytes:
    """Compact JSON, in the order of its keys."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a number beyond 64 bits, or half of a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()
