"""Where the KV of a prompt's tokens came from: as our own engine says, or as any upstream's usage does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from openclaw_cache.dialects.usage import Usage
from openclaw_cache.types import Headers

HEADER: Final = b"x-openclaw-kv"
"""On replies of the embedded engine: `computed=5, device=64, host=0, disk=0, copied=3`, in tokens of the prompt."""

_FIELD: Final = re.compile(rb"\s*(computed|device|host|disk|copied)\s*=\s*(\d{1,12})\s*")


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of one prompt by the tier that had them; those in none were computed.

    What the engine copied of a block that another prompt shares in part counts as computed, fewer tokens than a block
    has: a prompt's `cached_tokens` are whole blocks, and what is told to its client and what is counted must agree.
    """

    computed: int
    device: int = 0
    host: int = 0
    disk: int = 0

    @property
    def num_cached(self) -> int:
        """How many were not computed."""
        return self.device + self.host + self.disk


def from_header(headers: Headers) -> PromptTokens | None:
    """What the embedded engine says in its reply's head; None where it says nothing that can be read."""
    value = next((v for n, v in headers if n == HEADER), None)
    if value is None:
        return None
    fields = [_FIELD.fullmatch(part) for part in value.split(b",")]
    found = {m[1].decode(): int(m[2]) for m in fields if m is not None}
    if "computed" not in found:
        return None
    return PromptTokens(found.pop("computed") + found.pop("copied", 0), **found)


def from_usage(usage: Usage) -> PromptTokens | None:
    """What an upstream's usage says; None where it has no count of prompt tokens.

    In which tier it had what it had cached an upstream does not tell: it counts as its device's.
    """
    if usage.prompt_tokens is None:
        return None
    return PromptTokens(computed=usage.prompt_tokens - usage.cached_tokens, device=usage.cached_tokens)
