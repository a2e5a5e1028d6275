"""Salts of namespaces: the same on every node of a fleet, another for every namespace and fleet."""

from __future__ import annotations

from blake3 import blake3

from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.types import Namespace

SECRET = bytes(range(32))


def test_a_salt_is_the_keyed_blake3_of_the_namespace_under_a_key_of_its_own() -> None:
    key = blake3(SECRET, derive_key_context="openclaw-cache 2026-11 kv salt").digest()
    assert KvSalt(SECRET).of(Namespace("team-a")) == blake3(b"team-a", key=key).digest().hex()
    assert len(bytes.fromhex(KvSalt(SECRET).of(Namespace("")))) == 32


def test_no_other_namespace_or_fleet_has_the_same_salt() -> None:
    names = ["default", "default/a", "team-a", "team-A", "团队"]
    salts = {KvSalt(secret).of(Namespace(n)) for n in names for secret in (SECRET, bytes(32))}
    assert len(salts) == 2 * len(names)
