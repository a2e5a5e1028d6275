"""Settings that nobody can mean are refused at start, in a sentence that names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.api.key_rules import from_env
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices


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
