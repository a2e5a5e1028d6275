"""How an unexpected error is told: by its type and place, since its message could quote a prompt."""

from __future__ import annotations

import traceback


def where(exc: BaseException) -> str:
    """Type of an error, and the file and line that raised it."""
    frames = traceback.extract_tb(exc.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(exc).__name__}{place}"
