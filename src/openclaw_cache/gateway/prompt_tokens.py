"""Where the KV of a prompt's tokens came from: as our own engine says, or as any upstream's usage does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from openclaw_cache.types import Headers, Json

HEADER: Final = b"x-openclaw-kv"
"""On replies of the embedded engine: `computed=5, device=64, host=0, disk=0`, in tokens of the prompt."""

_FIELD: Final = re.compile(rb"\s*(computed|device|host|disk)\s*=\s*(\d{1,12})\s*")
_CACHED_FIELDS: Final = (
    "prompt_cache_hit_tokens",  # DeepSeek
    "cached_tokens",  # Moonshot
    "cache_read_input_tokens",  # Anthropic, and proxies that pass it on
)


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The tokens of one prompt by the tier that had them; those in none were computed."""

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
    return PromptTokens(**found) if "computed" in found else None


def from_usage(usage: dict[str, Json]) -> PromptTokens | None:
    """What an upstream's usage says; None where it has no count of prompt tokens.

    Upstreams write what they had cached in different places. In which tier they had it they do not tell: it
    counts as their device's.
    """
    num_prompt = count(usage.get("prompt_tokens"))
    if num_prompt is None:
        return None
    details = usage.get("prompt_tokens_details")
    places = [details.get("cached_tokens")] if isinstance(details, dict) else []
    places += [usage.get(name) for name in _CACHED_FIELDS]
    num_cached = next((n for n in map(count, places) if n), 0)
    num_cached = min(num_cached, num_prompt)
    return PromptTokens(computed=num_prompt - num_cached, device=num_cached)


def count(value: Json) -> int | None:
    """A count of tokens as it stands in a usage object; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
