"""Who may come in: keys, namespaces, this machine only, and starts that would leave a door open."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.api.auth import Authenticator, authenticator, is_loopback, require_this_machine
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.types import Headers

HOST = (b"host", b"127.0.0.1:8800")


def refusal(peer: str | None, *headers: tuple[bytes, bytes]) -> RequestError | None:
    try:
        require_this_machine(peer, list(headers))
    except RequestError as e:
        return e
    return None


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "127.0.0.2", None])
def test_a_loopback_peer_is_this_machine(peer: str | None) -> None:
    assert refusal(peer, HOST) is None


@pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1", "192.168.1.1", "169.254.0.1", "0.0.0.0"])
def test_any_other_peer_is_not(peer: str) -> None:
    refused = refusal(peer, HOST)
    assert refused is not None
    assert refused.status == 403


@pytest.mark.parametrize(
    "host",
    [b"localhost.evil.example", b"evil.example", b"127.0.0.1.nip.io", b"127.0.0.1@evil", b"[::2]", b"0.0.0.0", b"",
     b"127.0.0.1:8800:1", b"127.1", b"2130706433", b"127.0.0.1 ", b"localhost:999999"],
)  # fmt: skip
def test_only_a_literal_loopback_host_is_taken(host: bytes) -> None:
    # A page of evil.example that rebinds its name to 127.0.0.1 still sends its own name.
    assert refusal("127.0.0.1", (b"host", host)) is not None


def test_no_host_and_two_hosts_are_refused() -> None:
    assert refusal("127.0.0.1") is not None
    assert refusal("127.0.0.1", HOST, HOST) is not None


@pytest.mark.parametrize(
    ("origin", "passes"),
    [(b"http://127.0.0.1:8800", True), (b"https://127.0.0.1:8800", True), (b"http://127.0.0.1", False),
     (b"null", False), (b"http://localhost:8800", False), (b"file://", False), (b"", False)],
)  # fmt: skip
def test_only_our_own_origin_is_taken(origin: bytes, passes: bool) -> None:
    assert (refusal("127.0.0.1", HOST, (b"origin", origin)) is None) is passes


def test_a_refusal_says_what_is_wrong_and_how_to_go_on() -> None:
    refused = refusal("127.0.0.1", HOST, (b"x-forwarded-for", b"1.2.3.4"))
    assert refused is not None
    assert "proxy" in refused.message
    assert "server.keys" in refused.message


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True), ("127.5.5.5", True),
     ("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.com", False), ("", False)],
)  # fmt: skip
def test_only_loopback_addresses_are_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def bearer(token: bytes, *more: tuple[bytes, bytes]) -> Headers:
    return [(b"authorization", b"Bearer " + token), *more]


def started(tmp_path: Path, env: dict[str, str] | None = None, **server: Any) -> Authenticator:
    overrides = {f"server.{name}": value for name, value in server.items()}
    overrides["server.data_dir"] = str(tmp_path)
    return authenticator(load(None, env={}, overrides=overrides).settings, env or {})


KEYLESS = Authenticator(None, None)
TEAM = {"key": "sk-1", "namespace": "team", "agents": ["a*"], "models": ["m-?"]}


@pytest.fixture
def keyed(tmp_path: Path) -> Authenticator:
    return started(tmp_path, keys=[TEAM])


def test_a_key_gives_its_namespace_agents_and_models_and_any_peer_may_use_it(keyed: Authenticator) -> None:
    principal = keyed.client("10.0.0.1", bearer(b"sk-1"))
    assert (principal.namespace, principal.keyed) == ("team", True)
    principal.check_model("m-1")
    principal.check_agent("abc")
    for model in ("m-10", "M-1", "m-", "*"):
        with pytest.raises(RequestError) as refused:
            principal.check_model(model)
        assert refused.value.status == 403
    for agent in (None, "b", "", "A"):
        with pytest.raises(RequestError) as refused:
            principal.check_agent(agent)
        assert refused.value.status == 403


@pytest.mark.parametrize("token", [b"", b"sk-2", b"sk-1 ", b"SK-1", b"\xff"])
def test_any_other_key_is_refused_without_repeating_it(keyed: Authenticator, token: bytes) -> None:
    if token == b"sk-1 ":
        keyed.client(None, bearer(token))  # white space at the end is no part of a credential
        return
    with pytest.raises(RequestError) as refused:
        keyed.client("127.0.0.1", bearer(token))
    assert refused.value.status == 401
    assert not token or token.decode("latin-1") not in refused.value.message


@pytest.mark.parametrize(
    ("wanted", "namespace"),
    [(b"team", "team"), (b"team/a", "team/a"), (b"team/a/b", "team/a/b"), (b"teams", None), (b"other", None),
     (b"te", None), (b"default", None)],
)  # fmt: skip
def test_a_key_narrows_its_namespace_only(keyed: Authenticator, wanted: bytes, namespace: str | None) -> None:
    headers = bearer(b"sk-1", (b"x-openclaw-namespace", wanted))
    if namespace is None:
        with pytest.raises(RequestError) as refused:
            keyed.client(None, headers)
        assert refused.value.status == 403
    else:
        assert keyed.client(None, headers).namespace == namespace


@pytest.mark.parametrize("wanted", [b"", b"/a", b"a b", b"a\x00", b"\xc3\xa9", b"x" * 129, b"*"])
def test_a_namespace_that_is_no_name_is_400(wanted: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        KEYLESS.client("127.0.0.1", [HOST, (b"x-openclaw-namespace", wanted)])
    assert refused.value.status == 400


def test_without_keys_namespaces_lie_under_the_default_one() -> None:
    for wanted, namespace in ((b"a", "default/a"), (b"default", "default"), (b"default/a", "default/a")):
        principal = KEYLESS.client("127.0.0.1", [HOST, (b"x-openclaw-namespace", wanted)])
        assert (principal.namespace, principal.keyed) == (namespace, False)


# Starts.


STRONG = {"key": "sk-" + "5f3a9c" * 8}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "cache.example"])
def test_an_address_of_other_machines_needs_both_keys(tmp_path: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=r"server\.host.*set server\.keys"):
        started(tmp_path, host=host)
    with pytest.raises(ConfigError, match=r"server\.host.*set server\.admin_key_env"):
        started(tmp_path, host=host, keys=[STRONG])
    with pytest.raises(ConfigError, match=r"server\.host.*set server\.keys"):
        started(tmp_path, {"ADMIN": "sk-admin-77"}, host=host, admin_key_env="ADMIN")
    started(tmp_path, {"ADMIN": "sk-admin-77"}, host=host, keys=[STRONG], admin_key_env="ADMIN")


@pytest.mark.parametrize("weak", ["sk-1234", "changeme", "PASSWORD", "admin"])
@pytest.mark.parametrize("where", ["key", "key_env", "key_sha256", "admin"])
def test_a_key_that_everybody_knows_is_refused_where_others_can_knock(
    tmp_path: Path, weak: str, where: str
) -> None:
    env = {"ADMIN": weak if where == "admin" else "sk-admin-77", "WEAK": weak}
    keys: dict[str, dict[str, str]] = {
        "key": {"key": weak},
        "key_env": {"key_env": "WEAK"},
        "key_sha256": {"key_sha256": hashlib.sha256(weak.lower().encode()).hexdigest()},
        "admin": STRONG,
    }
    setting = "server.admin_key_env" if where == "admin" else "server.keys.0"
    with pytest.raises(ConfigError, match="everybody knows") as refused:
        started(tmp_path, env, host="0.0.0.0", keys=[keys[where]], admin_key_env="ADMIN")
    assert str(refused.value).startswith(f"{setting}: ")
    assert weak not in str(refused.value).removeprefix(setting)


def test_the_same_key_twice_is_refused_whatever_its_form(tmp_path: Path) -> None:
    twice = [{"key": "sk-1"}, {"key_sha256": hashlib.sha256(b"sk-1").hexdigest(), "namespace": "b"}]
    with pytest.raises(ConfigError, match="twice") as refused:
        started(tmp_path, keys=twice)
    assert "sk-1" not in str(refused.value)


@pytest.mark.parametrize("value", [None, ""])
def test_a_key_that_its_variable_does_not_hold_is_refused(tmp_path: Path, value: str | None) -> None:
    env = {} if value is None else {"K": value}
    with pytest.raises(ConfigError, match=r"server\.keys\.0\.key_env.*K is not set"):
        started(tmp_path, env, keys=[{"key_env": "K"}])
    with pytest.raises(ConfigError, match=r"server\.admin_key_env.*K is not set"):
        started(tmp_path, env, admin_key_env="K")


def test_metrics_of_a_keyless_server_are_for_this_machine_and_of_a_keyed_one_for_its_network(
    keyed: Authenticator,
) -> None:
    foreign = [(b"host", b"evil.example")]
    with pytest.raises(RequestError) as refused:
        KEYLESS.observer("127.0.0.1", foreign)
    assert refused.value.status == 403
    KEYLESS.observer("127.0.0.1", [(b"host", b"127.0.0.1:8800")])
    keyed.observer("10.0.0.7", foreign)


# What a key may do.


def test_rights_are_those_of_the_key_and_all_where_none_are_named(tmp_path: Path) -> None:
    keys = [
        {"key": "k-all"},
        {"key": "k-read", "cache": ["read"]},
        {"key": "k-write", "cache": ["write"]},
        {"key": "k-none", "cache": []},
    ]
    door = started(tmp_path, keys=keys)
    found = {name: door.client(None, bearer(name)) for name in (b"k-all", b"k-read", b"k-write", b"k-none")}
    assert {name: (p.may_read, p.may_write) for name, p in found.items()} == {
        b"k-all": (True, True),
        b"k-read": (True, False),
        b"k-write": (False, True),
        b"k-none": (False, False),
    }
    assert KEYLESS.client("127.0.0.1", [HOST]).may_read
    assert KEYLESS.client("127.0.0.1", [HOST]).may_write


def test_narrowing_the_namespace_keeps_budget_rights_and_the_namespace_that_slots_count_to(
    tmp_path: Path,
) -> None:
    key = TEAM | {"cache": ["read"], "budgets": {"tokens_per_day": 5}}
    door = started(tmp_path, keys=[key])
    whole = door.client(None, bearer(b"sk-1"))
    part = door.client(None, bearer(b"sk-1", (b"x-openclaw-namespace", b"team/a")))
    assert part.budget is whole.budget is not None
    assert (part.namespace, part.tenant, whole.tenant) == ("team/a", "team", "team")
    assert (part.may_read, part.may_write, part.keyed, part.key_id) == (True, False, True, whole.key_id)
    with pytest.raises(RequestError):
        part.check_model("other")


def test_two_keys_of_one_namespace_have_budgets_of_their_own(tmp_path: Path) -> None:
    keys = [{"key": f"k-{i}", "namespace": "team", "budgets": {"requests_per_minute": 1}} for i in (1, 2)]
    door = started(tmp_path, keys=keys)
    one, two = (door.client(None, bearer(b"k-%d" % i)).budget for i in (1, 2))
    assert one is not None
    assert two is not None
    one.admit(1000.0)
    with pytest.raises(RequestError):
        one.admit(1000.0)
    two.admit(1000.0)


def test_a_key_without_budgets_has_none(tmp_path: Path) -> None:
    door = started(tmp_path, keys=[TEAM])
    assert door.client(None, bearer(b"sk-1")).budget is None
    assert KEYLESS.client("127.0.0.1", [HOST]).budget is None


def test_a_key_is_known_in_logs_by_the_beginning_of_its_hash(keyed: Authenticator) -> None:
    # printf %s sk-1 | sha256sum
    assert keyed.client(None, bearer(b"sk-1")).key_id == "0f2c10bf"
    assert KEYLESS.client("127.0.0.1", [HOST]).key_id == ""


def test_a_principal_shows_no_key(keyed: Authenticator) -> None:
    assert "sk-1" not in repr(keyed.client(None, bearer(b"sk-1")))


def test_a_variables_place_that_holds_the_key_itself_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"server\.keys\.0\.key_env") as refused:
        started(tmp_path, keys=[{"key_env": "oc-my-own-key"}])
    assert "my-own" not in str(refused.value)
