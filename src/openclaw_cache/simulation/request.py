"""One request of a trace: a prompt as a path of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.errors import ConfigError
from openclaw_cache.kv.rhythm import Hint

Ids: TypeAlias = NDArray[np.int64] | NDArray[np.int32]


class TraceError(ConfigError):
    """A trace cannot be read; the message names file, line and field."""


@dataclass(frozen=True, slots=True)
class Request:
    """A prompt.

    A block's id stands for the block and all that is before it, so equal ids are equal prefixes.
    """

    at: float
    """Seconds, from any moment on."""
    ids: Ids
    """Of its blocks, from the first on."""
    num_tokens: int
    """Of the prompt. The last block may be shorter than the others; tokens behind the last block are never found."""
    hint: Hint = Hint.NONE
    """What the reply says of the next call."""
    session: str = ""
    place: str = ""
    """Where it stands, for error messages: `trace.jsonl:12`."""

    def num_block_tokens(self, block_tokens: int) -> int:
        """How many of its tokens lie in its blocks."""
        return min(self.num_tokens, len(self.ids) * block_tokens)
