"""Operations on the semantic cache over HTTP: explain, feedback, status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from openclaw_cache.api.order import decode_order
from openclaw_cache.errors import RequestError, StoreError
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.types import Json

if TYPE_CHECKING:
    from openclaw_cache.gateway.semantic.decisions import Decision
    from openclaw_cache.gateway.semantic.step import SemanticStep


class SemanticPart(Protocol):
    """The cache and whether it is there (`semantic_part`)."""

    @property
    def state(self) -> str:
        """`off`, `loading`, `ready` or `failed`."""
        ...

    @property
    def reason(self) -> str:
        """Why it is not ready; empty where nothing is wrong."""
        ...

    @property
    def step(self) -> SemanticStep | None:
        """The cache, once it is there."""
        ...


class FeedbackOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/feedback`."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    """The key of a semantic hit as its `Cache-Status` has it."""
    verdict: Literal["good", "bad"]


class SemanticAdmin:
    """What an operator may see and do of the semantic cache.

    Args:
        part: The cache, loaded or not.
    """

    def __init__(self, part: SemanticPart) -> None:
        self._part = part

    def require(self) -> SemanticStep:
        """The cache. Raises RequestError: 409 where it is off, 503 while it is not loaded."""
        part = self._part
        if part.state == "off":
            message = "the semantic cache is off: set semantic_cache.enabled: true, and start anew"
            raise RequestError(409, message, code="semantic_off")
        if part.step is None:
            message = f"the semantic cache: {part.state}" + (f" ({part.reason})" if part.reason else "")
            raise RequestError(503, message, kind="api_error", code="semantic_not_ready", retry_after_s=2)
        return part.step

    async def serve(self, what: str, raw: bytes) -> Json:
        """Carry out one order: `feedback`, or `explain/NAME`. Raises RequestError."""
        if what == "feedback":
            return await self.feedback(decode_order(raw, FeedbackOrder))
        return self.explain(what.removeprefix("explain/"))

    def explain(self, name: str) -> Json:
        """One decision. Raises RequestError: 404 where it is not known."""
        return self._decision(name, "id").shown()

    def known(self, decision_id: str) -> Json | None:
        """The decision of this id; None where it is not known, or no more."""
        step = self._part.step
        decision = None if step is None or not decision_id else step.decisions.find(decision_id)
        return None if decision is None or decision.id != decision_id else decision.shown()

    async def feedback(self, order: FeedbackOrder) -> Json:
        """Learn from what somebody thought of a hit. A bad one loses its entry, with all that finds it."""
        step, decision = self.require(), self._decision(order.key, "key")
        if decision.id != order.key:  # a request's id is its caller's word: two may have the same
            raise RequestError(400, "key: the key of a semantic hit, as its Cache-Status has it", param="key")
        if decision.outcome != "hit" or decision.key is None:
            raise RequestError(
                409, f"key: {order.key!r} was no semantic hit: there is nothing to judge", param="key"
            )
        if decision.learned.endswith("feedback"):
            raise RequestError(409, f"key: {order.key!r} has been judged already", param="key")
        decision.learned = f"{order.verdict}, by feedback"
        step.cache.learning.told(
            decision.domain, decision.key, decision.score or 0.0, is_good=order.verdict == "good"
        )
        removed = False
        if order.verdict == "bad":
            try:
                await step.results.drop(decision.namespace, decision.key)
            except StoreError as e:
                raise RequestError(
                    503,
                    f"the store failed ({e}): the entry is gone from memory and finds nothing, but may still be stored",
                    kind="api_error",
                    code="store_unavailable",
                    retry_after_s=2,
                ) from None
            removed = True
        return {"key": order.key, "verdict": order.verdict, "domain": decision.domain, "removed": removed}

    def status(self) -> Json:
        """For `/admin/status`."""
        part, step = self._part, self._part.step
        shown: dict[str, Json] = {
            "enabled": part.state != "off",
            "state": part.state,
            "reason": part.reason or None,
        }
        if step is None:
            return shown
        partitions = step.cache.partitions
        return shown | {
            "scope": step.scope,
            "by_default": step.by_default,
            "embedder": step.cache.fingerprint,
            "num_questions": partitions.num_rows,
            "memory_bytes": partitions.memory_bytes,
            "domains": step.cache.learning.status(),
        }

    def refresh_gauges(self, metrics: Metrics) -> None:
        """Bring the estimates up to date. Some ms."""
        step = self._part.step
        if step is None:
            return
        for shown in step.cache.learning.status():
            domain = shown["domain"]
            metrics.semantic_max_wrong_ratio.labels(domain).set(shown["max_wrong_ratio"])
            for name, gauge in (
                ("wrong_ratio", metrics.semantic_wrong_ratio),
                ("recall", metrics.semantic_recall),
            ):
                estimate = shown.get(name)
                if estimate is None:
                    continue
                for bound in ("mean", "low", "high"):
                    gauge.labels(domain, bound).set(estimate[bound])
                metrics.semantic_samples.labels(domain, name).set(estimate["num_seen"])
        partitions = step.cache.partitions
        metrics.bytes.labels("semantic", "memory").set(partitions.memory_bytes)

    def _decision(self, name: str, param: str) -> Decision:
        decision = self.require().decisions.find(name)
        if decision is None:
            raise RequestError(
                404,
                f"{param}: no decision is known by that name: only the last ones are known, until a restart",
                param=param,
                code="not_found",
            )
        return decision
