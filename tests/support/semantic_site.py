"""What tests of the semantic cache share: a question in two wordings, replies, and settings that hit readily."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from support.served import Answer, Served

SEMANTIC = re.compile(r"openclaw-cache; hit; detail=semantic; key=(s[A-Za-z0-9_-]{8,})")
REFUND = "How do I get a refund?"
REFUND_AGAIN = "How can I get a refund?"
ANSWER = "Go to Orders, choose the order, and press Refund."


def completion(text: str, **fields: Any) -> dict[str, Any]:
    """A chat completion that says this."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "pod-model",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | fields
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 11, "total_tokens": 18},
    }


async def ready(gateway: Served) -> None:
    """Wait until the model of sentences is loaded."""
    async with asyncio.timeout(60):
        while True:
            status = (await gateway.get("/admin/status")).json()["semantic_cache"]
            assert status["state"] != "failed", status["reason"]
            if status["state"] == "ready":
                return
            await asyncio.sleep(0.05)


def is_semantic(answer: Answer) -> bool:
    return SEMANTIC.fullmatch(answer.cache_status or "") is not None


SETTINGS: dict[str, Any] = {
    "semantic_cache__enabled": True,
    "semantic_cache__preset": "creative",
    "semantic_cache__wait": "5s",
    "semantic_cache__embedder_timeout": "20s",
    "semantic_cache__verify": {"enabled": False},
}
"""Loose enough to hit, and patient: a busy test machine is not what these tests are about."""
