"""A gateway before two upstreams, one in the shape of OpenAI's API and one in Anthropic's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from support import anthropic_upstream, openai_upstream
from support.running import RunningGateway
from support.vendor_upstream import VendorUpstream

HIT = "openclaw-cache; hit; detail=exact"
MISS = "openclaw-cache; fwd=miss"
STORED = "openclaw-cache; fwd=miss; stored"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""An image of one pixel, in base64."""
OPENAI_MODELS = ["gpt-*", "text-*", "resp-*", "stub-*", "cc-*", "hint-*"]
"""The last four are those of captured requests."""


@dataclass(frozen=True, slots=True)
class VendorSite:
    """A running gateway and the upstreams behind it."""

    gateway: RunningGateway
    openai: VendorUpstream
    anthropic: VendorUpstream


@contextlib.contextmanager
def vendor_site(folder: Path) -> Iterator[VendorSite]:
    """Run all three; agents' turns are cached. `folder` takes the data dir."""
    data_dir = folder / "data"
    data_dir.mkdir()
    with openai_upstream.openai_upstream() as openai, anthropic_upstream.anthropic_upstream() as anthropic:
        upstreams = [
            {"name": "oa", "kind": "openai", "urls": [openai.url], "models": OPENAI_MODELS},
            {"name": "an", "kind": "anthropic", "urls": [anthropic.url], "models": ["claude-*", "ant-*"]},
        ]
        config = {"upstreams": upstreams, "result_cache": {"tools": "cache"}}
        with RunningGateway(data_dir, config) as gateway:
            yield VendorSite(gateway, openai, anthropic)
