"""How many requests of one namespace may run at a time."""

from __future__ import annotations

from openclaw_cache.errors import RequestError
from openclaw_cache.types import Namespace


class NamespaceSlots:
    """At most `limit` requests of one namespace at a time. Memory: one number per namespace that has any.

    A namespace here is a key's own: what narrows its scope to `team/…` counts to `team`, for it costs nothing to
    make up such names.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._num_taken: dict[Namespace, int] = {}

    def admit(self, namespace: Namespace) -> None:
        """Count one request that begins; `release` has to follow, once.

        Raises:
            RequestError: 429 `too_many_concurrent`; nothing was counted then.
        """
        num_taken = self._num_taken.get(namespace, 0)
        if num_taken >= self._limit:
            raise RequestError(
                429,
                f"{self._limit} requests of the namespace {namespace!r} are running, and more are not allowed "
                "(server.namespace_concurrency): try again when one has ended",
                kind="rate_limit_error",
                code="too_many_concurrent",
                retry_after_s=1,
            )
        self._num_taken[namespace] = num_taken + 1

    def release(self, namespace: Namespace) -> None:
        """A request that was admitted has ended."""
        num_left = self._num_taken[namespace] - 1
        if num_left:
            self._num_taken[namespace] = num_left
        else:
            del self._num_taken[namespace]

    def running(self) -> dict[Namespace, int]:
        """Namespaces that have requests running → how many. O(such namespaces)."""
        return dict(self._num_taken)
