"""Who may come in: keys, namespaces, this machine only, and starts that would leave a door open."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.api.auth import Authenticator, Principal, is_loopback, require_this_machine
from openclaw_cache.app import _authenticator
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.types import Headers, Namespace

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


KEYED = Authenticator(
    {hashlib.sha256(b"sk-1").digest(): Principal(Namespace("team"), True, ("a*",), ("m-?",))}, admin_key=None
)


def bearer(token: bytes, *more: tuple[bytes, bytes]) -> Headers:
    return [(b"authorization", b"Bearer " + token), *more]


def test_a_key_gives_its_namespace_agents_and_models_and_any_peer_may_use_it() -> None:
    principal = KEYED.client("10.0.0.1", bearer(b"sk-1"))
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
def test_any_other_key_is_refused_without_repeating_it(token: bytes) -> None:
    if token == b"sk-1 ":
        KEYED.client(None, bearer(token))  # white space at the end is no part of a credential
        return
    with pytest.raises(RequestError) as refused:
        KEYED.client("127.0.0.1", bearer(token))
    assert refused.value.status == 401
    assert not token or token.decode("latin-1") not in refused.value.message


@pytest.mark.parametrize(
    ("wanted", "namespace"),
    [(b"team", "team"), (b"team/a", "team/a"), (b"team/a/b", "team/a/b"), (b"teams", None), (b"other", None),
     (b"te", None), (b"default", None)],
)  # fmt: skip
def test_a_key_narrows_its_namespace_only(wanted: bytes, namespace: str | None) -> None:
    headers = bearer(b"sk-1", (b"x-openclaw-namespace", wanted))
    if namespace is None:
        with pytest.raises(RequestError) as refused:
            KEYED.client(None, headers)
        assert refused.value.status == 403
    else:
        assert KEYED.client(None, headers).namespace == namespace


@pytest.mark.parametrize("wanted", [b"", b"/a", b"a b", b"a\x00", b"\xc3\xa9", b"x" * 129, b"*"])
def test_a_namespace_that_is_no_name_is_400(wanted: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        Authenticator({}, None).client("127.0.0.1", [HOST, (b"x-openclaw-namespace", wanted)])
    assert refused.value.status == 400


def test_without_keys_namespaces_lie_under_the_default_one() -> None:
    keyless = Authenticator({}, None)
    for wanted, namespace in ((b"a", "default/a"), (b"default", "default"), (b"default/a", "default/a")):
        principal = keyless.client("127.0.0.1", [HOST, (b"x-openclaw-namespace", wanted)])
        assert (principal.namespace, principal.keyed) == (namespace, False)


# Starts.


def started(tmp_path: Path, env: dict[str, str] | None = None, **server: Any) -> Authenticator:
    overrides = {f"server.{name}": value for name, value in server.items()}
    overrides["server.data_dir"] = str(tmp_path)
    return _authenticator(load(None, env={}, overrides=overrides).settings, env or {})


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
    with pytest.raises(ConfigError, match="everybody knows") as refused:
        started(tmp_path, env, host="0.0.0.0", keys=[keys[where]], admin_key_env="ADMIN")
    assert weak not in str(refused.value)


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


def test_metrics_of_a_keyless_server_are_for_this_machine_and_of_a_keyed_one_for_its_network() -> None:
    foreign = [(b"host", b"evil.example")]
    with pytest.raises(RequestError) as refused:
        Authenticator({}, None).observer("127.0.0.1", foreign)
    assert refused.value.status == 403
    Authenticator({}, None).observer("127.0.0.1", [(b"host", b"127.0.0.1:8800")])
    keys = {b"digest": Principal(Namespace("n"), True)}
    Authenticator(keys, None).observer("10.0.0.7", foreign)
