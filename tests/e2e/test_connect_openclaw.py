"""`connect openclaw` with the real OpenClaw, our real server, and a scripted model behind it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.real_openclaw import Installed, RealOpenClaw, installed
from support.running import RunningGateway
from support.scripted_model import ScriptedModel

pytestmark = [pytest.mark.node, pytest.mark.timeout(900)]
WANTS = ["--model", "scripted", "--context-window", "131072", "--set-default"]
KEY = "a-key-of-the-test-0123456789abcdef"


@pytest.fixture(scope="module")
def programs() -> Installed:
    return installed()


@pytest.fixture
def model():
    with ScriptedModel() as scripted:
        yield scripted


def gateway_config(model: ScriptedModel, **server: object) -> dict:
    upstream = {"name": "m", "kind": "openai", "urls": [model.url], "probe_path": "/v1/models"}
    return {"upstreams": [upstream | {"api_key_env": "MODEL_KEY"}], "server": server}


class Site:
    """An OpenClaw of the test's own, and `openclaw-cache connect openclaw` beside it."""

    def __init__(self, programs: Installed, folder: Path) -> None:
        self.folder = folder / "openclaw"
        self.openclaw = RealOpenClaw(programs, self.folder, {})
        self.root = self.openclaw.config_file
        self.mine = "// a comment of mine\n" + self.root.read_text()
        self.root.write_text(self.mine)
        self.data = folder / "connected"
        commands = programs.openclaw.parents[1] / ".bin"
        self.env = {
            "PATH": f"{commands}:{programs.node.parent}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "OPENCLAW_STATE_DIR": str(self.root.parent),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }

    def connect(self, *args: str) -> tuple[int, dict]:
        command = [sys.executable, "-m", "openclaw_cache", "connect", "openclaw", "--json", *args]
        ran = subprocess.run(
            [*command, "--data-dir", str(self.data)],
            env=self.env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        return ran.returncode, json.loads(ran.stdout or "{}") | {"stderr": ran.stderr}


def states(checked: dict) -> dict[str, str]:
    return {check["name"]: check["state"] for check in checked["checks"]}


def test_openclaw_is_connected_proven_checked_and_disconnected(
    programs: Installed, model: ScriptedModel, tmp_path: Path
) -> None:
    site = Site(programs, tmp_path)
    with RunningGateway(tmp_path / "data", gateway_config(model), {"MODEL_KEY": "sk-m"}) as gateway:
        at = ["--url", gateway.url]
        code, report = site.connect(*at, *WANTS, "--yes")
        assert code == 0, report["stderr"]
        assert site.root.read_text().startswith("// a comment of mine\n")
        assert (report["proof"]["num_turns"], report["proof"]["how"]) == (2, "local")
        # What OpenClaw sends twice, the scripted model counts as cached: most of the second prompt.
        second = report["proof"]["answers"][1]
        assert second["num_cached_tokens"] > second["num_prompt_tokens"] / 2
        asked = [one.headers for one in model.asked]
        assert all(headers.get("x-session-affinity") or headers.get("session_id") for headers in asked)

        connected = site.root.read_bytes()
        code, report = site.connect(*at, "--yes", "--no-proof")
        assert (code, report["changes"], site.root.read_bytes()) == (0, [], connected)

        code, checked = site.connect(*at, "--check")
        assert code == 0, checked
        assert states(checked)["plugin loads"] == "ok"
        assert states(checked)["plugin calls"] == "ok"
        assert states(checked)["OpenClaw's gateway"] == "unknown"

    code, report = site.connect("--undo", "--yes")
    assert (code, site.root.read_text()) == (0, site.mine)
    assert site.openclaw.run("config", "validate").returncode == 0


def test_a_running_openclaw_takes_a_connection_over_and_its_key_stays_in_the_environment(
    programs: Installed, model: ScriptedModel, tmp_path: Path
) -> None:
    site = Site(programs, tmp_path)
    (site.root.parent / ".env").write_text(f"OCC_TEST_KEY={KEY}\n")
    keyed = gateway_config(model, keys=[{"key": KEY, "namespace": "me"}])
    with RunningGateway(tmp_path / "data", keyed, {"MODEL_KEY": "sk-m"}) as gateway, site.openclaw:
        at = ["--url", gateway.url]
        code, report = site.connect(*at, *WANTS, "--yes")
        assert (code, "--key-env" in report["stderr"]) == (2, True)
        code, report = site.connect(*at, *WANTS, "--yes", "--key-env", "OCC_TEST_KEY")
        assert code == 0, report["stderr"]
        assert (report["proof"]["how"], report["proof"]["num_turns"]) == ("gateway", 2)
        written = [path for path in site.root.parent.iterdir() if path.is_file() and path.name != ".env"]
        assert not any(KEY.encode() in path.read_bytes() for path in written)

        code, checked = site.connect(*at, "--check")
        assert (code, states(checked)["key"], states(checked)["OpenClaw's gateway"]) == (0, "ok", "ok"), (
            checked
        )

        # OpenClaw writes the whole file anew when it changes a setting itself.
        assert site.openclaw.run("config", "set", "agents.defaults.heartbeat.every", "5m").returncode == 0
        code, report = site.connect("--undo", "--yes")
        assert code == 0, report["stderr"]
    left = json.loads(site.root.read_text())
    before = json.loads(site.mine.partition("\n")[2])
    before["agents"]["defaults"]["heartbeat"]["every"] = "5m"
    assert {key: value for key, value in left.items() if key != "meta"} == before
