"""Work on large bodies, beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from openclaw_cache.result.key import INLINE_BYTES

T = TypeVar("T")


async def aside(num_bytes: int, work: Callable[[], T]) -> T:
    """Do `work` on this many bytes: here where it is soon done, else on a thread."""
    return await asyncio.to_thread(work) if num_bytes > INLINE_BYTES else work()
