"""`prompt_cache_key`: by it, and by the start of the prompt, OpenAI sends requests to where their prefix is cached.

Advice of developers.openai.com/api/docs/guides/prompt-caching: the same key for requests that share a long prefix,
and no more than about 15 requests a minute for one prefix and key; what is above goes to other machines and misses.
So the key is that of the conversation where we know it, whose requests come one after the other. Where we do not, it
is that of tools and system prompt. These are the requests that OpenAI would bring together by the prefix alone, and
the key only parts those of different namespaces, so it never crowds a machine more than no key would.

The namespace is always in it: whoever shares no replies here should not read another's prefixes by time there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Final

import orjson
from blake3 import blake3

from openclaw_cache.gateway.cache_hints.text import BYTES_PER_TOKEN, text_bytes
from openclaw_cache.types import Json, Namespace

MAX_KEY_CHARACTERS: Final = 64
"""Longer ones OpenAI refuses."""

_FIELD: Final = "prompt_cache_key"
_MIN_BYTES: Final = 1024 * BYTES_PER_TOKEN
"""Shorter prompts are not cached."""

_PROMPT: Final = ("tools", "functions", "instructions", "messages", "input")
_KEPT_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")
"""Members by which the start of the prompt is on OpenAI's side, where we cannot see it."""

_CONTEXT: Final = "openclaw-cache 2026-11 prompt_cache_key"


class RoutingKeys:
    """Keys under one fleet secret: equal on every node, and telling nothing of what they were made from."""

    def __init__(self, secret: bytes) -> None:
        self._key = blake3(secret, derive_key_context=_CONTEXT).digest()

    def of(self, namespace: Namespace) -> Callable[[bytes], str]:
        """A hash for one namespace: 32 hex digits."""
        scope = namespace.encode()
        start = b"%d:%b" % (len(scope), scope)
        return lambda material: blake3(start + material, key=self._key).hexdigest(16)


def with_routing_key(
    raw: bytes, body: dict[str, Json], session: str | None, key_of: Callable[[bytes], str]
) -> bytes:
    """The request's bytes with a `prompt_cache_key` at their end; as they are where it needs or may have none."""
    if any(name.startswith("prompt_cache") for name in body) or any(body.get(n) for n in _KEPT_ELSEWHERE):
        return raw
    prompt = [body[name] for name in _PROMPT if name in body]
    if text_bytes(prompt, _MIN_BYTES) < _MIN_BYTES:
        return raw
    shared = b"session:" + session.encode("utf-8", "replace") if session else _start(body)
    before, brace, after = raw.rpartition(b"}")
    if shared is None or not brace or after.strip(b" \t\r\n"):
        return raw
    key = key_of(shared)
    if not (0 < len(key) <= MAX_KEY_CHARACTERS and key.isascii()):
        return raw
    return before + b"," + orjson.dumps({_FIELD: key})[1:] + after


def _start(body: dict[str, Json]) -> bytes | None:
    """What conversations of one agent have in common; None where the body tells nothing of it."""
    shared = [body.get(name) for name in ("tools", "functions", "instructions")]
    conversation = body.get("messages", body.get("input"))
    if isinstance(conversation, list):
        shared.append(list(takewhile(_is_system, conversation)))
    if not any(shared):
        return None
    try:
        return b"start:" + orjson.dumps(shared)
    except TypeError:  # no JSON that orjson writes: an integer beyond 64 bits
        return None


def _is_system(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") in {"system", "developer"}
