"""Which requests with tools are retries of one that is in the air."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.identity import identify
from openclaw_cache.gateway.policy import Control, Policy, plan, restricted
from openclaw_cache.gateway.reading import Readings
from openclaw_cache.gateway.same_run import run_of, trace_id
from openclaw_cache.types import Headers, Namespace

TRACE = b"0af7651916cd43dd8448eb211c80319c"  # the example of W3C Trace Context §3.2.2
PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([PARENT], TRACE),
        ([b"01" + PARENT[2:] + b"-more"], TRACE),
        ([], None),
        ([PARENT, PARENT], None),
        ([b"ff" + PARENT[2:]], None),
        ([b"00-00000000000000000000000000000000-b7ad6b7169203331-01"], None),
        ([PARENT.upper()], None),
        ([b"nonsense"], None),
    ],
)
def test_the_trace_is_that_of_a_valid_traceparent(values: list[bytes], expected: bytes | None) -> None:
    assert trace_id([(b"traceparent", value) for value in values]) == expected


async def run(
    headers: Headers, rights: tuple[bool, bool] = (True, True), rule: Any = "bypass", **fields: Any
) -> tuple[bytes, ...]:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **fields}
    raw = json.dumps(body).encode()
    call = Call(
        dialect=ChatDialect(),
        path="/v1/chat/completions",
        query=b"",
        headers=headers,
        raw=raw,
        namespace=Namespace("n"),
        keyed=False,
        request_id="r",
        may_read=rights[0],
        may_write=rights[1],
    )
    readings = Readings(Policy(tools=rule), frozenset())
    reading, _ = await readings.read(raw, call.namespace, call.dialect)
    planned = plan(reading.request, reading.reason, Control.parse(headers))
    planned = restricted(planned, may_read=rights[0], may_write=rights[1])
    return run_of(call, reading, planned, identify(headers, reading.labels))


SESSION = (b"session_id", b"1234:0")
TRACED = (b"traceparent", PARENT)


async def test_a_request_with_tools_of_a_traced_session_is_a_step_of_a_run() -> None:
    assert await run([SESSION, TRACED]) == (TRACE, b"1234")
    assert await run([TRACED], prompt_cache_key="1234:0", temperature=0) == (TRACE, b"1234")


@pytest.mark.parametrize(
    ("headers", "fields"),
    [
        ([TRACED], {}),  # many samples of one prompt may be one trace of an application
        ([SESSION], {}),
        ([SESSION, TRACED], {"temperature": 0.7}),
        ([SESSION, TRACED], {"tools": []}),
        ([SESSION, TRACED], {"n": 2}),
        ([SESSION, TRACED], {"rule": "cache"}),
        ([SESSION, TRACED, (b"cache-control", b"no-cache")], {}),
        ([SESSION, TRACED, (b"cache-control", b"no-store")], {}),
        ([SESSION, TRACED], {"rights": (True, False)}),
        ([SESSION, TRACED], {"rights": (False, True)}),
    ],
)
async def test_all_others_get_replies_of_their_own_or_go_by_the_rules_of_the_cache(
    headers: Headers, fields: dict[str, Any]
) -> None:
    assert await run(headers, **fields) == ()
