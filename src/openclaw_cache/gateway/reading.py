"""What a request's body says, read once for all requests of the same bytes.

An agent's request is hundreds of kilobytes, and a hit for it is mostly the work of parsing, sorting and hashing
those again. Bytes that were read before are recognised by their hash, and only what was found in them is kept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from blake3 import blake3

from openclaw_cache.dialects.dialect import Dialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.identity import BodyLabels, labels
from openclaw_cache.gateway.policy import Policy, Reason, body_reason
from openclaw_cache.gateway.prompt_ids import PromptIds
from openclaw_cache.result.key import INLINE_BYTES, canonical, decode
from openclaw_cache.types import Json, Namespace

NUM_READINGS: Final = 4096
"""How many are remembered, about 1 kB each."""

_MAX_CHARS: Final = 256


@dataclass(frozen=True, slots=True)
class Reading:
    """All that the gateway needs to know of a body to look its reply up."""

    request: Request
    reason: Reason | None
    """Why requests with this body bypass the cache, whatever their headers say."""
    ambiguity: str
    """How two receivers could read the body differently, one word; empty where they cannot."""
    body_hash: bytes
    """BLAKE3 of the canonical body, empty where it has none."""
    labels: BodyLabels
    prompt_id: str
    """A keyed hash of the API and the canonical body, 16 hex digits, for operators; empty where it has none."""


class Readings:
    """Reads bodies under fixed settings.

    Args:
        policy: The operator's settings.
        ignore: Fields that do not tell requests apart (`result.key.canonical`).
        max_messages: How many a conversation may have.
        prompt_ids: Names prompts.
    """

    def __init__(
        self,
        policy: Policy,
        ignore: frozenset[str],
        max_messages: int = 20_000,
        prompt_ids: PromptIds | None = None,
    ) -> None:
        self._policy = policy
        self.ignore = ignore
        self._max_messages = max_messages
        self.prompt_ids = prompt_ids or PromptIds()
        self._known: dict[bytes, Reading] = {}

    async def read(
        self, raw: bytes, namespace: Namespace, dialect: Dialect
    ) -> tuple[Reading, dict[str, Json] | None]:
        """What `raw` says in a dialect, and its decoded value where it had to be decoded.

        What one namespace has sent makes nothing faster for another: time would tell.

        Cost: one hash of `raw` where it is known (0.04 ms for 232 kB), else 0.8 ms; large bodies on a thread.

        Raises:
            RequestError: 400, see `result.key.decode` and `Dialect.parse`; 413 for too many messages.
        """
        if len(raw) > INLINE_BYTES:
            return await asyncio.to_thread(self._read, raw, dialect)
        scope = b"%d:%b%b:" % (len(namespace), namespace.encode(), dialect.name.encode())
        name = blake3(scope).update(raw).digest()
        known = self._known.get(name)
        if known is not None:
            return known, None
        reading, value = self._read(raw, dialect)
        if _is_small(reading.request):
            if (
                len(self._known) >= NUM_READINGS
            ):  # first in, first out: reading again costs little, keeping order more
                del self._known[next(iter(self._known))]
            self._known[name] = reading
        return reading, value

    def _read(self, raw: bytes, dialect: Dialect) -> tuple[Reading, dict[str, Json]]:
        body = decode(raw)
        request = dialect.parse(body.value)
        if request.num_messages > self._max_messages:
            raise RequestError(
                413,
                f"the request has {request.num_messages} messages; server.max_messages allows {self._max_messages}",
                code="too_many_messages",
            )
        reason = body_reason(request, dialect.messages(body.value), body.keyable, body.why, self._policy)
        hashed = blake3(canonical(body.value, self.ignore)).digest() if body.keyable else b""
        return Reading(
            request=request,
            reason=reason,
            ambiguity=body.why or _other_model(body.value),
            body_hash=hashed,
            labels=labels(body.value),
            prompt_id=self.prompt_ids.of(dialect.name, hashed),
        ), body.value


def _is_small(request: Request) -> bool:
    """Whether the client's own values in it are bounded: nobody has checked that a seed is not a megabyte."""
    values = (request.model, request.n, request.temperature, request.seed, request.limit)
    return not any(isinstance(v, list | dict) or (isinstance(v, str) and len(v) > _MAX_CHARS) for v in values)


def _other_model(body: dict[str, Json]) -> str:
    """A second spelling of `model`, which readers that ignore case (Go's encoding/json) may take; else empty."""
    return next((name for name in body if name != "model" and name.casefold() == "model"), "")
