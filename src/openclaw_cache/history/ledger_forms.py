"""A ledger as CSV and as JSON. Sums are exact: dollars to the picodollar, seconds to the microsecond."""

from __future__ import annotations

import csv
import io
from typing import Final

from openclaw_cache.history.ledger import Ledger
from openclaw_cache.history.lines import Line
from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.types import Json

_COUNTED: Final = (
    "num_requests",
    "num_answered",
    "num_priced",
    "computed_tokens",
    "upstream_cached_tokens",
    "completion_tokens",
    "answered_prompt_tokens",
    "answered_completion_tokens",
    "would_be_cached_tokens",
    "result_saved_tokens",
    "semantic_saved_tokens",
    "flight_saved_tokens",
    "kv_saved_tokens",
)
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
"""What a spreadsheet may take for the beginning of a formula (OWASP: CSV Injection)."""


def as_csv(ledger: Ledger) -> str:
    """RFC 4180: a header, then a line for each row. No text in it is a formula to a spreadsheet."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([*ledger.by, *_COUNTED, "saved_s", "spent_usd", "saved_usd"])
    for name, line in ledger.rows():
        amounts = [getattr(line, field) for field in _COUNTED]
        saved_s = _decimal(line.saved_us, 10**6)
        money = (_decimal(line.spent, PICODOLLARS), _decimal(line.saved, PICODOLLARS))
        writer.writerow([*map(_cell, name), *amounts, saved_s, *money])
    return file.getvalue()


def as_json(ledger: Ledger) -> dict[str, Json]:
    """Rows and their sum; money as a number of dollars and as whole picodollars."""
    return {
        "by": list(ledger.by),
        "rows": [dict(zip(ledger.by, name, strict=True)) | _amounts(line) for name, line in ledger.rows()],
        "total": _amounts(ledger.total) | {"kv_saved_s": ledger.kv_saved_us / 1e6},
    }


def _amounts(line: Line) -> dict[str, Json]:
    return {field: getattr(line, field) for field in _COUNTED} | {
        "saved_s": line.saved_us / 1e6,
        "spent_usd": line.spent / PICODOLLARS,
        "saved_usd": line.saved / PICODOLLARS,
        "spent_picodollars": line.spent,
        "saved_picodollars": line.saved,
    }


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text


def _decimal(whole: int, unit: int) -> str:
    """`1.5` for 1500000 of 1000000: every digit, and no more."""
    digits = len(str(unit)) - 1
    return f"{whole // unit}.{whole % unit:0{digits}d}".rstrip("0").rstrip(".")
