"""What a request must pass before it is read: its key, its budgets, its namespace's share, the room for its body."""

from __future__ import annotations

from dataclasses import dataclass

from openclaw_cache.api.admission import NamespaceSlots
from openclaw_cache.api.auth import Authenticator
from openclaw_cache.api.body import read_body
from openclaw_cache.api.principal import Principal
from openclaw_cache.api.relay import Receive
from openclaw_cache.api.reply import Scope, peer
from openclaw_cache.gateway.inflight import InFlightBytes


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request."""

    max_body_bytes: int
    body_timeout_s: float
    ping_interval_s: float


class Door:
    """Lets requests in, and counts them out again.

    Args:
        authenticator: Knows the keys.
        limits: Bounds of one request.
        slots: How many requests of one namespace run together.
        inflight: What all bodies and replies in the air may hold.
    """

    def __init__(
        self, authenticator: Authenticator, limits: Limits, slots: NamespaceSlots, inflight: InFlightBytes
    ) -> None:
        self.authenticator = authenticator
        self.limits = limits
        self.slots = slots
        self.inflight = inflight

    def enter(self, scope: Scope, now: float) -> Visit:
        """Let a request in; `Visit.leave` must be called in the end.

        Args:
            scope: The request's.
            now: Unix time.

        Raises:
            RequestError: 401, 403, 429.
        """
        principal = self.authenticator.client(peer(scope), scope["headers"])
        self.slots.admit(principal.tenant)
        if principal.budget is not None:
            try:
                principal.budget.admit(now)
            except BaseException:
                self.slots.release(principal.tenant)
                raise
        return Visit(self, principal)


class Visit:
    """One request that has been let in."""

    __slots__ = ("_door", "_has_left", "_held_bytes", "principal")

    def __init__(self, door: Door, principal: Principal) -> None:
        self.principal = principal
        self._door = door
        self._held_bytes = 0
        self._has_left = False

    async def body(self, scope: Scope, receive: Receive, *, may_be_encoded: bool = False) -> bytes:
        """The request's body. Raises RequestError: see `api.body.read_body`."""
        limits = self._door.limits
        return await read_body(
            receive,
            scope["headers"],
            max_bytes=limits.max_body_bytes,
            timeout_s=limits.body_timeout_s,
            take=self._take,
            may_be_encoded=may_be_encoded,
        )

    def _take(self, num_bytes: int) -> bool:
        if not self._door.inflight.take(num_bytes):
            return False
        self._held_bytes += num_bytes
        return True

    def spend(self, now: float, num_tokens: int) -> None:
        """Count tokens that an upstream was asked for against the key's budgets, at Unix time `now`."""
        if self.principal.budget is not None:
            self.principal.budget.spend(now, num_tokens)

    def leave(self) -> None:
        """The request is over. Idempotent."""
        if self._has_left:
            return
        self._has_left = True
        self._door.inflight.give(self._held_bytes)
        self._door.slots.release(self.principal.tenant)
        if self.principal.budget is not None:
            self.principal.budget.release()
