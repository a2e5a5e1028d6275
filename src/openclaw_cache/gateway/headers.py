"""Which headers go where: dropped, forwarded only, or forwarded and part of the key.

A header that we do not know is forwarded and is part of the key: it may change the reply.
"""

from __future__ import annotations

import re

from openclaw_cache.types import Headers

_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
    b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings",
})  # fmt: skip
"""RFC 9110 §7.6.1, with the names still seen in the field."""

_OURS = frozenset({
    b"x-openclaw-agent", b"x-openclaw-namespace", b"x-openclaw-semantic",
    b"x-openclaw-domain", b"x-openclaw-fingerprint",
})  # fmt: skip

_NEVER_SENT = _HOP_BY_HOP | _OURS | frozenset({
    b"host", b"content-length", b"expect", b"cookie", b"origin", b"referer",
    b"forwarded", b"via", b"x-real-ip",
    b"x-request-id",  # the gateway's own goes in its place, once
    b"accept-encoding",  # we ask for identity: a reply is stored and replayed as plain bytes
})  # fmt: skip

_CREDENTIALS = frozenset({b"authorization", b"x-api-key", b"api-key"})

_TRANSPORT = frozenset({
    b"cache-control", b"pragma",  # for every cache on the way (RFC 9111 §5.2.1)
    b"accept", b"accept-language", b"accept-charset", b"content-type", b"user-agent", b"priority", b"date",
    b"traceparent", b"tracestate", b"baggage", b"x-client-request-id", b"x-correlation-id",
    b"x-amzn-trace-id", b"cf-ray", b"cf-connecting-ip", b"cf-ipcountry", b"cf-visitor",
    b"idempotency-key", b"x-session-affinity", b"session_id", b"session-id", b"x-session-id",
    b"x-claude-code-session-id", b"x-claude-code-agent-id", b"x-claude-code-parent-agent-id",
    b"dnt", b"sec-gpc", b"http-referer", b"x-title",
})  # fmt: skip
"""Forwarded, but they say who or how, not what: not part of the key."""

_NEVER_SENT_PREFIXES = (b"x-forwarded-", b"sec-fetch-", b"sec-ch-", b"x-openclaw-kv-")
"""The last are between the gateway and its own engine: a client that set them could reach another's KV."""

_TRANSPORT_PREFIXES = (b"x-stainless-", b"x-b3-", b"x-datadog-")
_UNKEYED_PREFIXES = _NEVER_SENT_PREFIXES + _TRANSPORT_PREFIXES

_UNKEYED = (_NEVER_SENT | _CREDENTIALS | _TRANSPORT) - {b"x-openclaw-fingerprint"}
"""All but the fingerprint: it stays here, but names content that the reply depends on."""

_REPLY_DROPPED = _HOP_BY_HOP | frozenset({
    b"content-length", b"set-cookie", b"server", b"date", b"x-request-id",
    b"alt-svc", b"strict-transport-security",
})  # fmt: skip


_IN_NO_NAME = re.compile(rb"[^!#$%&'*+.^_`|~0-9a-z-]")
_IN_NO_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that RFC 9110 §5 forbids. Some readers let them through, and no good server sends them on."""


def keyed(headers: Headers) -> Headers:
    """The headers that are part of the key: those that can change a reply, known to us or not."""
    return [
        (name, value)
        for name, value in headers
        if name not in _UNKEYED and not name.startswith(_UNKEYED_PREFIXES)
    ]


def outgoing(headers: Headers, *, with_credentials: bool) -> list[tuple[str, str]]:
    """The headers of the upstream request, in order, duplicates kept.

    Headers named by `Connection` are hop-by-hop too (RFC 9110 §7.6.1) and dropped.
    """
    named = _named_by_connection(headers)
    return [
        (name.decode("latin-1"), _text(value))
        for name, value in headers
        if name not in _NEVER_SENT
        and name not in named
        and (with_credentials or name not in _CREDENTIALS)
        and not name.startswith(_NEVER_SENT_PREFIXES)
    ]


def returned(headers: Headers) -> Headers:
    """The upstream reply's headers that the client gets: all but hop-by-hop, framing, cookies and malformed ones."""
    named = _named_by_connection(headers)
    return [
        (name, value)
        for name, value in headers
        if name not in _REPLY_DROPPED
        and name not in named
        and not _IN_NO_NAME.search(name)
        and not _IN_NO_VALUE.search(value)
    ]


def credential(headers: Headers) -> bytes | None:
    """The client's credential: the bearer token or API key, without its scheme; None where absent."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            return token.strip() if scheme.lower() == b"bearer" else value.strip()
        if name in (b"x-api-key", b"api-key"):
            return value.strip()
    return None


def credentials(headers: Headers) -> bytes | None:
    """All credentials of the client in one value that no other set of them gives; None where there are none.

    An upstream may go by any of them, so it takes all of them to tell whose reply it is.
    """
    found = [(name, value.strip()) for name, value in headers if name in _CREDENTIALS and value.strip()]
    if not found:
        return None
    return b"".join(b"%d:%b%d:%b" % (len(name), name, len(value), value) for name, value in sorted(found))


def _text(value: bytes) -> str:
    """A header value for the HTTP client, which writes text as UTF-8: what is UTF-8 goes out as it came."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _named_by_connection(headers: Headers) -> frozenset[bytes]:
    values = [value for name, value in headers if name == b"connection"]
    if not values or values == [b"keep-alive"]:
        return frozenset()
    return frozenset(token.strip().lower() for value in values for token in value.split(b","))
