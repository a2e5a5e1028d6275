"""Small shared value types. No behaviour beyond construction."""

from __future__ import annotations

from typing import Any, NewType

import msgspec

Json = Any
"""A decoded JSON value; its shape is the peer's business, checked where it is used."""

Headers = list[tuple[bytes, bytes]]
"""ASGI header list: lower-case names, order and duplicates kept."""

Namespace = NewType("Namespace", str)
"""Isolation scope, part of every key. Printable, safe for logs."""

CacheKey = NewType("CacheKey", bytes)
"""32-byte keyed BLAKE3 of a request in its namespace, for one upstream and epoch."""


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who is asking. A label for affinity, memory and statistics; never a security boundary."""

    agent: str | None = None
    session: str | None = None
    source: str = "unknown"


class Likeness(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What lets a stored reply answer questions that mean the same. Part of its entry: both live and die together.

    `question` is the last text of the user. `kind` names all else that must be equal: who shares replies, the rest of
    the request, model and epoch. `vector` is the question's meaning as float16 in little-endian order,
    comparable with vectors of the same `embedder` only.
    """

    question: str
    kind: bytes
    embedder: str
    vector: bytes
    domain: str


class Entry(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A stored reply with its provenance; never changed once made.

    `reply` holds the exact bytes of the dialect's non-streaming JSON reply.
    `prompt` is the prompt's text, kept so that an operator can evict by pattern; where it is long it stands in
    `packed_prompt` instead, in zlib form (`result.entry.packed` and `prompt_text`).
    `model` is the one that answered, `requested_model` the name it was asked for by.
    `cached_tokens` and `cache_write_tokens` say what of the prompt the upstream's own cache had, or took, at the time.
    `expires_at` counts from `created_at`: no hit moves it.
    `likeness` is None where only the very same request may get the reply.

    A Struct outside the cycle collector (it refers to no containers): hundreds of thousands of them do not slow
    a collection. The order of its fields is the format of a stored entry.
    """

    reply: bytes
    model: str
    upstream: str
    namespace: Namespace
    created_at: float
    expires_at: float
    prompt_tokens: int | None
    completion_tokens: int | None
    has_usage: bool
    prompt: str
    packed_prompt: bytes = b""
    requested_model: str = ""
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    likeness: Likeness | None = None
