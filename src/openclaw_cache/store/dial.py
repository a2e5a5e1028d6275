"""Connect and introduce ourselves: AUTH, SELECT, CLIENT SETNAME, PING."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.store.pipeline import Pipeline, RefusedError, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.store.address import Address

_CONNECT_S: Final = 1.0
_PASSING = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ERR max number of clients")


class LoginError(StoreUnavailableError):
    """The server does not want us under this name, password or database: waiting will not help."""


async def dial(
    address: Address,
    *,
    timeout_s: float,
    max_pending_bytes: int = 1 << 20,
    on_lost: Callable[[Pipeline, str], None] | None = None,
) -> Pipeline:
    """Return a connection whose server has just answered PING within `timeout_s`.

    Raises:
        LoginError: credentials or database are refused.
        StoreUnavailableError: it cannot be reached, is loading, or does not answer in time.
    """

    def make() -> Pipeline:
        return Pipeline(timeout_s=timeout_s, max_pending_bytes=max_pending_bytes, on_lost=on_lost)

    loop = asyncio.get_running_loop()
    link: Any
    try:
        async with asyncio.timeout(max(_CONNECT_S, timeout_s)):
            if address.path:
                _, link = await loop.create_unix_connection(make, address.path)
            else:
                _, link = await loop.create_connection(make, address.host, address.port)
    except TimeoutError:
        raise StoreUnavailableError(
            f"{address}: no connection within {max(_CONNECT_S, timeout_s):g} s"
        ) from None
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that DNS cannot spell
        raise StoreUnavailableError(f"{address}: {getattr(error, 'strerror', None) or error}") from error
    assert isinstance(link, Pipeline)  # noqa: S101 - narrows the loop's untyped pair
    try:
        await _introduce(link, address)
    except RefusedError as error:
        link.close()
        raise _explain(error, address) from None
    except BaseException:  # cancellation too: nobody else would close it
        link.close()
        raise
    return link


async def _introduce(link: Pipeline, address: Address) -> None:
    if address.user is not None:
        await link.send(encode(b"AUTH", address.user.encode(), (address.password or "").encode()))
    elif address.password is not None:
        await link.send(encode(b"AUTH", address.password.encode()))
    if address.db:
        await link.send(encode(b"SELECT", b"%d" % address.db))
    with contextlib.suppress(RefusedError):  # a name is a courtesy to the operator; ACLs may forbid it
        await link.send(encode(b"CLIENT", b"SETNAME", b"openclaw-cache"))
    if await link.send(encode(b"PING")) != b"PONG":
        raise StoreUnavailableError(f"{address}: no Redis-protocol server answers there")
    if link.lost_because is not None:  # between the reply and our turn
        raise StoreUnavailableError(f"{address}: {link.lost_because}")


def _explain(error: RefusedError, address: Address) -> StoreUnavailableError:
    text = str(error).removeprefix("the store answered: ")
    if text.startswith(_PASSING):
        return StoreUnavailableError(f"{address}: {text}")
    if address.password:
        text = text.replace(address.password, "***")
    return LoginError(f"{address} refuses us: {text}")
