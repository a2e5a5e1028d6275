"""A scripted upstream, and a gateway before it in the test's own event loop. Files that need others have their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.scripted_upstream import ScriptedUpstream
from support.served import Served, served


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as pod:
        yield pod
        assert pod.failures == []


@pytest.fixture
async def gateway(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[Served]:
    async with served(tmp_path, [upstream.url]) as running:
        yield running
