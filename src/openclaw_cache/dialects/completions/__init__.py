"""OpenAI's text completions dialect: read requests, merge and split replies. No I/O."""

from openclaw_cache.dialects.completions.admission import refusal_to_store
from openclaw_cache.dialects.completions.completions import CompletionsDialect
from openclaw_cache.dialects.completions.merge import merge
from openclaw_cache.dialects.completions.request import messages, parse, prompt_text
from openclaw_cache.dialects.completions.split import shape_fault, split

__all__ = [
    "CompletionsDialect",
    "merge",
    "messages",
    "parse",
    "prompt_text",
    "refusal_to_store",
    "shape_fault",
    "split",
]
