"""Processes that are started with their standard streams closed, as some supervisors do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CLOSED = "exec 0<&- >&- 2>&-; "


def run(script: str, *args: str) -> int:
    return subprocess.run(
        ["/bin/sh", "-c", script, sys.executable, *args], check=False, timeout=60
    ).returncode


def test_lines_of_the_log_are_for_nobody_then(tmp_path: Path) -> None:
    written = tmp_path / "end"
    program = (
        "import sys, structlog; from openclaw_cache.observe import logs; logs.configure(); "
        "structlog.get_logger().info('event'); logs.flush(); open(sys.argv[1], 'w').write('here')"
    )
    assert run(CLOSED + 'exec "$0" -c "$@"', program, str(written)) == 0
    assert written.read_text() == "here"


@pytest.mark.parametrize(
    ("args", "code"),
    [(("status", "--url", "http://127.0.0.1:9"), 3), (("batch", "FILE", "--dry-run", "--kv-tokens", "9"), 0)],
)
def test_a_command_does_its_work_all_the_same(tmp_path: Path, args: tuple[str, ...], code: int) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{"model": "m", "messages": [{"role": "user", "content": "hello"}]}\n')
    named = [str(file) if arg == "FILE" else arg for arg in args]
    assert run(CLOSED + 'exec "$0" -m openclaw_cache "$@"', *named) == code
