"""Header rules: what is part of the key, what goes up, what comes back."""

from __future__ import annotations

import pytest

from openclaw_cache.gateway import headers

HOP_BY_HOP = (  # RFC 9110 §7.6.1 and §11.7; proxy-connection and http2-settings from the field
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te",
    b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
)  # fmt: skip
CREDENTIALS = (b"authorization", b"x-api-key", b"api-key")


def sent(*pairs: tuple[bytes, bytes], with_credentials: bool = True) -> list[tuple[str, str]]:
    return headers.outgoing(list(pairs), with_credentials=with_credentials)


@pytest.mark.parametrize("name", HOP_BY_HOP)
def test_a_hop_by_hop_header_is_neither_sent_nor_returned_nor_keyed(name: bytes) -> None:
    pair = (name, b"x")
    assert sent(pair) == []
    assert headers.returned([pair]) == []
    assert headers.keyed([pair]) == []


@pytest.mark.parametrize(
    "connection", [b"X-Foo", b"close, x-foo", b" x-foo , x-bar", b"keep-alive,\tX-FOO", b"x-bar,x-foo"]
)
def test_a_header_named_by_connection_is_hop_by_hop_too(connection: bytes) -> None:
    pairs = [(b"connection", connection), (b"x-foo", b"1"), (b"x-other", b"2")]
    assert headers.outgoing(pairs, with_credentials=True) == [("x-other", "2")]
    assert headers.returned(pairs) == [(b"x-other", b"2")]


def test_order_and_duplicates_are_kept() -> None:
    pairs = [(b"x-b", b"1"), (b"x-a", b"2"), (b"x-b", b"3")]
    assert sent(*pairs) == [("x-b", "1"), ("x-a", "2"), ("x-b", "3")]
    assert headers.returned(pairs) == pairs
    assert headers.keyed(pairs) == pairs


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_credential_is_sent_only_where_it_may_be_and_is_never_keyed(name: bytes) -> None:
    assert sent((name, b"k")) == [(name.decode(), "k")]
    assert sent((name, b"k"), with_credentials=False) == []
    assert headers.keyed([(name, b"k")]) == []


@pytest.mark.parametrize(
    "name",
    [b"cookie", b"origin", b"referer", b"host", b"content-length", b"expect", b"forwarded", b"via",
     b"x-forwarded-for", b"x-forwarded-anything", b"x-real-ip", b"sec-fetch-mode", b"sec-ch-ua",
     b"accept-encoding", b"x-openclaw-namespace", b"x-request-id", b"x-openclaw-kv-salt", b"x-openclaw-kv-any"],
)  # fmt: skip
def test_what_concerns_this_hop_or_this_client_alone_is_not_sent(name: bytes) -> None:
    assert sent((name, b"x")) == []
    assert headers.keyed([(name, b"x")]) == []


@pytest.mark.parametrize(
    "name",
    [b"anthropic-beta", b"openai-beta", b"openai-project", b"x-unknown", b"x-amzn-bedrock-guardrailidentifier",
     b"cf-aig-authorization", b"x-goog-api-key", b"openai-organization", b"helicone-auth"],
)  # fmt: skip
def test_an_unknown_header_is_sent_and_keyed(name: bytes) -> None:
    assert sent((name, b"x")) == [(name.decode(), "x")]
    assert headers.keyed([(name, b"x")]) == [(name, b"x")]


@pytest.mark.parametrize(
    "name",
    [b"set-cookie", b"content-length", b"date", b"x-request-id", b"strict-transport-security", b"alt-svc"],
)
def test_what_is_the_gateways_own_to_say_is_not_returned(name: bytes) -> None:
    assert headers.returned([(name, b"x")]) == []


@pytest.mark.parametrize(
    "name", [b"retry-after", b"x-ratelimit-remaining-tokens", b"openai-version", b"content-type"]
)
def test_what_a_client_needs_is_returned(name: bytes) -> None:
    assert headers.returned([(name, b"x")]) == [(name, b"x")]


@pytest.mark.parametrize(
    ("pair", "token"),
    [
        ((b"authorization", b"Bearer sk-1"), b"sk-1"),
        ((b"authorization", b"bearer  sk-1 "), b"sk-1"),
        ((b"authorization", b"Basic dTpw"), b"Basic dTpw"),
        ((b"x-api-key", b" sk-1"), b"sk-1"),
        ((b"api-key", b"sk-1"), b"sk-1"),
        ((b"x-other", b"sk-1"), None),
    ],
)
def test_a_credential_is_read_without_its_scheme(pair: tuple[bytes, bytes], token: bytes | None) -> None:
    assert headers.credential([pair]) == token


def test_any_other_set_of_credentials_is_another_value() -> None:
    sets: list[list[tuple[bytes, bytes]]] = [
        [(b"authorization", b"a")],
        [(b"x-api-key", b"a")],
        [(b"authorization", b"a"), (b"x-api-key", b"b")],
        [(b"authorization", b"b"), (b"x-api-key", b"a")],
        [(b"authorization", b"a"), (b"authorization", b"b")],
        [(b"authorization", b"a9:x-api-key1:b")],
    ]
    values = [headers.credentials(pairs) for pairs in sets]
    assert len(set(values)) == len(sets)
    assert None not in values
    assert headers.credentials(list(reversed(sets[2]))) == values[2]
    assert headers.credentials([(b"x-other", b"a"), (b"authorization", b"  ")]) is None


def test_a_value_goes_out_as_the_bytes_it_came_in() -> None:
    # The HTTP client writes text as UTF-8.
    for raw in ("Köln 東京".encode(), b"plain"):
        ((_, value),) = sent((b"x-name", raw))
        assert value.encode() == raw
    assert sent((b"x-name", b"caf\xe9")) == [("x-name", "café")]


def test_the_fingerprint_of_content_stays_here_but_tells_requests_apart() -> None:
    pair = (b"x-openclaw-fingerprint", b"sha256:00")
    assert sent(pair) == []
    assert headers.keyed([pair]) == [pair]
