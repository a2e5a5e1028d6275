"""The key file: what it may say, and how it says what is wrong without repeating a key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.api.key_rules import KeyRules
from openclaw_cache.api.keys_file import KeysFile
from openclaw_cache.api.new_key import new_key
from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import NAME_PATTERN, ApiKey, Budgets
from openclaw_cache.yaml_text import load_yaml

# printf %s oc-a | sha256sum
A = "4ec7340caf78fcc55c8287859fc416e70140554c41d75a403c2901f80ad484e8"
B = hashlib.sha256(b"oc-b").hexdigest()
SECRET = "oc-Zt9-secret-9tZ"


def read(path: Path, text: str, *, weak: bool = False, **env: str) -> dict[bytes, ApiKey]:
    path.write_text(text)
    return KeysFile(path, KeyRules(env, refuses_weak=weak), {}).load()


def refusal(path: Path, text: str, *, weak: bool = False, **env: str) -> str:
    with pytest.raises(ConfigError) as refused:
        read(path, text, weak=weak, **env)
    message = str(refused.value)
    assert message.startswith(f"server.keys_file: {path}")
    return message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.yaml"


ENTRIES = [
    {
        "key_sha256": A,
        "namespace": "team-a",
        "models": ["gpt-*"],
        "agents": ["main"],
        "cache": ["read"],
        "budgets": {"tokens_per_day": 1_000_000, "max_concurrent": 4},
    },
    {"key_sha256": B.upper()},
]


@pytest.mark.parametrize("write", [yaml.safe_dump, json.dumps])
@pytest.mark.parametrize("shape", [lambda entries: entries, lambda entries: {"keys": entries}])
def test_a_list_of_keys_is_read_from_yaml_and_json_bare_or_under_keys(
    path: Path, write: Any, shape: Any
) -> None:
    keys = read(path, write(shape(ENTRIES)))
    first, second = keys[bytes.fromhex(A)], keys[bytes.fromhex(B)]
    assert (first.namespace, first.models, first.agents) == ("team-a", ["gpt-*"], ["main"])
    assert first.cache == ["read"]
    assert first.budgets == Budgets(tokens_per_day=1_000_000, max_concurrent=4)
    assert (second.namespace, second.cache, second.budgets) == ("default", ["read", "write"], Budgets())


@pytest.mark.parametrize("text", ["", "\n", "# none yet\n", "[]", "keys:", "keys: []"])
def test_a_file_without_keys_has_none(path: Path, text: str) -> None:
    assert read(path, text) == {}


def test_a_key_may_stand_in_a_variable(path: Path) -> None:
    assert list(read(path, "- key_env: K", K="oc-b")) == [bytes.fromhex(B)]


def test_a_plain_key_is_refused_and_the_message_says_how_to_hash_it(path: Path) -> None:
    message = refusal(path, f"- key_sha256: {A}\n- key: {SECRET}")
    assert "entry 2.key: " in message
    assert "key_sha256" in message
    assert "sha256sum" in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (f"- {{key_sha265: {SECRET}}}", ["entry 1: unknown field", "did you mean 'key_sha256'?"]),
        (f"- {{{SECRET}: a}}", ["entry 1: unknown field", "known are key_sha256"]),
        (f"- {{key_sha256: {A}, {SECRET}: 1}}", ["entry 1: unknown field"]),
        (f"- {{key_sha256: {A}, budgets: {{tokens_per_dya: 1}}}}", ["entry 1", "did you mean 'tokens_per_day'?"]),
        (f"- key_sha256: {SECRET}", ["entry 1.key_sha256: "]),
        (f"- key_sha256: {A[:-1]}", ["entry 1.key_sha256: "]),
        (f"- {{key_sha256: {A}, namespace: '{SECRET} *'}}", ["entry 1.namespace: "]),
        (f"- {{key_sha256: {A}, cache: [{SECRET}]}}", ["entry 1.cache.0: ", "'read' or 'write'"]),
        (f"- {{key_sha256: {A}, budgets: {{tokens_per_day: 0}}}}", ["entry 1.budgets.tokens_per_day: "]),
        (f"- {{key_sha256: {A}, key_env: {SECRET}}}", ["entry 1: ", "exactly one"]),
        ("- {namespace: a}", ["entry 1: ", "exactly one"]),
        (f"- key_env: {SECRET}", ["entry 1.key_env: ", "is not set"]),
        ("- key_env: NOT_THERE", ["entry 1.key_env: ", "NOT_THERE is not set"]),
        (f"- {SECRET}", ["entry 1: must be a mapping"]),
        ("- 1: a", ["entry 1: "]),
        (f"{SECRET}: {{namespace: a}}", ["a list of keys"]),
        (f"keys: []\n{SECRET}: a", ["a list of keys"]),
        (f"keys: {SECRET}", ["a list of keys"]),
        (SECRET, ["a list of keys"]),
        (f"- {{key_sha256: {A}}}\n- {{key_sha256: {A.upper()}}}", ["entry 2: the same key stands in entry 1 too"]),
        (f"- {{{SECRET}: a\n- b", ["line ", "not valid YAML"]),
        (f"- {{{SECRET}: a, {SECRET}: b}}", ["line 1", "given twice"]),
        (f"- !{SECRET} a", ["line 1", "not valid YAML"]),
        (f"- *{SECRET}", ["line 1", "not valid YAML"]),
        ("- {namespace: a, namespace: b}", ["line 1", "the key 'namespace' is given twice"]),
        ("- 2024-13-45", ["not valid YAML"]),
        ("- !!bool x", ["not valid YAML"]),
        ("[" * 5000, ["not valid YAML", "nest"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_entry_and_field_and_never_by_what_stands_there(
    path: Path, text: str, parts: list[str]
) -> None:
    message = refusal(path, text)
    assert all(part in message for part in parts), message
    assert SECRET not in message
    assert A[:8] not in message.lower().removeprefix(str(path))


def test_a_key_that_stands_in_the_settings_may_not_stand_in_the_file_too(path: Path) -> None:
    path.write_text(f"- key_sha256: {A}")
    file = KeysFile(path, KeyRules({}, refuses_weak=False), {bytes.fromhex(A): "server.keys.3"})
    with pytest.raises(ConfigError, match=r"entry 1: the same key stands in server\.keys\.3 too"):
        file.load()


@pytest.mark.parametrize("entry", ["key_env: K", f"key_sha256: {hashlib.sha256(b'changeme').hexdigest()}"])
def test_a_key_that_everybody_knows_is_refused_where_others_can_knock(path: Path, entry: str) -> None:
    assert "entry 1: a key that everybody knows" in refusal(path, f"- {entry}", weak=True, K="ChangeMe")
    assert len(read(path, f"- {entry}", K="ChangeMe")) == 1


def test_a_file_that_is_missing_a_folder_too_large_or_not_text_is_refused(path: Path) -> None:
    file = KeysFile(path, KeyRules({}, refuses_weak=False), {})
    with pytest.raises(ConfigError, match="cannot read it: No such file"):
        file.load()
    path.mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        file.load()
    path.rmdir()
    path.write_bytes(b"- namespace: \xff\n")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        file.load()
    path.write_text("#" * 8_000_001)
    with pytest.raises(ConfigError, match="larger than 8000000 bytes"):
        file.load()


# New keys.


@given(namespace=st.from_regex(NAME_PATTERN, fullmatch=True))
def test_the_line_of_a_new_key_lets_that_key_into_that_namespace(namespace: str) -> None:
    key, line = new_key(namespace)
    assert key.startswith("oc-")
    assert key not in line
    assert "\n" not in line
    [entry] = load_yaml(line, "line")
    read_back = ApiKey.model_validate(entry)
    assert read_back.namespace == namespace
    assert read_back.key_sha256 == hashlib.sha256(key.encode()).hexdigest()


@pytest.mark.parametrize("namespace", ["123", "true", "null", "1e3", "12:30", "2024-01-01", "0x1", "y"])
def test_a_namespace_that_yaml_would_take_for_something_else_is_quoted(path: Path, namespace: str) -> None:
    _, line = new_key(namespace)
    assert [key.namespace for key in read(path, line).values()] == [namespace]


def test_new_keys_differ_and_have_256_bits() -> None:
    keys = {new_key("a")[0] for _ in range(100)}
    assert len(keys) == 100
    # 32 bytes are 43 characters of base64url without padding (RFC 4648, section 5).
    assert {len(key.removeprefix("oc-")) for key in keys} == {43}


@pytest.mark.parametrize("namespace", ["", "a b", "*", "/a", "a\n", "x" * 129])
def test_no_key_is_made_for_what_is_no_namespace(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        new_key(namespace)
