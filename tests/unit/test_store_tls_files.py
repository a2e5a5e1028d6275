"""store.ca_file, store.cert_file and store.key_file: what is refused before anything is connected."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization

from openclaw_cache.errors import ConfigError
from openclaw_cache.store.remote import open_store
from openclaw_cache.store.tls import TlsFiles, client_context
from support.certificates import Authority

if TYPE_CHECKING:
    from pathlib import Path


def test_the_server_is_verified_in_every_case(tmp_path: Path) -> None:
    ours = Authority(tmp_path)
    for files in (None, TlsFiles(), TlsFiles(ca_file=ours.ca_file)):
        context = client_context(files)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_ca_file_replaces_the_systems_authorities(tmp_path: Path) -> None:
    trusted = client_context(TlsFiles(ca_file=Authority(tmp_path, "ours").ca_file)).get_ca_certs()
    assert [dict(name[0] for name in cert["subject"]) for cert in trusted] == [{"commonName": "ours"}]


def test_a_certificate_and_its_key_may_stand_in_one_file(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("me")
    both = tmp_path / "both.pem"
    both.write_bytes(issued.cert_file.read_bytes() + issued.key_file.read_bytes())
    client_context(TlsFiles(cert_file=both))
    client_context(TlsFiles(cert_file=issued.cert_file, key_file=issued.key_file))


def test_each_wrong_file_is_refused_under_its_setting(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued, other = authority.issue("me"), authority.issue("other")
    text, absent = tmp_path / "text", tmp_path / "absent"
    text.write_text("no certificate")
    locked = tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(issued.key_file.read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    for files, setting in [
        (TlsFiles(ca_file=absent), "ca_file"),
        (TlsFiles(ca_file=text), "ca_file"),
        (TlsFiles(ca_file=tmp_path), "ca_file"),
        (TlsFiles(cert_file=absent, key_file=issued.key_file), "cert_file"),
        (TlsFiles(cert_file=issued.cert_file), "cert_file"),
        (TlsFiles(cert_file=text), "cert_file"),
        (TlsFiles(cert_file=text, key_file=issued.key_file), "cert_file"),
        (TlsFiles(cert_file=issued.cert_file, key_file=text), "key_file"),
        (TlsFiles(cert_file=issued.cert_file, key_file=absent), "key_file"),
        (TlsFiles(cert_file=issued.cert_file, key_file=other.key_file), "key_file"),
        (TlsFiles(cert_file=issued.cert_file, key_file=locked), "key_file"),
        (TlsFiles(key_file=issued.key_file), "key_file"),
    ]:
        with pytest.raises(ConfigError, match=rf"^store\.{setting}: "):
            client_context(files)


@pytest.mark.parametrize("url", ["redis://cache", "unix:///run/valkey.sock", "redis+cluster://a,b"])
@pytest.mark.parametrize("setting", ["ca_file", "cert_file", "key_file"])
def test_files_for_a_url_without_tls_are_refused(url: str, setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^store\.{setting}: .*rediss://"):
        open_store(url, tls=TlsFiles(**{setting: tmp_path}))
