"""Which requests share a reply: the key, the namespace, and whose credential goes where."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.scripted_upstream import Exchange, ScriptedUpstream, reply
from support.served import Served, chat, served

PLAIN = b'{"model":"m","messages":[{"role":"user","content":"caf\xc3\xa9 \xe2\x82\xac"}],"top_p":0.5,"x":1e2}'

EQUAL = {
    "white space": b' {\n "model" : "m", "messages":[ {"role":"user","content":"caf\xc3\xa9 \xe2\x82\xac"}],'
    b'"top_p":0.5 ,"x":1e2}\n',
    "order of members": b'{"x":1e2,"messages":[{"content":"caf\xc3\xa9 \xe2\x82\xac","role":"user"}],"top_p":0.5,'
    b'"model":"m"}',
    "escapes": rb'{"\u006dodel":"m","messages":[{"role":"user","content":"caf\u00e9 \u20ac"}],"top_p":0.5,"x":1e2}',
    "spelling of a number": b'{"model":"m","messages":[{"role":"user","content":"caf\xc3\xa9 \xe2\x82\xac"}],'
    b'"top_p":5e-1,"x":100.0}',
}


@pytest.mark.parametrize("how", EQUAL)
async def test_an_equal_json_value_is_a_hit(gateway: Served, upstream: ScriptedUpstream, how: str) -> None:
    await gateway.ask(raw=PLAIN)
    assert (await gateway.ask(raw=EQUAL[how])).is_hit


CHANGES: dict[str, dict[str, Any]] = {
    "model": {"model": "other"},
    "message text": {"messages": [{"role": "user", "content": "other"}]},
    "message name": {"messages": [{"role": "user", "content": "hi", "name": "bob"}]},
    "cache_control in a message": {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}],
            }
        ]
    },
    "max_tokens": {"max_tokens": 5},
    "temperature zero": {"temperature": 0},
    "seed": {"seed": 1},
    "stop": {"stop": ["x"]},
    "response_format": {"response_format": {"type": "json_object"}},
    "guided_json": {"guided_json": {"type": "object"}},
    "chat_template_kwargs": {"chat_template_kwargs": {"enable_thinking": False}},
    "cache_salt": {"cache_salt": "s"},
    "min_p": {"min_p": 0.1},
    "metadata": {"metadata": {"a": "b"}},
    "user": {"user": "u"},
    "reasoning_effort": {"reasoning_effort": "low"},
    "unknown": {"x_never_heard_of": None},
}


async def test_any_changed_field_is_a_miss(gateway: Served, upstream: ScriptedUpstream) -> None:
    base = chat("hi")
    await gateway.ask(base)
    for name, change in CHANGES.items():
        assert not (await gateway.ask({**base, **change})).is_hit, name
    assert upstream.num_calls == 1 + len(CHANGES)
    assert (await gateway.ask(base)).is_hit


async def test_fields_that_say_only_how_a_reply_travels_do_not_count(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask()
    for fields in ({"prompt_cache_key": "s1"}, {"prompt_cache_retention": "24h"}, {"stream": False}):
        assert (await gateway.ask(chat(**fields))).is_hit, fields


async def test_an_operator_may_have_user_and_metadata_ignored(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    async with served(tmp_path, [upstream.url], result_cache__ignore=["user"]) as gateway:
        await gateway.ask(chat(user="a"))
        assert (await gateway.ask(chat(user="b"))).is_hit
        assert not (await gateway.ask(chat(metadata={"a": "b"}))).is_hit


KEYED_HEADERS = [
    "anthropic-beta",
    "anthropic-version",
    "openai-beta",
    "openai-organization",
    "x-anything-else",
    "x-amzn-bedrock-guardrailidentifier",
    "cf-aig-metadata",
    "x-goog-api-key",
]


async def test_a_header_that_may_change_the_reply_is_part_of_the_key(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask()
    for name in KEYED_HEADERS:
        for value in ("one", "two"):
            first = await gateway.ask(headers={name: value})
            assert not first.is_hit, name
            assert upstream.calls[-1].header(name) == value
            assert (await gateway.ask(headers={name: value})).is_hit, name
    assert upstream.num_calls == 1 + 2 * len(KEYED_HEADERS)


UNKEYED_HEADERS = [
    "user-agent",
    "accept",
    "accept-language",
    "x-stainless-os",
    "x-stainless-retry-count",
    "traceparent",
    "tracestate",
    "baggage",
    "x-request-id",
    "x-client-request-id",
    "idempotency-key",
    "session_id",
    "x-session-affinity",
    "x-amzn-trace-id",
    "http-referer",
]


async def test_a_transport_header_is_passed_on_and_is_no_part_of_the_key(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    await gateway.ask()
    for name in UNKEYED_HEADERS:
        assert (await gateway.ask(headers={name: "value-1"})).is_hit, name
    await gateway.ask(chat("another"), headers=dict.fromkeys(UNKEYED_HEADERS, "value-1"))
    for name in UNKEYED_HEADERS:
        assert upstream.calls[-1].header(name) == "value-1", name


async def test_the_query_is_part_of_the_key_and_goes_up_as_it_came(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    queries = [
        "?api-version=2024-02-01",
        "?api-version=2024-03-01",
        "?x=%2fa%20b+c%7E&y=%C3%A9",
        "?x=%2Fa%20b",
    ]
    for query in queries:
        assert not (await gateway.ask(query=_as_is(query))).is_hit
        assert (await gateway.ask(query=_as_is(query))).is_hit
    assert [call.target for call in upstream.calls] == ["/v1/chat/completions" + q for q in queries]


def _as_is(query: str) -> Any:
    return _Verbatim(query)


class _Verbatim(str):
    """A query that the test's own client must not spell anew."""

    __slots__ = ()

    def __radd__(self, base: str) -> Any:
        from yarl import URL  # noqa: PLC0415

        return URL(base + str(self), encoded=True)


async def test_the_body_goes_up_byte_for_byte(gateway: Served, upstream: ScriptedUpstream) -> None:
    raw = b'{"model":"m",  "messages":[{"role":"user","content":"\\u00e9\xc3\xa9"}], "z":1.50, "a":1E2}'
    await gateway.ask(raw=raw, headers={"content-type": "application/json; x=1"})
    assert upstream.calls[0].body == raw
    assert upstream.calls[0].header("content-type") == "application/json; x=1"


# Namespaces and credentials.


async def test_keyless_clients_with_different_credentials_never_share_and_their_credential_goes_up(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    credentials = [
        {"authorization": "Bearer sk-one"},
        {"authorization": "Bearer sk-two"},
        {"x-api-key": "sk-one"},
        {"api-key": "sk-one"},
        {},
    ]
    for headers in credentials:
        assert not (await gateway.ask(headers=headers)).is_hit, headers
        assert (await gateway.ask(headers=headers)).is_hit, headers
    for call, headers in zip(upstream.calls, credentials, strict=True):
        assert {n: v for n, v in call.headers if n in ("authorization", "x-api-key", "api-key")} == headers


async def test_every_credential_of_a_request_counts_whichever_the_upstream_goes_by(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    for token in ("sk-alice", "sk-bob"):
        both = {"authorization": "Bearer dummy", "x-api-key": token}
        assert not (await gateway.ask(headers=both)).is_hit
        assert (await gateway.ask(headers=dict(reversed(both.items())))).is_hit
    assert upstream.num_calls == 2


async def test_a_namespace_header_separates_within_what_a_client_may_use(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    for name in ("a", "b", "a/c"):
        assert not (await gateway.ask(headers={"x-openclaw-namespace": name})).is_hit
        assert (await gateway.ask(headers={"x-openclaw-namespace": name})).is_hit
    assert not (await gateway.ask()).is_hit
    assert "x-openclaw-namespace" not in upstream.calls[0].names()


async def test_with_api_key_env_the_upstream_sees_that_key_only(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    env = {"POD_KEY": "sk-pod"}
    async with served(tmp_path, [upstream.url], env=env, upstream={"api_key_env": "POD_KEY"}) as gateway:
        await gateway.ask(headers={"authorization": "Bearer sk-client", "x-api-key": "sk-client"})
        (call,) = upstream.calls
        assert [v for n, v in call.headers if n == "authorization"] == ["Bearer sk-pod"]
        assert call.header("x-api-key") is None
        # Who pays is one: so clients of this machine share.
        assert (await gateway.ask(headers={"authorization": "Bearer sk-other"})).is_hit
        await gateway.get("/v1/models", headers={"authorization": "Bearer sk-client"})
        assert upstream.others[-1].header("authorization") == "Bearer sk-pod"


KEYS = [
    {"key": "sk-alpha-1", "namespace": "alpha"},
    {"key_sha256": hashlib.sha256(b"sk-alpha-2").hexdigest(), "namespace": "alpha"},
    {"key_env": "BETA_KEY", "namespace": "beta", "models": ["pod-*"]},
    {"key": "sk-bound", "namespace": "bound", "agents": ["coder", "test-*"]},
]


@pytest.fixture
async def keyed(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    env = {"BETA_KEY": "sk-beta"}
    async with served(tmp_path / "keyed", [upstream.url], env=env, server__keys=KEYS) as running:
        yield running


def bearer(key: str, **more: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}", **{n.replace("_", "-"): v for n, v in more.items()}}


async def test_a_clients_key_never_goes_up_and_keys_of_one_namespace_share(
    keyed: Served, upstream: ScriptedUpstream
) -> None:
    await keyed.ask(headers=bearer("sk-alpha-1"))
    assert upstream.calls[0].names().isdisjoint({"authorization", "x-api-key", "api-key", "cookie"})
    assert (await keyed.ask(headers={"x-api-key": "sk-alpha-2"})).is_hit
    assert not (await keyed.ask(headers=bearer("sk-beta"))).is_hit
    await keyed.get("/v1/models", headers=bearer("sk-alpha-1"))
    assert "authorization" not in upstream.others[-1].names()


@pytest.mark.parametrize("headers", [{}, bearer("sk-wrong"), bearer(""), {"x-api-key": "sk-alpha"}])
async def test_without_a_valid_key_nothing_is_answered(
    keyed: Served, upstream: ScriptedUpstream, headers: dict[str, str]
) -> None:
    refused = await keyed.ask(headers=headers)
    assert refused.status == 401
    assert refused.json()["error"]["type"] == "authentication_error"
    assert refused.headers["x-request-id"]
    assert (await keyed.get("/v1/models", headers=headers)).status == 401
    assert upstream.num_calls == 0


async def test_a_key_may_use_its_own_models_only(keyed: Served, upstream: ScriptedUpstream) -> None:
    assert (await keyed.ask(chat(), headers=bearer("sk-beta"))).status == 200
    refused = await keyed.ask(chat(model="other"), headers=bearer("sk-beta"))
    assert (refused.status, refused.json()["error"]["code"]) == (403, "model_not_allowed")
    assert upstream.num_calls == 1
    listed = await keyed.get("/v1/models", headers=bearer("sk-beta"))
    assert [m["id"] for m in listed.json()["data"]] == ["pod-model"]


async def test_a_body_that_names_two_models_cannot_get_past_a_keys_models(
    keyed: Served, upstream: ScriptedUpstream
) -> None:
    raw = b'{"model":"forbidden","messages":[],"model":"pod-model"}'
    refused = await keyed.ask(raw=raw, headers=bearer("sk-beta"))
    assert refused.status == 400
    assert upstream.num_calls == 0


async def test_a_key_bound_to_agents_answers_those_only(keyed: Served, upstream: ScriptedUpstream) -> None:
    for agent, status in (("coder", 200), ("test-1", 200), ("writer", 403)):
        answered = await keyed.ask(headers=bearer("sk-bound", x_openclaw_agent=agent))
        assert answered.status == status, agent
    none = await keyed.ask(headers=bearer("sk-bound"))
    assert (none.status, none.json()["error"]["code"]) == (403, "agent_not_allowed")


async def test_a_key_may_narrow_its_namespace_but_not_leave_it(
    keyed: Served, upstream: ScriptedUpstream
) -> None:
    await keyed.ask(headers=bearer("sk-alpha-1"))
    assert (await keyed.ask(headers=bearer("sk-alpha-1", x_openclaw_namespace="alpha"))).is_hit
    assert not (await keyed.ask(headers=bearer("sk-alpha-1", x_openclaw_namespace="alpha/team"))).is_hit
    for name in ("beta", "alphabet", "default", "alpha2/x"):
        refused = await keyed.ask(headers=bearer("sk-alpha-1", x_openclaw_namespace=name))
        assert (refused.status, refused.json()["error"]["code"]) == (403, "namespace_not_allowed"), name
    wrong = await keyed.ask(headers=bearer("sk-alpha-1", x_openclaw_namespace="alpha/\u00e9 *"))
    assert wrong.status == 400


async def test_keyed_clients_may_come_through_a_proxy(keyed: Served) -> None:
    headers = bearer("sk-alpha-1", x_forwarded_for="10.1.1.1") | {"host": "cache.example"}
    assert (await keyed.ask(headers=headers)).status == 200


# Keyless mode: this machine only.

FOREIGN = {
    "another Host": {"host": "evil.example"},
    "a Host that only begins like ours": {"host": "127.0.0.1.evil.example"},
    "a Host of this network": {"host": "192.168.1.2:8800"},
    "another Origin": {"origin": "https://evil.example"},
    "a null Origin": {"origin": "null"},
    "an Origin on another port": {"origin": "http://127.0.0.1:1"},
    "Forwarded": {"forwarded": "for=10.0.0.1"},
    "X-Forwarded-For": {"x-forwarded-for": "10.0.0.1"},
    "X-Forwarded-Host": {"x-forwarded-host": "evil.example"},
    "X-Forwarded-Proto": {"x-forwarded-proto": "https"},
}


@pytest.mark.parametrize("what", FOREIGN)
async def test_without_keys_only_this_machine_is_answered(
    gateway: Served, upstream: ScriptedUpstream, what: str
) -> None:
    headers = FOREIGN[what]
    for refused in (
        await gateway.ask(headers=headers),
        await gateway.get("/v1/models", headers=headers),
        await gateway.get("/admin/status", headers=headers),
        await gateway.ask({"pattern": "*"}, path="/admin/evict", headers=headers),
        await gateway.ask({"model": "m"}, path="/admin/invalidate", headers=headers),
    ):
        assert refused.status == 403
        assert refused.json()["error"]["code"] == "keyless_loopback_only"
    assert upstream.num_calls == 0


@pytest.mark.parametrize("host", ["localhost", "localhost:1234", "127.0.0.1:80", "127.9.9.9", "[::1]:8800"])
async def test_every_literal_loopback_host_is_this_machine(gateway: Served, host: str) -> None:
    assert (await gateway.ask(headers={"host": host, "origin": f"http://{host}"})).status == 200


async def test_with_an_admin_key_only_that_key_administers(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    env = {"ADMIN": "sk-admin"}
    async with served(
        tmp_path, [upstream.url], env=env, server__keys=KEYS[:1], server__admin_key_env="ADMIN"
    ) as gateway:
        for headers in ({}, bearer("sk-alpha-1"), bearer("sk-admi")):
            refused = await gateway.get("/admin/status", headers=headers)
            assert (refused.status, refused.json()["error"]["code"]) == (401, "invalid_admin_key")
        assert (await gateway.get("/admin/status", headers=bearer("sk-admin"))).status == 200
        assert (await gateway.ask(headers=bearer("sk-admin"))).status == 401


async def test_an_upstream_sees_neither_cookies_nor_what_says_where_the_client_is(
    gateway: Served, upstream: ScriptedUpstream
) -> None:
    async def sets_cookie(exchange: Exchange) -> None:
        await exchange.json(reply(), headers={"set-cookie": "a=b"})

    upstream.script = sets_cookie
    ours = {"cookie": "session=1", "referer": "http://x/", "via": "1.1 x", "x-real-ip": "10.0.0.1"}
    answered = await gateway.ask(headers=ours)
    assert upstream.calls[0].names().isdisjoint(ours)
    assert upstream.calls[0].header("host") == upstream.url.removeprefix("http://")
    assert "set-cookie" not in answered.headers
    await gateway.ask(chat("again"))
    assert "cookie" not in upstream.calls[1].names()
