"""How an engine's process is started: what the gateway knows of its KV cache and device reaches it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from openclaw_cache.engine.pod import engine_command
from openclaw_cache.settings import KvCacheSettings


def options(command: list[str]) -> dict[str, str]:
    pairs = [part for part in command[command.index("openclaw_cache.engine") + 1 :] if part != "--json"]
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def test_an_engine_is_told_its_model_folder_device_and_kv_cache() -> None:
    kv = KvCacheSettings.model_validate({"device": "64MB", "compression": "int8"}).for_engine()
    found = options(engine_command("m", Path("/data"), kv=kv, device="cuda"))
    assert json.loads(found.pop("--kv")) == kv
    assert found == {"--model": "m", "--data-dir": "/data", "--device": "cuda"}


def test_without_a_kv_section_the_engine_keeps_its_own_defaults() -> None:
    assert "--kv" not in engine_command("m", Path("/data"), kv=None, device="auto")


def test_the_engine_command_becomes_the_engines_process_with_the_configured_section(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("kv_cache: {block_size: 16, host: 0}\n")
    # A stand-in for Python that shows what it was started with: nothing is loaded, and the real exec runs.
    shower = tmp_path / "python"
    shower.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shower.chmod(0o755)
    script = f"import sys; sys.executable = {str(shower)!r}; from openclaw_cache import cli; cli.main()"
    run = subprocess.run(
        [sys.executable, "-c", script, "engine", "--model", "m", "--config", str(config), "--port", "0",
         "--device", "cpu", "--data-dir", str(tmp_path), "--set", "kv_cache.disk=1GB",
         "--block-size", "32", "--no-enable-prefix-caching", "--json"],
        env={k: v for k, v in os.environ.items() if not k.startswith("OPENCLAW_CACHE_")},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = options(run.stdout.splitlines())
    kv = json.loads(found["--kv"])
    assert (kv["block_tokens"], kv["host_bytes"], kv["disk_bytes"]) == (32, 0, 10**9)
    assert kv["enabled"] is False
    assert "--json" in run.stdout.splitlines()
    assert (found["--model"], found["--device"], found["--data-dir"]) == ("m", "cpu", str(tmp_path))
    assert (found["--host"], found["--port"]) == ("127.0.0.1", "0")
