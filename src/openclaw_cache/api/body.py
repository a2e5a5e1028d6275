"""Reading a request body within its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from openclaw_cache.api.relay import Receive
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.inflight import overloaded
from openclaw_cache.types import Headers

_MOST_DIGITS = 19


async def read_body(
    receive: Receive,
    headers: Headers,
    *,
    max_bytes: int,
    timeout_s: float,
    take: Callable[[int], bool] = lambda _num_bytes: True,
    may_be_encoded: bool = False,
) -> bytes:
    """The whole body.

    Args:
        receive: Gives its pieces.
        headers: The request's.
        max_bytes: The most that it may have.
        timeout_s: How long it may take to arrive.
        take: Asked for room before each piece is kept; False turns the request away.
        may_be_encoded: Whether a compressed one is taken as it is: where nobody reads it.

    Raises:
        RequestError: 413 over `max_bytes` (refused by its Content-Length before it is read), 408 when it
            does not arrive in time, 415 when it is compressed, 400 when the client breaks off, 503 where `take`
            refuses.
    """
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            digits = value.lstrip(b"0")  # thousands of them int() refuses
            if len(digits) > _MOST_DIGITS or int(digits or b"0") > max_bytes:
                raise _too_large(max_bytes)
        if name == b"content-encoding" and value.lower() != b"identity" and not may_be_encoded:
            raise RequestError(415, "send the body uncompressed: content-encoding is not supported")
    # By hand what asyncio.timeout does, at a third of its cost: nearly every body is here already.
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - always inside a task
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(timeout_s, expire)
    try:
        return await _read(receive, max_bytes, take)
    except asyncio.CancelledError:
        if not expired or task.uncancel() > 0:
            raise
        raise RequestError(
            408,
            f"the request body did not arrive within server.body_timeout ({timeout_s:g} s)",
            code="body_timeout",
        ) from None
    finally:
        timer.cancel()


async def _read(receive: Receive, max_bytes: int, take: Callable[[int], bool]) -> bytes:
    parts: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError(400, "the client closed the connection before its body was complete")
        part: bytes = message.get("body", b"")
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        if not take(len(part)):
            raise overloaded("too much is in flight")
        parts.append(part)
        if not message.get("more_body"):
            return part if len(parts) == 1 else b"".join(parts)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(
        413,
        f"the request body is larger than server.max_body ({max_bytes} bytes)",
        code="body_too_large",
    )
