"""What an operator may see and do of agents' memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_cache.api.agents.failures import as_request_error
from openclaw_cache.errors import MemoryStoreError, RequestError

if TYPE_CHECKING:
    from openclaw_cache.memory.service import MemoryService
    from openclaw_cache.observe.metrics import Metrics
    from openclaw_cache.types import Json


class MemoryAdmin:
    """The operator's side of the service.

    Args:
        service: The memories; None = they are switched off.
    """

    def __init__(self, service: MemoryService | None) -> None:
        self._service = service

    def require(self) -> MemoryService:
        """The service. Raises RequestError: 409 where it is off."""
        if self._service is None:
            raise RequestError(
                409, "memory is off here: set memory.enabled: true, and start anew", code="memory_off"
            )
        return self._service

    def status(self) -> Json:
        """For `/admin/status`."""
        if self._service is None:
            return {"enabled": False}
        return {"enabled": True, **self._service.status()}

    def refresh_gauges(self, metrics: Metrics) -> None:
        """Bring what nobody updates on the way up to date."""
        if self._service is not None:
            metrics.bytes.labels("memory", "memory").set(self._service.memory_bytes)

    async def evict(self, pattern: str, namespace: str | None, agent: str | None, *, dry_run: bool) -> Json:
        """Forget every memory whose text matches a GLOB. Raises RequestError: what was forgotten until then is."""
        service = self.require()
        try:
            report = await service.evict(pattern, namespace, agent, dry_run=dry_run)
        except MemoryStoreError as e:
            raise as_request_error(e) from None
        return {
            "num_matched": report.num_matched,
            "num_redacted": report.num_redacted,
            "num_by_agent": [
                {"namespace": namespace, "agent": agent, "num_matched": count}
                for (namespace, agent), count in report.num_by_agent.most_common()
            ],
            "failed": [{"namespace": namespace, "agent": agent} for namespace, agent in report.failed],
        }
