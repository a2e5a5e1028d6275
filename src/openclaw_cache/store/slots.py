"""Which slot of a cluster a key is in, and which node a slot is on: the Redis Cluster specification.

https://valkey.io/topics/cluster-spec/
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openclaw_cache.store.address import Address
    from openclaw_cache.store.pipeline import Reply

NUM_SLOTS: Final = 16384
_UNKNOWN_HOSTS: Final = frozenset({"", "?"})


def slot_of(key: bytes) -> int:
    """Return the key's slot: CRC16 (XMODEM) of the key, or of its hash tag where it has one."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:  # `{}` is no tag
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % NUM_SLOTS


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The slots `first` to `last`, both included, and the primary that serves them."""

    first: int
    last: int
    primary: Address
    num_replicas: int


def read_slots(reply: Reply, asked: Address) -> list[SlotRange]:
    """Read a reply to CLUSTER SLOTS from the node that was asked. O(ranges).

    Raises:
        ValueError: it is not such a reply.
    """
    try:
        ranges = [
            SlotRange(int(first), int(last), _address(primary, asked), len(replicas))
            for first, last, primary, *replicas in reply
        ]
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError("no slot map") from error
    if not all(0 <= span.first <= span.last < NUM_SLOTS for span in ranges):
        raise ValueError("a slot map with slots that do not exist")
    return ranges


def _address(node: Reply, asked: Address) -> Address:
    """A node is [endpoint, port, id, [name, value, ...]]."""
    host = node[0].decode() if node[0] is not None else ""
    if host == "?" and len(node) > 3:  # it has no host name though they are preferred; its IP is told beside
        told = dict(zip(node[3][::2], node[3][1::2], strict=False))
        host = (told.get(b"ip") or b"").decode()
    return node_address(asked, host, int(node[1]))


def node_address(asked: Address, host: str, port: int) -> Address:
    """The address of a node that another one names. An unknown host means that of the one that was asked."""
    return asked.beside(asked.host if host in _UNKNOWN_HOSTS else host, port)
