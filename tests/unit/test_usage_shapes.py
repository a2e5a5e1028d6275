"""Every provider's usage object says the same four numbers. The objects are from the pages named beside them."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache.dialects.openai.usage import usage_of
from openclaw_cache.dialects.usage import Usage

_PROVIDERS: dict[str, tuple[dict[str, Any], Usage]] = {
    # A GPT-5 reply, discuss.ai.google.dev/t/98760.
    "openai": (
        {
            "prompt_tokens": 1486, "completion_tokens": 651, "total_tokens": 2137,
            "prompt_tokens_details": {"cached_tokens": 1408, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 512, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        },
        Usage(1486, 651, 1408),
    ),
    # developers.openai.com/api/docs/guides/prompt-caching: GPT-5.6 and later report writes, which have a price.
    "openai-writes": (
        {
            "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1024, "cache_write_tokens": 896},
        },
        Usage(2006, 300, 1024, 896),
    ),
    # api-docs.deepseek.com/api/create-chat-completion: prompt_tokens = hit + miss.
    "deepseek": (
        {
            "prompt_tokens": 1000, "completion_tokens": 20, "total_tokens": 1020,
            "prompt_cache_hit_tokens": 896, "prompt_cache_miss_tokens": 104,
        },
        Usage(1000, 20, 896),
    ),
    "deepseek-without-a-sum": (
        {"completion_tokens": 20, "prompt_cache_hit_tokens": 896, "prompt_cache_miss_tokens": 104},
        Usage(1000, 20, 896),
    ),
    "moonshot": (
        {"prompt_tokens": 8193, "completion_tokens": 10, "total_tokens": 8203, "cached_tokens": 8192},
        Usage(8193, 10, 8192),
    ),
    # docs.x.ai, prompt-caching/usage-and-pricing.
    "xai": (
        {
            "prompt_tokens": 125, "completion_tokens": 48, "total_tokens": 173,
            "prompt_tokens_details": {
                "text_tokens": 125, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 98,
            },
            "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
        },
        Usage(125, 48, 98),
    ),
    # docs.cloud.google.com/vertex-ai/generative-ai/docs/partner-models/grok/capabilities/reasoning.
    "xai-reasoning-beside-the-completion": (
        {
            "completion_tokens": 50, "prompt_tokens": 663, "total_tokens": 837, "num_sources_used": 0,
            "completion_tokens_details": {"reasoning_tokens": 124, "audio_tokens": 0},
            "prompt_tokens_details": {
                "audio_tokens": 0, "cached_tokens": 654, "image_tokens": 0, "text_tokens": 663,
            },
        },
        Usage(663, 174, 654),
    ),
    # The same model behind a proxy that adds it: doc.302.ai/api-263332597.
    "xai-reasoning-within-the-completion": (
        {
            "prompt_tokens": 686, "completion_tokens": 123, "total_tokens": 809,
            "prompt_tokens_details": {"cached_tokens": 679, "text_tokens": 686},
            "completion_tokens_details": {"text_tokens": 11, "reasoning_tokens": 112},
            "input_tokens": 0, "output_tokens": 0, "input_tokens_details": None,
        },
        Usage(686, 123, 679),
    ),
    # discuss.ai.google.dev/t/98760: thinking is in the total alone.
    "gemini-thinking": (
        {"completion_tokens": 102, "prompt_tokens": 758, "total_tokens": 1725},
        Usage(758, 967),
    ),
    "groq": (
        {
            "queue_time": 0.02, "prompt_tokens": 4641, "prompt_time": 0.03, "completion_tokens": 1817,
            "completion_time": 5.6, "total_tokens": 6458, "total_time": 5.6,
            "prompt_tokens_details": {"cached_tokens": 4608},
        },
        Usage(4641, 1817, 4608),
    ),
    # help.aliyun.com/model-studio/context-cache: implicit, then explicit.
    "qwen-implicit": (
        {
            "prompt_tokens": 3019, "completion_tokens": 104, "total_tokens": 3123,
            "prompt_tokens_details": {"cached_tokens": 2048},
        },
        Usage(3019, 104, 2048),
    ),
    "qwen-explicit": (
        {
            "prompt_tokens": 1605, "completion_tokens": 232, "total_tokens": 1837,
            "prompt_tokens_details": {
                "cached_tokens": 0, "cache_type": "ephemeral", "cache_creation_input_tokens": 1494,
                "cache_creation": {"ephemeral_5m_input_tokens": 1494},
            },
        },
        Usage(1605, 232, 0, 1494),
    ),
    # openrouter.ai/docs/use-cases/usage-accounting.
    "openrouter": (
        {
            "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 0},
            "cost": 0.95, "cost_details": {"upstream_inference_cost": 19}, "prompt_tokens": 194,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 100, "audio_tokens": 0},
            "total_tokens": 196,
        },
        Usage(194, 2, 0, 100),
    ),
    # docs.litellm.ai/docs/completion/prompt_caching: its prompt_tokens has them in.
    "litellm": (
        {
            "prompt_tokens": 2006, "completion_tokens": 300, "total_tokens": 2306,
            "prompt_tokens_details": {"cached_tokens": 1920},
            "cache_creation_input_tokens": 50, "cache_read_input_tokens": 1920,
        },
        Usage(2006, 300, 1920, 50),
    ),
    # vLLM without --enable-prompt-tokens-details, SGLang without --enable-cache-report.
    "engine-that-does-not-tell": (
        {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "prompt_tokens_details": None},
        Usage(7, 5),
    ),
    "embeddings": ({"prompt_tokens": 8, "total_tokens": 8}, Usage(8)),
}  # fmt: skip


@pytest.mark.parametrize("provider", _PROVIDERS)
def test_each_providers_shape_is_read(provider: str) -> None:
    told, usage = _PROVIDERS[provider]
    assert usage_of(told) == usage


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        # 21 uncached + 188086 read + 0 written: Anthropic's own example, its input_tokens passed on as the prompt.
        (
            {
                "prompt_tokens": 21, "completion_tokens": 393, "total_tokens": 414,
                "cache_read_input_tokens": 188086, "cache_creation_input_tokens": 0,
            },
            Usage(188107, 393, 188086),
        ),
        (
            {
                "prompt_tokens": 21, "completion_tokens": 393, "total_tokens": 188500,
                "cache_read_input_tokens": 188086,
            },
            Usage(188107, 393, 188086),
        ),
        # The request before it, which wrote them.
        (
            {
                "prompt_tokens": 21, "completion_tokens": 393, "total_tokens": 414,
                "cache_read_input_tokens": 0, "cache_creation_input_tokens": 188086,
            },
            Usage(188107, 393, 0, 188086),
        ),
        # The total shows it where the numbers alone do not: 5000 + 10 + (400 + 100) = 5510.
        (
            {
                "prompt_tokens": 5000, "completion_tokens": 10, "total_tokens": 5510,
                "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100,
            },
            Usage(5500, 10, 400, 100),
        ),
        (
            {
                "prompt_tokens": 5000, "completion_tokens": 10, "total_tokens": 5410,
                "prompt_tokens_details": {"cached_tokens": 400},
            },
            Usage(5400, 10, 400),
        ),
    ],
)  # fmt: skip
def test_a_prompt_counted_without_its_cached_tokens_gets_them_back(
    told: dict[str, Any], usage: Usage
) -> None:
    assert usage_of(told) == usage


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        # By OpenAI's definition they are part of the prompt, and nothing says otherwise.
        ({"prompt_tokens": 9, "cached_tokens": 20}, Usage(9, None, 9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 20}}, Usage(9, None, 9)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 20}, Usage(9, None, 9)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 6}},
            Usage(9, None, 6, 3),
        ),
    ],
)  # fmt: skip
def test_cached_and_written_tokens_are_never_more_than_the_prompt(told: dict[str, Any], usage: Usage) -> None:
    assert usage_of(told) == usage


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, Usage(0, 0)),
        ({"prompt_tokens": 5, "completion_tokens": 0}, Usage(5, 0)),
        ({"completion_tokens": 0}, Usage(None, 0)),
        # A zero in one place does not hide what another place says.
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 4}, Usage(9, None, 4)),
        ({"prompt_tokens": 0, "cached_tokens": 0}, Usage(0)),
    ],
)  # fmt: skip
def test_zeros_that_are_told_are_kept(told: dict[str, Any], usage: Usage) -> None:
    assert usage_of(told) == usage


def test_a_total_that_reasoning_does_not_explain_changes_nothing() -> None:
    told = {
        "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 150,
        "completion_tokens_details": {"reasoning_tokens": 5},
    }  # fmt: skip
    assert usage_of(told) == Usage(100, 10)


_JUNK: list[Any] = ["4", -1, True, 1.5, None, [], [4], {}, {"cached_tokens": 4}, 10**30, "\ud800"]


@pytest.mark.parametrize("junk", _JUNK)
def test_what_is_no_count_is_as_if_it_were_absent(junk: Any) -> None:
    fields = (
        "total_tokens", "prompt_tokens_details", "completion_tokens_details", "cached_tokens",
        "prompt_cache_hit_tokens", "prompt_cache_miss_tokens", "cache_read_input_tokens",
        "cache_creation_input_tokens",
    )  # fmt: skip
    counted = {"prompt_tokens": 9, "completion_tokens": 2}
    for field in fields:
        if field == "prompt_tokens_details" and isinstance(junk, dict):
            continue  # there it is the right shape
        assert usage_of({**counted, field: junk}) == Usage(9, 2), field
    for name in (
        "cached_tokens",
        "cache_write_tokens",
        "cache_creation_input_tokens",
        "cache_creation_tokens",
    ):
        assert usage_of({**counted, "prompt_tokens_details": {name: junk}}) == Usage(9, 2), name
    assert usage_of({"prompt_tokens": junk, "completion_tokens": 2}) == Usage(None, 2)
    assert usage_of({"prompt_tokens": 9, "completion_tokens": junk}) == Usage(9)
    assert usage_of({"prompt_tokens": junk}) is None


def test_a_usage_without_counts_says_nothing() -> None:
    assert usage_of({}) is None
    assert usage_of({"cached_tokens": 4}) is None
