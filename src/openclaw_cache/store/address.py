"""Where a store listens and who we are there, read from `store.url`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from openclaw_cache.errors import ConfigError

_NOT_YET = {
    "rediss": "TLS to the store",
    "valkeys": "TLS to the store",
    "redis+cluster": "a cluster of stores",
    "valkey+cluster": "a cluster of stores",
}
_FORMS = "embedded, redis://[user[:password]@]host[:port][/db] or unix:///path?db=0"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address. Text and repr leave the credentials out."""

    host: str = ""
    port: int = 6379
    path: str = ""
    db: int = 0
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.path:
            return f"unix://{quote(os.fsencode(self.path))}?db={self.db}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis://{host}:{self.port}/{self.db}"


def parse_url(url: str) -> Address:
    """Read `redis://`, `valkey://` or `unix://`; percent-escapes are decoded.

    Raises:
        ConfigError: the form is wrong or not supported yet. It never repeats credentials.
    """
    scheme = url.partition("://")[0].lower()
    if scheme in _NOT_YET:
        raise ConfigError(f"store.url: {scheme}:// ({_NOT_YET[scheme]}) is not supported yet; use {_FORMS}")
    if scheme not in {"redis", "valkey", "unix"}:
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
    db = _db_number(parts.path.strip("/") or "0")
    return Address(host=unquote(parts.hostname), port=port, db=db, user=user, password=password)


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
