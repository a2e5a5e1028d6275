"""The command's exit codes and messages, where OpenClaw or our server is not there or answers with a fault.

OpenClaw is a small script here, for faults alone; the real one is in tests/e2e/test_connect_openclaw.py.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.running import RunningGateway
from support.scripted_model import ScriptedModel

WANTS = ["--model", "m", "--context-window", "100000", "--no-proof"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("server")
    with ScriptedModel() as model:
        upstream = {"name": "m", "kind": "openai", "urls": [model.url], "probe_path": "/v1/models"}
        with RunningGateway(folder / "data", {"upstreams": [upstream]}) as gateway:
            yield gateway


class Place:
    """A home with a config, and an `openclaw` that says what it is told."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "openclaw.json"
        self.root.write_text("{ /* mine */ agents: {defaults: {model: 'other/x'}}}\n")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.env = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(folder),
            "OPENCLAW_CONFIG_PATH": str(self.root),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "NO_COLOR": "1",
        }

    def openclaw(self, *, version: str = "2026.9.6", faults: str = "", health: str = "exit 1") -> None:
        valid = '{"valid":true}'
        if faults:
            refused = json.dumps({"valid": False, "issues": [{"path": "models", "message": faults}]})
            valid = f"$(grep -q openclaw-cache {self.root} && echo '{refused}' || echo '{valid}')"
            valid = f'"{valid}"'
        else:
            valid = f"'{valid}'"
        script = self.bin / "openclaw"
        script.write_text(
            "#!/bin/sh\n"
            'case "$1 $2" in\n'
            f"  '--version '*) echo 'OpenClaw {version} (abc)';;\n"
            f"  'config file') echo '{{\"path\": \"{self.root}\"}}';;\n"
            f"  'config validate') echo {valid};;\n"
            f"  health*) {health};;\n"
            "  *) echo 'boom' >&2; exit 1;;\n"
            "esac\n"
        )
        script.chmod(0o755)

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "openclaw_cache", "connect", "openclaw", *args]
        return subprocess.run(
            command, env=self.env | env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_without_openclaw_it_ends_with_2_and_the_command_that_installs_it(place: Place, server) -> None:
    ran = place.run("--url", server.url)
    assert (ran.returncode, "npm install -g openclaw" in ran.stderr) == (2, True)


def test_without_a_server_it_ends_with_3(place: Place, tmp_path: Path) -> None:
    place.openclaw()
    assert place.run("--url", "http://127.0.0.1:1").returncode == 3
    ran = place.run("--data-dir", str(tmp_path / "none"))
    assert (ran.returncode, "openclaw-cache serve" in ran.stderr) == (3, True)


def test_an_openclaw_that_is_too_old_is_refused(place: Place, server) -> None:
    place.openclaw(version="2026.7.1")
    ran = place.run("--url", server.url, *WANTS)
    assert (ran.returncode, "too old" in ran.stderr) == (2, True)


def test_a_model_of_unknown_size_is_not_guessed(place: Place, server) -> None:
    place.openclaw()
    ran = place.run("--url", server.url, "--model", "m")
    assert (ran.returncode, "--context-window" in ran.stderr) == (2, True)


def test_nothing_is_written_without_consent(place: Place, server) -> None:
    place.openclaw()
    before = place.root.read_bytes()
    ran = place.run("--url", server.url, *WANTS)
    assert (ran.returncode, place.root.read_bytes()) == (2, before)
    assert "+ models.providers.openclaw-cache.baseUrl" in ran.stdout
    assert "go on using other/x" in ran.stdout


def test_what_openclaw_refuses_is_put_back_and_ends_with_1(place: Place, server, tmp_path: Path) -> None:
    place.openclaw(faults="not like this")
    before = place.root.read_bytes()
    ran = place.run("--url", server.url, "--yes", "--data-dir", str(tmp_path / "d"), *WANTS)
    assert (ran.returncode, place.root.read_bytes()) == (1, before)
    assert "not like this" in ran.stderr


def test_a_config_that_others_manage_is_shown_and_not_written(place: Place, server, tmp_path: Path) -> None:
    place.openclaw()
    before = place.root.read_bytes()
    there = ["--url", server.url, "--data-dir", str(tmp_path / "d"), *WANTS]
    ran = place.run(*there, "--yes", OPENCLAW_CONFIG_READONLY="1")
    assert (ran.returncode, place.root.read_bytes()) == (2, before)
    ran = place.run(*there, "--print-patch", OPENCLAW_CONFIG_READONLY="1")
    assert json.loads(ran.stdout)["plugins"]["slots"] == {
        "memory": "openclaw-cache",
        "contextEngine": "openclaw-cache",
    }


def test_it_is_taken_back_without_openclaw_and_without_a_server(place: Place, server, tmp_path: Path) -> None:
    place.openclaw()
    before = place.root.read_bytes()
    data = ["--data-dir", str(tmp_path / "d")]
    assert place.run("--url", server.url, "--yes", *data, *WANTS).returncode == 0
    assert place.root.read_bytes() != before
    assert (tmp_path / "d" / "openclaw-plugin" / "openclaw.plugin.json").is_file()
    (place.bin / "openclaw").unlink()
    ran = place.run("--undo", "--yes", *data)
    assert (ran.returncode, place.root.read_bytes()) == (0, before)
    assert not (tmp_path / "d" / "openclaw-plugin").exists()
    ran = place.run("--undo", "--yes", *data)
    assert (ran.returncode, "nothing to take back" in ran.stdout) == (0, True)


def test_the_copy_of_the_plugin_has_files_of_its_own_that_others_cannot_write(
    place: Place, server, tmp_path: Path
) -> None:
    place.openclaw()
    data = tmp_path / "d"
    assert place.run("--url", server.url, "--yes", "--data-dir", str(data), *WANTS).returncode == 0
    files = list((data / "openclaw-plugin").rglob("*"))
    assert files
    assert all(path.stat().st_mode & 0o022 == 0 for path in files)
    assert all(path.stat().st_nlink == 1 for path in files if path.is_file())


def test_a_proof_that_fails_ends_with_1_and_what_openclaw_said(place: Place, server, tmp_path: Path) -> None:
    place.openclaw()
    wants = [arg for arg in WANTS if arg != "--no-proof"]
    ran = place.run("--url", server.url, "--yes", "--data-dir", str(tmp_path / "d"), *wants)
    assert (ran.returncode, "boom" in ran.stderr) == (1, True)


def test_check_lists_what_is_wrong_with_a_remedy_and_ends_with_1(
    place: Place, server, tmp_path: Path
) -> None:
    place.openclaw()
    ran = place.run("--check", "--json", "--url", server.url, "--data-dir", str(tmp_path / "d"))
    checks = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
    assert ran.returncode == 1
    assert (checks["provider"]["state"], checks["plugin"]["state"]) == ("fail", "fail")
    assert checks["server"]["state"] == "ok"
    assert all(check["remedy"] for check in checks.values() if check["state"] in ("fail", "warn"))


def test_check_without_a_server_lists_the_rest_and_ends_with_3(place: Place, tmp_path: Path) -> None:
    place.openclaw()
    ran = place.run("--check", "--json", "--data-dir", str(tmp_path / "d"))
    checks = {check["name"]: check["state"] for check in json.loads(ran.stdout)["checks"]}
    assert (ran.returncode, checks["server"], checks["OpenClaw"]) == (3, "fail", "ok")


def test_the_three_modes_exclude_each_other(place: Place) -> None:
    assert place.run("--check", "--undo").returncode == 2
    assert place.run("--api", "grpc").returncode == 2
