"""What an engine accepts as `--kv`: its parent's settings, or a person's."""

from __future__ import annotations

import json

import pytest

from openclaw_cache.engine.kv_settings import KvSettings
from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import KvCacheSettings


def test_the_parents_defaults_are_the_engines_own() -> None:
    section = KvCacheSettings().for_engine()
    assert KvSettings.parse(json.dumps(section)) == KvSettings.parse("{}") == KvSettings()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ('{"block_tokens": 0}', "block_tokens"),
        ('{"block_tokens": "x"}', "block_tokens"),
        ('{"chunk_size": 5}', "chunk_size"),
        ('{"compression": "zip"}', "compression"),
        ('{"reserve": 2}', "reserve"),
        ('{"write": "x"}', "write"),
        ('{"io_timeout_s": -1}', "io_timeout"),
        ('{"device_bytes": 0}', "device"),
        ('{"host_bytes": 9999999999999999999}', "host"),
        ('{"max_concurrent": 0}', "max_concurrent"),
        ('{"blok": 1}', "block_tokens"),
        ("[1]", "object"),
        ("{", "not JSON"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(given: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        KvSettings.parse(given)


def test_the_device_tier_has_by_default_room_for_a_window_and_the_reserve_if_memory_allows() -> None:
    # SmolLM2: 737,280 bytes a block in fp32; a window of 8,192 tokens is 512 blocks, 640 with a reserve of 20 %.
    assert KvSettings().num_device_blocks(737_280, 8192) >= 640


def test_a_device_tier_without_room_for_two_chunks_is_refused_with_the_least_size() -> None:
    with pytest.raises(ConfigError, match=str(2 * 32 * 737_280)):
        KvSettings(device_bytes=63 * 737_280).num_device_blocks(737_280, 8192)
    assert KvSettings(device_bytes=64 * 737_280).num_device_blocks(737_280, 8192) == 64
