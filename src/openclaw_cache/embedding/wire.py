"""What the embedding process and its parent say to each other: frames of MessagePack behind their length.

The parent asks for one text at a time and waits for the answer; the process says first that it is ready, or why not.
"""

from __future__ import annotations

import struct
from typing import Final, Protocol

import msgspec

from openclaw_cache.errors import EmbeddingError

HEAD: Final = struct.Struct(">I")
MOST_FRAME_BYTES: Final = 16 * 1024 * 1024


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model is in memory. Texts of more than `max_chars` characters need not be sent: they do not fit."""

    fingerprint: str
    num_dims: int
    max_chars: int


class Unable(msgspec.Struct, frozen=True, tag=True):
    """The model cannot be loaded, and another try would not help: an operator must mend what `reason` says."""

    reason: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """To question `number`: little-endian float32; None where the text does not fit; or a reason for neither."""

    number: int
    vector: bytes | None = None
    reason: str | None = None


class Question(msgspec.Struct, frozen=True):
    """A text whose vector is wanted."""

    number: int
    text: str


Said = Ready | Unable | Answer
"""All that the process says."""


class Readable(Protocol):
    """Blocking bytes: gives fewer only at their end."""

    def read(self, size: int, /) -> bytes:
        """So many bytes."""
        ...


def framed(message: msgspec.Struct) -> bytes:
    """The message as it goes through a pipe."""
    body = msgspec.msgpack.encode(message)
    return HEAD.pack(len(body)) + body


def length_of(head: bytes) -> int:
    """A frame's length from its head.

    Raises:
        EmbeddingError: the peer does not speak this protocol.
    """
    length: int = HEAD.unpack(head)[0]
    if length > MOST_FRAME_BYTES:
        raise EmbeddingError("the embedding process does not speak our protocol")
    return length


def read_question(pipe: Readable) -> Question | None:
    """The next question; None at the end of the pipe, also in the middle of one."""
    head = pipe.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length = length_of(head)
    body = pipe.read(length)
    return msgspec.msgpack.decode(body, type=Question) if len(body) == length else None
