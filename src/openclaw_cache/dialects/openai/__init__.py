"""OpenAI's chat completions dialect: read requests, merge and split replies, follow streams. No I/O."""

from openclaw_cache.dialects.openai.admission import REFUSALS, Refusal, refusal_to_store
from openclaw_cache.dialects.openai.chat import ChatDialect
from openclaw_cache.dialects.openai.failure import error_body, error_event
from openclaw_cache.dialects.openai.merge import ReplyMerge, merge
from openclaw_cache.dialects.openai.progress import DONE, StreamProgress, is_usage_event
from openclaw_cache.dialects.openai.request import ask_usage, parse, prompt_text, texts
from openclaw_cache.dialects.openai.split import shape_fault, split

__all__ = [
    "DONE",
    "REFUSALS",
    "ChatDialect",
    "Refusal",
    "ReplyMerge",
    "StreamProgress",
    "ask_usage",
    "error_body",
    "error_event",
    "is_usage_event",
    "merge",
    "parse",
    "prompt_text",
    "refusal_to_store",
    "shape_fault",
    "split",
    "texts",
]
