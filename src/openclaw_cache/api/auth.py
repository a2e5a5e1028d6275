"""Who may come in: client keys, keyless loopback mode, and the admin key."""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import ipaddress
import re
from dataclasses import dataclass

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.headers import credential
from openclaw_cache.settings import NAME_PATTERN
from openclaw_cache.types import Headers, Namespace

_NAME = re.compile(NAME_PATTERN)
_ANY = ("*",)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from and what it may use."""

    namespace: Namespace
    keyed: bool
    """Whether a configured key vouches for it; then its credential is never forwarded."""
    agents: tuple[str, ...] = _ANY
    models: tuple[str, ...] = _ANY

    def may_use(self, model: str) -> bool:
        """Whether the key may use this model."""
        return self.models is _ANY or any(fnmatch.fnmatchcase(model, m) for m in self.models)

    def check_model(self, model: str) -> None:
        """Raises RequestError (403) where the key may not use this model."""
        if not self.may_use(model):
            raise RequestError(
                403,
                f"this API key may not use the model {model!r}",
                kind="permission_error",
                code="model_not_allowed",
                param="model",
            )

    def check_agent(self, agent: str | None) -> None:
        """Raises RequestError (403) where the key lists its agents and this is none of them."""
        if "*" in self.agents:
            return
        if agent is None or not any(fnmatch.fnmatchcase(agent, a) for a in self.agents):
            raise RequestError(
                403,
                f"this API key is bound to the agents {', '.join(self.agents)}: send one of them "
                "as the header x-openclaw-agent",
                kind="permission_error",
                code="agent_not_allowed",
            )


class Authenticator:
    """Checks keys in keyed mode; in keyless mode lets only this machine in.

    Args:
        keys: SHA-256 of each client key → what it may use. Empty = keyless mode.
        admin_key: The admin key, None = admin from this machine only.
    """

    def __init__(self, keys: dict[bytes, Principal], admin_key: str | None) -> None:
        self._keys = keys
        self._admin_digest = hashlib.sha256(admin_key.encode()).digest() if admin_key else None

    def client(self, peer: str | None, headers: Headers) -> Principal:
        """The principal of a request. Raises RequestError 401/403."""
        if self._keys:
            token = credential(headers)
            # A look-up by the key's hash: the time it takes says nothing about the key.
            found = self._keys.get(hashlib.sha256(token).digest()) if token else None
            if found is None:
                raise RequestError(
                    401,
                    "no valid API key: send one of server.keys as Authorization: Bearer …",
                    kind="authentication_error",
                    code="invalid_api_key",
                )
            return _within(found, headers)
        require_this_machine(peer, headers)
        return _within(Principal(Namespace("default"), keyed=False), headers)

    def observer(self, peer: str | None, headers: Headers) -> None:
        """Let one in who reads metrics: anybody in keyed mode, else this machine. Raises RequestError 403."""
        if not self._keys:
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


def _within(principal: Principal, headers: Headers) -> Principal:
    """Narrow a principal to the namespace it asks for, if it may."""
    wanted = next((v for n, v in headers if n == b"x-openclaw-namespace"), None)
    if wanted is None:
        return principal
    name = wanted.decode("latin-1").strip()
    if not _NAME.fullmatch(name):
        raise RequestError(
            400,
            "x-openclaw-namespace: 1-128 letters, digits and . _ : @ / -, beginning with a letter or digit",
            param="x-openclaw-namespace",
        )
    own = principal.namespace
    if not principal.keyed:
        name = name if name == own or name.startswith(f"{own}/") else f"{own}/{name}"
    elif name != own and not name.startswith(f"{own}/"):
        raise RequestError(
            403,
            f"x-openclaw-namespace: this API key may use {own!r} and {own + '/…'!r} only",
            kind="permission_error",
            code="namespace_not_allowed",
            param="x-openclaw-namespace",
        )
    return Principal(Namespace(name), principal.keyed, principal.agents, principal.models)


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
