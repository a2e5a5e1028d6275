"""Which upstreams may answer a request, in which order they are asked, and as whom."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from openclaw_cache.dialects.dialect import Vendor
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway import headers as header_rules
from openclaw_cache.gateway.cache_hints import RoutingKeys, hinted
from openclaw_cache.gateway.call import Call, Outcome
from openclaw_cache.gateway.canonical import Canonical, Prompt
from openclaw_cache.gateway.kv_salt import HEADER as SALT_HEADER
from openclaw_cache.gateway.kv_salt import KvSalt
from openclaw_cache.gateway.session_prompts import SessionPrompt, SessionPrompts
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.gateway.upstream_reply import UpstreamReply, with_body
from openclaw_cache.types import Json, Namespace

_BUSY: Final = frozenset({429, 502, 503, 504})
"""Statuses of a pod that cannot now: another upstream may."""

_UNTAKEN: Final = frozenset({"upstream_unreachable", "model_not_ready"})
"""Failures before anything was computed."""

_LOST: Final = _UNTAKEN | {"upstream_broken"}
"""Failures before a reply began: a request that keeps no state upstream may be put again."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Chooses among all upstreams.

    Args:
        upstreams: In the order of the settings: the first one that serves a model is asked first.
        kv_salt: Namespaces as embedded engines know them.
        routing_keys: Conversations as providers that cache prompts know them.
        credential_namespace: The namespace of a client whose own credentials go upstream.
        session_prompts: Keeps what sessions ask of embedded engines, for hints.
        canonical: Gives prompts a stable beginning.
    """

    upstreams: Sequence[Upstream]
    kv_salt: KvSalt
    routing_keys: RoutingKeys
    credential_namespace: Callable[[bytes], Namespace]
    session_prompts: SessionPrompts = field(default_factory=SessionPrompts)
    canonical: Canonical = field(default_factory=Canonical)

    def candidates(self, model: str, api: str, vendor: Vendor, call: Call | None = None) -> list[Upstream]:
        """Those that serve `model` through `api` (a dialect's name), the ones that are up first; never empty.

        The credentials of the client of `call` were meant for the first one, up or not: others that would get them
        are left out.

        Raises:
            RequestError: 404 where none serves the model, 400 where some do, but in another dialect only, or where the
                name is no text (half of a UTF-16 pair), which could not be written anywhere.
        """
        if not model.isascii() and model.encode(errors="replace").decode() != model:
            raise RequestError(400, f"the model {model!r} is no text", param="model")
        serving = [u for u in self.upstreams if u.serves(model)]
        speaking = [u for u in serving if u.speaks(api, vendor)]
        if len(speaking) > 1 and call is not None and client_credentials(call) is not None:
            speaking = [*speaking[:1], *(u for u in speaking[1:] if not forwards_credentials(call, u))]
        if speaking:
            return sorted(speaking, key=lambda u: not u.is_up) if len(speaking) > 1 else speaking
        if serving:
            raise _wrong_dialect(model, serving[0], vendor)
        names = [n for u in self.upstreams for n in (u.pod.model_ids if u.pod else u.models)]
        is_limited = call is not None and call.strict  # a key that may not use them is not told of them
        raise RequestError(
            404,
            f"no upstream serves the model {model!r}"
            + ("" if is_limited else f"; served here: {', '.join(names) or 'none'}"),
            code="model_not_found",
            param="model",
        )

    def client(self, call: Call) -> Namespace:
        """Who asks, by all that the client shows: whom else it shares with is known once its upstream is."""
        credentials = client_credentials(call)
        if credentials is None:
            return call.namespace
        return Namespace(f"{self.credential_namespace(credentials)}/{call.namespace}")

    def namespace(self, call: Call, client: Namespace, upstream: Upstream) -> Namespace:
        """Who shares replies with this client (what `client` says of it), where `upstream` answers."""
        # Where the client's own credentials go upstream, they decide who shares replies.
        return client if forwards_credentials(call, upstream) else call.namespace

    def sender(
        self,
        call: Call,
        upstreams: Sequence[Upstream],
        outcome: Outcome,
        *,
        body: Callable[[], dict[str, Json]],
        raw: bytes,
        is_repeatable: bool,
        answered_by: Callable[[str], None],
        waits: bool = True,
    ) -> Callable[[], Awaitable[UpstreamReply]]:
        """The call of a flight: asks the first upstream, and the others where that could not have answered.

        `waits`: whether an upstream that refuses may be asked again after a pause.
        """

        async def send() -> UpstreamReply:
            for upstream in upstreams[:-1]:
                try:
                    reply = await ask(upstream)
                except RequestError as e:
                    if e.code not in (_LOST if is_repeatable else _UNTAKEN):
                        raise
                    continue
                if not (is_repeatable and reply.status in _BUSY):
                    return took(reply, upstream)
                reply.close()
            last = upstreams[-1]
            return took(await ask(last), last)

        def ask(upstream: Upstream) -> Awaitable[UpstreamReply]:
            return self._ask(call, upstream, outcome, body, raw, is_repeatable=is_repeatable, waits=waits)

        def took(reply: UpstreamReply, upstream: Upstream) -> UpstreamReply:
            answered_by(upstream.name)
            outcome.upstream = upstream.name
            return reply

        return send

    async def _ask(
        self,
        call: Call,
        upstream: Upstream,
        outcome: Outcome,
        body: Callable[[], dict[str, Json]],
        raw: bytes,
        *,
        is_repeatable: bool,
        waits: bool,
    ) -> UpstreamReply:
        headers = header_rules.outgoing(call.headers, with_credentials=forwards_credentials(call, upstream))
        headers.append(("x-request-id", call.request_id))
        if upstream.pod is not None:
            headers.append((SALT_HEADER, self.kv_salt.of(outcome.namespace)))
        query = call.query.decode("latin-1")

        async def send(prompt: Prompt) -> UpstreamReply:
            sent = self._sent(call, upstream, outcome, prompt)
            return await upstream.send(
                "POST", call.path, query, headers, sent, repeatable=is_repeatable, waits=waits
            )

        prompt = Prompt(raw, body, is_original=raw is call.raw)
        if upstream.canonical == "off":
            outcome.canonical, outcome.sent = (), None  # of one that was asked before
            return with_body(await send(prompt), upstream.name)
        changed = self.canonical.of(prompt, call.dialect.name, upstream, outcome)
        reply = await send(changed)
        if is_repeatable and self.canonical.refused(reply.status, changed):
            reply.finish()
            reply = await send(
                self.canonical.without_late_system(prompt, call.dialect.name, upstream, outcome)
            )
            if reply.is_ok:
                self.canonical.note_unfit(upstream, outcome)
        return with_body(reply, upstream.name)

    def _sent(self, call: Call, upstream: Upstream, outcome: Outcome, prompt: Prompt) -> bytes:
        """The bytes that go upstream, with hints for its cache; sessions of embedded engines are noted."""
        session = outcome.identity.session
        if upstream.pod is not None and session:
            # By the namespace of the client's key, under which its hints will come.
            noted = SessionPrompt(upstream.name, self.kv_salt.of(outcome.namespace), prompt.raw)
            self.session_prompts.note(call.namespace, session, noted)
        if upstream.cache_hints != "auto":
            return prompt.raw
        key_of = self.routing_keys.of(outcome.namespace)
        return hinted(prompt.raw, prompt.body(), call.dialect.name, session, key_of)


def forwards_credentials(call: Call, upstream: Upstream) -> bool:
    """Whether the client's own credentials, if it has any, go to this upstream."""
    return not call.keyed and upstream.api_key is None


def is_free(call: Call, upstream: Upstream) -> bool:
    """Whether nobody pays for what this upstream answers, so far as we know: no credential goes there."""
    return upstream.api_key is None and (
        not forwards_credentials(call, upstream) or client_credentials(call) is None
    )


def client_credentials(call: Call) -> bytes | None:
    """The credentials that a client means for an upstream; None where it has none, or is known by a key of ours."""
    return None if call.keyed else header_rules.credentials(call.headers)


def _wrong_dialect(model: str, upstream: Upstream, vendor: Vendor) -> RequestError:
    advice = f"an upstream that answers this API too can be configured a second time, with kind: {vendor}"
    if upstream.kind == "embedded":
        remedy = "the embedded engine answers POST /v1/chat/completions only"
        advice = f"this path needs an upstream of kind: {vendor}"
    elif upstream.kind == "anthropic":
        remedy = "it speaks Anthropic's API: use POST /v1/messages"
    else:
        remedy = "it speaks OpenAI's API: use POST /v1/chat/completions, /v1/responses or /v1/completions"
    return RequestError(
        400,
        f"the model {model!r} is served by upstream {upstream.name!r}, and {remedy} (requests are not translated; "
        f"{advice})",
        code="wrong_dialect",
        param="model",
    )
