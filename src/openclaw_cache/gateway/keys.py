"""What of a request, beside its body, decides which replies are its: put together once for all its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.result.key import Keyer
from openclaw_cache.result.versions import Epochs
from openclaw_cache.types import CacheKey, Headers, Namespace


class MakeKey(msgspec.Struct, frozen=True):
    """All of a request's key but its body."""

    keyer: Keyer
    namespace: Namespace
    path: str
    query: bytes
    upstream: str
    model_identity: str
    epoch: bytes
    headers: Headers

    def __call__(self, body: bytes) -> CacheKey:
        """From a body (its canonical form, or what stands for it) to the key of its reply."""
        return self.keyer.key(
            namespace=self.namespace,
            path=self.path,
            query=self.query,
            upstream=self.upstream,
            model_identity=self.model_identity,
            epoch=self.epoch,
            headers=self.headers,
            body=body,
        )

    @property
    def version(self) -> tuple[bytes, ...]:
        """What of it names the state of the model that answers."""
        return self.upstream.encode(), self.model_identity.encode(), self.epoch


@dataclass(frozen=True, slots=True)
class Keys:
    """Names replies.

    Args:
        epochs: The versions of models' replies.
        keyer: Makes the names.
        store_timeout_s: The most that the store may take to tell an epoch.
        on_degraded: Told where it does not.
    """

    epochs: Epochs
    keyer: Keyer
    store_timeout_s: float
    on_degraded: Callable[[str], None]

    async def maker(
        self, call: Call, upstream: Upstream, namespace: Namespace, model: str, model_identity: str
    ) -> MakeKey | None:
        """What makes the keys of one request; None, counted, where its model's epoch is not known."""
        canonical_model = upstream.canonical_model(model)
        epoch = self.epochs.held(canonical_model)
        if epoch is None:
            try:
                async with asyncio.timeout(self.store_timeout_s):
                    epoch = await self.epochs.current(canonical_model)
            except TimeoutError:
                self.on_degraded("store_unavailable")
        if epoch is None:
            self.on_degraded("epoch_unknown")
            return None
        return MakeKey(
            self.keyer,
            namespace,
            call.path,
            call.query,
            upstream.name,
            model_identity,
            epoch,
            header_rules.keyed(call.headers),
        )
