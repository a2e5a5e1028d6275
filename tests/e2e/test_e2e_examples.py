"""The examples of docs/examples, each as its own process against a real gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.admin import metric
from support.running import RunningGateway

pytestmark = pytest.mark.model

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def run(gateway: RunningGateway, name: str) -> dict[str, Any]:
    """What an example prints with --json."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--url", gateway.url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def computed(gateway: RunningGateway) -> float:
    """Prompt tokens that the engine has computed so far, by the gateway's own metric."""
    return metric(gateway.url, 'openclaw_cache_prompt_tokens_total{source="computed"}')


@pytest.mark.parametrize("name", ["few_shot", "self_consistency", "tree_of_thought"])
def test_an_example_prints_a_reuse_that_the_engine_confirms(gateway: RunningGateway, name: str) -> None:
    before = computed(gateway)
    printed = run(gateway, name)
    num_computed = computed(gateway) - before
    requests = printed["requests"]
    needed = sum(r["num_prompt"] * r["num_choices"] for r in requests)
    reused = sum(r["num_reused"] for r in requests)
    assert reused > 0
    assert printed["reuse_ratio"] == pytest.approx(reused / needed)
    # `cached_tokens` counts whole blocks; the engine may also take over the beginning of one (15 tokens at most).
    assert needed - reused - 15 * len(requests) <= num_computed <= needed - reused


def test_few_shot_examples_are_computed_for_the_first_question_only(gateway: RunningGateway) -> None:
    first, *others = run(gateway, "few_shot")["requests"]
    for request in others:
        # All but the last review and the block in which it begins: at most 3 blocks of 16 tokens.
        assert request["num_cached"] >= request["num_prompt"] - 48 > first["num_prompt"] // 2


def test_what_paths_of_a_tree_share_is_cached(gateway: RunningGateway) -> None:
    first, *others = run(gateway, "tree_of_thought")["requests"]
    assert len(others) == 4
    for request in others:
        assert request["num_cached"] >= first["num_prompt"] // 16 * 16 - 16
