"""Blocking work in threads that a cancelled caller never leaves behind."""

from __future__ import annotations

import asyncio
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: asyncio.Future[T]) -> T:
    """The result of work that cannot be stopped. A caller that is cancelled meanwhile is so when the work is over.

    So whatever the caller holds for the work (a lock, an open file) is held until then.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue
        if not work.cancelled():
            work.exception()  # seen: nobody else will ask for it
        raise
