"""From a request's bytes to the key of its reply.

Rule: equal key ⇔ equal JSON value (and equal path, query, upstream, model, namespace, epoch and headers).
JSON values are compared as a receiver sees them: 1 ≠ 1.0 ≠ "1", absent ≠ null; the order of members, white
space and the way a character or a number is spelled do not matter. Unknown fields count, because an
allow-list of fields answers one request with the reply of another.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import orjson
from blake3 import blake3

from openclaw_cache.errors import RequestError
from openclaw_cache.types import CacheKey, Namespace

if TYPE_CHECKING:
    from collections.abc import Iterable

IGNORED: Final = frozenset({"stream", "stream_options", "prompt_cache_key", "prompt_cache_retention"})
"""Top-level fields that say how a reply travels or is cached, never what it says."""

IGNORABLE: Final = frozenset({"user", "metadata"})
"""Top-level fields that an operator may name in `result_cache.ignore`."""

MAX_DEPTH: Final = 254
"""Deepest nesting of a body; the deepest that orjson writes again."""

RESULT_PREFIX: Final = b"r:"
"""Every result entry's store key starts with this."""

INLINE_BYTES: Final = 1 << 20
"""Work on larger bodies takes tens of milliseconds: it belongs on a thread, beside the event loop."""

_INT64_MIN, _UINT64_MAX = -(2**63), 2**64 - 1
_STORE_KEY: Final = re.compile(rb"r:[0-9a-f]{32}:([0-9a-f]{64})")
_by_name = itemgetter(0)


@dataclass(frozen=True, slots=True)
class DecodedBody:
    """A request body as a JSON object.

    `keyable` is False where two receivers may read the same bytes differently, so that no reply can be
    shared; `why` then is one word for `Cache-Status` (`duplicate-key`, `number-range`, `lone-surrogate`),
    else empty.
    """

    value: dict[str, Any]
    keyable: bool
    why: str


def decode(raw: bytes) -> DecodedBody:
    """Parse a request body.

    Effects: none. Cost: O(len(raw)): 0.42 ms for 192 kB in the compact form that SDKs send, 1.4 ms otherwise.

    Raises:
        RequestError: 400 where the body is not UTF-8, not JSON, not an object, or nested deeper than
            `MAX_DEPTH`.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as refusal:
        return _decode_refused(raw, refusal)
    try:
        # Writing it again gives the same bytes only where no member was dropped and no number changed.
        is_exact = orjson.dumps(value) == raw
    except TypeError as error:
        raise _too_deep() from error
    if type(value) is not dict:
        raise RequestError(400, "the request body must be a JSON object")
    if is_exact:
        return DecodedBody(value, True, "")
    careful, doubts = _parse_carefully(raw.decode())
    return DecodedBody(careful, False, doubts[0]) if doubts else DecodedBody(value, True, "")


def canonical(value: dict[str, Any], ignore: frozenset[str] = frozenset()) -> bytes:
    """Write a keyable body so that equal JSON values, and only those, give equal bytes.

    `IGNORED` fields are left out at the top level, and those of `IGNORABLE` that `ignore` names. Numbers are
    IEEE 754 doubles or 64-bit integers (RFC 8259 §6). Cost: O(size); 80 µs for 192 kB.
    """
    dropped = IGNORED | (ignore & IGNORABLE) if ignore else IGNORED
    kept = {name: member for name, member in value.items() if name not in dropped}
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


class Keyer:
    """Makes keys that nobody without the fleet's secret can predict or forge (BLAKE3 in keyed mode)."""

    __slots__ = ("_namespace_key", "_request_key")

    def __init__(self, secret: bytes) -> None:
        self._request_key = blake3(secret, derive_key_context="openclaw-cache result request key v1").digest()
        self._namespace_key = blake3(
            secret, derive_key_context="openclaw-cache result namespace id v1"
        ).digest()

    def key(
        self,
        *,
        namespace: Namespace,
        path: str,
        query: bytes,
        upstream: str,
        model_identity: str,
        epoch: bytes,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
    ) -> CacheKey:
        """Name the reply to one request.

        Every field is preceded by its length and headers also by their number, so no two different requests
        give the same bytes to the hash. Headers are ordered by name; those of one name keep their order.

        Args:
            namespace: who shares replies.
            path: request path.
            query: raw query string.
            upstream: name of the upstream that answers.
            model_identity: the model that answers, as exactly as it is known.
            epoch: version of the model's replies; a new one makes every older reply unreachable.
            headers: the forwarded headers that can change the reply, names in lower case.
            body: result of `canonical`.
        """
        space, way, pod, model = namespace.encode(), path.encode(), upstream.encode(), model_identity.encode()
        ordered = sorted(headers, key=_by_name)
        parts = [
            b"%d:%b%d:%b%d:%b%d:%b%d:%b%d:%b%d;"
            % (
                *(len(space), space, len(way), way, len(query), query, len(pod), pod),
                *(len(model), model, len(epoch), epoch, len(ordered)),
            )
        ]
        parts += [b"%d:%b%d:%b" % (len(name), name, len(text), text) for name, text in ordered]
        parts += (b"%d:" % len(body), body)
        return CacheKey(blake3(b"".join(parts), key=self._request_key).digest())

    def namespace_prefix(self, namespace: Namespace) -> bytes:
        """Start of every store key of a namespace. A keyed hash, so that names do not show in the store."""
        return b"r:%b:" % blake3(namespace.encode(), key=self._namespace_key).hexdigest(16).encode()

    def store_key(self, namespace: Namespace, key: CacheKey) -> bytes:
        """Where the store keeps the entry of `key`: `r:<namespace id>:<key in hex>`."""
        return self.namespace_prefix(namespace) + key.hex().encode()


def key_of(store_key: bytes) -> CacheKey | None:
    """Read the key back out of a store key; None where it is not that of a result entry."""
    shape = _STORE_KEY.fullmatch(store_key)
    return CacheKey(bytes.fromhex(shape[1].decode())) if shape else None


def _decode_refused(raw: bytes, refusal: orjson.JSONDecodeError) -> DecodedBody:
    """Tell broken bodies (400) from valid JSON that orjson cannot hold (sent on, but not keyable)."""
    broken = RequestError(
        400, f"the request body is not valid JSON: {refusal.msg} (at character {refusal.pos})"
    )
    try:
        value, doubts = _parse_carefully(raw.decode())
    except RecursionError as error:
        raise _too_deep() from error
    except ValueError as error:
        raise broken from error
    if _depth_exceeds(value, MAX_DEPTH):
        raise _too_deep()
    if type(value) is not dict:
        raise RequestError(400, "the request body must be a JSON object")
    # Besides what the parse noted, lone surrogates are the one thing that JSON allows and orjson refuses.
    return DecodedBody(value, False, doubts[0] if doubts else "lone-surrogate")


def _parse_carefully(text: str) -> tuple[Any, list[str]]:
    """Parse with the standard library, noting what makes a body ambiguous.

    Raises:
        ValueError: not JSON. RecursionError: nested too deeply for the interpreter.
    """
    doubts: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            doubts.append("duplicate-key")
        return found

    def whole(digits: str) -> int | float:
        if len(digits) > 40:  # int() is quadratic in the number of digits and refuses thousands of them
            doubts.append("number-range")
            return float(digits)
        number = int(digits)
        if not _INT64_MIN <= number <= _UINT64_MAX:
            doubts.append("number-range")
        return number

    def real(digits: str) -> float:
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            doubts.append("number-range")
        return number

    def constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    if text.startswith("\ufeff"):
        raise ValueError("byte order mark")
    value = json.loads(
        text, object_pairs_hook=members, parse_int=whole, parse_float=real, parse_constant=constant
    )
    return value, doubts


def _depth_exceeds(value: object, limit: int) -> bool:
    """Whether lists and dicts are nested deeper than `limit`. Cost: O(size), without recursion."""
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        if depth > limit:
            return True
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return False


def _too_deep() -> RequestError:
    return RequestError(400, f"the request body is nested deeper than {MAX_DEPTH} levels")
