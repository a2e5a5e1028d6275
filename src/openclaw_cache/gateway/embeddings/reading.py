"""What a request for embeddings says, and the hash of each of its inputs."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
from blake3 import blake3

from openclaw_cache.dialects import embeddings as dialect
from openclaw_cache.dialects.embeddings import EmbeddingsRequest
from openclaw_cache.dialects.request import Request
from openclaw_cache.gateway.embeddings.aside import aside
from openclaw_cache.gateway.policy import Policy, Reason, body_reason
from openclaw_cache.result.key import canonical, decode
from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class Reading:
    """All that the gateway needs to know of a body."""

    request: EmbeddingsRequest
    body: dict[str, Json]
    reason: Reason | None
    """Why requests with this body bypass the cache, whatever their headers say."""
    ambiguity: str
    """How two receivers could read the body differently, one word; empty where they cannot."""
    hashes: list[bytes]
    """For each input the BLAKE3 of the body that asks for it alone; equal ⇔ equal JSON values. Empty where none."""


async def read(raw: bytes, policy: Policy, ignore: frozenset[str]) -> Reading:
    """Read a body. Cost: O(size), 1 µs for each short input; large bodies on a thread.

    Args:
        raw: the body's bytes.
        policy: the operator's settings.
        ignore: fields that do not tell requests apart (`result.key.canonical`).

    Raises:
        RequestError: 400, see `result.key.decode` and `dialects.embeddings.parse`.
    """
    return await aside(len(raw), lambda: _read(raw, policy, ignore))


def _read(raw: bytes, policy: Policy, ignore: frozenset[str]) -> Reading:
    decoded = decode(raw)
    body = decoded.value
    request = dialect.parse(body)
    reason = body_reason(Request(request.model), (), decoded.keyable, decoded.why, policy)
    if reason is None and not request.inputs:
        reason = Reason.UNKEYABLE
    return Reading(
        request=request,
        body=body,
        reason=reason,
        ambiguity=decoded.why or _other_model(body),
        hashes=_hashes(body, request, ignore) if reason is None else [],
    )


def _hashes(body: dict[str, Json], request: EmbeddingsRequest, ignore: frozenset[str]) -> list[bytes]:
    """Everything but the input is the same for all, so it is written and hashed once."""
    others = canonical({name: value for name, value in body.items() if name != "input"}, ignore)
    start = blake3(b"%d:%b" % (len(others), others))
    return [start.copy().update(orjson.dumps(one)).digest() for one in request.inputs]


def _other_model(body: dict[str, Json]) -> str:
    """A second spelling of `model`, which readers that ignore case may take; else empty."""
    return next((name for name in body if name != "model" and name.casefold() == "model"), "")
