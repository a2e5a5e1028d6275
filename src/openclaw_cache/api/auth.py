"""Who may come in: client keys, keyless loopback mode, and the admin key."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import time
from collections.abc import Mapping
from typing import Any

from openclaw_cache.api.day_counts import DayCounts
from openclaw_cache.api.key_rules import KeyRules, from_env
from openclaw_cache.api.keys_file import KeysFile
from openclaw_cache.api.principal import Principal
from openclaw_cache.api.tenants import Tenants
from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.gateway.headers import credential
from openclaw_cache.settings import ApiKey, Settings
from openclaw_cache.types import Headers

__all__ = ["Authenticator", "Principal", "authenticator", "is_loopback", "require_this_machine"]


class Authenticator:
    """Checks keys in keyed mode; in keyless mode lets only this machine in.

    Args:
        tenants: The client keys; None = keyless mode. Without a single key in it nobody gets in.
        admin_key: The admin key, None = admin from this machine only.
    """

    def __init__(self, tenants: Tenants | None, admin_key: str | None) -> None:
        self._tenants = tenants
        self._admin_digest = hashlib.sha256(admin_key.encode()).digest() if admin_key else None

    async def start(self) -> None:
        """Begin to watch the key file and to keep budgets."""
        if self._tenants is not None:
            await self._tenants.start()

    async def aclose(self) -> None:
        """Stop that, and save what was used of budgets."""
        if self._tenants is not None:
            await self._tenants.aclose()

    def namespaces(self) -> set[str]:
        """The namespaces of all keys that are known now, and the one without a key. O(keys)."""
        return {"default"} | (self._tenants.namespaces() if self._tenants is not None else set())

    def status(self) -> dict[str, Any]:
        """For `status`: whether keys are needed, how many there are, the key file, the fullest budgets."""
        if self._tenants is None:
            return {"keyed": False, "num_keys": 0, "keys_file": None, "fullest_budgets": []}
        return {"keyed": True, **self._tenants.status(time.time())}

    def client(self, peer: str | None, headers: Headers) -> Principal:
        """The principal of a request. Raises RequestError 401/403."""
        if self._tenants is None:
            require_this_machine(peer, headers)
            return Principal.of_this_machine().within(headers)
        token = credential(headers)
        # A look-up by the key's hash: the time it takes says nothing about the key.
        found = self._tenants.find(hashlib.sha256(token).digest()) if token else None
        if found is None:
            raise RequestError(
                401,
                "no valid API key: send one of this gateway's keys as Authorization: Bearer … or x-api-key",
                kind="authentication_error",
                code="invalid_api_key",
            )
        return found.within(headers)

    def observer(self, peer: str | None, headers: Headers) -> None:
        """Let one in who reads metrics: anybody in keyed mode, else this machine. Raises RequestError 403."""
        if self._tenants is None:
            require_this_machine(peer, headers)

    def page(self, peer: str | None, headers: Headers) -> None:
        """Let one in who loads the dashboard: it holds no data. Raises RequestError 403.

        Where an admin key guards the data that is anybody, else this machine.
        """
        if self._admin_digest is None:
            require_this_machine(peer, headers)

    def admin(self, peer: str | None, headers: Headers) -> None:
        """Let an administrator in. Raises RequestError 401/403."""
        if self._admin_digest is None:
            require_this_machine(peer, headers)
            return
        token = credential(headers) or b""
        if not hmac.compare_digest(hashlib.sha256(token).digest(), self._admin_digest):
            raise RequestError(
                401,
                "no valid admin key: send it as Authorization: Bearer … (the command line takes it from "
                "OPENCLAW_CACHE_ADMIN_KEY)",
                kind="authentication_error",
                code="invalid_admin_key",
            )


def authenticator(settings: Settings, env: Mapping[str, str]) -> Authenticator:
    """Keys from the settings and the key file; refuses an open door.

    Raises:
        ConfigError: the server would answer other machines without both keys, or with a tutorial's key; or a key
            cannot be used.
    """
    server = settings.server
    rules = KeyRules(env, refuses_weak=not is_loopback(server.host))
    admin_key = from_env(env, "server.admin_key_env", server.admin_key_env)
    is_keyed = bool(server.keys) or server.keys_file is not None
    if not is_loopback(server.host):
        needed = (("server.keys (or server.keys_file)", is_keyed), ("server.admin_key_env", admin_key))
        if missing := [name for name, given in needed if not given]:
            raise ConfigError(
                f"server.host: {server.host} is open to other machines: set {' and '.join(missing)} too, "
                "or listen on 127.0.0.1"
            )
    if admin_key:
        rules.check(admin_key, "server.admin_key_env")
    if not is_keyed:
        return Authenticator(None, admin_key)
    keys: dict[bytes, ApiKey] = {}
    places: dict[bytes, str] = {}
    for i, key in enumerate(server.keys):
        place = f"server.keys.{i}"
        digest = rules.digest(key, place)
        if digest in keys:
            raise ConfigError(f"{place}: the same key stands there twice")
        keys[digest], places[digest] = key, place
    file = KeysFile(server.keys_file, rules, places) if server.keys_file is not None else None
    day_counts = DayCounts(server.data_dir / "budgets.json")
    return Authenticator(Tenants(keys, file, day_counts), admin_key)


def is_loopback(host: str) -> bool:
    """Whether `host` is a literal loopback address or `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


_LOOPBACK_HOST = re.compile(rb"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")


def require_this_machine(peer: str | None, headers: Headers) -> None:
    """Keyless rule: loopback peer, literal loopback Host, Origin absent or ours, not through a proxy.

    The Host and Origin checks keep out web pages (DNS rebinding, cross-site requests); a proxy in front
    would make every visitor look local.

    Raises:
        RequestError: 403, naming what is wrong and the remedy.
    """
    problem = None
    host: bytes | None = None
    origins: list[bytes] = []
    if peer is not None and peer not in ("127.0.0.1", "::1") and not is_loopback(peer):
        problem = "this request does not come from it"
    for name, value in headers:
        if name == b"host":
            if host is not None:
                problem = "this request has two Host headers"
            host = value
        elif name == b"origin":
            origins.append(value)
        elif name == b"forwarded" or name.startswith(b"x-forwarded-"):
            problem = "this request came through a proxy"
    if host is None or not _LOOPBACK_HOST.fullmatch(host):
        problem = problem or "this request's Host is not a loopback address"
    elif any(origin not in (b"http://" + host, b"https://" + host) for origin in origins):
        problem = problem or "this request was sent by another web page"
    if problem is not None:
        raise RequestError(
            403,
            f"without keys this server answers this machine only, and {problem}: configure server.keys "
            "(and server.admin_key_env for /admin)",
            kind="permission_error",
            code="keyless_loopback_only",
        )
