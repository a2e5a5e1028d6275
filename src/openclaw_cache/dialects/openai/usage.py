"""The usage object of chat and text completions, in the shape of every provider that speaks OpenAI's API.

What they agree on: `prompt_tokens`, `completion_tokens`, `total_tokens`. Where they say what their cache had:

- `prompt_tokens_details.cached_tokens`: OpenAI (developers.openai.com/api/docs/guides/prompt-caching), xAI
  (docs.x.ai, prompt-caching/usage-and-pricing), Groq (github.com/groq/groq-typescript, resources/completions.ts),
  Mistral (docs.mistral.ai, advanced/prompt-caching), Qwen (help.aliyun.com/model-studio/context-cache), Zhipu
  (docs.bigmodel.cn, capabilities/cache), MiniMax (platform.minimax.io, text-prompt-caching), OpenRouter
  (openrouter.ai/docs/use-cases/usage-accounting), Moonshot's newer models, vLLM with
  --enable-prompt-tokens-details, SGLang with --enable-cache-report, llama.cpp's server
- `prompt_cache_hit_tokens` and `prompt_cache_miss_tokens`: DeepSeek (api-docs.deepseek.com/guides/kv_cache)
- `cached_tokens`: Moonshot's older models. Fireworks and Together may use this or the first form.
- `cache_read_input_tokens`, Anthropic's name: LiteLLM (docs.litellm.ai/docs/completion/prompt_caching) and other
  proxies before Anthropic, Bedrock or Vertex

What was written to it, at a price of its own: `cache_write_tokens` in the details (OpenAI since GPT-5.6,
OpenRouter), `cache_creation_input_tokens` in them (Qwen) or beside them (LiteLLM).
"""

from __future__ import annotations

from openclaw_cache.dialects.usage import MOST_TOKENS, Usage
from openclaw_cache.types import Json


def usage_of(usage: dict[str, Json]) -> Usage | None:
    """Read a usage object; None where it counts neither prompt nor completion.

    What is no count (text, negative, a boolean, of another shape) is as if it were absent. The cached and the
    written tokens together are never more than the prompt's.
    """
    details = usage.get("prompt_tokens_details")
    counts, nested = _counts(usage), _counts(details) if isinstance(details, dict) else {}
    miss = counts.get("prompt_cache_miss_tokens")
    # The first one above zero: a provider that fills one place often leaves a zero in another.
    cached = (
        nested.get("cached_tokens")
        or counts.get("prompt_cache_hit_tokens")
        or counts.get("cached_tokens")
        or 0
    )
    read = counts.get("cache_read_input_tokens", 0)
    creation = counts.get("cache_creation_input_tokens", 0)
    write = (
        nested.get("cache_write_tokens")
        or nested.get("cache_creation_input_tokens")
        or nested.get("cache_creation_tokens")
        or creation
    )
    prompt, completion = counts.get("prompt_tokens"), counts.get("completion_tokens")
    if prompt is None and miss is not None:
        prompt = miss + cached
    if prompt is None:
        return None if completion is None else Usage(completion_tokens=completion)
    beside = (cached or read) + write
    extra = _extra(counts.get("total_tokens"), prompt, completion)
    if beside and (extra == beside or read + creation > prompt):
        prompt += beside
    elif completion is not None and extra == _reasoning(usage, extra):
        completion += extra
    cached = min(cached or read, prompt)
    return Usage(prompt, completion, cached, min(write, prompt - cached))


def _extra(total: int | None, prompt: int, completion: int | None) -> int:
    """Tokens that the total has beyond prompt and completion.

    Either the prompt was counted without its cached tokens, as Anthropic counts, or the completion without its
    reasoning, as xAI does (docs.cloud.google.com/vertex-ai, partner-models/grok/capabilities/reasoning: 663 + 50,
    and 124 of reasoning, of a total of 837) and Gemini's OpenAI endpoint, which does not even name it
    (discuss.ai.google.dev/t/98760: 758 + 102 of a total of 1725).
    """
    return 0 if total is None or completion is None else max(0, total - prompt - completion)


def _reasoning(usage: dict[str, Json], default: int) -> int:
    details = usage.get("completion_tokens_details")
    told = _counts(details).get("reasoning_tokens") if isinstance(details, dict) else None
    return default if told is None else told


def _counts(fields: dict[str, Json]) -> dict[str, int]:
    """Those fields that are a count of tokens: in one pass, since every reply on its way pays for it."""
    return {name: n for name, n in fields.items() if type(n) is int and 0 <= n <= MOST_TOKENS}  # no booleans
