"""What a gateway is called among those that share a store."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast

import pytest

from openclaw_cache.history_part import NODE_FILE, HistoryPart
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.store.store import Store
from support.records import answered, missed


def part(data_dir: Path, *, is_kept: bool = True) -> HistoryPart:
    return HistoryPart(
        data_dir,
        cast("Store", None),
        b"s" * 32,
        None,
        Metrics(),
        ["local"],
        is_kept=is_kept,
        may_use_store=lambda: False,
        on_degraded=lambda _what: None,
    )


def name(history: HistoryPart) -> str:
    keeping: Any = history._keeping
    return str(keeping._node)


async def test_a_gateway_has_the_same_name_after_a_restart(tmp_path: Path) -> None:
    first = part(tmp_path)
    await first.aclose()
    assert name(part(tmp_path)) == name(first) == (tmp_path / NODE_FILE).read_text().strip()


async def test_a_second_gateway_on_the_same_folder_has_a_name_of_its_own_for_this_run(tmp_path: Path) -> None:
    first, second = part(tmp_path), part(tmp_path)
    assert name(first) != name(second)
    assert (tmp_path / NODE_FILE).read_text().strip() == name(first)


@pytest.mark.parametrize("text", [b"", b"../../etc", b"\xff\xfe", b"A" * 16, b"0" * 17])
async def test_a_file_with_something_else_is_replaced_or_left_and_never_used(
    tmp_path: Path, text: bytes
) -> None:
    (tmp_path / NODE_FILE).write_bytes(text)
    found = name(part(tmp_path))
    assert len(found) == 16
    assert found != text.decode("latin-1")


async def test_a_folder_that_cannot_be_written_costs_the_name_only(tmp_path: Path) -> None:
    assert len(name(part(tmp_path / "is not there"))) == 16


async def test_an_embedded_upstreams_tokens_are_the_kv_caches(tmp_path: Path) -> None:
    found = part(tmp_path)
    now = time.time()
    found.add(missed(upstream="local", at=now))
    found.add(missed(upstream="other", at=now))
    assert found.history is not None
    lines = (await found.history.between(now - 60, now + 60)).lines_by(3)
    assert (lines["local"].kv_saved_tokens, lines["local"].upstream_cached_tokens) == (10, 0)
    assert (lines["other"].kv_saved_tokens, lines["other"].upstream_cached_tokens) == (0, 10)


async def test_seconds_saved_are_learnt_even_where_no_history_is_kept(tmp_path: Path) -> None:
    found = part(tmp_path, is_kept=False)
    found.add(missed(duration_s=4.0))
    found.add(answered())
    assert found.history is None
    asked = {"prompt_tokens": 90, "completion_tokens": 20, "took_s": 1.0}
    assert found.durations.saved_s("oa", "gpt-heron", **asked) == 3.0  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
