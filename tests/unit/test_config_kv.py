"""The section `kv_cache`: defaults, spellings that vLLM's users bring along, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.config import describe, load
from openclaw_cache.errors import ConfigError


def settings(**overrides: object) -> Any:
    fields = {f"kv_cache.{name}": value for name, value in overrides.items()}
    return load(env={}, overrides=fields).settings.kv_cache


def refusal(**overrides: object) -> str:
    with pytest.raises(ConfigError) as refused:
        settings(**overrides)
    return str(refused.value)


def from_file(text: str, tmp_path: Path, **layers: Any) -> Any:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load(file, **{"env": {}, **layers})


def test_the_documented_defaults_hold_and_reach_the_engine_in_bytes_seconds_and_shares() -> None:
    assert settings().for_engine() == {
        "enabled": True,
        "block_tokens": 16,
        "chunk_size": 512,
        "compression": "fp16",
        "preallocation": 0.8,
        "reserve": 0.2,
        "max_concurrent": 32,
        "device_bytes": None,  # auto
        "host_bytes": 2_000_000_000,
        "disk_bytes": 20_000_000_000,
        "write": "through",
        "eviction": "agent",
        "io_timeout_s": 5.0,
    }


def test_values_are_written_the_human_way_and_0_turns_host_and_disk_off() -> None:
    engine = settings(
        device="256MiB", host="0", disk=0, preallocation="50%", reserve="0.1", io_timeout="250ms"
    ).for_engine()
    assert (engine["device_bytes"], engine["host_bytes"], engine["disk_bytes"]) == (2**28, 0, 0)
    assert (engine["preallocation"], engine["reserve"], engine["io_timeout_s"]) == (0.5, 0.1, 0.25)


def test_block_size_and_enable_prefix_caching_are_aliases_in_every_layer(tmp_path: Path) -> None:
    text = "kv_cache: {block_size: 32, enable_prefix_caching: false}"
    env = {
        "OPENCLAW_CACHE_KV_CACHE__BLOCK_SIZE": "32",
        "OPENCLAW_CACHE_KV_CACHE__ENABLE_PREFIX_CACHING": "false",
    }
    overrides = {"kv_cache.block_size": "32", "kv_cache.enable_prefix_caching": "false"}
    for loaded in (from_file(text, tmp_path), load(env=env), load(env={}, overrides=overrides)):
        section = loaded.settings.kv_cache
        assert (section.block_tokens, section.enabled) == (32, False)
        shown = {field: source for field, _, source in describe(loaded)}
        assert shown["kv_cache.block_tokens"] != "default"
        assert "kv_cache.block_size" not in shown


def test_a_higher_layer_wins_whichever_spelling_it_uses(tmp_path: Path) -> None:
    loaded = from_file(
        "kv_cache: {block_size: 32, enabled: true}",
        tmp_path,
        env={"OPENCLAW_CACHE_KV_CACHE__BLOCK_TOKENS": "64"},
        overrides={"kv_cache.enable_prefix_caching": False},
    )
    assert (loaded.settings.kv_cache.block_tokens, loaded.settings.kv_cache.enabled) == (64, False)


def test_both_spellings_with_one_value_are_fine_and_with_two_an_error_that_names_both(tmp_path: Path) -> None:
    both = from_file("kv_cache: {block_size: 32, block_tokens: 32}", tmp_path)
    assert both.settings.kv_cache.block_tokens == 32
    pairs = [
        ("block_size", "block_tokens", "32", "16"),
        ("enable_prefix_caching", "enabled", "true", "false"),
    ]
    for alias, name, one, other in pairs:
        layers: list[dict[str, Any]] = [
            {"file": (tmp_path / "config.yaml"), "env": {}},
            {"env": {f"OPENCLAW_CACHE_KV_CACHE__{n.upper()}": v for n, v in ((alias, one), (name, other))}},
            {"env": {}, "overrides": {f"kv_cache.{alias}": one, f"kv_cache.{name}": other}},
        ]
        (tmp_path / "config.yaml").write_text(f"kv_cache: {{{alias}: {one}, {name}: {other}}}")
        for layer in layers:
            with pytest.raises(ConfigError) as refused:
                load(**layer)
            for part in (f"kv_cache.{alias}", f"kv_cache.{name}", "two values"):
                assert part in str(refused.value)


@pytest.mark.parametrize("block_tokens", [1, 8, 16, 64, 128, 256, 512])
def test_a_block_may_have_any_length_that_divides_the_chunk(block_tokens: int) -> None:
    assert settings(block_tokens=block_tokens).block_tokens == block_tokens


def test_a_block_need_be_no_power_of_two() -> None:
    section = settings(block_tokens=24, chunk_size=504)
    assert (section.block_tokens, section.chunk_size) == (24, 504)


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({"block_tokens": 0}, ["kv_cache.block_tokens", "greater than or equal to 1"]),
        ({"block_size": 513}, ["kv_cache.block_tokens", "less than or equal to 512"]),
        ({"block_tokens": 24}, ["kv_cache.chunk_size", "block_tokens (24)", "504 or 528"]),
        ({"chunk_size": 100}, ["kv_cache.chunk_size", "96 or 112"]),
        ({"chunk_size": 8}, ["kv_cache.chunk_size", "write chunk_size: 16"]),
        ({"chunk_size": 0}, ["kv_cache.chunk_size"]),
        ({"reserve": "95%"}, ["kv_cache.reserve", "at most 90%"]),
        ({"reserve": "20"}, ["kv_cache.reserve", "80% or 0.8"]),
        ({"preallocation": "101%"}, ["kv_cache.preallocation", "80% or 0.8"]),
        ({"compression": "fp8"}, ["kv_cache.compression", "int8"]),
        ({"write": "around"}, ["kv_cache.write", "through"]),
        ({"eviction": "fifo"}, ["kv_cache.eviction", "s3fifo"]),
        ({"device": "0"}, ["kv_cache.device", "enabled: false"]),
        ({"device": "big"}, ["kv_cache.device", "256MB"]),
        ({"host": "-1"}, ["kv_cache.host", "256MB"]),
        ({"disk": "50%"}, ["kv_cache.disk", "20GB"]),
        ({"max_concurrent": 0}, ["kv_cache.max_concurrent"]),
        ({"io_timeout": 0}, ["kv_cache.io_timeout"]),
        ({"block_tokn": 16}, ["kv_cache.block_tokn", "kv_cache.block_tokens"]),
        ({"blok": 16}, ["kv_cache.blok", "did you mean 'kv_cache.block_tokens'"]),
        ({"block_sice": 16}, ["'kv_cache.block_tokens' (also called 'kv_cache.block_size')"]),
    ],
)
def test_a_wrong_value_names_the_field_and_what_would_be_right(
    overrides: dict[str, object], parts: list[str]
) -> None:
    message = refusal(**overrides)
    for part in [*parts, "command line"]:
        assert part in message


def test_the_device_of_an_embedded_upstream_is_one_that_torch_has() -> None:
    upstream = {"name": "a", "kind": "embedded", "model": "m"}
    for device in ("auto", "cpu", "cuda", "mps"):
        loaded = load(env={}, overrides={"upstreams": [upstream | {"device": device}]})
        assert loaded.settings.upstreams[0].device == device
    with pytest.raises(ConfigError, match=r"upstreams\.0\.device.*'auto', 'cpu', 'cuda' or 'mps'"):
        load(env={}, overrides={"upstreams": [upstream | {"device": "gpu"}]})
