"""What is looked at beside requests, for whoever runs the gateway."""

from __future__ import annotations

from pydantic import Field

from openclaw_cache.settings.fields import Section


class ObserveSettings(Section):
    """What is kept of requests that are over.

    `prefixes`: whether prompts are compared with the earlier ones of their sessions. `requests`: how many of the last
    requests are kept for `/admin/requests` and `/admin/explain`. `history`: whether sums are kept in the store, for
    `/admin/history`, `/admin/savings` and `/admin/analyze`.
    """

    prefixes: bool = True
    history: bool = True
    requests: int = Field(1000, ge=0, le=100_000)
