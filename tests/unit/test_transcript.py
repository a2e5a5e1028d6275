"""The view of a client that did not ask for usage, of a stream whose usage we asked for."""

from __future__ import annotations

import orjson

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.gateway.transcript import without_usage_event


def event(value: object) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def chunk(text: str, **fields: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": text}}], **fields}


def test_null_usage_on_every_chunk_is_not_shown_to_who_did_not_ask() -> None:
    block = event(chunk("a", usage=None)) + event(chunk("b", usage=None)) + b"data: [DONE]\n\n"
    assert (
        without_usage_event(block, ChatDialect())
        == event(chunk("a")) + event(chunk("b")) + b"data: [DONE]\n\n"
    )


def test_the_usage_event_goes_and_text_that_looks_like_it_stays() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    told = event(chunk(',"usage":null}', usage=None))
    block = told + event({"id": "c", "choices": [], "usage": usage}) + b": ping\n\n"
    assert without_usage_event(block, ChatDialect()) == event(chunk(',"usage":null}')) + b": ping\n\n"
