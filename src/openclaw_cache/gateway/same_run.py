"""Which request is a retry of one that is still in the air, though it may not be answered from the cache."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Reason, is_sampled
from openclaw_cache.gateway.reading import Reading
from openclaw_cache.types import Headers, Identity

_TRACEPARENT: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
"""W3C Trace Context §3.2.2."""


def trace_id(headers: Headers) -> bytes | None:
    """The trace that a request is part of; None where it tells none, or an invalid one."""
    values = [value for name, value in headers if name == b"traceparent"]
    found = _TRACEPARENT.fullmatch(values[0]) if len(values) == 1 else None
    if found is None or values[0].startswith(b"ff") or not found[1].strip(b"0"):
        return None
    return found[1]


def run_of(
    call: Call, reading: Reading, planned: Cacheable | Bypass, identity: Identity
) -> tuple[bytes, ...]:
    """What names the run of an agent that this request is a step of; empty where it must have a reply of its own.

    A run asks for one step after the other, so the same bytes of the same run, while the first are in the air, are a
    retry. Only where the run is known for one: an agent's session, in one trace, with tools. Who asks for chance in so
    many words (a temperature), for no cache, or has not both rights, gets its own reply.
    """
    if not isinstance(planned, Bypass) or planned.reason is not Reason.TOOLS or is_sampled(reading.request):
        return ()
    control = Control.parse(call.headers)
    if control.no_cache or control.no_store or not (call.may_read and call.may_write):
        return ()
    trace = trace_id(call.headers)
    return () if trace is None or identity.session is None else (trace, identity.session.encode())
