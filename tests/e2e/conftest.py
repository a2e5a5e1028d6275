"""Real gateways for end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.node_sdk import NodeSdk, installed
from support.running import RunningGateway


@pytest.fixture(scope="session")
def fresh_data_dir(model_data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes data dirs that have the converted model and nothing else."""

    def make() -> Path:
        data_dir = tmp_path_factory.mktemp("gateway") / "data"
        data_dir.mkdir()
        (data_dir / "models").symlink_to(model_data_dir / "models")
        return data_dir

    return make


@pytest.fixture(scope="session")
def gateway(fresh_data_dir: Callable[[], Path]) -> Iterator[RunningGateway]:
    """A gateway that nobody has configured: the embedded model, an embedded Valkey, no keys."""
    with RunningGateway(fresh_data_dir(), {}) as running:
        yield running


@pytest.fixture(scope="session")
def node_sdk() -> NodeSdk:
    """The Node SDKs of OpenAI and Anthropic."""
    return installed()
