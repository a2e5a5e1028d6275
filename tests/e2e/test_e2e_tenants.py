"""Tenants of a real gateway process: what nobody ever sees, what an administrator does, and the KV of each."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support import anthropic_upstream, openai_upstream
from support.every_api import CHAT, COUNT_TOKENS, EMBEDDINGS, MESSAGES, RESPONSES, Api
from support.raw_http import RawReply, encoded, post
from support.running import RunningGateway
from support.vendor_upstream import VendorReply, VendorUpstream

ALPHA, BETA, GAMMA, ADMIN = (
    "sk-alpha-9f1c44d07b",
    "sk-beta-27ab90e5d3",
    "sk-gamma-51e0c7f2aa",
    "adm-8c2f6b19e4",
)
OPENAI_KEY, ANTHROPIC_KEY, VISITOR = "sk-oa-operator-774", "sk-ant-operator-319", "sk-visitor-never-known"
ENCRYPTION_KEY = base64.b64encode(hashlib.sha256(b"a random key").digest()).decode()
PROMPT = "The heron's nest is under the seventh willow"
ENV = {
    "BETA_KEY": BETA, "ADMIN_KEY": ADMIN, "OA_KEY": OPENAI_KEY, "ANT_KEY": ANTHROPIC_KEY,
    "STORE_KEYS": f"k1:{ENCRYPTION_KEY}",
}  # fmt: skip
APIS = (CHAT, RESPONSES, MESSAGES, COUNT_TOKENS, EMBEDDINGS)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway with tenants, and the two upstreams behind it."""

    gateway: RunningGateway
    openai: VendorUpstream
    anthropic: VendorUpstream
    keys_file: Path

    @property
    def config(self) -> Path:
        """The file that the gateway was started with."""
        data_dir = self.gateway.data_dir
        return data_dir.with_name(data_dir.name + ".yaml")

    def ask(
        self, api: Api, key: str, prompt: str = PROMPT, *more: tuple[str, str], **fields: Any
    ) -> RawReply:
        headers = [("content-type", "application/json"), ("authorization", f"Bearer {key}"), *more]
        return post(self.gateway.url, api.path, encoded(api.body(prompt, **fields)), headers)

    def get(self, path: str, key: str | None = ADMIN) -> str:
        request = urllib.request.Request(self.gateway.url + path)
        if key is not None:
            request.add_header("authorization", f"Bearer {key}")
        with urllib.request.urlopen(request, timeout=30) as reply:
            text: str = reply.read().decode()
            return text

    def run(self, *args: str, key: str = ADMIN) -> subprocess.CompletedProcess[str]:
        """The command line, against this gateway."""
        return subprocess.run(
            [sys.executable, "-m", "openclaw_cache", *args],
            capture_output=True, text=True, timeout=60, check=False,
            env=ENV | {"OPENCLAW_CACHE_ADMIN_KEY": key, "OPENCLAW_CACHE_URL": self.gateway.url, "HOME": "/nowhere"},
        )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("tenants")
    (folder / "data").mkdir()
    keys_file = folder / "keys.json"
    keys_file.write_text(json.dumps([{"key_sha256": digest(GAMMA), "namespace": "gamma"}]))
    with openai_upstream.openai_upstream() as openai, anthropic_upstream.anthropic_upstream() as anthropic:
        config = {
            "server": {
                "admin_key_env": "ADMIN_KEY",
                "keys": [{"key": ALPHA, "namespace": "alpha"}, {"key_env": "BETA_KEY", "namespace": "beta"}],
                "keys_file": str(keys_file),
            },
            "upstreams": [
                {"name": "oa", "kind": "openai", "urls": [openai.url], "models": ["gpt-*"], "api_key_env": "OA_KEY"},
                {"name": "an", "kind": "anthropic", "urls": [anthropic.url], "models": ["claude-*"],
                 "api_key_env": "ANT_KEY", "cache_hints": "auto"},
            ],
            "result_cache": {"encryption_key_env": "STORE_KEYS", "screen": ["secrets"]},
        }  # fmt: skip
        with RunningGateway(folder / "data", config, ENV) as gateway:
            yield Site(gateway, openai, anthropic, keys_file)


# What is never shown.

SECRETS = [ALPHA, BETA, GAMMA, ADMIN, OPENAI_KEY, ANTHROPIC_KEY, VISITOR, ENCRYPTION_KEY]
SECRETS += [digest(key) for key in (ALPHA, BETA, GAMMA, ADMIN)]


def found_in(text: str, told: list[str]) -> list[str]:
    """Those of the texts that stand there, as they are or in JSON's escapes."""
    return [one for one in told if one in text or json.dumps(one)[1:-1] in text]


def stir(site: Site) -> list[str]:
    """All kinds of traffic; returns what prompts and replies said."""
    said = [PROMPT]
    for key in (ALPHA, BETA, GAMMA):
        for api in APIS:
            assert site.ask(api, key).status == 200
            assert site.ask(api, key).headers["cache-status"] == "openclaw-cache; hit; detail=exact"
            if api.can_stream:
                assert site.ask(api, key, PROMPT + ".", stream=True).status == 200
    said += [openai_upstream.text_for(CHAT.body(PROMPT)).strip().splitlines()[0]]
    said += [anthropic_upstream.text_for(MESSAGES.body(PROMPT)).strip().splitlines()[0]]
    assert site.ask(CHAT, VISITOR).status == 401
    assert site.ask(CHAT, ALPHA, model="nobody").status == 404
    assert site.ask(CHAT, ALPHA, model="gpt-none").status == 404
    assert site.ask(CHAT, ALPHA, PROMPT, ("x-openclaw-namespace", "beta")).status == 403
    assert site.ask(MESSAGES, ALPHA, model="gpt-heron").status == 400
    assert site.ask(CHAT, ALPHA, f"my key is {OPENAI_KEY}").status == 200
    echoes = openai_upstream.failure(400, f"cannot read: {PROMPT}", code="bad")
    site.openai.answer_next(echoes)
    assert site.ask(CHAT, ALPHA, PROMPT + "?").status == 400
    site.openai.answer_next(VendorReply({"said": PROMPT, "is": "no reply"}))
    site.ask(CHAT, ALPHA, PROMPT + "?!")
    headers = [("content-type", "application/json"), ("authorization", f"Bearer {ALPHA}")]
    broken = f'{{"model": "gpt-heron", "messages": [{{"role": "user", "content": "{PROMPT}"'.encode()
    assert post(site.gateway.url, CHAT.path, broken, headers).status == 400
    with pytest.raises(urllib.error.HTTPError, match="401"):
        site.get("/admin/status", VISITOR)
    assert site.run("evict", "--type", "result", "--pattern", PROMPT[:5] + "*nobody*").returncode == 0
    return said


def test_no_log_metric_status_or_file_but_the_config_tells_a_key_or_what_was_said(site: Site) -> None:
    said = stir(site)
    told = SECRETS + said
    assert found_in(site.gateway.log(), told) == []
    for path in ("/admin/status", "/metrics", "/openapi.json", "/readyz", "/healthz"):
        assert found_in(site.get(path), told) == [], path
    for command in (["status"], ["status", "--json"]):
        shown = site.run(*command)
        assert shown.returncode == 0, shown.stderr
        assert found_in(shown.stdout + shown.stderr, told) == []
    # The counts of tokens by key are filed under the keys' digests (256-bit keys cannot be found from them).
    files = [
        file for file in site.gateway.data_dir.rglob("*") if file.is_file() and file.name != "budgets.json"
    ]
    assert any(file.suffix == ".aof" or "aof" in file.name for file in files), files
    for file in files:
        assert found_in(file.read_bytes().decode("latin-1"), told) == [], file
    # So the check can fail: the secrets and the words are where they belong.
    assert ALPHA in site.config.read_text()
    assert any(PROMPT in call.raw.decode() for call in site.openai.calls)
    assert {call.header("authorization") for call in site.openai.calls} == {f"Bearer {OPENAI_KEY}"}
    assert {call.header("x-api-key") for call in site.anthropic.calls} == {ANTHROPIC_KEY}


def test_print_config_masks_keys_in_both_of_its_forms(site: Site) -> None:
    for more in ([], ["--json"]):
        shown = site.run("serve", "--config", str(site.config), "--print-config", *more)
        assert shown.returncode == 0, shown.stderr
        assert "alpha" in shown.stdout
        assert "***" in shown.stdout
        assert found_in(shown.stdout + shown.stderr, SECRETS) == []


def test_status_names_keys_by_eight_digits_of_their_hash_only(site: Site) -> None:
    site.ask(CHAT, ALPHA)
    lines = [line for line in site.gateway.requests_logged() if line.get("namespace") == "alpha"]
    assert {line["key"] for line in lines} == {digest(ALPHA)[:8]}
    keys = json.loads(site.get("/admin/status"))["keys"]
    assert (keys["keyed"], keys["num_keys"], keys["keys_file"]["num_keys"]) == (True, 3, 1)


# What an administrator does.


def test_without_the_admin_key_nobody_administers_not_even_a_tenant(site: Site) -> None:
    for key in (ALPHA, VISITOR, None):
        for path in ("/admin/status", "/admin/tree"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                site.get(path, key)
            assert refused.value.code == 401
            assert json.loads(refused.value.read())["error"]["code"] == "invalid_admin_key"
    assert site.run("evict", "--type", "result", "--pattern", "*", key=ALPHA).returncode != 0
    assert site.ask(CHAT, ADMIN).status == 401  # and who administers is no tenant


def test_evict_with_a_namespace_leaves_the_others_alone(site: Site) -> None:
    prompt = "Which willow?"
    for key in (ALPHA, BETA):
        site.ask(CHAT, key, prompt)
    ordered = ["evict", "--type", "result", "--pattern", f"*{prompt}*", "--namespace", "alpha", "--json"]
    told = site.run(*ordered)
    assert (told.returncode, json.loads(told.stdout)["num_matched"]) == (0, 1), told.stderr
    num_calls = len(site.openai.calls)
    assert "hit" in site.ask(CHAT, BETA, prompt).headers["cache-status"]
    assert "fwd=miss" in site.ask(CHAT, ALPHA, prompt).headers["cache-status"]
    assert len(site.openai.calls) == num_calls + 1


def test_a_new_key_is_let_in_and_a_revoked_one_is_refused_while_the_server_runs(site: Site) -> None:
    made = site.run("key", "--namespace", "delta", "--json")
    assert made.returncode == 0, made.stderr
    new = json.loads(made.stdout)
    key = new["key"]
    assert site.ask(CHAT, GAMMA).status == 200
    draft = site.keys_file.with_suffix(".new")
    draft.write_text(json.dumps([{"key_sha256": digest(key), "namespace": "delta"}]))
    draft.replace(site.keys_file)
    deadline = time.monotonic() + 20
    while (site.ask(CHAT, GAMMA).status, site.ask(CHAT, key).status) != (401, 200):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert site.ask(CHAT, ALPHA).status == 200
    assert found_in(site.gateway.log(), [key, digest(key)]) == []


# The KV of the embedded engine.

FACTS = " ".join(f"Nest number {i} holds {3 * i} eggs." for i in range(30))


@pytest.fixture(scope="module")
def engine(fresh_data_dir: Callable[[], Path]) -> Iterator[RunningGateway]:
    """The embedded model behind two tenants."""
    keys = [{"key": ALPHA, "namespace": "alpha"}, {"key": BETA, "namespace": "beta"}]
    kv = {"device": "200MB", "host": "0", "disk": "0", "preallocation": "0"}
    with RunningGateway(fresh_data_dir(), {"server": {"keys": keys}, "kv_cache": kv}) as gateway:
        yield gateway


@pytest.mark.model
def test_no_namespace_computes_on_anothers_kv(engine: RunningGateway) -> None:
    def cached_tokens(question: str, key: str, *more: tuple[str, str]) -> tuple[int, int]:
        messages = [{"role": "system", "content": FACTS}, {"role": "user", "content": question}]
        body = {"model": "smollm2-135m", "messages": messages, "max_tokens": 4}
        headers = [("content-type", "application/json"), ("authorization", f"Bearer {key}"), *more]
        told = post(engine.url, CHAT.path, encoded(body), headers).json()["usage"]
        return told["prompt_tokens_details"]["cached_tokens"], told["prompt_tokens"]

    assert cached_tokens("Which nest is the fullest?", ALPHA)[0] == 0
    cached, prompt = cached_tokens("Which nest is empty?", ALPHA)
    assert cached > prompt - 64  # its own: all but the question, and the block that it begins in
    assert cached_tokens("Which nest is empty, then?", BETA)[0] == 0
    assert cached_tokens("Which nest is full?", BETA)[0] > 0
    narrowed = ("x-openclaw-namespace", "alpha/x")
    assert cached_tokens("Which nest is it?", ALPHA, narrowed)[0] == 0
    # The engine takes no namespace from a client: what is sent as one goes nowhere.
    forged = ("x-openclaw-kv-salt", "00" * 16)
    assert cached_tokens("Which nest was it?", ALPHA, forged)[0] > prompt - 64


@pytest.mark.model
def test_the_embedded_model_is_listed_for_clients_of_the_api_that_it_speaks(engine: RunningGateway) -> None:
    def listed(**headers: str) -> list[str]:
        request = urllib.request.Request(
            f"{engine.url}/v1/models", headers={"authorization": f"Bearer {ALPHA}"}
        )
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return [model["id"] for model in json.loads(reply.read())["data"]]

    assert "smollm2-135m" in listed()
    assert listed(anthropic_version="2023-06-01") == []
