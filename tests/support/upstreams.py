"""Calls to an upstream without a gateway before it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.gateway.upstream_reply import UpstreamReply


@contextlib.asynccontextmanager
async def calling(*urls: str, **options: Any) -> AsyncIterator[Upstream]:
    """An upstream named `pods`, closed at the end. It does not probe unless it is started."""
    upstream = Upstream(name="pods", urls=[*urls], **options)
    try:
        yield upstream
    finally:
        await upstream.aclose()


async def ask(upstream: Upstream, *, method: str = "POST", repeatable: bool = True) -> UpstreamReply:
    """Send a small chat request; returns with the head of the reply."""
    headers = [("content-type", "application/json")]
    return await upstream.send(
        method, "/v1/chat/completions", "", headers, b'{"model": "pod-model"}', repeatable=repeatable
    )


async def whole(reply: UpstreamReply) -> bytes:
    """The body of a reply, read to its end. Raises RequestError."""
    parts = []
    while part := await reply.read():
        parts.append(part)
    reply.finish()
    return b"".join(parts)


def closed_url() -> str:
    """A URL where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"
