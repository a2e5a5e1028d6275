"""Slots of keys and replies to CLUSTER SLOTS, by the cluster specification and its examples."""

from __future__ import annotations

import pytest

from openclaw_cache.store.address import Address
from openclaw_cache.store.slots import SlotRange, read_slots, slot_of

ASKED = Address(host="asked", port=7000, user="me", password="secret", tls=True)


@pytest.mark.parametrize(
    ("key", "slot"),
    [
        (b"123456789", 0x31C3),  # the check value of CRC16 XMODEM, below 16384
        (b"", 0),
        # https://valkey.io/commands/cluster-keyslot/
        (b"somekey", 11058),
        (b"foo{hash_tag}", 2515),
        (b"bar{hash_tag}", 2515),
    ],
)
def test_slots_are_those_of_the_specification(key: bytes, slot: int) -> None:
    assert slot_of(key) == slot


@pytest.mark.parametrize(
    ("key", "hashed"),
    [  # https://valkey.io/topics/cluster-spec/ "Hash tags"
        (b"{user1000}.following", b"user1000"),
        (b"foo{{bar}}zap", b"{bar"),
        (b"foo{bar}{zap}", b"bar"),
        (b"}foo{bar}", b"bar"),
    ],
)
def test_of_a_key_with_a_hash_tag_only_the_tag_counts(key: bytes, hashed: bytes) -> None:
    assert slot_of(key) == slot_of(hashed)


@pytest.mark.parametrize("key", [b"foo{}{bar}", b"foo{bar", b"foo}bar{"])
def test_what_is_no_hash_tag_does_not_count_as_one(key: bytes) -> None:
    assert slot_of(key) != slot_of(b"bar")
    assert slot_of(key) != slot_of(b"")
    assert slot_of(key) != slot_of(key + b"!")


def test_a_reply_of_valkey_8_is_read() -> None:
    # As a server of a cluster with one replica sends it.
    reply = [
        [0, 5460, [b"10.0.0.1", 30001, b"09dbe9", [b"hostname", b"h1"]], [b"10.0.0.4", 30004, b"821d8c", []]],
        [5461, 16383, [b"10.0.0.2", 30002, b"c9d93d", []]],
    ]
    assert read_slots(reply, ASKED) == [
        SlotRange(0, 5460, ASKED.beside("10.0.0.1", 30001), 1),
        SlotRange(5461, 16383, ASKED.beside("10.0.0.2", 30002), 0),
    ]


def test_a_reply_of_redis_6_without_metadata_is_read() -> None:
    assert read_slots([[7, 7, [b"h", 1, b"id"]]], ASKED) == [SlotRange(7, 7, ASKED.beside("h", 1), 0)]


@pytest.mark.parametrize("host", [None, b""])
def test_a_node_that_does_not_know_its_host_has_that_of_the_node_that_was_asked(host: bytes | None) -> None:
    [span] = read_slots([[0, 16383, [host, 7009, b"id", []]]], ASKED)
    assert span.primary == ASKED.beside("asked", 7009)


def test_a_node_without_the_preferred_host_name_is_reached_by_its_ip() -> None:
    # `cluster-preferred-endpoint-type hostname`, and this node has none.
    [span] = read_slots([[0, 16383, [b"?", 7009, b"id", [b"ip", b"10.0.0.3"]]]], ASKED)
    assert span.primary == ASKED.beside("10.0.0.3", 7009)


def test_all_nodes_are_reached_with_the_credentials_and_tls_of_the_seed() -> None:
    [span] = read_slots([[0, 16383, [b"other", 7001, b"id"]]], ASKED)
    assert (span.primary.user, span.primary.password, span.primary.tls) == ("me", "secret", True)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"OK",
        7,
        [[]],
        [[0, 16383]],
        [[0, 16383, []]],
        [[0, 16383, [b"h"]]],
        [[0, 16383, [b"h", b"port", b"id"]]],
        [[0, 16384, [b"h", 7000, b"id"]]],
        [[-1, 5, [b"h", 7000, b"id"]]],
        [[9, 5, [b"h", 7000, b"id"]]],
        [[0, 5, [7, 7000, b"id"]]],
        [[0, 5, [b"\xff", 7000, b"id"]]],
    ],
)
def test_what_is_no_slot_map_is_refused(reply: object) -> None:
    with pytest.raises(ValueError, match="slot map"):
        read_slots(reply, ASKED)
