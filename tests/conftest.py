"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from openclaw_cache.engine.convert import converted
from openclaw_cache.engine.source import require_extras, resolve
from openclaw_cache.errors import ConfigError

# Before any test imports torch: its waiting threads must not spin beside the servers under test.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# In a fresh checkout the first property test also waits until Hypothesis has read our sources for constants and made
# its tables of Unicode: a second or two, which it would take for slow input.
settings.register_profile("openclaw-cache", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("openclaw-cache")

_REPO = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder of the shared real inputs; the test is skipped where it is absent, as in a user's clone."""
    root = Path(os.environ.get("OPENCLAW_CACHE_TEST_DATA", _REPO.parent / "shared" / "data"))
    if not root.is_dir():
        pytest.skip(f"no shared test data at {root} (set OPENCLAW_CACHE_TEST_DATA)")
    return root


@pytest.fixture(scope="session")
def model_data_dir() -> Path:
    """A data dir that keeps the converted model from run to run: only the very first use converts."""
    data_dir = Path(os.environ.get("OPENCLAW_CACHE_TEST_DATA_DIR", _REPO / ".venv" / ".openclaw-cache-test"))
    try:
        require_extras()
        source = resolve("smollm2-135m")
    except ConfigError as exc:
        pytest.skip(str(exc))
    converted(source.path, source.model_id, data_dir / "models", print)
    return data_dir


@pytest.fixture
def free_port() -> int:
    """A TCP port on loopback that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
