"""What the command line prints for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from openclaw_cache.console import print_json


@pytest.mark.parametrize(
    ("encoding", "text"), [("utf-8", "half \ud83d of a pair"), ("ascii", "中文 🦞"), ("utf-8", "中文")]
)
def test_json_is_printed_whatever_is_in_it_and_whatever_the_terminal_can_show(
    encoding: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    print_json({"text": text})
    sys.stdout.flush()
    assert json.loads(raw.getvalue()) == {"text": text}
