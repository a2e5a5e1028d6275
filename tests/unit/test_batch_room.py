"""How much room a server says that its KV cache has."""

from __future__ import annotations

import pytest

from openclaw_cache.batch.report import capacity_tokens
from openclaw_cache.types import Json


def upstream(block_tokens: Json, tiers: Json, enabled: Json = True) -> Json:
    return {"name": "here", "kv": {"enabled": enabled, "block_tokens": block_tokens, "tiers": tiers}}


def test_room_is_that_of_the_largest_tier_of_all_caches() -> None:
    status = {
        "upstreams": [
            {"name": "elsewhere", "kv": None},
            upstream(16, [{"capacity_blocks": 100}, {"capacity_blocks": 300}, {"capacity_blocks": None}]),
            upstream(32, [{"capacity_blocks": 100}]),
            upstream(16, [{"capacity_blocks": 9000}], enabled=False),
        ]
    }
    assert capacity_tokens(status) == 4800


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        "ok",
        {"upstreams": None},
        {"upstreams": [1, None, {"kv": []}]},
        {"upstreams": [upstream("16", [{"capacity_blocks": 10}])]},
        {"upstreams": [upstream(1e300, [{"capacity_blocks": 1e300}])]},
        {"upstreams": [upstream(16, None), upstream(16, [None, 3, {"capacity_blocks": "10"}])]},
        {"upstreams": [upstream(-16, [{"capacity_blocks": 10}]), upstream(16, [{"capacity_blocks": -10}])]},
    ],
)
def test_a_server_that_is_none_of_ours_does_not_tell(status: Json) -> None:
    assert capacity_tokens(status) is None
