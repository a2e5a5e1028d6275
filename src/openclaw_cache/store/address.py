"""Where a store listens and who we are there, read from `store.url`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from openclaw_cache.errors import ConfigError

_CLUSTER: Final = "+cluster"
_TLS: Final = frozenset({"rediss", "valkeys"})
_SCHEMES: Final = frozenset({"redis", "valkey", "unix"}) | _TLS
_FORMS: Final = (
    "embedded, redis://[[user]:password@]host[:port][/db], unix:///path?db=0 or "
    "redis+cluster://host[:port][,host[:port]…]; with TLS rediss:// or rediss+cluster://"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address. Text and repr leave the credentials out."""

    host: str = ""
    port: int = 6379
    path: str = ""
    db: int = 0
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{quote(os.fsencode(self.path))}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.db}"

    def beside(self, host: str, port: int) -> Address:
        """Another node of the same cluster: reached the same way, with the same credentials."""
        return replace(self, host=host, port=port)


def is_cluster(url: str) -> bool:
    """Whether the URL names a cluster: then `parse_seeds` reads it, else `parse_url`."""
    return url.partition("://")[0].lower().endswith(_CLUSTER)


def parse_seeds(url: str) -> tuple[Address, ...]:
    """Read `redis+cluster://[[user]:password@]host[:port][,host[:port]…]` or one of its other spellings.

    Raises:
        ConfigError: the form is wrong, or a database other than 0 is asked for. It never repeats credentials.
    """
    scheme, _, rest = url.partition("://")
    plain = scheme.lower().removesuffix(_CLUSTER)
    if plain == "unix":
        raise ConfigError(f"store.url: a cluster is not reached over a unix socket; use {_FORMS}")
    end = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    place, tail = rest[:end], rest[end:]
    user, at, hosts = place.rpartition("@")
    seeds = tuple(dict.fromkeys(parse_url(f"{plain}://{user}{at}{host}{tail}") for host in hosts.split(",")))
    if seeds[0].db:
        raise ConfigError("store.url: a cluster has database 0 only; leave the number out")
    return seeds


def parse_url(url: str) -> Address:
    """Read `redis://`, `valkey://`, `rediss://`, `valkeys://` or `unix://`; percent-escapes are decoded.

    Raises:
        ConfigError: the form is wrong. It never repeats credentials.
    """
    scheme = url.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        raise ConfigError(f"store.url: unknown form; use {_FORMS}")
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
    except ValueError:
        # No cause: the parser's message quotes the URL, and with it perhaps a password.
        raise ConfigError(
            "store.url: host and port cannot be read; write '@', '/', ':' in a password as %40, %2F, %3A"
        ) from None
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password is not None else None
    if scheme == "unix":
        path = unquote(parts.path, errors="surrogateescape")
        if parts.hostname or not path.startswith("/"):
            raise ConfigError("store.url: a unix socket needs an absolute path: unix:///path/to/socket?db=0")
        return Address(path=path, db=_db_of_query(parts), user=user, password=password)
    if not parts.hostname:
        raise ConfigError(f"store.url: the host is missing; use {_FORMS}")
    if parts.query or parts.fragment:
        raise ConfigError("store.url: nothing may follow the database number in redis://host:port/db")
    return Address(
        host=unquote(parts.hostname),
        port=port,
        db=_db_number(parts.path.strip("/") or "0"),
        tls=scheme in _TLS,
        user=user,
        password=password,
    )


def _db_of_query(parts: SplitResult) -> int:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    db = _db_number(options.pop("db", "0"))
    if options or parts.fragment:
        raise ConfigError("store.url: only ?db=N may follow the path of a unix socket")
    return db


def _db_number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError("store.url: the database must be a number such as 0")
    return int(text)
