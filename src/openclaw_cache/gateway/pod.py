"""The embedded engine as the gateway sees it."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from openclaw_cache.errors import ConfigError, RequestError

READY_WAIT_S = 30.0
STALE_WAIT_S = 0.2
END_WAIT_S = 10.0
"""An embedded engine that broke a connection has mostly died: by then that has been noticed."""


class Pod(Protocol):
    """What an embedded engine offers the gateway (`engine.pod.EmbeddedPod`)."""

    @property
    def url(self) -> str | None:
        """Base URL of the running process; None while there is none."""

    @property
    def model_ids(self) -> list[str]:
        """The served model's name, then its aliases."""

    @property
    def fingerprint(self) -> str | None:
        """Hash of the weights; None until known."""

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered now."""

    async def wait_ready(self, timeout_s: float) -> None:
        """Return once requests are answered. Raises TimeoutError, or ConfigError where they never will be."""


async def until_ready(pod: Pod, name: str) -> None:
    """Wait for the engine of the upstream `name`. Raises RequestError (503) where it does not come up."""
    if pod.is_ready:
        return
    try:
        await pod.wait_ready(READY_WAIT_S)
    except (TimeoutError, ConfigError) as e:
        raise RequestError(
            503, f"upstream {name!r}: {e}", kind="api_error", code="model_not_ready", retry_after_s=5
        ) from None


async def until_ended(pod: Pod, *, was_new: bool) -> None:
    """After a failed call: give the end of the engine time to be noticed.

    A new connection that fails means that it dies, and the system frees gigabytes of its memory before it tells
    us; a kept one may just have been stale.
    """
    url = pod.url
    until = time.monotonic() + (END_WAIT_S if was_new else STALE_WAIT_S)
    while pod.is_ready and pod.url == url and time.monotonic() < until:  # noqa: ASYNC110 - a pod has no event for its end
        await asyncio.sleep(0.05)
