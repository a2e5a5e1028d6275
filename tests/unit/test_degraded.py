"""What a failure did is said in words that fit its part."""

from __future__ import annotations

from openclaw_cache.observe.degraded import HARMLESS, effect
from openclaw_cache.observe.metrics import DEGRADED


def test_a_part_that_answers_nothing_is_not_said_to_have_missed() -> None:
    on_the_way = {
        "store_unavailable", "entry_corrupt", "entry_key_unknown", "epoch_unknown", "kv_host", "kv_disk",
        "embedding", "embedding_slow", "semantic",
    }  # fmt: skip
    assert {what for what in DEGRADED if effect(what) == "each became a miss"} == on_the_way
    assert set(DEGRADED) > HARMLESS
