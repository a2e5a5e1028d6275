"""`/openapi.json` is true: it has every route, its schemas say what is refused, and replies are what it says."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.byte_upstream import ByteUpstream
from fuzz.knob import seconds
from fuzz.test_fuzz_bodies import right_answer
from openclaw_cache import __version__
from openclaw_cache import app as app_module
from openclaw_cache.api import openapi, routes
from openclaw_cache.api.admin import EvictOrder, InvalidateOrder, RekeyOrder
from openclaw_cache.api.agents import described
from openclaw_cache.api.kv import WarmOrder, WarmPrompt
from openclaw_cache.api.semantic import FeedbackOrder
from openclaw_cache.api.warm import FaqPair, SemanticWarmOrder
from openclaw_cache.dialects import embeddings
from openclaw_cache.errors import RequestError
from support.fake_engine import FakeEngine, FakePod
from support.served import Served, served

Json = Any
DOCUMENT: dict[str, Json] = json.loads(openapi.document())
DEFAULT_S = 45.0
CHECKS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "4xx", "504"]
ignored_auth.enabled = false
missing_required_header.enabled = false

# No schema can say that no number in a prompt, however deep, has more than 64 bits.
[[operations]]
include-path = "/admin/warm"
checks.positive_data_acceptance.enabled = false

# Whether the semantic cache is on, or knows an id.
[[operations]]
include-path = ["/admin/feedback", "/admin/explain/{id}", "/admin/evict"]
checks.positive_data_acceptance.enabled = false

# What is a moment, or a blank text, or which memory there is.
[[operations]]
include-path-regex = "^/v1/agents"
checks.positive_data_acceptance.enabled = false

# Nor what is a time range, or a list of different words.
[[operations]]
include-path = ["/admin/analyze", "/admin/history", "/admin/savings"]
checks.positive_data_acceptance.enabled = false
"""

PARSERS = {path: dialect.parse for path, dialect in routes._DIALECTS.items()} | {
    "/v1/embeddings": embeddings.parse
}
ORDERS = {
    "EvictOrder": EvictOrder,
    "FeedbackOrder": FeedbackOrder,
    "InvalidateOrder": InvalidateOrder,
    "RekeyOrder": RekeyOrder,
    "WarmOrder": WarmOrder,
    "WarmPrompt": WarmPrompt,
    "SemanticWarmOrder": SemanticWarmOrder,
    "FaqPair": FaqPair,
    **{kind.__name__: kind for kind in described._ORDERS.values()},
}


@pytest.fixture
async def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """A gateway whose upstreams and engine always answer."""
    async with FakeEngine().running() as engine, ByteUpstream(right_answer) as upstream:
        monkeypatch.setattr(app_module, "EmbeddedPod", lambda **options: FakePod(engine, **options))
        upstreams = [
            {"name": "local", "kind": "embedded", "model": "embedded-model", "device": "cpu"},
            {"name": "o", "kind": "openai", "urls": [upstream.url]},
            {"name": "a", "kind": "anthropic", "urls": [upstream.url]},
        ]
        async with served(tmp_path, [], upstreams=upstreams) as running:
            yield running
        assert upstream.failures == []


def schema(name: str) -> dict[str, Json]:
    """A schema of the document on its own."""
    return {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}


def body_schema(path: str) -> dict[str, Json]:
    """The schema of a path's request body."""
    told = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    return {**told, "components": DOCUMENT["components"]}


# The document.


async def test_it_names_exactly_the_routes_that_there_are(gateway: Served) -> None:
    table = {path: set(methods) for path, methods in gateway.app.asgi._routes.items()}
    table[routes._MODEL + "{id}"] = {"GET"}
    table[routes._EXPLAIN + "{id}"] = {"GET"}
    for method, name in gateway.app.asgi.agents.table:
        here = {"": "/{agent_id}", "*": ""}.get(name, name)
        table.setdefault(described.path_of(here), set()).add(method)
    assert {p: {m.upper() for m in ops} for p, ops in DOCUMENT["paths"].items()} == table


def test_every_reference_leads_somewhere_and_nothing_is_left_over() -> None:
    used = set(re.findall(r'"#/components/([^"]+)"', json.dumps(DOCUMENT)))
    defined = {
        f"{kind}/{name}"
        for kind, members in DOCUMENT["components"].items()
        if kind != "securitySchemes"
        for name in members
    }
    assert used == defined


async def test_it_is_served_with_the_version_of_the_program(gateway: Served) -> None:
    reply = await gateway.get("/openapi.json")
    assert reply.headers["content-type"] == "application/json"
    assert reply.json() == DOCUMENT
    assert DOCUMENT["info"]["version"] == __version__


# Its schemas.

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
_BODY = st.dictionaries(
    st.sampled_from(("model", "messages", "prompt", "input", "stream", "max_tokens", "x")), _VALUES
).flatmap(
    lambda odd: st.fixed_dictionaries(
        {},
        optional={
            "model": st.just("m"),
            "messages": st.just([]),
            "prompt": st.just("a"),
            "stream": st.booleans(),
        },
    ).map(lambda good: {**odd, **good})
)


@pytest.mark.parametrize("path", PARSERS)
@given(body=_BODY)
@settings(max_examples=150, deadline=None)
def test_a_schema_of_a_request_allows_exactly_what_its_parser_does(path: str, body: dict[str, Json]) -> None:
    try:
        PARSERS[path](body)
        is_parsed = True
    except RequestError:
        is_parsed = False
    assert jsonschema_rs.is_valid(body_schema(path), body) == is_parsed


_ORDER = st.dictionaries(
    st.sampled_from(
        (
            "pattern",
            "type",
            "namespace",
            "dry_run",
            "pinned",
            "model",
            "prompts",
            "pin",
            "messages",
            "text",
            "tools",
            "x",
        )
    ),
    _VALUES | st.sampled_from(("*", "kv", "result", "all", "default", [{"text": "a"}], [{"role": "user"}])),
    max_size=4,
)


@pytest.mark.parametrize("name", ORDERS)
@given(order=_ORDER)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_an_order_that_its_schema_allows_can_be_read(name: str, order: dict[str, Json]) -> None:
    if jsonschema_rs.is_valid(schema(name), order):
        msgspec.json.decode(json.dumps(order), type=ORDERS[name])
    elif set(order) - set(ORDERS[name].__struct_fields__):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(json.dumps(order), type=ORDERS[name])


# What is answered.


@pytest.mark.timeout(seconds(DEFAULT_S) + 240)
async def test_no_request_that_schemathesis_makes_gets_a_reply_that_the_document_does_not_tell_of(
    gateway: Served, tmp_path: Path
) -> None:
    """The upstreams always answer, so what only a failing one brings (`default`) must not be needed.

    A 504 is what `only-if-cached` asks for. Keyless mode lets everybody in who is here, so authentication is not tried.
    """
    file, config = tmp_path / "openapi.json", tmp_path / "schemathesis.toml"
    file.write_text(json.dumps(_strict(DOCUMENT)))
    config.write_text(CHECKS)
    command = [
        *(sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()"),
        *(
            "--config-file",
            str(config),
            "run",
            str(file),
            "--url",
            gateway.url,
            "--max-time",
            f"{seconds(DEFAULT_S):g}",
        ),
        *("--continue-on-failure", "--no-color", "--request-timeout", "30"),
    ]
    if seed := os.environ.get("OPENCLAW_CACHE_TEST_FUZZ_SEED"):
        command += ["--seed", str(int.from_bytes(seed.encode()) % 2**31)]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path
    )
    told, _ = await process.communicate()
    print(told.decode()[-3000:])
    assert process.returncode == 0, told.decode()[-20_000:]
    status = (await gateway.get("/admin/status")).json()
    assert (status["flights"], status["inflight"]["held_bytes"]) == (0, 0)


def _strict(document: dict[str, Json]) -> dict[str, Json]:
    """The document without what an upstream's own errors may bring, and with the one model that can be warmed here."""
    found = copy.deepcopy(document)
    for operations in found["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("default", None)
    del found["components"]["responses"]["Upstream"]
    found["components"]["schemas"]["WarmOrder"]["properties"]["model"] = {"enum": ["embedded-model", None]}
    return found
