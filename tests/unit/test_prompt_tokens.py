"""Where a prompt's KV came from, by the engine's header or by any upstream's usage."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.gateway.prompt_tokens import PromptTokens, from_header, from_usage


def test_the_engines_header_is_read_by_tier() -> None:
    header = (b"x-openclaw-kv", b"computed=5, device=64, host=16, disk=32")
    tokens = from_header([(b"x-other", b"computed=1"), header])
    assert tokens == PromptTokens(computed=5, device=64, host=16, disk=32)
    assert tokens is not None
    assert tokens.num_cached == 112


@pytest.mark.parametrize(
    ("value", "tokens"),
    [
        (b"computed=5", PromptTokens(5)),
        (b"disk=1,computed=2", PromptTokens(2, disk=1)),
        (b"computed=5, remote=7", PromptTokens(5)),  # a tier of a later version
        (b"device=5", None), (b"", None), (b"computed=-1", None), (b"computed=x", None), (b"computed=5; y", None),
        (b"computed=" + b"9" * 40, None),
    ],
)  # fmt: skip
def test_a_header_that_does_not_say_what_was_computed_says_nothing(
    value: bytes, tokens: PromptTokens | None
) -> None:
    assert from_header([(b"x-openclaw-kv", value)]) == tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 9}, PromptTokens(9)),
        ({"prompt_tokens": 0}, PromptTokens(0)),
        ({"prompt_tokens": 9, "prompt_tokens_details": None}, PromptTokens(9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}, PromptTokens(5, device=4)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}}, PromptTokens(9)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, PromptTokens(5, device=4)),
        ({"prompt_tokens": 9, "cached_tokens": 9}, PromptTokens(0, device=9)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 4}, PromptTokens(5, device=4)),
        ({"prompt_tokens": 9, "cached_tokens": 20}, PromptTokens(0, device=9)),  # never more than there were
        ({"prompt_tokens": 9, "cached_tokens": "4"}, PromptTokens(9)),
        ({"prompt_tokens": 9, "cached_tokens": True}, PromptTokens(9)),
        ({"cached_tokens": 4}, None),
        ({"prompt_tokens": -1}, None),
        ({"prompt_tokens": 1.5}, None),
    ],
)
def test_what_a_usage_says_was_cached_is_found_wherever_it_stands(
    usage: dict[str, Any], tokens: PromptTokens | None
) -> None:
    assert from_usage(usage) == tokens
