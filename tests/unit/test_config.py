"""Settings: units, layers, provenance, and errors that name the field and the remedy."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from openclaw_cache.config import describe, load
from openclaw_cache.errors import ConfigError
from openclaw_cache.units import (
    human_duration,
    human_ratio,
    human_size,
    parse_duration,
    parse_ratio,
    parse_size,
)


def loaded(text: str, tmp_path: Path, **layers: Any) -> Any:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load(file, **{"env": {}, **layers})


def refusal(text: str, tmp_path: Path, **layers: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        loaded(text, tmp_path, **layers)
    return str(refused.value)


# Units.


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("256MB", 256_000_000), ("256 MB", 256_000_000), ("1GiB", 2**30), ("1.5KiB", 1536), ("20gb", 20 * 10**9),
        ("4096", 4096), (4096, 4096), ("4096B", 4096), ("1kb", 1000), ("2TiB", 2**41), ("0", 0), ("0%", 0),
    ],
)  # fmt: skip
def test_a_size_is_read_in_decimal_and_binary_units(text: object, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


def test_a_size_may_be_a_share_of_this_machines_memory() -> None:
    total = next(
        line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal")
    )
    assert parse_size("50%") == pytest.approx(int(total.split()[1]) * 1024 / 2, rel=0.01)


@pytest.mark.parametrize(
    "text",
    ["", "MB", "-1", -1, "1 XB", "10 10", "101%", "1,5GB", True, None, [], 1.5, "nan", "inf", "9" * 400],
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a size|is not between"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86400), ("500ms", 0.5), ("1h30m", 5400), ("1h 30m", 5400), ("2d", 172800), ("1w", 604800),
        ("15m", 900), (30, 30), (0.25, 0.25), ("30", 30), ("1.5s", 1.5), ("0s", 0), (0, 0),
    ],
)  # fmt: skip
def test_a_duration_is_read_in_human_units(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "-1s",
        -1,
        "1y",
        "1h-30m",
        "10 minutes",
        True,
        None,
        float("inf"),
        float("nan"),
        "9" * 400 + "s",
    ],
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("num_bytes", [0, 1, 1000, 1024, 256_000_000, 2**30, 123_456_789, 10**12])
def test_a_shown_size_reads_back_as_the_same(num_bytes: int) -> None:
    assert parse_size(human_size(num_bytes)) == num_bytes


@pytest.mark.parametrize("seconds", [0.0, 0.05, 1.0, 61.5, 5400.0, 86400.0, 604800.0])
def test_a_shown_duration_reads_back_as_the_same(seconds: float) -> None:
    assert parse_duration(human_duration(seconds)) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("80%", 0.8), ("0.8", 0.8), (0.8, 0.8), ("12.5 %", 0.125), ("0", 0), (1, 1), ("100%", 1), ("0%", 0)],
)
def test_a_share_is_read_as_percent_or_as_a_fraction(text: object, ratio: float) -> None:
    assert parse_ratio(text) == pytest.approx(ratio)


@pytest.mark.parametrize("text", ["80", 80, "101%", "-1%", "", "%", True, None, float("nan"), "1,5%", []])
def test_what_is_no_share_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a share: write for example 80% or 0\.8"):
        parse_ratio(text)


@pytest.mark.parametrize("ratio", [0.0, 0.2, 0.8, 0.125, 1.0, 1 / 3])
def test_a_shown_share_reads_back_as_the_same(ratio: float) -> None:
    assert parse_ratio(human_ratio(ratio)) == pytest.approx(ratio)


# Layers.


def test_without_any_layer_the_documented_defaults_hold() -> None:
    settings = load(None, env={}).settings
    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8800)
    assert settings.server.data_dir == Path.home() / ".openclaw-cache"
    assert settings.store.url == "embedded"
    assert settings.store.timeout == 0.05
    assert (settings.result_cache.max_memory, settings.result_cache.ttl) == (256_000_000, 86400)
    assert (settings.result_cache.sampled, settings.result_cache.tools) == ("cache", "bypass")
    assert settings.result_cache.negative_ttl == 5
    (upstream,) = settings.upstreams
    assert (upstream.name, upstream.kind, upstream.model) == ("local", "embedded", "smollm2-135m")


def test_command_line_beats_environment_beats_file_beats_default_and_each_value_says_so(
    tmp_path: Path,
) -> None:
    text = "server: {host: 127.0.0.2, port: 1, body_timeout: 5s}\n"
    env = {"OPENCLAW_CACHE_SERVER__HOST": "127.0.0.3", "OPENCLAW_CACHE_SERVER__PORT": "2"}
    known = loaded(text, tmp_path, env=env, overrides={"server.host": "127.0.0.4"})
    server = known.settings.server
    assert (server.host, server.port, server.body_timeout, server.ping_interval) == ("127.0.0.4", 2, 5.0, 1.0)
    sources = {field: source for field, _, source in describe(known)}
    assert sources["server.host"] == "command line"
    assert sources["server.port"] == "env OPENCLAW_CACHE_SERVER__PORT"
    assert sources["server.body_timeout"] == f"file {tmp_path / 'config.yaml'}"
    assert sources["server.ping_interval"] == "default"


def test_lists_mappings_and_null_are_written_in_yaml_in_the_environment() -> None:
    env = {
        "OPENCLAW_CACHE_RESULT_CACHE__IGNORE": "[user]",
        "OPENCLAW_CACHE_UPSTREAMS": "[{name: pods, kind: openai, urls: ['http://10.0.0.1:8000']}]",
        "OPENCLAW_CACHE_SERVER__SECRET_FILE": "null",
        "OPENCLAW_CACHE_RESULT_CACHE__ENABLED": "false",
    }
    settings = load(None, env=env).settings
    assert settings.result_cache.ignore == ["user"]
    assert [u.url for u in settings.upstreams[0].urls] == ["http://10.0.0.1:8000"]
    assert settings.server.secret_file is None
    assert settings.result_cache.enabled is False


def test_the_commands_own_variables_are_no_settings() -> None:
    env = {
        f"OPENCLAW_CACHE_{name}": "x" for name in ("URL", "ADMIN_KEY", "KEY", "AGENT", "CONFIG", "TEST_DATA")
    }
    load(None, env=env)


def test_every_setting_is_shown_and_what_is_shown_can_be_read_again(tmp_path: Path) -> None:
    known = load(None, env={}, overrides={"server.max_body": "1MiB", "result_cache.ttl": "1h30m"})
    shown = {field: value for field, value, _ in describe(known)}
    assert (shown["server.max_body"], shown["result_cache.ttl"]) == ("1MiB", "1h30m")
    assert (shown["result_cache.max_memory"], shown["memory.half_life"]) == ("256MB", "720h")
    env = {f"OPENCLAW_CACHE_{field.replace('.', '__').upper()}": value for field, value in shown.items()}
    assert load(None, env=env).settings == known.settings


def test_an_empty_file_and_empty_sections_are_no_error(tmp_path: Path) -> None:
    assert loaded("", tmp_path).settings == loaded("server:\nstore:\n# nothing\n", tmp_path).settings


# Errors.


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("servr: {}", "servr", "server"),
        ("server: {prot: 1}", "server.prot", "server.port"),
        ("result_cache: {max_mem: 1MB}", "result_cache.max_mem", "result_cache.max_memory"),
        ("upstreams: [{name: a, kind: openai, url: [x]}]", "upstreams.0.url", "urls"),
        ("server: {keys: [{key: k, namespaces: a}]}", "server.keys.0.namespaces", "namespace"),
        ("semantic_cash: {}", "semantic_cash", "semantic_cache"),
        ("routing: {}", "routing", "known are"),  # a section of a part that is not built yet
    ],
)
def test_a_typo_in_the_file_names_the_field_and_the_nearest_right_one(
    tmp_path: Path, text: str, wrong: str, right: str
) -> None:
    message = refusal(text, tmp_path)
    assert wrong in message
    assert right in message
    assert "config.yaml" in message


def test_a_typo_in_the_environment_names_the_variable_and_the_nearest_right_one() -> None:
    with pytest.raises(ConfigError, match=r"SERVER__PROT.*did you mean 'OPENCLAW_CACHE_SERVER__PORT'"):
        load(None, env={"OPENCLAW_CACHE_SERVER__PROT": "1"})


def test_a_typo_on_the_command_line_names_the_field_and_the_nearest_right_one() -> None:
    with pytest.raises(ConfigError, match=r"command line.*'store.ulr'.*did you mean 'store.url'"):
        load(None, env={}, overrides={"store.ulr": "x"})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("server: {port: 70000}", ["server.port", "65535"]),
        ("server: {port: eighty}", ["server.port", "integer"]),
        ("server: {max_body: lots}", ["server.max_body", "256MB"]),
        ("server: {max_body: 0}", ["server.max_body"]),
        ("result_cache: {ttl: forever}", ["result_cache.ttl", "24h"]),
        ("result_cache: {ttl: .inf}", ["result_cache.ttl", "24h"]),
        ("result_cache: {tools: maybe}", ["result_cache.tools", "bypass"]),
        ("result_cache: {negative_ttl: 2m}", ["result_cache.negative_ttl", "60"]),
        ("result_cache: {ignore: [temperature]}", ["result_cache.ignore"]),
        ("upstreams: []", ["upstreams", "at least one"]),
        ("upstreams: [{name: a, kind: openai}]", ["upstreams.0", "urls"]),
        ("upstreams: [{name: a, kind: embedded}]", ["upstreams.0", "model"]),
        ("upstreams: [{name: a, kind: vllm, urls: [http://x]}]", ["upstreams.0.kind", "openai"]),
        ("upstreams: [{name: a b, kind: openai, urls: [http://x]}]", ["upstreams.0.name"]),
        ("upstreams: [{name: a, kind: openai, urls: [x:8000]}]", ["upstreams.0", "http"]),
        ("upstreams: [{name: a, kind: openai, urls: ['http://x?a=1']}]", ["upstreams.0", "http"]),
        ("server: {keys: [{key: k, key_env: K}]}", ["server.keys.0", "exactly one"]),
        ("server: {keys: [{namespace: a}]}", ["server.keys.0", "exactly one"]),
        ("server: {keys: [{key: ''}]}", ["server.keys.0.key"]),
        ("server: {keys: [{key: k, namespace: '*'}]}", ["server.keys.0.namespace"]),
        ("server: 7", ["server", "mapping"]),
        ("- a\n- b", ["mapping"]),
        ("server: {port: 1, port: 2}", ["port", "twice"]),
        ("server: {port: 1}\nserver: {host: x}", ["server", "twice"]),
        ("server: {port: [", ["not valid YAML", "line "]),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_field_and_what_would_be_right(
    tmp_path: Path, text: str, parts: list[str]
) -> None:
    message = refusal(text, tmp_path)
    for part in [*parts, "config.yaml"]:
        assert part in message


def test_two_upstreams_of_one_name_are_refused(tmp_path: Path) -> None:
    one = {"name": "a", "kind": "openai", "urls": ["http://x"]}
    assert "'a' is used twice" in refusal(yaml.safe_dump({"upstreams": [one, one]}), tmp_path)


def test_a_wrong_value_in_the_environment_names_its_variable() -> None:
    with pytest.raises(ConfigError, match=r"env OPENCLAW_CACHE_SERVER__PORT: server.port"):
        load(None, env={"OPENCLAW_CACHE_SERVER__PORT": "eighty"})
    with pytest.raises(ConfigError, match=r"OPENCLAW_CACHE_UPSTREAMS is not valid YAML"):
        load(None, env={"OPENCLAW_CACHE_UPSTREAMS": "[{"})


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.yaml"):
        load(tmp_path / "absent.yaml", env={})
    (tmp_path / "latin.yaml").write_bytes(b"server: {host: \xff}")
    with pytest.raises(ConfigError, match=r"latin.yaml"):
        load(tmp_path / "latin.yaml", env={})


# Secrets.

SECRET = "sk-never-to-be-seen-4711"


def test_no_key_or_password_is_shown(tmp_path: Path) -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    text = f"""
server: {{keys: [{{key: {SECRET}, namespace: a}}, {{key_sha256: {digest}}}, {{key_env: NAME_OF_VARIABLE}}]}}
store: {{url: 'redis://user:{SECRET}@10.0.0.1:6379/0'}}
"""
    known = loaded(text, tmp_path)
    shown = "\n".join(" ".join(row) for row in describe(known))
    assert SECRET not in shown
    assert digest not in shown
    assert "namespace: a" in shown
    assert "NAME_OF_VARIABLE" in shown
    assert "10.0.0.1:6379" in shown
    assert SECRET not in repr(known.settings)


@pytest.mark.parametrize(
    "text",
    [
        f"server: {{keys: [{{key: {SECRET}, key_env: X}}]}}",
        f"server: {{keys: [{{key: {SECRET}, namespace: '*'}}]}}",
        f"server: {{keys: [{{key: {SECRET}, nmespace: a}}]}}",
        f"server: {{keys: [{{key_sha256: {SECRET}}}]}}",
        f"server: {{keys: {SECRET}}}",
        f"server: {{keys: [{{key: {SECRET}",
        f"server: {{keys: [{{key: *{SECRET}}}]}}",
        f"upstreams: [{{name: a, kind: openai, urls: ['http://user:{SECRET}@10.0.0.1']}}]",
        f"upstreams: [{{name: a, kind: openai, urls: ['http://10.0.0.1/?key={SECRET}']}}]",
    ],
)
def test_no_error_repeats_a_key_or_password(tmp_path: Path, text: str) -> None:
    assert SECRET not in refusal(text, tmp_path)


def test_a_setting_at_the_top_level_is_told_its_section(tmp_path: Path) -> None:
    file = tmp_path / "misplaced.yaml"
    file.write_text("data_dir: /tmp/x\n")
    with pytest.raises(ConfigError, match=r"unknown section 'data_dir': did you mean 'server.data_dir'\?"):
        load(file, env={})
