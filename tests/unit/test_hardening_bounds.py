"""Bounds on what any client or configuration can make the gateway keep, print or start with."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.config import load
from openclaw_cache.dialects.openai import ChatDialect, merge
from openclaw_cache.errors import ConfigError, MergeError
from openclaw_cache.gateway.policy import Policy
from openclaw_cache.gateway.reading import Readings
from openclaw_cache.result import secret
from openclaw_cache.store.folder import ServerFolder
from openclaw_cache.types import Namespace


@pytest.mark.parametrize("field", ["seed", "n", "temperature", "max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("value", [[0] * 1000, {"a": [0] * 1000}, "x" * 1000], ids=["list", "object", "text"])
async def test_a_body_whose_kept_values_are_not_small_is_not_remembered(field: str, value: Any) -> None:
    """Thousands of readings are kept: with a megabyte in each the process would take gigabytes."""
    body = json.dumps({"model": "m", "messages": [], field: value}).encode()
    readings = Readings(Policy(), frozenset())
    first, _ = await readings.read(body, Namespace("n"), ChatDialect())
    again, decoded_again = await readings.read(body, Namespace("n"), ChatDialect())
    assert decoded_again == json.loads(body)
    assert again == first


async def test_a_body_with_a_long_model_name_is_not_remembered() -> None:
    body = json.dumps({"model": "m" * 1000, "messages": []}).encode()
    readings = Readings(Policy(), frozenset())
    await readings.read(body, Namespace("n"), ChatDialect())
    assert (await readings.read(body, Namespace("n"), ChatDialect()))[1] is not None


def test_a_stream_whose_object_is_an_error_is_no_reply() -> None:
    """Servers of the vLLM family send errors as `{"object": "error", "message": …}`."""
    chunk = {"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": "stop"}]}
    error = {"object": "error", "message": "out of memory", "code": 500}
    with pytest.raises(MergeError):
        merge([json.dumps(chunk).encode(), json.dumps(error).encode()])


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://[::1", "http://127.0.0.1:0", "http://h:x"])
def test_an_upstream_url_without_a_possible_port_is_refused_at_start(url: str) -> None:
    upstream = {"name": "pods", "kind": "openai", "urls": [url]}
    with pytest.raises(ConfigError, match=r"urls\.0"):
        load(env={}, overrides={"upstreams": [upstream]})


def test_a_data_dir_with_a_line_break_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """Valkey's configuration has one setting a line."""
    data_dir = tmp_path / "a\nb"
    with pytest.raises(ConfigError, match="line break"):
        ServerFolder(data_dir).create()
    assert not data_dir.exists()


def test_without_a_home_directory_an_absolute_data_dir_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers run as users that have no entry in passwd."""

    def no_home(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigError, match="HOME"):
        load(env={})
    monkeypatch.undo()
    loaded = load(env={}, overrides={"server.data_dir": str(tmp_path)})
    assert loaded.settings.server.data_dir == tmp_path


def test_a_secret_that_could_not_be_written_leaves_nothing_behind_and_the_next_start_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the process id is the same at each start: a draft named by it would be in the way for ever."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "secret"
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        secret.load_or_create(path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    (tmp_path / f"secret.{os.getpid()}").touch()
    assert len(secret.load_or_create(path)) == 32
