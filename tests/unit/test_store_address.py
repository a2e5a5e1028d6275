"""store.url: each form, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.errors import ConfigError
from openclaw_cache.store.address import Address, is_cluster, parse_seeds, parse_url


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://cache", Address(host="cache", port=6379, db=0)),
        ("valkey://cache:7000/2", Address(host="cache", port=7000, db=2)),
        ("REDIS://cache/", Address(host="cache")),
        ("redis://:p%40ss%2Fword@cache", Address(host="cache", password="p@ss/word")),
        ("redis://me:secret@cache/1", Address(host="cache", db=1, user="me", password="secret")),
        ("redis://me@cache", Address(host="cache", user="me")),
        ("redis://[::1]:7000", Address(host="::1", port=7000)),
        ("unix:///run/valkey.sock", Address(path="/run/valkey.sock")),
        ("unix:///run/a%20b%25.sock?db=4", Address(path="/run/a b%.sock", db=4)),
        ("unix://me:secret@/run/valkey.sock", Address(path="/run/valkey.sock", user="me", password="secret")),
    ],
)
def test_each_form_is_read(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize("scheme", ["rediss", "valkeys", "REDISS"])
def test_the_forms_with_an_s_are_tls_and_the_others_are_not(scheme: str) -> None:
    assert parse_url(f"{scheme}://me:p%40ss@cache/2") == Address(
        host="cache", db=2, tls=True, user="me", password="p@ss"
    )
    assert not parse_url("redis://cache").tls
    assert not parse_url("unix:///run/valkey.sock").tls


@pytest.mark.parametrize(
    ("url", "seeds"),
    [
        ("redis+cluster://a", [Address(host="a")]),
        ("valkey+cluster://a:7000,b,c:7002", [Address("a", 7000), Address("b"), Address("c", 7002)]),
        ("REDIS+CLUSTER://a,[::1]:7001/", [Address("a"), Address("::1", 7001)]),
        ("rediss+cluster://a,b/0", [Address("a", tls=True), Address("b", tls=True)]),
        ("valkeys+cluster://a", [Address("a", tls=True)]),
        (
            "redis+cluster://me:s%2Ce%40@a,b:1",
            [Address("a", user="me", password="s,e@"), Address("b", 1, user="me", password="s,e@")],
        ),
        ("redis+cluster://a,a:6379", [Address("a")]),
    ],
)
def test_a_cluster_is_read_as_its_seeds(url: str, seeds: list[Address]) -> None:
    assert is_cluster(url)
    assert list(parse_seeds(url)) == seeds


@pytest.mark.parametrize("url", ["redis://h", "rediss://h", "unix:///redis+cluster://", "embedded"])
def test_the_other_forms_are_no_cluster(url: str) -> None:
    assert not is_cluster(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://",
        "redis+cluster://a,",
        "redis+cluster://:secret@a,,b",
        "redis+cluster://:secret@a:port,b",
        "redis+cluster://:se/cret@a,b",
        "redis+cluster://:secret@a,b/1",
        "redis+cluster://:secret@a/0?timeout=3",
        "unix+cluster:///run/secret.sock",
        "http+cluster://:secret@a",
    ],
)
def test_a_wrong_cluster_url_is_refused_and_names_the_setting_but_no_secret(url: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url") as caught:
        parse_seeds(url)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cache:6379",
        "http://cache",
        "redis://",
        "redis://:secret@",
        "redis://:se/cret@cache",
        "redis://:secret@cache:port",
        "redis://:secret@cache:99999",
        "redis://:secret@cache/first",
        "redis://:secret@cache/-1",
        "redis://:secret@cache/0?timeout=3",
        "redis://:secret@[cache",
        "unix://relative.sock",
        "unix://:secret@/run/valkey.sock?password=secret",
        "unix:///run/valkey.sock?db=x",
        "rediss://:secret@cache/0?ssl_cert_reqs=none",
    ],
)
def test_a_wrong_url_is_refused_and_names_the_setting_but_no_secret(url: str) -> None:
    with pytest.raises(ConfigError, match=r"store\.url") as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)
    assert "cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_text_and_repr_of_an_address_keep_its_credentials_to_themselves() -> None:
    address = parse_url("redis://me:secret@cache:7000/1")
    assert str(address) == "redis://cache:7000/1"
    assert str(parse_url("rediss://me:secret@cache")) == "rediss://cache:6379/0"
    assert "secret" not in repr(address)
    assert "me" not in repr(address).replace("name", "")


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), st.integers(0, 99)
)
def test_an_address_reads_back_from_its_text(name: str, db: int) -> None:
    address = Address(path="/" + name, db=db)
    assert parse_url(str(address)) == address
