"""OpenAI's Responses dialect: read requests, check and replay replies, follow streams. No I/O."""

from openclaw_cache.dialects.responses.admission import REFUSALS, Refusal, refusal_to_store
from openclaw_cache.dialects.responses.failure import error_event
from openclaw_cache.dialects.responses.merge import merge
from openclaw_cache.dialects.responses.progress import ResponsesProgress
from openclaw_cache.dialects.responses.request import messages, parse, prompt_text
from openclaw_cache.dialects.responses.responses import ResponsesDialect
from openclaw_cache.dialects.responses.split import shape_fault, split
from openclaw_cache.dialects.responses.state import kept_state
from openclaw_cache.dialects.responses.usage import stream_usage, usage_of

__all__ = [
    "REFUSALS",
    "Refusal",
    "ResponsesDialect",
    "ResponsesProgress",
    "error_event",
    "kept_state",
    "merge",
    "messages",
    "parse",
    "prompt_text",
    "refusal_to_store",
    "shape_fault",
    "split",
    "stream_usage",
    "usage_of",
]
