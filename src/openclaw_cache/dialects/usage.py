"""What a reply says of its tokens, in one form for every dialect and provider."""

from __future__ import annotations

from typing import Final

import msgspec

from openclaw_cache.types import Json

MOST_TOKENS: Final = 10**9
"""Of one reply: more is no count. No sum of such numbers is beyond what can be stored."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one reply. `prompt_tokens` is the whole prompt, what a prompt cache had of it included."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int = 0
    """Of the prompt: read from the provider's or engine's own cache."""
    cache_write_tokens: int = 0
    """Of the prompt: computed, and written to the provider's cache at a price of its own."""
    is_estimate: bool = False
    """Whether nobody told: the client left, or the reply broke off, before its usage came."""


def count(value: Json) -> int | None:
    """A count of tokens as it stands in a usage object; None where it is none."""
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None  # no booleans
