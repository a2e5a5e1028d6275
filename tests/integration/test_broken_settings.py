"""Settings that nobody can mean are refused at start, in a sentence that names them."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.api.key_rules import from_env
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices
from support.served import served


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("server.secret_file", "/tmp/a\0b"),
        ("server.keys_file", "/tmp/a\0b"),
        ("savings.prices_file", "/tmp/a\0b"),
        ("server.max_body", 10**400),
        ("server.body_timeout", 10**400),
        ("kv_cache.reserve", 10**400),
        # Milliseconds of it are beyond the 64 bits of a store, which would refuse every entry.
        ("result_cache.ttl", "99999999999w"),
        # `status` could not be written.
        ("server.keys", [{"key": "sk-abc", "budgets": {"tokens_per_day": 10**30}}]),
    ],
)
def test_a_value_that_would_fail_later_is_refused_with_its_name(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=field):
        load(None, env={}, overrides={field: value})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("prices.yaml", "!!bool x"),
        ("prices.yaml", "prices: {a: {input: 1, output: 2}, a: {input: 3, output: 4}}"),
        ("prices.json", '{"prices": {"a": {"input": 1, "output": 2}, "a": {"input": 3, "output": 4}}}'),
    ],
)
def test_a_price_file_with_a_model_twice_or_a_value_of_no_type_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"savings\.prices_file"):
        Prices.load(file)


def test_white_space_around_a_key_in_a_variable_is_no_part_of_it() -> None:
    assert from_env({"KEY": "sk-abc\n"}, "upstreams.u.api_key_env", "KEY") == "sk-abc"


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown() -> None:
    with pytest.raises(ConfigError, match=r"upstreams\.u\.api_key_env.*KEY") as refused:
        from_env({"KEY": "sk-abc\nX-Evil: 1"}, "upstreams.u.api_key_env", "KEY")
    assert "sk-abc" not in str(refused.value)


async def test_a_budget_file_with_amounts_beyond_64_bits_counts_as_none_and_status_still_answers(
    tmp_path: Path,
) -> None:
    digest = hashlib.sha256(b"sk-alpha-long").hexdigest()
    quarter = int(time.time()) // 900
    (tmp_path / "budgets.json").write_text(json.dumps({"tokens_per_day": {digest: {quarter: 10**26}}}))
    keys = [{"key": "sk-alpha-long", "budgets": {"tokens_per_day": 1000}}]
    async with served(tmp_path, ["http://127.0.0.1:9"], server__keys=keys) as gateway:
        status = await gateway.get("/admin/status")
    assert status.status == 200
    assert status.json()["keys"]["fullest_budgets"] == []
