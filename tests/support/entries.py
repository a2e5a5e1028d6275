"""The result entries that lie in a Valkey, read by a client of its own rather than through the gateway."""

from __future__ import annotations

from pathlib import Path

import redis

from openclaw_cache.result.entry import EntryCodec
from openclaw_cache.types import Entry


def stored_entries(client: redis.Redis, secret_file: Path) -> dict[bytes, Entry]:
    """Every result entry by its store key.

    Raises:
        CorruptEntryError: one of them is not whole.
    """
    codec = EntryCodec(bytes.fromhex(secret_file.read_text().strip()))
    found: dict[bytes, Entry] = {}
    for key in client.scan_iter(match=b"r:*", count=1000):
        value = client.get(key)
        if isinstance(value, bytes):  # it may expire between the two commands
            found[key] = codec.decode(key, value)
    return found


def embedded_valkey(data_dir: Path) -> redis.Redis:
    """A connection to the Valkey that a gateway runs in its data dir; its path may be too long for a socket."""
    config = (data_dir / "valkey" / "valkey.conf").read_text()
    socket = next(line.split(" ", 1)[1] for line in config.splitlines() if line.startswith("unixsocket "))
    return redis.Redis(unix_socket_path=socket.strip('"'))
