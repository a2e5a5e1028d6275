"""Requests that come while the embedded model loads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

from support.raw_http import RawReply, encoded, post_chat
from support.running import RunningGateway

pytestmark = pytest.mark.model


def ask(gateway: RunningGateway, model: str) -> RawReply:
    question = [{"role": "user", "content": "What is the capital of Japan?"}]
    body = {"model": model, "messages": question, "max_tokens": 8}
    return post_chat(gateway.url, encoded(body))


def configured(folder: Path) -> dict[str, Any]:
    return {"upstreams": [{"name": "local", "kind": "embedded", "model": str(folder)}]}


def test_a_request_while_the_model_loads_has_the_key_of_its_weights(
    fresh_data_dir: Callable[[], Path], tmp_path: Path
) -> None:
    """Not even in the first second may a reply of earlier weights pass for one of these."""
    data_dir = fresh_data_dir()
    converted = next(f.parent for f in (data_dir / "models").glob("*/model.safetensors"))
    folder = tmp_path / "m1"
    shutil.copytree(converted, folder)
    gateway = RunningGateway(data_dir, configured(folder))
    try:
        gateway.start(wait_ready=False)
        early = ask(gateway, "m1")
        late = ask(gateway, "m1")
        assert "fwd=miss" in early.cache_status
        assert late.cache_status == "openclaw-cache; hit; detail=exact"
        assert late.body == early.body
        gateway.stop()

        weights = safetensors.torch.load_file(folder / "model.safetensors")
        name = next(n for n in weights if n.endswith("layers.3.mlp.down_proj.weight"))
        weights[name] = weights[name] * 0.5
        safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        gateway.start(wait_ready=False)
        changed = ask(gateway, "m1")
        assert "fwd=miss" in changed.cache_status
        assert changed.json()["system_fingerprint"] != early.json()["system_fingerprint"]
    finally:
        gateway.__exit__()
