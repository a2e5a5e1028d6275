"""The dashboard: a page of static files, which asks `/admin/*` for all that it shows."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from blake3 import blake3

from openclaw_cache.api.auth import Authenticator
from openclaw_cache.api.relay import Send
from openclaw_cache.api.reply import Scope, peer, request_id, send_body
from openclaw_cache.errors import RequestError
from openclaw_cache.types import Headers

PAGE: Final = "/dashboard"
_PACKAGE: Final = "openclaw_cache.dashboard"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".json": b"application/json",
}
"""What is sent at all: a file of another kind in the package is not the page's."""

_GUARD: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)


@dataclass(frozen=True, slots=True)
class File:
    """One file of the page."""

    content_type: bytes
    body: bytes
    etag: bytes


def serves(path: str) -> bool:
    """Whether a path is the dashboard's. It may still not be there."""
    return path == PAGE or path.startswith(PAGE + "/")


async def serve(authenticator: Authenticator, scope: Scope, send: Send) -> int:
    """Answer GET and HEAD of one path; returns the status.

    Raises:
        RequestError: 403 where the page is for this machine only, 404.
    """
    headers: Headers = scope["headers"]
    authenticator.page(peer(scope), headers)
    told = [*_GUARD, (b"x-request-id", request_id(headers).encode())]
    path = scope["path"]
    if path == PAGE + "/":  # the page's own addresses are relative to the path without it
        await send_body(send, 308, [*told, (b"location", b"../dashboard")], b"")
        return 308
    file = files().get(path)
    if file is None:
        raise RequestError(404, f"the dashboard has no {path[:200]!r}", code="not_found")
    told += [(b"etag", file.etag), (b"cache-control", b"no-cache")]
    if _is_known(headers, file.etag):
        await send({"type": "http.response.start", "status": 304, "headers": told})
        await send({"type": "http.response.body", "body": b""})
        return 304
    await send_body(send, 200, [*told, (b"content-type", file.content_type)], file.body)
    return 200


@functools.cache
def files() -> Mapping[str, File]:
    """All files of the page by their path. Read once; nothing that a client sends names a file on the disk."""
    found = {}
    for name, content_type, source in _sources(resources.files(_PACKAGE), ""):
        body = source.read_bytes()
        path = PAGE if name == _INDEX else f"{PAGE}/{name}"
        found[path] = File(content_type, body, b'"%s"' % blake3(body).hexdigest(16).encode())
    return found


def _sources(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes, Traversable]]:
    for source in folder.iterdir():
        if source.is_dir():
            yield from _sources(source, f"{prefix}{source.name}/")
        elif (content_type := _TYPES.get("." + source.name.rpartition(".")[2])) is not None:
            yield prefix + source.name, content_type, source


def _is_known(headers: Headers, etag: bytes) -> bool:
    """Whether the client has this very version (RFC 9110 §13.1.2: a weak comparison)."""
    for name, value in headers:
        if name == b"if-none-match":
            tags = {tag.strip().removeprefix(b"W/") for tag in value.split(b",")}
            if etag in tags or b"*" in tags:
                return True
    return False
