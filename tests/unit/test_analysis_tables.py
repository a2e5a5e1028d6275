"""What the command line prints of an analysis: a sum stands beside what it is of."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cache import analysis_tables

SPAN = {"start_at": 1_796_036_400.0, "end_at": 1_796_040_000.0}
SHOWN: dict[str, Any] = {
    "time_range": SPAN,
    "num_nodes": 1,
    "compared_with": SPAN,
    "requests": {"num": 3, "before": 0, "outcomes": {"miss": 1, "exact": 2}, "bypasses": {}},
    "saved": {
        "tokens": {"result": 24, "kv": 64}, "seconds": 4.5, "kv_seconds": 0.25,
        "usd": 0.5, "spent_usd": 2.0, "num_priced": 3,
    },
    "findings": [], "diagnosis": [], "hit_ratio": {}, "top_prompts": [], "memory": [], "latency": {},
    "misses": [], "waste": {"tokens_computed_again": 0, "tokens_lost_to_prefix_breaks": 0},
    "prefixes": {"causes": [], "canonical": []}, "semantic": {"enabled": False},
}  # fmt: skip


def test_money_stands_with_the_time_that_clients_did_not_wait(capsys: pytest.CaptureFixture[str]) -> None:
    """Not with the prefill of our own engines, which has no part in it."""
    analysis_tables.print_analysis(SHOWN)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("not computed")]
    assert lines == [
        "not computed: result 24, kv 64 tokens; not waited: about 4s500ms, $0.5000 (spent: $2.0000); "
        "prefill not needed: 250ms"
    ]
