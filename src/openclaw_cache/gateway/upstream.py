"""An upstream: where requests for some models go, and how they get there."""

from __future__ import annotations

import asyncio
import fnmatch
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from openclaw_cache.canonical import RULE_IDS, Level
from openclaw_cache.errors import ConfigError, RequestError
from openclaw_cache.gateway.pod import Pod, until_ended, until_ready
from openclaw_cache.gateway.probe import Probes
from openclaw_cache.gateway.remote_pods import RemotePod, RemotePods
from openclaw_cache.gateway.retry import Cause, Tries
from openclaw_cache.gateway.upstream_client import AttemptError, UpstreamClient, unreachable
from openclaw_cache.gateway.upstream_reply import UpstreamReply
from openclaw_cache.types import Json


@dataclass(slots=True)
class _Call:
    """One request, and how far it has got."""

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes | None
    tries: Tries
    tried: list[RemotePod] = field(default_factory=list)


@dataclass(kw_only=True)
class Upstream:
    """Where requests for some models go.

    Args:
        kind: The API that it speaks.
        urls: Base URLs of its pods; a trailing `/v1` is dropped since request paths carry it.
        weights: Each pod's share of the requests relative to the others; all the same where empty.
        pod: The embedded engine behind it instead of `urls`.
        models: Glob patterns of the models that it serves; an embedded pod serves its own names only.
        relay: Glob patterns of further paths that may be passed on to it.
        api_key: Sent instead of the client's credential.
        cache_hints: Whether prompts get hints for its own prompt cache.
        canonical: How far prompts are changed to begin alike (`canonical.Level`).
        canonical_without: Ids of rules for that which are not applied.
        ca_file: PEM file of the only authorities whose certificates it may show; the system's where None.
        on_retry: Called for each repeated call.
        on_reply: Told of each call, repeated ones too, what came: `ok`, `client_error`, `limited` (429),
            `server_error`, `failed` (no reply).

    Raises:
        ConfigError: `ca_file` cannot be used, or there is no rule of an id.
    """

    name: str
    kind: Literal["embedded", "openai", "anthropic"] = "openai"
    urls: list[str] = field(default_factory=list)
    weights: list[int] = field(default_factory=list)
    pod: Pod | None = None
    models: list[str] = field(default_factory=lambda: ["*"])
    relay: list[str] = field(default_factory=list)
    api_key: str | None = field(default=None, repr=False)
    cache_hints: Literal["off", "auto"] = "off"
    canonical: Level = "report"
    canonical_without: frozenset[str] = frozenset()
    ca_file: Path | None = None
    probe_path: str = "/health"
    probe_interval_s: float = 5.0
    connect_timeout_s: float = 5.0
    idle_timeout_s: float = 600.0
    request_timeout_s: float = 1800.0
    retries: int = 1
    ask_usage: bool = True
    on_retry: Callable[[], None] = lambda: None
    on_reply: Callable[[str], None] = lambda _result: None

    def __post_init__(self) -> None:
        if unknown := sorted(self.canonical_without - set(RULE_IDS)):
            raise ConfigError(
                f"upstreams.{self.name}.canonical_without: there is no rule {unknown[0]!r}; "
                f"there are {', '.join(RULE_IDS)}"
            )
        self.urls = [u.rstrip("/").removesuffix("/v1") for u in self.urls]
        self.weights = self.weights or [1] * len(self.urls)
        self._pods = RemotePods(RemotePod(u, w) for u, w in zip(self.urls, self.weights, strict=True))
        self._client = UpstreamClient(
            self.name,
            ca_file=self.ca_file,
            connect_timeout_s=self.connect_timeout_s,
            idle_timeout_s=self.idle_timeout_s,
            request_timeout_s=self.request_timeout_s,
        )
        self._probes = Probes(self._pods, self._client, self.probe_path, self.probe_interval_s)

    def start(self) -> None:
        """Begin to probe its pods; an embedded engine tells of itself."""
        if self.pod is None:
            self._probes.start()

    async def aclose(self) -> None:
        """Stop probing; close all connections."""
        await self._probes.aclose()
        await self._client.aclose()

    @property
    def is_up(self) -> bool:
        """Whether a request may go to any of its pods now. O(number of pods)."""
        return self.pod is not None or self._pods.admits(time.monotonic())

    def status(self) -> list[dict[str, Json]]:
        """The state of each url; nothing for an embedded engine, which has a status of its own."""
        now = time.monotonic()
        return [pod.status(now) for pod in self._pods.pods]

    def serves(self, model: str) -> bool:
        """Whether requests for `model` may go here."""
        if self.pod is not None:
            return model in self.pod.model_ids
        return any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)

    def speaks(self, dialect_name: str, vendor: str) -> bool:
        """Whether it understands requests of this dialect, which is one of this vendor's API."""
        if self.kind == "embedded" or self.pod is not None:
            return dialect_name == "chat"
        return vendor == self.kind

    async def model_identity(self) -> str:
        """What the weights are, as far as they can be known: part of the key.

        Waits for an embedded engine that has not been up yet: without its weights' hash a reply of other weights
        could be taken for one of these. Raises RequestError (503) where it does not come up.
        """
        if self.pod is None:
            return ""
        if self.pod.fingerprint is None:
            await until_ready(self.pod, self.name)
        return self.pod.fingerprint or ""

    def identity_check(self) -> Callable[[], bool]:
        """Tells later whether the model is still the one of now."""
        pod = self.pod
        if pod is None:
            return lambda: True
        fingerprint = pod.fingerprint
        return lambda: pod.fingerprint == fingerprint

    def canonical_model(self, model: str) -> str:
        """The name under which epochs are kept: the pod's own name for any of its aliases."""
        if self.pod is not None and model in self.pod.model_ids:
            return self.pod.model_ids[0]
        return model

    async def send(
        self,
        method: str,
        path: str,
        query: str,
        headers: list[tuple[str, str]],
        body: bytes | None,
        *,
        repeatable: bool = True,
        waits: bool = True,
    ) -> UpstreamReply:
        """Send one request; returns when the reply's head has come.

        It may be sent again, to another pod where there is one, as `retry.Tries` allows: where nothing can have
        been computed, and, if it is `repeatable` (it leaves nothing behind upstream), where a pod failed and
        another one is left. A pod that refuses is asked again after a pause only if it `waits`. When all that is over
        without success, the last reply that came is the client's.

        Raises:
            RequestError: 502 unreachable, broken or a redirect, 503 embedded model not ready, 504 too slow.
        """
        call = _Call(
            method,
            f"{path}?{query}" if query else path,
            self._headers(headers),
            body,
            Tries(self.retries, len(self._pods), repeatable, self.pod is not None, waits),
        )
        kept: UpstreamReply | None = None
        try:
            while True:
                outcome = await self._counted(call)
                if isinstance(outcome, UpstreamReply):
                    if kept is not None:
                        kept.finish()
                    kept = outcome
                pause_s = self._pause_s(outcome, call)
                if pause_s is None:
                    last, kept = kept or outcome, None
                    if isinstance(last, AttemptError):
                        raise last.error
                    return last
                self.on_retry()
                if self.pod is not None and isinstance(outcome, AttemptError):
                    await until_ended(self.pod, was_new=outcome.was_new)
                await asyncio.sleep(pause_s)
        finally:
            if kept is not None:
                kept.close()

    async def _counted(self, call: _Call) -> UpstreamReply | AttemptError:
        """Send the call once, and tell what came. A kept connection that had closed is no call."""
        try:
            outcome = await self._attempt(call)
        except RequestError:
            self.on_reply("failed")
            raise
        if isinstance(outcome, UpstreamReply):
            self.on_reply(_kind_of(outcome.status))
        elif outcome.cause is not Cause.STALE:
            self.on_reply("failed")
        return outcome

    def _pause_s(self, outcome: UpstreamReply | AttemptError, call: _Call) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        has_other = len(self._pods) > 1 and self._pods.has_other(time.monotonic(), call.tried)
        if isinstance(outcome, UpstreamReply):
            return call.tries.after_answer(outcome.status, outcome.retry_after, has_other=has_other)
        return 0.0 if call.tries.after_failure(outcome.cause, has_other=has_other) else None

    async def _attempt(self, call: _Call) -> UpstreamReply | AttemptError:
        """Send the call once, to the pod whose turn it is, and note what that tells about the pod."""
        if self.pod is not None:
            await until_ready(self.pod, self.name)
            if self.pod.url is None:
                raise unreachable(self.name, "the engine has just ended")
            return await self._ask(self.pod.url, call)
        pod = self._pods.choose(time.monotonic(), call.tried)
        call.tried.append(pod)
        is_trial = pod.ejection.begin(time.monotonic())
        try:
            outcome = await self._ask(pod.url, call)
        finally:
            if is_trial:
                pod.ejection.end_trial()
        if isinstance(outcome, UpstreamReply):
            pod.answered(outcome.status, outcome.retry_after, time.monotonic())
        elif outcome.cause is not Cause.STALE:
            pod.failed(outcome.code, time.monotonic(), at_once=outcome.cause is Cause.UNREACHED)
        return outcome

    async def _ask(self, base_url: str, call: _Call) -> UpstreamReply | AttemptError:
        # As it came: the client would otherwise spell the query's escapes in its own way.
        url = URL(base_url + call.target, encoded=call.target.isascii())
        try:
            response = await self._client.request(
                call.method, url, call.headers, call.body, on_new_connection=call.tries.was_stale
            )
        except AttemptError as e:
            return e
        if 300 <= response.status < 400 and response.status != 304:
            response.close()
            raise _redirect(self.name, response)
        return UpstreamReply(response)

    def _headers(self, headers: list[tuple[str, str]]) -> CIMultiDict[str]:
        sent = CIMultiDict(headers)
        sent["Accept-Encoding"] = "identity"
        if self.api_key is not None and self.kind == "anthropic":
            sent["x-api-key"] = self.api_key
        elif self.api_key is not None:
            sent["Authorization"] = f"Bearer {self.api_key}"
        return sent


def _kind_of(status: int) -> str:
    if status < 400:
        return "ok"
    if status == 429:
        return "limited"
    return "client_error" if status < 500 else "server_error"


def _redirect(name: str, response: aiohttp.ClientResponse) -> RequestError:
    """502: following it would take the request, and its credential, to where no operator sent it."""
    try:
        location = urlsplit(response.headers.get("Location", ""))
        port = "" if location.port is None else f":{location.port}"
    except ValueError:
        where = "elsewhere"
    else:  # without user and query: they may be secrets
        host = f"{location.scheme}://{location.hostname}{port}" if location.hostname else ""
        where = (host + location.path)[:200] or "elsewhere"
    return RequestError(
        502,
        f"upstream {name!r} answers with a redirect ({response.status}) to {where!r}, which is not followed: "
        f"correct upstreams.{name}.urls",
        kind="api_error",
        code="upstream_redirect",
    )
