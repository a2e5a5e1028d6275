"""store.url: each form, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.errors import ConfigError
from openclaw_cache.store.address import Address, parse_url


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


@pytest.mark.parametrize("url", ["rediss://h", "valkeys://h", "redis+cluster://h", "valkey+cluster://h"])
def test_tls_and_clusters_are_refused_as_not_supported_yet(url: str) -> None:
    with pytest.raises(ConfigError, match="not supported yet"):
        parse_url(url)


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
    assert "secret" not in repr(address)
    assert "me" not in repr(address).replace("name", "")


@given(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1), st.integers(0, 99)
)
def test_an_address_reads_back_from_its_text(name: str, db: int) -> None:
    address = Address(path="/" + name, db=db)
    assert parse_url(str(address)) == address
