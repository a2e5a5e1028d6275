"""The fleet's secret file."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.result.secret import load_or_create


def test_a_secret_is_made_once_is_random_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret"
    secret = load_or_create(path)
    assert len(secret) == 32
    assert load_or_create(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create(tmp_path / "other") != secret
    assert [file.name for file in path.parent.iterdir()] == ["secret"]


def test_a_secret_copied_from_another_node_is_used(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef" * 4 + "\n")
    path.chmod(0o600)
    assert load_or_create(path) == bytes.fromhex("0123456789abcdef") * 4


def test_processes_that_start_together_agree_on_one_secret(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from openclaw_cache.result.secret import load_or_create;"
        "sys.stdin.read(1); print(load_or_create(Path(sys.argv[1])).hex())"
    )
    nodes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "secret")],
            env={"PYTHONPATH": ":".join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for node in nodes:
        assert node.stdin is not None
        node.stdin.write(b"!")
        node.stdin.flush()
    assert len({node.communicate()[0] for node in nodes}) == 1
    assert all(node.returncode == 0 for node in nodes)


@pytest.mark.parametrize("text", ["", "short", "00" * 31, "00" * 33, "zz" * 32, "é" * 64])
def test_a_file_that_is_no_secret_is_refused_by_name_and_not_shown(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"server\.secret_file") as caught:
        load_or_create(path)
    assert not text or text not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660])
def test_a_secret_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "secret"
    load_or_create(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        load_or_create(path)
