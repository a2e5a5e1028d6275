"""Records of requests that are over, as the gateway hands them on."""

from __future__ import annotations

from typing import Any

from openclaw_cache.observe.record import RequestRecord
from openclaw_cache.observe.savings import Savings

NOON = 1_796_040_000.0
"""2026-11-30T12:00:00Z, a Monday."""


def missed(**fields: Any) -> RequestRecord:
    """A request that an upstream computed: 90 tokens of 100, 10 were in its own cache; it cost 700 picodollars."""
    given: dict[str, Any] = {
        "outcome": "miss",
        "miss": "new",
        "tokens_from": {"computed": 90, "device": 10},
        "savings": Savings(90, 10, spent=700, saved=0),
        "ttft_s": 0.5,
        "duration_s": 2.0,
    }
    return _record(given | fields)


def answered(outcome: str = "exact", **fields: Any) -> RequestRecord:
    """One that we answered: of 100 + 20 tokens, 10 would have been cached anyway; it saved 500 picodollars."""
    given: dict[str, Any] = {
        "outcome": outcome,
        "savings": Savings(
            answered_prompt_tokens=100,
            answered_completion_tokens=20,
            would_be_cached_tokens=10,
            spent=0,
            saved=500,
        ),
        "ttft_s": 0.001,
        "duration_s": 0.001,
        "saved_s": 1.5,
    }
    return _record(given | fields)


def _record(fields: dict[str, Any]) -> RequestRecord:
    given: dict[str, Any] = {
        "request_id": "r",
        "at": NOON,
        "api": "chat",
        "status": 200,
        "model": "gpt-heron",
        "upstream": "oa",
        "namespace": "default",
        "agent": "heron",
        "prompt_id": "0123456789abcdef",
        "prompt_tokens": 100,
        "completion_tokens": 20,
    }
    return RequestRecord(**(given | fields))
