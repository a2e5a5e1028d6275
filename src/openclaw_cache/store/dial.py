"""Connect and introduce ourselves: AUTH, SELECT, CLIENT SETNAME, PING."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.errors import StoreUnavailableError
from openclaw_cache.store.pipeline import Pipeline, RefusedError, encode
from openclaw_cache.store.tls import fault_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_cache.store.address import Address

_CONNECT_S: Final = 1.0
_PASSING = ("LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "ERR max number of clients")


class LoginError(StoreUnavailableError):
    """The server does not want us, or we not it: waiting will not help. `setting` names what to change."""

    def __init__(self, message: str, *, setting: str = "store.url") -> None:
        super().__init__(message)
        self.setting = setting


async def dial(
    address: Address,
    *,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
    max_pending_bytes: int = 1 << 20,
    on_lost: Callable[[Pipeline, str], None] | None = None,
) -> Pipeline:
    """Return a connection whose server has just answered PING within `timeout_s`.

    Raises:
        LoginError: credentials, database or a certificate are refused.
        StoreUnavailableError: it cannot be reached, is loading, or does not answer in time.
        ValueError: the address wants TLS and `tls` is missing.
    """
    if address.tls and tls is None:
        raise ValueError("an address with TLS needs a context")

    def make() -> Pipeline:
        return Pipeline(timeout_s=timeout_s, max_pending_bytes=max_pending_bytes, on_lost=on_lost)

    link = await _reach(make, address, tls if address.tls else None, max(_CONNECT_S, timeout_s))
    try:
        await _introduce(link, address)
    except RefusedError as error:
        link.close()
        raise explain(error, address) from None
    except StoreUnavailableError as error:
        link.close()
        if address.tls and link.lost_error is not None:
            raise _explain_late(error, link.lost_error, address) from None
        raise
    except BaseException:  # cancellation too: nobody else would close it
        link.close()
        raise
    return link


async def _reach(
    make: Callable[[], Pipeline], address: Address, tls: ssl.SSLContext | None, connect_s: float
) -> Pipeline:
    try:
        async with asyncio.timeout(connect_s):
            return await _connect(make, address, tls)
    except TimeoutError:
        spoken = ", or no TLS is spoken there" if tls is not None else ""
        raise StoreUnavailableError(f"{address}: no connection within {connect_s:g} s{spoken}") from None
    except ssl.SSLError as error:
        raise _explain_tls(error, address) from None
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that DNS cannot spell
        raise StoreUnavailableError(f"{address}: {getattr(error, 'strerror', None) or error}") from error


async def _connect(make: Callable[[], Pipeline], address: Address, tls: ssl.SSLContext | None) -> Pipeline:
    loop = asyncio.get_running_loop()
    transport: Any
    link: Any
    if address.path:
        transport, link = await loop.create_unix_connection(make, address.path)
    else:
        transport, link = await loop.create_connection(make, address.host, address.port)
    assert isinstance(link, Pipeline)  # noqa: S101 - narrows the loop's untyped pair
    if tls is not None:
        # In two steps, so that the pipeline sees how much the transport below TLS still holds.
        try:
            secured = await loop.start_tls(transport, link, tls, server_hostname=address.host)
        except BaseException:
            link.close()
            raise
        if secured is None:  # the loop's way to say that the connection broke meanwhile
            raise ConnectionResetError("the connection broke during the TLS handshake")
        link.secure(secured)
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


def _explain_tls(error: ssl.SSLError, address: Address) -> StoreUnavailableError:
    fault = fault_of(error)
    if fault is None:
        return StoreUnavailableError(f"{address}: TLS failed: {error.reason or error.strerror or 'cut off'}")
    setting, text = fault
    return LoginError(f"{address}: {text}", setting=setting)


def _explain_late(error: StoreUnavailableError, cause: Exception, address: Address) -> StoreUnavailableError:
    """In TLS 1.3 the server judges our certificate when the handshake is already over for us."""
    if isinstance(cause, ssl.SSLError):
        return _explain_tls(cause, address)
    return StoreUnavailableError(f"{address}: {error}; if it wants a client certificate, set store.cert_file")


def explain(error: RefusedError, address: Address) -> StoreUnavailableError:
    """Tell a refusal that will pass from one that a person must settle (`LoginError`)."""
    text = str(error).removeprefix("the store answered: ")
    if text.startswith(_PASSING):
        return StoreUnavailableError(f"{address}: {text}")
    if address.password:
        text = text.replace(address.password, "***")
    return LoginError(f"{address} refuses us: {text}")
