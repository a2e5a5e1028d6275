"""A request's bytes with the hints of its dialect."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.cache_hints.breakpoints import with_breakpoints
from openclaw_cache.gateway.cache_hints.routing import with_routing_key
from openclaw_cache.result.key import decode
from openclaw_cache.types import Json


def hinted(
    raw: bytes, body: dict[str, Json], dialect_name: str, session: str | None, key_of: Callable[[bytes], str]
) -> bytes:
    """The request with `cache_control` breakpoints (`messages`) or a `prompt_cache_key` (`chat`, `responses`).

    Everything else keeps its value and order. Where the client gave a hint of its own, where the prompt is too
    short to be cached, in other dialects, and on any doubt about the body, `raw` is returned as it is. `body` is
    not changed. Never fails.

    Cost: O(len(raw)). For 210 kB of `messages` 0.6 ms, 1.5 ms where they are not in the compact form that SDKs send;
    for the others 0.1 to 0.3 ms.

    Args:
        raw: The request's bytes: a JSON object.
        body: Its decoded value.
        dialect_name: `Dialect.name`.
        session: The label of the conversation, where the client told one.
        key_of: A keyed hash for the request's namespace, such as `RoutingKeys.of` gives.
    """
    if dialect_name in {"chat", "responses"}:
        return with_routing_key(raw, body, session, key_of)
    if dialect_name != "messages":
        return raw
    marked = with_breakpoints(raw, body)
    if marked is None or not _can_be_rewritten(raw, body):
        return raw
    try:
        return orjson.dumps(marked)
    except TypeError:  # nested too deeply by the two levels of a text block
        return raw


def _can_be_rewritten(raw: bytes, body: dict[str, Json]) -> bool:
    """Whether writing the decoded value again says the same to every receiver.

    Not so where a member stands twice, a number is beyond 64 bits, or a text is no Unicode.
    """
    try:
        return orjson.dumps(body) == raw or decode(raw).keyable
    except (TypeError, RequestError):
        return False
