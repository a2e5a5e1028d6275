"""Operations on the KV caches of the embedded engines: status, evict, warm, tree."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final, Literal
from urllib.parse import parse_qsl

import msgspec

from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.kv_pod import KvPod, statuses
from openclaw_cache.observe.kv import EngineFigures
from openclaw_cache.types import Json, Namespace
from openclaw_cache.units import parse_duration

STATUS_TIMEOUT_S: Final = 2.5  # a step of the engine, on a busy machine, takes more than one
METRICS_TIMEOUT_S: Final = 0.5
NUM_TREE_ROWS: Final = 200
MOST_TREE_ROWS: Final = 10_000
MOST_PROMPTS: Final = 10_000


class WarmPrompt(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A prompt to be computed ahead: a chat as clients send it, or (`text`) the very text that the model reads."""

    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    text: str | None = None


class WarmOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /admin/warm` for the KV cache."""

    prompts: Annotated[list[WarmPrompt], msgspec.Meta(min_length=1, max_length=MOST_PROMPTS)]
    type: Literal["kv"] = "kv"
    model: str | None = None
    pin: str | float | None = None
    """For how long the prompts may not be evicted: a duration, such as `1h`."""
    namespace: str | None = None


class KvAdmin:
    """What an operator may see and do of the KV caches.

    Args:
        pods: By the upstream's name.
        namespaces: Those known by name: engines know salts only.
    """

    def __init__(
        self, gateway: Gateway, pods: Mapping[str, KvPod], namespaces: Callable[[], Iterable[str]]
    ) -> None:
        self._gateway = gateway
        self._pods = pods
        self._namespaces = namespaces
        self._figures = EngineFigures(gateway.metrics)

    async def statuses(self) -> dict[str, Json]:
        """Each engine's status by its upstream's name; one that cannot tell within 2.5 s has a `reason` only."""
        found = await statuses(list(self._pods.values()), STATUS_TIMEOUT_S)
        return {
            name: {"reason": s.message} if isinstance(s, RequestError) else s for name, s in found.items()
        }

    async def refresh_figures(self) -> None:
        """Bring the engines' own figures among the metrics up to date; takes at most 0.5 s and never fails."""
        for name, status in (await statuses(list(self._pods.values()), METRICS_TIMEOUT_S)).items():
            if not isinstance(status, RequestError):
                self._figures.take(name, self._pods[name].pid, status)
            elif status.code == "model_not_ready":
                self._figures.forget(name)

    async def evict(self, pattern: str, namespace: str | None, *, dry_run: bool, pinned: bool) -> Json:
        """Evict from every engine, pinned prefixes where `pinned` says so.

        Raises:
            RequestError: naming the engines that could not; the others have done it.
        """
        salt = None if namespace is None else self._gateway.dispatch.kv_salt.of(Namespace(namespace))
        by_upstream: dict[str, Json] = {}
        failures: list[RequestError] = []
        for name, pod in self._pods.items():
            try:
                by_upstream[name] = await pod.evict(
                    pattern=None if pattern == "*" else pattern, salt=salt, dry_run=dry_run, pinned=pinned
                )
            except RequestError as e:
                failures.append(e)
        if failures:
            first = failures[0]
            message = "; ".join(e.message for e in failures)
            raise RequestError(
                first.status, message, kind=first.kind, code=first.code, retry_after_s=first.retry_after_s
            )
        counts = ("num_blocks", "num_tokens", "num_pinned_blocks")
        report: dict[str, Json] = {c: sum(u.get(c) or 0 for u in by_upstream.values()) for c in counts}
        if not dry_run:
            self._gateway.metrics.evictions.labels("kv", "pattern").inc(report["num_blocks"])
        return report | {"dry_run": dry_run, "upstreams": by_upstream}

    @asynccontextmanager
    async def warm(self, order: WarmOrder, namespace: Namespace) -> AsyncIterator[AsyncIterator[bytes]]:
        """Have an engine compute prompts ahead; gives its progress line by line. Raises RequestError."""
        for i, prompt in enumerate(order.prompts):
            if (prompt.messages is None) == (prompt.text is None) or (
                prompt.tools and prompt.text is not None
            ):
                raise RequestError(
                    400, f"prompts.{i}: give messages (with tools or without), or text", param="prompts"
                )
        pod = self._pod_of_model(order.model)
        salt = self._gateway.dispatch.kv_salt.of(namespace)
        async with pod.warm(msgspec.to_builtins(order.prompts), pin_s=_pin_s(order.pin), salt=salt) as lines:
            yield lines

    async def tree(self, query: bytes) -> Json:
        """One engine's prefix tree: `upstream`, `limit` and `text` in the query. Raises RequestError.

        `roots` has the name of each namespace, None where it is not known here; its salt stays between us and the
        engine: whoever has it could read the namespace's prefixes by time.
        """
        asked = dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        if unknown := asked.keys() - {"upstream", "limit", "text"}:
            raise RequestError(400, f"unknown parameter {min(unknown)!r}; known are upstream, limit, text")
        limit = asked.get("limit", str(NUM_TREE_ROWS))
        if not (limit.isascii() and limit.isdigit() and 0 < int(limit) <= MOST_TREE_ROWS):
            raise RequestError(400, f"limit: write a number in 1–{MOST_TREE_ROWS}", param="limit")
        text = asked.get("text", "0")
        if text not in ("0", "1"):
            raise RequestError(400, "text: write 0 or 1", param="text")
        with_text = text == "1"
        pod = self._pod(asked.get("upstream"))
        shown = await pod.tree(limit=int(limit), with_text=with_text)
        rows = [row for row in shown.get("rows") or [] if isinstance(row, dict)]
        if not with_text:
            rows = [{field: value for field, value in row.items() if field != "text"} for row in rows]
        salt_of = self._gateway.dispatch.kv_salt.of
        known = {salt_of(Namespace(name)): name for name in self._namespaces()}
        roots = [
            {"root": root.get("root"), "namespace": known.get(str(root.get("salt")))}
            for root in shown.get("roots") or []
            if isinstance(root, dict)
        ]
        return {
            "upstream": pod.name,
            "enabled": shown.get("enabled") is not False,
            "roots": roots,
            "rows": rows,
            "is_cut": bool(shown.get("is_cut")),
        }

    def require_any(self) -> None:
        """Raises RequestError (404) where no upstream has a KV cache that is ours to change."""
        if not self._pods:
            raise RequestError(
                404,
                "no upstream of `kind: embedded`: the KV caches of other upstreams are their own",
                code="no_kv_cache",
            )

    def _pod_of_model(self, model: str | None) -> KvPod:
        if model is None:
            return self._pod(None)
        name = self._gateway.dispatch.candidates(model, "chat", "openai")[0].name
        if name not in self._pods:
            raise RequestError(
                400,
                f"model: {model!r} is served by upstream {name!r}, whose KV cache is its own: "
                "name a model of an embedded upstream",
                param="model",
            )
        return self._pods[name]

    def _pod(self, upstream: str | None) -> KvPod:
        """The pod of this upstream, or the only one."""
        self.require_any()
        names = ", ".join(self._pods)
        if upstream is None:
            if len(self._pods) > 1:
                raise RequestError(400, f"there are several embedded upstreams, name one of: {names}")
            return next(iter(self._pods.values()))
        if upstream not in self._pods:
            raise RequestError(
                404, f"no embedded upstream {upstream!r}; there are: {names}", param="upstream"
            )
        return self._pods[upstream]


def _pin_s(pin: str | float | None) -> float | None:
    if pin is None:
        return None
    try:
        seconds = parse_duration(pin)
    except ValueError as e:
        raise RequestError(400, f"pin: {e}", param="pin") from None
    if seconds == 0:
        raise RequestError(400, "pin: 0 pins nothing: leave it out, or write for example 1h", param="pin")
    return seconds
