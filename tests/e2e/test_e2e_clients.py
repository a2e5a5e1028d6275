"""Every snippet of docs/clients.md that can run here, as it stands there, against a gateway with the configuration
that stands there: only the URLs are others, and the two providers are stand-ins.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support import anthropic_upstream, client_programs, openai_upstream
from support.anthropic_upstream import anthropic_upstream as running_anthropic
from support.node_sdk import NodeSdk
from support.openai_upstream import openai_upstream as running_openai
from support.raw_http import encoded, post
from support.running import RunningGateway
from support.snippets import Snippet, snippets
from support.vendor_site import HIT, STORED, VendorSite
from support.vendor_upstream import VendorUpstream

SNIPPETS = snippets(Path(__file__).resolve().parents[2] / "docs" / "clients.md")
WRITTEN_URL = "http://127.0.0.1:8800"
KEY = "occ-of-my-own"
PROVIDER_KEYS = {"OPENAI_API_KEY": "sk-of-the-gateway", "ANTHROPIC_API_KEY": "sk-ant-of-the-gateway"}
CONFIG = "The gateway/yaml/0"
NOT_RUN = {
    CONFIG: "it is what the gateway of these tests is configured with",
    "Codex/toml/0": "it is what Codex is configured with in its test",
    "OpenClaw/json/0": "OpenClaw takes two minutes to install; its requests are tested as they were captured",
    "Open WebUI/bash/0": "it needs Docker; what it asks, models and chat completions, is what curl asks here",
}
PYTHON = {
    "OpenAI's Python SDK/python/0": "chat",
    "OpenAI's Python SDK/python/1": "responses",
    "Anthropic's Python SDK/python/0": "messages",
}
FRAMEWORKS = {
    "LangChain/python/0": "chat",
    "LangChain/python/1": "messages",
    "LlamaIndex/python/0": "chat",
}
NODE = {"Node SDKs/js/0": "chat", "Node SDKs/js/1": "messages"}
CURL = {"curl/bash/0": "chat", "curl/bash/1": "messages"}
OTHERS = {
    "curl/bash/2",
    "OpenAI's Python SDK/python/2",
    "Claude Code/bash/0",
    "Codex/bash/0",
}


def configured(openai: VendorUpstream, anthropic: VendorUpstream) -> dict[str, Any]:
    """The document's configuration with the stand-ins' addresses."""
    text = SNIPPETS[CONFIG].text
    text = text.replace("https://api.openai.com", openai.url)
    config: dict[str, Any] = yaml.safe_load(text.replace("https://api.anthropic.com", anthropic.url))
    return config


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    data_dir = tmp_path_factory.mktemp("clients") / "data"
    data_dir.mkdir()
    with running_openai() as openai, running_anthropic() as anthropic:
        env = PROVIDER_KEYS | {"GATEWAY_KEY": KEY}
        with RunningGateway(data_dir, configured(openai, anthropic), env) as gateway:
            yield VendorSite(gateway, openai, anthropic)


class Ran:
    """What a run of a snippet printed, and what the gateway logged of it."""

    def __init__(self, out: str, logged: list[dict[str, Any]]) -> None:
        self.out = out
        self.logged = [line for line in logged if line["api"] != "/"]  # Claude Code tries the connection

    @property
    def seen(self) -> list[tuple[str, str]]:
        """API and outcome of each request."""
        return [(line["api"], line["outcome"]) for line in self.logged]

    def says(self, text: str) -> bool:
        """Whether a text was printed, as it is or inside JSON."""
        return text in self.out or json.dumps(text, ensure_ascii=False)[1:-1] in self.out


@pytest.fixture
def run(site: VendorSite, tmp_path: Path) -> Callable[..., Ran]:
    """Runs a snippet in an environment that has its key and nothing else of this one's."""

    def run(snippet: Snippet, *command: str | Path, folder: Path = tmp_path, **env: str) -> Ran:
        suffix = {"python": "py", "js": "mjs", "bash": "sh"}[snippet.language]
        file = folder / f"snippet-{os.getpid()}.{suffix}"
        file.write_text(snippet.text.replace(WRITTEN_URL, site.gateway.url))
        before = len(site.gateway.requests_logged())
        own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GATEWAY_KEY": KEY}
        try:
            ran = subprocess.run(
                [*command, file],
                cwd=tmp_path,
                env=own | env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            file.unlink()
        assert ran.returncode == 0, ran.stderr
        return Ran(ran.stdout, logged_since(site.gateway, before))

    return run


def logged_since(gateway: RunningGateway, before: int) -> list[dict[str, Any]]:
    """The request lines that have come since, once no more come (they are written 50 ms late)."""
    lines: list[dict[str, Any]] = []
    while True:
        time.sleep(0.2)
        now = gateway.requests_logged()[before:]
        if now and len(now) == len(lines):
            return now
        lines = now


def answer(site: VendorSite, api: str) -> str:
    """What the last request of an API was answered, by the stand-in's own rule."""
    if api == "messages":
        return anthropic_upstream.text_for(site.anthropic.calls[-1].body).strip()
    return openai_upstream.text_for(site.openai.calls[-1].body).strip()


def test_every_snippet_is_run_or_has_a_reason_why_not() -> None:
    assert set(SNIPPETS) == {*NOT_RUN, *PYTHON, *FRAMEWORKS, *NODE, *CURL, *OTHERS}


def check_answered_then_cached(site: VendorSite, api: str, run_once: Callable[[], Ran]) -> None:
    """The first run is answered by the provider, the second one by the cache, with the same words."""
    num_calls = len(site.openai.calls) + len(site.anthropic.calls)
    first = run_once()
    said = answer(site, api)
    assert first.says(said)
    assert first.seen[0] == (api, "miss")
    again = run_once()
    assert again.says(said)
    assert {outcome for _, outcome in again.seen} == {"exact"}
    assert len(site.openai.calls) + len(site.anthropic.calls) == num_calls + 1
    call = (site.anthropic if api == "messages" else site.openai).calls[-1]
    sent = (call.header("authorization") or "", call.header("x-api-key") or "")
    assert any(key in value for key in PROVIDER_KEYS.values() for value in sent)
    assert not any(KEY in value for _, value in call.headers)


@pytest.mark.parametrize("name", CURL)
def test_curl(site: VendorSite, run: Callable[..., Ran], name: str) -> None:
    check_answered_then_cached(site, CURL[name], lambda: run(SNIPPETS[name], "bash", "-eu"))
    assert f"cache-status: {HIT}" in run(SNIPPETS[name], "bash", "-eu").out.lower()


def test_curl_lists_the_models_of_all_upstreams(run: Callable[..., Ran]) -> None:
    listed = json.loads(run(SNIPPETS["curl/bash/2"], "bash", "-eu").out)
    ids = {model["id"] for model in listed["data"]}
    assert {*anthropic_upstream.MODELS, *openai_upstream.MODELS} <= ids


@pytest.mark.parametrize("name", PYTHON)
def test_python_sdks(site: VendorSite, run: Callable[..., Ran], name: str) -> None:
    check_answered_then_cached(site, PYTHON[name], lambda: run(SNIPPETS[name], sys.executable))


def test_embeddings(run: Callable[..., Ran]) -> None:
    snippet = SNIPPETS["OpenAI's Python SDK/python/2"]
    first, again = run(snippet, sys.executable), run(snippet, sys.executable)
    assert (first.out, again.out) == ("2 vectors\n", "2 vectors\n")
    assert (first.seen, again.seen) == ([("embeddings", "miss")], [("embeddings", "exact")])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_frameworks(site: VendorSite, run: Callable[..., Ran], name: str) -> None:
    python = client_programs.framework_python()
    check_answered_then_cached(site, FRAMEWORKS[name], lambda: run(SNIPPETS[name], python))


@pytest.mark.node
@pytest.mark.parametrize("name", NODE)
def test_node_sdks(site: VendorSite, run: Callable[..., Ran], node_sdk: NodeSdk, name: str) -> None:
    # Beside node_modules, where `import` looks.
    run_once = lambda: run(SNIPPETS[name], node_sdk._node, folder=node_sdk._folder)  # noqa: E731
    check_answered_then_cached(site, NODE[name], run_once)


@pytest.mark.node
def test_claude_code(site: VendorSite, run: Callable[..., Ran]) -> None:
    """Two sessions of their own: `metadata` and the session header differ, and do not count."""
    command, node = client_programs.command_line_client(client_programs.CLAUDE_CODE)
    env = {"PATH": f"{command}:{node}:{os.environ['PATH']}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    check_answered_then_cached(site, "messages", lambda: run(SNIPPETS["Claude Code/bash/0"], "bash", **env))
    sessions = {line["session"] for line in site.gateway.requests_logged() if line["api"] == "messages"} - {
        None
    }
    assert len(sessions) == 2


@pytest.mark.node
def test_codex(site: VendorSite, run: Callable[..., Ran], tmp_path: Path) -> None:
    """Its ids are new in each run, so nothing is a hit; but nothing bypasses either."""
    command, node = client_programs.command_line_client(client_programs.CODEX)
    folder = tmp_path / ".codex"
    folder.mkdir()
    config = SNIPPETS["Codex/toml/0"].text.replace(WRITTEN_URL, site.gateway.url)
    (folder / "config.toml").write_text(config)
    ran = run(SNIPPETS["Codex/bash/0"], "bash", PATH=f"{command}:{node}:{os.environ['PATH']}")
    assert ran.says(answer(site, "responses"))
    assert ran.seen == [("responses", "miss")]
    assert ran.logged[0]["session"] == site.openai.calls[-1].body["prompt_cache_key"]


def test_openclaws_providers_point_at_paths_that_answer(site: VendorSite) -> None:
    config = json.loads(SNIPPETS["OpenClaw/json/0"].text)
    paths = {"openai-completions": "/chat/completions", "anthropic-messages": "/v1/messages"}
    for provider in config["models"]["providers"].values():
        assert provider["apiKey"] == "${GATEWAY_KEY}"
        path = provider["baseUrl"].removeprefix(WRITTEN_URL) + paths[provider["api"]]
        body = asking(provider["models"][0]["id"])
        assert post(site.gateway.url, path, encoded(body), BEARER).status == 200


BEARER = [("content-type", "application/json"), ("authorization", f"Bearer {KEY}")]


def asking(model: str, question: str = "Is it true?", **fields: Any) -> dict[str, Any]:
    """A body that both vendors take."""
    return {"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": question}]} | fields


@pytest.mark.parametrize(
    ("path", "model", "headers", "status", "said"),
    [
        ("/v1/v1/messages", "claude-opus-5", BEARER, 404, "there is no '/v1/v1/messages' here"),
        ("/chat/completions", "gpt-5-mini", BEARER, 404, "there is no '/chat/completions' here"),
        ("/v1/chat/completions", "claude-opus-5", BEARER, 400, "wrong_dialect"),
        ("/v1/messages", "gpt-5-mini", BEARER, 400, "not translated"),
        ("/v1/chat/completions", "llama-9", BEARER, 404, "model_not_found"),
        ("/v1/chat/completions", "gpt-5-mini", BEARER[:1], 401, "invalid_api_key"),
        (
            "/v1/chat/completions",
            "gpt-5-mini",
            [BEARER[0], ("authorization", "Bearer sk-a-provider's")],
            401,
            "invalid_api_key",
        ),
    ],
)
def test_common_mistakes_are_answered_as_written(
    site: VendorSite, path: str, model: str, headers: list[tuple[str, str]], status: int, said: str
) -> None:
    reply = post(site.gateway.url, path, encoded(asking(model)), headers)
    assert reply.status == status
    assert said in reply.body.decode()


@pytest.mark.parametrize("fields", [{}, {"store": False, "tools": [{"type": "web_search"}]}])
def test_responses_that_the_provider_keeps_or_searches_for_bypass(
    site: VendorSite, fields: dict[str, Any]
) -> None:
    body = {"model": "gpt-5-mini", "input": "Is it true?", **fields}
    reply = post(site.gateway.url, "/v1/responses", encoded(body), BEARER)
    assert reply.cache_status == "openclaw-cache; fwd=bypass; detail=stored-state"


@pytest.mark.parametrize(("has_own_key", "second"), [(True, HIT), (False, STORED)])
def test_keyless_clients_share_where_the_upstream_has_a_key_of_its_own(
    site: VendorSite, tmp_path: Path, has_own_key: bool, second: str
) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    config = configured(site.openai, site.anthropic)
    del config["server"]
    if not has_own_key:
        del config["upstreams"][0]["api_key_env"]
    with RunningGateway(data_dir, config, PROVIDER_KEYS) as gateway:
        statuses = []
        for key in ("sk-one", "sk-two"):
            headers = [BEARER[0], ("authorization", f"Bearer {key}")]
            body = encoded(asking("gpt-5-mini"))
            statuses.append(post(gateway.url, "/v1/chat/completions", body, headers).cache_status)
        assert statuses == [STORED, second]
        by_name = [*BEARER[:1], ("host", "gateway.example")]
        refused = post(gateway.url, "/v1/chat/completions", encoded(asking("gpt-5-mini")), by_name)
        assert refused.status == 403
        assert "keyless_loopback_only" in refused.body.decode()
