"""What can be wrong with something to import."""

from __future__ import annotations

import msgspec

from openclaw_cache.errors import OpenClawCacheError


class FormError(OpenClawCacheError):
    """It is not what it should be, as a whole. The message says what, and holds nothing of its text."""


class Skipped(msgspec.Struct, frozen=True):
    """A line that was passed over. `line` counts from 1; `reason` holds nothing of its text."""

    line: int
    reason: str
