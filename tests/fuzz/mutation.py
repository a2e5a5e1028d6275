"""How bytes and JSON values go wrong."""

from __future__ import annotations

import random
from typing import Any, Final

Json = Any

NASTY: Final = (
    *(
        b"\x00",
        b"\xff",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf0\x9f",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n",
        b"\r\n",
        b"\n\n",
        b"\r\r",
    ),
    *(
        b"data:",
        b"data: ",
        b"event: error\n",
        b"data: [DONE]\n\n",
        b": \n",
        b'"',
        b"\\",
        b"\\u",
        b"\\ud83d",
        b"}",
        b"]}",
    ),
    *(
        b'{"',
        b",",
        b"[DONE]",
        b"null",
        b"1e999",
        b"NaN",
        b"-",
        b"9" * 30,
        b"[" * 300,
        b'"error":{"message":"x"},',
    ),
    *(
        b'"finish_reason":"length"',
        b"\n\ndata: {}\n\n",
        b"event: message_stop\n",
        b"0\r\n\r\n",
        b"\x1f\x8b\x08",
    ),
)
"""What parsers stumble over."""

VALUES: Final[tuple[Json, ...]] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1.0,
        1.5,
        2**63,
        2**64,
        -(2**63) - 1,
        10**30,
        1e300,
        "",
        "x",
        "\x00",
        "\ud800",
        "🏰",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [{}],
        {"": None},
        {"type": "error"},
        {"error": {"message": "x"}},
        "stop",
        "length",
        "error",
    ),
    *("content_filter", "message_stop", "response.completed", [0] * 50, "y" * 3000),
)
"""What stands where something else should."""


def mutated(raw: bytes, rng: random.Random) -> bytes:
    """The bytes after a few accidents."""
    data = bytearray(raw)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        size = min(rng.choice((1, 1, 2, 7, 40)), len(data) - at)
        match rng.randrange(8):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(data):
                data[at] = rng.randrange(256)
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = rng.choice(NASTY)
            case 4:
                data[at : at + size] = rng.choice(NASTY)
            case 5:
                data[at:at] = data[at : at + size] * rng.choice((1, 1, 3))
            case 6:
                data[at:at] = rng.randbytes(rng.choice((1, 4, 30)))
            case _:
                del data[at:]
    return bytes(data)


def mutated_value(value: Json, rng: random.Random) -> Json:
    """A JSON value in which something has another value, is missing or stands twice."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        found = dict(value)
        name = rng.choice(list(found))
        match rng.randrange(6):
            case 0:
                del found[name]
            case 1:
                found[rng.choice(("x", name + "s", name.upper(), ""))] = found.pop(name)
            case 2:
                found["extra"] = rng.choice(VALUES)
            case _:
                found[name] = mutated_value(found[name], rng)
        return found
    if isinstance(value, list) and value and rng.random() < 0.85:
        items = list(value)
        at = rng.randrange(len(items))
        match rng.randrange(5):
            case 0:
                del items[at]
            case 1:
                items.insert(at, items[at])
            case _:
                items[at] = mutated_value(items[at], rng)
        return items
    return rng.choice(VALUES)


def cut(raw: bytes, rng: random.Random) -> list[bytes]:
    """The bytes in pieces: one, a few, or every byte alone where they are not too many."""
    match rng.randrange(4):
        case 0 if len(raw) < 1500:
            return [raw[i : i + 1] for i in range(len(raw))]
        case 1 | 2:
            places = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(1, 8)))
            return [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
        case _:
            return [raw]
