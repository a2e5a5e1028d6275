"""What a running gateway says of itself."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def status(url: str) -> dict[str, Any]:
    """`GET /admin/status`."""
    with urllib.request.urlopen(f"{url}/admin/status", timeout=10) as reply:
        shown: dict[str, Any] = json.loads(reply.read())
        return shown


def metric(url: str, name: str) -> float:
    """The value of a sample of `GET /metrics`, named as it stands there with its labels; 0 where it is absent."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return next((float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == name), 0.0)
