"""A case of the body parsers' fuzzer: a request's bytes, what may become of them, and the one right answer to them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fuzz import reading, replies
from fuzz.delivery import dumped
from fuzz.mutation import VALUES, mutated, mutated_value
from fuzz.wire import Reply

Json = Any
TRANSPORT: Final = ("stream", "stream_options", "prompt_cache_key", "prompt_cache_retention")
"""Top-level fields that say how a reply travels."""

MAX_DEPTH: Final = 254
ADMIN: Final = {
    "/admin/evict": {
        "pattern": "*heron*",
        "type": "result",
        "namespace": None,
        "dry_run": True,
        "pinned": False,
    },
    "/admin/invalidate": {"model": "other"},
    "/admin/rekey": {},
    "/admin/warm": {
        "prompts": [{"messages": [{"role": "user", "content": "hi"}]}],
        "type": "kv",
        "pin": "1h",
    },
}


@dataclass(frozen=True, slots=True)
class Body:
    """A body as one reads it who follows RFC 8259 to the letter."""

    value: dict[str, Json] | None
    """None where it is no JSON object, or nested too deeply."""
    name: str
    """The same for equal JSON values only, transport apart; of what is ambiguous, for equal bytes only."""


def read(raw: bytes) -> Body:
    """Read a body."""
    is_ambiguous = False

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        nonlocal is_ambiguous
        found = dict(pairs)
        is_ambiguous = is_ambiguous or len(found) != len(pairs)
        return found

    def refuse(word: str) -> Json:
        raise ValueError(word)

    def whole(digits: str) -> int | float:
        nonlocal is_ambiguous
        is_long = len(digits) > 20
        is_ambiguous = is_ambiguous or is_long
        return float(digits) if is_long else int(digits)

    try:
        text = raw.decode()
        value = json.loads(text, object_pairs_hook=members, parse_constant=refuse, parse_int=whole)
    except (ValueError, RecursionError):
        return Body(None, "")
    if text.startswith("\ufeff") or not isinstance(value, dict) or _depth(value) > MAX_DEPTH:
        return Body(None, "")
    kept = {name: member for name, member in value.items() if name not in TRANSPORT}
    said = repr(raw) if is_ambiguous else json.dumps(kept, sort_keys=True)
    return Body(value, hashlib.sha256(said.encode()).hexdigest()[:32])


def _depth(value: Json) -> int:
    level, depth = [value], 0
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [one for item in level for one in (item.values() if isinstance(item, dict) else item)]
    return depth


def is_acceptable(api: str, body: Body) -> bool:
    """Whether a request has what nobody can go on without."""
    value = body.value
    if value is None or not isinstance(value.get("model"), str) or not value["model"]:
        return False
    if any("\ud800" <= char <= "\udfff" for char in value["model"]):
        return False
    stream = value.get("stream")
    if api != "embeddings" and not (stream is None or isinstance(stream, bool)):
        return False
    match api:
        case "chat" | "messages":
            return isinstance(value.get("messages"), list)
        case "count_tokens":
            return isinstance(value.get("messages"), list) and not stream
        case "completions":
            return "prompt" in value and isinstance(value["prompt"], str | list | None)
        case "responses":
            return isinstance(value.get("input"), str | list | None)
        case _:
            return True


def bodies(api: str, rng: random.Random, nonce: str) -> list[bytes]:
    """A good body, and some that are like it and yet not the same."""
    fields: dict[str, Json] = {"seed": 1, "metadata": {"a": [1, 2.5, None, True, "x"]}, "user": "é🏰"}
    value = replies.request(api, nonce, stream=api in replies.STREAMED and rng.random() < 0.4, **fields)
    found = [dumped(value)]
    for _ in range(4):
        match rng.randrange(10):
            case 0 | 1 | 2:
                found.append(dumped(mutated_value(value, rng)))
            case 3 | 4 | 5:
                found.append(mutated(rng.choice(found), rng))
            case 6:
                found.append(_respelled(value, rng))
            case 7:
                found.append(_respelled(mutated_value(value, rng), rng))
            case _:
                found.append(_strange(value, rng))
    return found


def _respelled(value: Json, rng: random.Random) -> bytes:
    """The same value in other bytes."""
    if isinstance(value, dict):
        items = list(value.items())
        rng.shuffle(items)
        value = dict(items)
    return json.dumps(value, indent=rng.choice((None, 0, 2)), ensure_ascii=rng.random() < 0.5).encode(
        errors="replace"
    )


def _strange(value: dict[str, Json], rng: random.Random) -> bytes:
    """What no sane client sends."""
    raw = dumped(value)
    name = rng.choice(list(value))
    depth = rng.choice((100, 250, 252, 253, 254, 255, 990, 20_000))
    choices: Sequence[bytes] = (
        b"",
        b"\xef\xbb\xbf" + raw,
        raw + rng.choice((b" ", b"\n", b"\x00", b"{}", b"x", b",")),
        raw.decode().encode("utf-16"),
        raw[:-1] + b"," + json.dumps(name).encode() + b":" + dumped(rng.choice(VALUES)) + b"}",
        raw[:-1] + b',"deep":' + b"[" * depth + b"]" * depth + b"}",
        raw[:-1] + b',"deep":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}",
        raw[:-1]
        + b',"n":'
        + rng.choice((b"9" * 5000, b"1" * 30, b"-0", b"1E400", b"-1e-400", b"0" * 9, b"1."))
        + b"}",
        raw[:-1] + b',"s":"\\ud83d' + rng.choice((b"", b"\\ud83d", b"\\udff0", b"x")) + b'"}',
        raw.replace(b"seed", b"s\\u0065ed"),
        raw[:-1] + b',"big":"' + b"a" * rng.choice((10**5, 10**6, 10**7)) + b'"}'
        if rng.random() < 0.1
        else raw,
        raw[:-1] + b',"Model":"other"}',
    )
    return rng.choice(choices)


# The one right answer.


def answer(api: str, body: Body) -> tuple[str, bytes]:
    """The upstream's reply to a request, and its content type: its text is the request's name."""
    assert body.value is not None
    if api == "embeddings":
        return "application/json", _vectors(body.value)
    said = replies.said(api, random.Random(body.name), f"<{body.name}>")
    if body.value.get("stream") is True:
        return "text/event-stream", b"".join(replies.rendered(said.events, random.Random(0)))
    if api == "count_tokens":
        return "application/json", dumped({"input_tokens": int(body.name[:10], 16)})
    return "application/json", dumped(said.whole)


def _inputs(value: dict[str, Json]) -> list[Json]:
    given = value.get("input")
    if isinstance(given, list) and given and not all(type(one) is int for one in given):
        return given
    return [given]


def _vectors(value: dict[str, Json]) -> bytes:
    data = [
        {"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors(value))
    ]
    usage = {"prompt_tokens": len(data), "total_tokens": len(data)}
    return dumped({"object": "list", "data": data, "model": "m", "usage": usage})


def vectors(value: dict[str, Json]) -> list[list[int]]:
    """One vector for each input, out of that input and all that stands beside it."""
    others = {name: member for name, member in value.items() if name not in (*TRANSPORT, "input")}
    found = []
    for one in _inputs(value):
        digest = hashlib.sha256(json.dumps([others, one], sort_keys=True).encode()).hexdigest()
        found.append([int(digest[i : i + 8], 16) for i in range(0, 32, 8)])
    return found


def fault(api: str, raw: bytes, reply: Reply, *, only_stored: bool) -> str | None:
    """Why a request must not have been answered like this; None where all is well."""
    body = read(raw)
    if not reply.is_whole:
        return "a reply that breaks off"
    if reply.status >= 400 and not reading.is_error_object(api, reply.body):
        return "an error without an error object"
    if not is_acceptable(api, body):
        return None if reply.status == 400 else "a body that cannot be read is not refused"
    assert body.value is not None
    if only_stored and reply.status == 504:
        return None
    if reply.status != 200:
        return "a body that can be read is refused"
    if api == "embeddings":
        told = json.loads(reply.body)["data"]
        return (
            None
            if [one["embedding"] for one in told] == vectors(body.value)
            else "the vectors of another request"
        )
    if api == "count_tokens":
        right = int(body.name[:10], 16)
        return None if json.loads(reply.body)["input_tokens"] == right else "the count of another request"
    if body.value.get("stream") is True:
        if reply.kind != "text/event-stream":
            return "no stream"
        view = reading.of_stream(api, reading.sse_events(reply.body))
    else:
        view = reading.of_whole(api, reply.body)
    if view is None:
        return "what is no reply"
    return None if f"<{body.name}>" in json.dumps(view.says) else "the reply to another request"
