"""Where a prompt's KV came from, by the engine's header or by any upstream's usage."""

from __future__ import annotations

import pytest

from openclaw_cache.dialects.usage import Usage
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
        (b"computed=5, device=64, host=0, disk=0, copied=3", PromptTokens(8, device=64)),
        (b"copied=3", None),
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
        (Usage(prompt_tokens=9), PromptTokens(9)),
        (Usage(prompt_tokens=0), PromptTokens(0)),
        (Usage(prompt_tokens=9, cached_tokens=4), PromptTokens(5, device=4)),
        (Usage(prompt_tokens=9, cache_write_tokens=4), PromptTokens(9)),  # written, but computed for it
        (Usage(completion_tokens=3), None),
    ],
)
def test_what_an_upstream_had_cached_counts_as_its_devices(usage: Usage, tokens: PromptTokens | None) -> None:
    assert from_usage(usage) == tokens
