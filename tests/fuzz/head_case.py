"""Requests that break HTTP's framing, and good ones that arrive in strange pieces."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Final

from fuzz.mutation import cut, mutated

BODY: Final = json.dumps({"model": "m", "messages": [{"role": "user", "content": "heron-secret"}]}).encode()

_LENGTHS: Final = (
    *("-1", "+5", "0x10", "1e3", "5 5", "5, 5", "", " ", "00000005", "9" * 30, "5\x0b", "5;x", "NaN"),
    *(str(len(BODY) - 1), str(len(BODY) + 1), f"{len(BODY)}\r\ncontent-length: 3"),
)
_CODINGS: Final = (
    "chunked, chunked",
    "gzip, chunked",
    "xchunked",
    "chunked\r\ntransfer-encoding: identity",
    "Chunked\x0b",
)
_CHUNK_SIZES: Final = (b"-1", b"0x5", b"5 ", b"zz", b"", b"F" * 17, b"5;" + b"x" * 70_000, b"\x00", b"+5")
_TARGETS: Final = (
    *(
        "/v1/../admin/status",
        "/v1/%2e%2e/admin/status",
        "//v1/chat/completions",
        "/v1/chat/completions/",
        "*",
        "x",
        "",
    ),
    *(
        "http://evil.example/v1/chat/completions",
        "/v1/chat/completions?" + "q" * 5000,
        "/v1/chat/completions#x",
        "/%00",
    ),
    *(
        "/v1/chat/completions\x00",
        "/v1/models/%ff%fe",
        "/v1/models/..%2f..%2fetc",
        "/\u00e9",
        "/v1/chat/completions%20",
    ),
    *("/dashboard", "/admin/evict", "/metrics", "/v1/models/" + "a" * 3000),
)
_METHODS: Final = (
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "post",
    "P\x00ST",
    "PRI",
    "X" * 500,
)
_FIELDS: Final = (
    *(
        "host: evil.example",
        "host:",
        "x y: 1",
        ": 1",
        "noColon",
        " folded: 1",
        "x-a: \x00",
        "x-b: \x7f\x1b",
        "x-c: \xff",
    ),
    *(
        "expect: 100-continue",
        "expect: x",
        "connection: close, x-forwarded-for",
        "upgrade: h2c\r\nconnection: upgrade",
    ),
    *(
        "cache-control: " + "max-age=1," * 500,
        "cache-control: max-age=\xff",
        "authorization: Bearer \x00",
        "x-request-id: \n",
    ),
    *(
        "content-encoding: gzip",
        "x-openclaw-namespace: ../..",
        "x-openclaw-agent: \ud7ff".encode().decode("latin-1"),
    ),
    *(
        "x-long: " + "a" * 70_000,
        "\r\n".join(f"x-{i}: 1" for i in range(2000)),
        "content-type: \xfe",
        "te: trailers",
    ),
)


def good(rng: random.Random) -> list[bytes]:
    """A request that must be answered, in pieces."""
    if rng.random() < 0.5:
        raw = head(["content-length: " + str(len(BODY))]) + BODY
        return cut(raw, rng)
    chunks = b"".join(
        b"%x%b\r\n%b\r\n" % (len(part), rng.choice((b"", b";a=b")), part) for part in cut(BODY, rng) if part
    )
    end = rng.choice((b"0\r\n\r\n", b"0\r\nx-trailer: 1\r\n\r\n", b"000\r\n\r\n"))
    return cut(head(["transfer-encoding: chunked"]) + chunks + end, rng)


def head(
    lines: Sequence[str],
    *,
    method: str = "POST",
    target: str = "/v1/chat/completions",
    version: str = "HTTP/1.1",
) -> bytes:
    """The head of a request."""
    return "\r\n".join([f"{method} {target} {version}", "host: 127.0.0.1", *lines, "", ""]).encode(
        "latin-1", "replace"
    )


def bad(rng: random.Random) -> list[bytes]:
    """A request that need not be answered, in pieces."""
    makers: Sequence[Callable[[], bytes]] = (
        lambda: head([f"content-length: {rng.choice(_LENGTHS)}"]) + BODY,
        lambda: (
            head([f"transfer-encoding: {rng.choice(_CODINGS)}"])
            + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        ),
        lambda: (
            head(["transfer-encoding: chunked"])
            + rng.choice(_CHUNK_SIZES)
            + b"\r\n"
            + BODY
            + b"\r\n0\r\n\r\n"
        ),
        lambda: (
            head(["transfer-encoding: chunked", f"content-length: {rng.choice((3, len(BODY)))}"])
            + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
        ),
        lambda: head([f"content-length: {len(BODY)}"], target=rng.choice(_TARGETS)) + BODY,
        lambda: head([f"content-length: {len(BODY)}"], method=rng.choice(_METHODS)) + BODY,
        lambda: (
            head(
                [f"content-length: {len(BODY)}"],
                version=rng.choice(("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "", "x")),
            )
            + BODY
        ),
        lambda: head([rng.choice(_FIELDS), f"content-length: {len(BODY)}"]) + BODY,
        lambda: head([rng.choice(_FIELDS), rng.choice(_FIELDS), f"content-length: {len(BODY)}"]) + BODY,
        lambda: (
            head([f"content-length: {len(BODY)}"]).replace(b"\r\n", rng.choice((b"\n", b"\r", b"\n\r")))
            + BODY
        ),
        lambda: mutated(head([f"content-length: {len(BODY)}"]), rng) + BODY,
        lambda: (
            mutated(head([f"content-length: {len(BODY)}"]) + BODY, rng)
            + head([f"content-length: {len(BODY)}"])
            + BODY
        ),
        lambda: (head([f"content-length: {len(BODY)}"]) + BODY)[: rng.randrange(400)],
        lambda: rng.randbytes(rng.choice((1, 5, 100, 3000, 100_000))),
        lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
        lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
        lambda: b"x" * 200_000,
    )
    return cut(rng.choice(makers)(), rng)
