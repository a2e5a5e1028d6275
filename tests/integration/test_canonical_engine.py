"""The prefix canonicaliser before a real engine: another date in the system prompt no longer costs the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.served import Served, served

pytestmark = pytest.mark.model

RULES = "Herons stand still and wait. They eat fish, frogs and mice. " * 12
TALK = [
    {"role": "user", "content": "Where do herons sleep? " * 12},
    {"role": "assistant", "content": "In trees, and seldom alone. " * 12},
    {"role": "user", "content": "And in winter?"},
]


async def cached_tokens(gateway: Served, date: str) -> tuple[int, int]:
    """How many tokens of the prompt the engine had already, and how many there are."""
    told = {"role": "system", "content": f"Current date: {date}\nYou watch herons. {RULES}"}
    body = {"model": "smollm2-135m", "messages": [told, *TALK], "max_tokens": 2, "temperature": 0}
    answered = await gateway.ask(body)
    assert answered.status == 200, answered.body
    usage = answered.json()["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


async def test_a_new_date_costs_the_whole_prompt_as_sent_and_a_few_tokens_at_full(
    tmp_path: Path, model_data_dir: Path
) -> None:
    local = {"name": "local", "kind": "embedded", "model": "smollm2-135m"}
    found = {}
    for level in ("report", "full"):
        # Each level with an engine of its own that knows nothing yet.
        folder = tmp_path / level
        folder.mkdir()
        (folder / "models").symlink_to(model_data_dir / "models")
        async with served(folder, [], upstreams=[{**local, "canonical": level}]) as gateway:
            await cached_tokens(gateway, "2026-11-29")
            found[level] = await cached_tokens(gateway, "2026-11-30")
    (cached_before, num_before), (cached_after, num_after) = found["report"], found["full"]
    # As sent the prompts part at the date, behind the template's own few tokens: less than two blocks of 16.
    assert cached_before < 32
    assert num_before > 300
    # Moved, the date and what stands behind it is all that is new: 40 tokens at most, and a block that is not full.
    assert num_after - cached_after < 56
    assert abs(num_after - num_before) < 16  # the text is the same, a turn's own tokens come on top
