"""The command line by itself: spellings, exit codes, and messages that say what to do."""

from __future__ import annotations

import http.server
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache import __version__, cli

FAQ = str(Path(__file__).parents[1] / "support" / "faq.md")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command line; returns exit code, stdout, stderr."""
    import os  # noqa: PLC0415

    for name in list(os.environ):
        if name.startswith("OPENCLAW_CACHE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENCLAW_CACHE_SERVER__DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "200")

    def command(*args: str, **env: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patched:
            for name, value in env.items():
                patched.setenv(name, value)
            patched.setattr(sys, "argv", ["openclaw-cache", *args])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        out, err = capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), out, err

    return command


@pytest.mark.parametrize("spelling", ["version", "--version"])
def test_version_in_both_spellings(run: Run, spelling: str) -> None:
    assert run(spelling)[:2] == (0, f"{__version__}\n")
    code, out, _ = run(spelling, "--json")
    assert (code, json.loads(out)) == (0, {"version": __version__})


@pytest.mark.parametrize(
    "args",
    [
        ["frobnicate"],
        ["status", "--jsn"],
        ["evict"],
        ["evict", "--pattern", "*", "--type", "pages"],
        ["serve", "--block-size", "0"],
        ["serve", "--block-size", "24"],
        ["serve", "--block-size", "32", "--set", "kv_cache.block_tokens=16"],
        ["serve", "--no-enable-prefix-caching", "--set", "kv_cache.enabled=true"],
        ["warm"],
        ["warm", "/absent/prompts.jsonl"],
        ["warm", __file__, "--pin", "soon"],
        ["warm", __file__, "--type", "result"],
        ["warm", __file__, "--type", "semantic"],
        ["warm", "/absent/faq.csv", "--type", "semantic"],
        ["warm", FAQ, "--type", "semantic", "--pin", "1h"],
        ["warm", FAQ, "--type", "semantic", "--ttl", "soon"],
        ["warm", FAQ, "--type", "semantic", "--request", "/absent/request.json"],
        ["warm", __file__, "--ttl", "1h"],
        ["warm", __file__, "--request", __file__],
        ["analyze", "--time-range", "whenever"],
        ["--analyze", "--time-range="],
        ["tree", "--limit", "x"],
        ["engine"],
        ["engine", "--model", "m", "--set", "kv_cache.block_tokn=1"],
        ["engine", "--model", "m", "--set", "kv_cache.chunk_size=100"],
        ["invalidate"],
        ["serve", "--port", "eighty"],
        ["serve", "--set", "store.ulr=x"],
        ["serve", "--set", "store.url"],
        ["serve", "--set", "server.keys=[{"],
        ["serve", "--set", "server.port=eighty"],
        ["serve", "--config", "/absent/config.yaml"],
        ["serve", "--host", "0.0.0.0"],
        ["status", "--url", "ftp://x"],
        ["status", "--url", "127.0.0.1:8800"],
        ["status", "--url", "http://127.0.0.1:99999"],
        ["status", "--url", "http://[::1"],
    ],
)
def test_wrong_usage_and_configuration_is_exit_code_2_without_a_traceback(run: Run, args: list[str]) -> None:
    code, out, err = run(*args)
    assert code == 2
    assert out == ""
    assert err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "args",
    [
        ["status"],
        ["--status"],
        ["evict", "--pattern", "*"],
        ["evict", "--pattern", "*", "--type", "kv"],
        ["invalidate", "--model", "m"],
        ["warm", __file__],
        ["--warm", __file__],
        ["--warm", FAQ, "--type=semantic"],
        ["analyze"],
        ["--analyze", "--time-range=最近1小时"],
        ["--evict", "--type=semantic", "--pattern=*finance*"],
        ["tree"],
        ["--tree", "--text"],
    ],
)
def test_no_server_is_exit_code_3_and_says_how_to_name_one(run: Run, args: list[str]) -> None:
    code, _, err = run(*args)
    assert code == 3
    assert "openclaw-cache serve" in err
    assert "--url" in err


def test_a_server_that_does_not_answer_is_exit_code_3(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    code, _, err = run("status", "--url", url)
    assert code == 3
    assert url in err
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "server.json").write_text(json.dumps({"url": url, "pid": 1}))  # left by a kill -9
    assert run("status")[0] == 3
    for broken in ("", "[]", "{}"):
        (tmp_path / "data" / "server.json").write_text(broken)
        assert run("status")[0] == 3


@pytest.fixture
def other_server() -> Iterator[str]:
    """Another program that has our port now."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404)
            self.end_headers()
            self.wfile.write(b"<html>not here</html>")

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_another_program_at_that_address_is_exit_code_3(run: Run, other_server: str) -> None:
    code, _, err = run("status", OPENCLAW_CACHE_URL=other_server)
    assert code == 3
    assert "not an openclaw-cache server" in err


def test_print_config_shows_each_value_and_its_source(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("server: {max_body: 1MiB}\n")
    args = ["serve", "--config", str(file), "--port", "0", "--set", "result_cache.ttl=90m", "--print-config"]
    code, out, _ = run(*args, OPENCLAW_CACHE_STORE__TIMEOUT="20ms")
    assert code == 0
    rows = {
        cells[0]: cells[1:]
        for line in out.splitlines()
        if len(cells := [c.strip() for c in line.split("│")[1:-1]]) == 3
    }
    assert rows["server.max_body"] == ["1MiB", f"file {file}"]
    assert rows["server.port"] == ["0", "command line"]
    assert rows["result_cache.ttl"] == ["1h30m", "command line"]
    assert rows["store.timeout"] == ["20ms", "env OPENCLAW_CACHE_STORE__TIMEOUT"]
    assert rows["server.host"] == ["127.0.0.1", "default"]
    code, out, _ = run(*args, "--json")
    shown = json.loads(out)
    assert code == 0
    assert shown["result_cache.ttl"] == {"value": 5400.0, "shown": "1h30m", "source": "command line"}
    assert not (tmp_path / "data").exists()  # nothing was started


def test_set_takes_lists_and_null_and_wins_over_everything(run: Run) -> None:
    upstreams = "[{name: pods, kind: openai, urls: ['http://10.0.0.1:8000']}]"
    args = [
        "serve",
        "--set",
        f"upstreams={upstreams}",
        "--set",
        "server.secret_file=null",
        "--print-config",
        "--json",
    ]
    code, out, _ = run(*args, OPENCLAW_CACHE_SERVER__SECRET_FILE="/tmp/secret")
    assert code == 0
    shown = json.loads(out)
    assert [u["urls"] for u in shown["upstreams"]["value"]] == [["http://10.0.0.1:8000"]]
    assert shown["server.secret_file"] == {"value": None, "shown": "null", "source": "command line"}


def test_the_flags_of_vllm_mean_the_settings_of_the_kv_cache(run: Run) -> None:
    args = ["serve", "--print-config", "--json"]
    shown = json.loads(run(*args, "--no-enable-prefix-caching", "--block-size", "32")[1])
    for field, value in (("kv_cache.enabled", False), ("kv_cache.block_tokens", 32)):
        assert (shown[field]["value"], shown[field]["source"]) == (value, "command line")
    shown = json.loads(run(*args, "--enable-prefix-caching", OPENCLAW_CACHE_KV_CACHE__ENABLED="false")[1])
    assert shown["kv_cache.enabled"]["value"] is True
    shown = json.loads(run(*args)[1])
    assert (shown["kv_cache.enabled"]["source"], shown["kv_cache.block_tokens"]["value"]) == ("default", 16)
    assert shown["kv_cache.reserve"] == {"value": 0.2, "shown": "20%", "source": "default"}


def test_warming_a_cache_that_cannot_be_warmed_yet_says_so(run: Run) -> None:
    code, _, err = run("warm", __file__, "--type", "result")
    assert code == 2
    assert "result is not built yet" in err


def test_no_summary_of_a_command_is_cut_off_on_a_narrow_terminal(run: Run) -> None:
    _, out, _ = run("--help", COLUMNS="80")
    commands = out.partition("Commands:\n")[2].splitlines()
    assert len(commands) == 18
    for line in commands:
        assert line.endswith(".")
        assert not line.endswith("...")


def test_warm_offers_only_what_it_can_warm(run: Run) -> None:
    _, out, _ = run("warm", "--help")
    assert "--type kv|semantic " in out
    assert "result" not in out


def test_no_key_is_shown_by_print_config(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("server: {keys: [{key: sk-very-secret}]}\nstore: {url: 'redis://u:sk-very-secret@h/0'}\n")
    for more in ([], ["--json"]):
        code, out, err = run("serve", "--config", str(file), "--print-config", *more)
        assert code == 0
        assert "sk-very-secret" not in out + err


def test_help_lists_every_command(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    for command in (
        "serve",
        "status",
        "analyze",
        "evict",
        "invalidate",
        "warm",
        "calibrate",
        "tree",
        "engine",
    ):
        assert command in out
