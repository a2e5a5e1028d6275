"""Requests that OpenClaw really sends."""

import json
from pathlib import Path

from openclaw_cache.engine.request import parse


def test_no_captured_chat_request_is_refused(data_root: Path) -> None:
    num_parsed = 0
    for file in sorted((data_root / "openclaw").glob("*.json")):
        recorded = json.loads(file.read_bytes())
        for request in recorded["requests"]:
            if "body" in request and request["path"] == "/v1/chat/completions":
                body = json.dumps(request["body"], ensure_ascii=False, separators=(",", ":")).encode()
                asked = parse(body)
                assert len(asked.messages) == len(request["body"]["messages"])
                num_parsed += 1
    assert num_parsed > 0
