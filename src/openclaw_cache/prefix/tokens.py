"""Bytes of a prompt as tokens: by what a provider counted, else an estimate.

The estimate is for vocabularies of about 200,000 tokens. See docs/prefix-breaks.md for how far it is off.
"""

from __future__ import annotations

from typing import Final

from openclaw_cache.prefix.outline import Outline

ASCII_BYTES_PER_TOKEN: Final = 4.35
WIDE_BYTES_PER_TOKEN: Final = 4.0
"""Of characters beyond ASCII: Chinese, Japanese and Korean take three bytes each."""
_MIN: Final = 0.5
_MAX: Final = 64.0
"""A count outside of these is not of this prompt: pictures, or a history that the provider keeps."""


def bytes_per_token(prompt: Outline, prompt_tokens: int | None = None) -> float:
    """How many bytes of a prompt make a token.

    Args:
        prompt: the prompt; that of a neighbour with the same text serves as well.
        prompt_tokens: what the provider counted for it, where that is known.
    """
    num_bytes = prompt.num_bytes
    if prompt_tokens and num_bytes and _MIN <= num_bytes / prompt_tokens <= _MAX:
        return num_bytes / prompt_tokens
    num_chars = sum(len(part.text) for part in prompt.parts)
    tokens = estimated_tokens(num_chars, num_bytes)
    return num_bytes / tokens if tokens else ASCII_BYTES_PER_TOKEN


def estimated_tokens(num_chars: int, num_bytes: int) -> float:
    """The estimate for a text by its size: characters beyond ASCII are taken to have three bytes."""
    num_wide = min(num_chars, (num_bytes - num_chars) / 2)
    return (num_chars - num_wide) / ASCII_BYTES_PER_TOKEN + 3 * num_wide / WIDE_BYTES_PER_TOKEN
