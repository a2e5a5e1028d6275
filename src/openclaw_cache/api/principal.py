"""Who a request comes from and what it may use."""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field, replace
from typing import Final

from openclaw_cache.api.budget import Budget
from openclaw_cache.errors import RequestError
from openclaw_cache.settings import NAME_PATTERN, ApiKey
from openclaw_cache.types import Headers, Namespace

_NAME = re.compile(NAME_PATTERN)
_ANY = ("*",)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from and what it may use."""

    namespace: Namespace
    """What this request sees."""
    tenant: Namespace
    """The key's own namespace: `namespace` itself, or above it where the request narrows its scope."""
    keyed: bool
    """Whether a configured key vouches for it; then its credential is never forwarded."""
    agents: tuple[str, ...] = _ANY
    models: tuple[str, ...] = _ANY
    may_read: bool = True
    """Whether stored replies, and those of other requests in the air, may answer it."""
    may_write: bool = True
    """Whether its reply may be stored, and answer others."""
    budget: Budget | None = field(default=None, compare=False)
    """Shared by all requests of the key; None = without bound."""
    key_id: str = ""
    """A public name of the key for logs: the first 8 hex digits of its SHA-256; empty without a key."""

    @classmethod
    def of_key(cls, digest: bytes, key: ApiKey, budget: Budget | None) -> Principal:
        """The principal of a configured key, whose SHA-256 is `digest`."""
        return cls(
            namespace=Namespace(key.namespace),
            tenant=Namespace(key.namespace),
            keyed=True,
            agents=_ANY if "*" in key.agents else tuple(key.agents),
            models=_ANY if "*" in key.models else tuple(key.models),
            may_read="read" in key.cache,
            may_write="write" in key.cache,
            budget=budget,
            key_id=digest.hex()[:8],
        )

    @staticmethod
    def of_this_machine() -> Principal:
        """The principal of a request without a key, where none is needed."""
        return _THIS_MACHINE

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

    def within(self, headers: Headers) -> Principal:
        """The same with the namespace that the request asks for; rights and budget stay.

        Raises:
            RequestError: 400, what it asks for is no namespace; 403, it is not the key's.
        """
        wanted = next((v for n, v in headers if n == b"x-openclaw-namespace"), None)
        if wanted is None:
            return self
        name = wanted.decode("latin-1").strip()
        if not _NAME.fullmatch(name):
            raise RequestError(
                400,
                "x-openclaw-namespace: 1-128 letters, digits and . _ : @ / -, beginning with a letter or digit",
                param="x-openclaw-namespace",
            )
        own = self.tenant
        if name != own and not name.startswith(f"{own}/"):
            if self.keyed:
                raise RequestError(
                    403,
                    f"x-openclaw-namespace: this API key may use {own!r} and {own + '/…'!r} only",
                    kind="permission_error",
                    code="namespace_not_allowed",
                    param="x-openclaw-namespace",
                )
            name = f"{own}/{name}"
        return replace(self, namespace=Namespace(name))


_THIS_MACHINE: Final = Principal(Namespace("default"), Namespace("default"), keyed=False)
