"""One request and its reply as the HTTP surface saw them: what its account is closed by."""

from __future__ import annotations

import msgspec

from openclaw_cache.api.relay import CLIENT_GONE
from openclaw_cache.api.visit import Visit
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import Outcome


class Exchange(msgspec.Struct):
    """What is known so far. Times are of `time.perf_counter`."""

    api: str
    """The dialect's name."""
    request_id: str
    arrived_at: float
    visit: Visit | None = None
    """Its place; None where it was not let in."""
    entered_at: float | None = None
    """When all of it was here, if it was let in."""
    outcome: Outcome | None = None
    """What happened to it; None where it did not get so far."""
    first_byte_at: float | None = None
    """When its reply began, if it did."""
    status: int = 500  # of a failure that nobody foresaw
    """The reply's status, `CLIENT_GONE` where the client left first."""
    error: RequestError | None = None
    """Why it failed, if it did."""

    @property
    def label(self) -> str:
        """What it is counted as: one of `metrics.OUTCOMES`."""
        failed = (self.status >= 400 or self.error is not None) and self.status != CLIENT_GONE
        return "error" if failed or self.outcome is None else self.outcome.outcome

    @property
    def namespace(self) -> str:
        """Of the client's key; empty where it was not let in."""
        return "" if self.visit is None else self.visit.principal.namespace
