"""`openclaw-cache batch` with the real engine, whose KV cache has room for little."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.admin import status
from support.running import RunningGateway

pytestmark = pytest.mark.model

MODEL = "smollm2-135m"
GROUPS, MEMBERS = 3, 4
PREAMBLES = [
    f"Report {group} of the harbour office. "
    + " ".join(f"Ship {i} of line {group} waits at lock {i % 7}." for i in range(45))
    for group in range(GROUPS)
]


def body(group: int, member: int) -> dict[str, Any]:
    prompt = f"{PREAMBLES[group]}\nQuestion {member}: where does ship {member} wait?"
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": 1,
        "temperature": 0,
    }


def ask(url: str, asked: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{url}/v1/chat/completions",
        json.dumps(asked).encode(),
        {"content-type": "application/json", "cache-control": "no-cache, no-store"},
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: dict[str, Any] = json.loads(reply.read())
    return answer


def test_our_order_finds_in_the_engines_cache_what_the_given_order_lost(
    fresh_data_dir: Callable[[], Path], tmp_path: Path
) -> None:
    # 60 MB are some 80 blocks of 16 tokens, and a prompt takes 40: two groups do not stay side by side.
    kv = {"device": "60MB", "host": "0B", "disk": "0B", "preallocation": "0%", "eviction": "lru"}
    given = [(group, member) for member in range(MEMBERS) for group in range(GROUPS)]
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    rows = [
        {"custom_id": f"{g}-{m}", "method": "POST", "url": "/v1/chat/completions", "body": body(g, m)}
        for g, m in given
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    with RunningGateway(fresh_data_dir(), {"kv_cache": kv}) as gateway:
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_cache", "batch", str(file), "--out", str(out), "--json"],
            env=os.environ | {"OPENCLAW_CACHE_URL": gateway.url},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        shown = json.loads(done.stdout)
        order = json.dumps({"pattern": "*", "type": "kv"}).encode()
        urllib.request.urlopen(
            urllib.request.Request(f"{gateway.url}/admin/evict", order), timeout=60
        ).close()
        usages = [ask(gateway.url, body(*one))["usage"] for one in given]
        row = next(r for r in status(gateway.url)["upstreams"][0]["kv"]["tiers"] if r["tier"] == "device")

    assert shown["predicted"]["capacity_tokens"] == row["capacity_blocks"] * 16
    measured = shown["measured"]
    prompt_tokens = sum(usage["prompt_tokens"] for usage in usages)
    in_given_order = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages) / prompt_tokens
    assert measured["prompt_tokens"] == prompt_tokens
    # All but the first of each group find its beginning, which is nearly all of a prompt.
    assert measured["cached_ratio"] > 0.9 * (MEMBERS - 1) / MEMBERS
    assert measured["cached_ratio"] == pytest.approx(shown["predicted"]["our_order_ratio"], abs=0.05)
    assert in_given_order < measured["cached_ratio"] - 0.3
    assert in_given_order == pytest.approx(shown["predicted"]["given_order_ratio"], abs=0.05)
    results = [json.loads(line) for line in out.read_text().splitlines()]
    assert [one["custom_id"] for one in results] == [row["custom_id"] for row in rows]
    assert all(one["response"]["status_code"] == 200 for one in results)
