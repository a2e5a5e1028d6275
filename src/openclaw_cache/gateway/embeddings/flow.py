"""The steps between a request for embeddings and its reply: the exact cache, input by input.

read → keys → result cache → calls in the air → one upstream call for what is left → result cache → one reply.

Where the parts do not make one reply, the request goes upstream once more, whole and as it came, and the client gets
what the upstream says. So neither another's failure nor an upstream with a shape of its own can spoil a reply.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from openclaw_cache.dialects.embeddings import Input
from openclaw_cache.dialects.request import Request
from openclaw_cache.errors import MergeError, RequestError
from openclaw_cache.gateway.call import Call
from openclaw_cache.gateway.embeddings import reading as reading_rules
from openclaw_cache.gateway.embeddings.aside import aside
from openclaw_cache.gateway.embeddings.asking import Asking
from openclaw_cache.gateway.embeddings.fetch import Fetch, Fetched, Fetches
from openclaw_cache.gateway.embeddings.lookup import look_up
from openclaw_cache.gateway.embeddings.missed import MissedInputs
from openclaw_cache.gateway.embeddings.reading import Reading
from openclaw_cache.gateway.embeddings.reply import EmbeddingsReply, merged, relayed, without_body
from openclaw_cache.gateway.inflight import InFlightBytes
from openclaw_cache.gateway.keys import Keys, MakeKey
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Policy, Reason, plan, restricted
from openclaw_cache.gateway.upstream import Upstream
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.record import Step
from openclaw_cache.result.cache import ResultCache
from openclaw_cache.types import CacheKey, Entry, Namespace

NUM_KEYS_INLINE = 256
"""More keys than this are made on a thread: each takes some microseconds."""


@dataclass(slots=True)
class _Batch:
    """One request on its way. `keys` has one for each input, in order: equal inputs have equal keys."""

    asking: Asking
    planned: Cacheable | Bypass
    make_key: MakeKey | None = None
    keys: Sequence[CacheKey] = ()
    entries: Mapping[CacheKey, Entry] = field(default_factory=dict)

    @property
    def is_here(self) -> bool:
        """Whether all of it was stored."""
        return bool(self.keys) and all(key in self.entries for key in self.keys)


@dataclass(slots=True)
class Embeddings:
    """Answers requests for embeddings. Owns no I/O itself: upstreams and the result cache do.

    Args:
        ignore: fields that do not tell requests apart (`result_cache.ignore`).
        store_timeout_s: the most that the store may cost one request, all questions to it together.
        on_degraded: told of each failure that became a miss.
        wall: unix seconds.
        outdated_at: when replies of a model were last invalidated here (monotonic seconds).
        fetches: to be closed whenever a model is invalidated.
        inflight: told of the bytes of replies while they are read.
    """

    cache: ResultCache
    keys: Keys
    policy: Policy
    metrics: Metrics
    ignore: frozenset[str] = frozenset()
    ttl_s: float = 86400.0
    store_timeout_s: float = 0.05
    on_degraded: Callable[[str], None] = lambda _what: None
    wall: Callable[[], float] = time.time
    outdated_at: Mapping[str, float] = field(default_factory=dict)
    fetches: Fetches = field(default_factory=Fetches)
    inflight: InFlightBytes = field(default_factory=lambda: InFlightBytes(sys.maxsize))
    missed: MissedInputs = field(default_factory=MissedInputs)

    async def read(self, raw: bytes) -> Reading:
        """What a body says; its model decides who answers. See `reading.read`, also for what it raises."""
        return await reading_rules.read(raw, self.policy, self.ignore)

    async def answer(
        self,
        call: Call,
        reading: Reading,
        upstream: Upstream,
        namespace: Namespace,
        control: Control,
        *,
        may_read: bool = True,
        may_write: bool = True,
    ) -> EmbeddingsReply:
        """Answer one `POST /v1/embeddings`. Cancel it when its client leaves.

        Args:
            call: the request.
            reading: what its body says.
            upstream: serves its model.
            namespace: who shares replies with it.
            control: the client's wishes.
            may_read: whether the client's key may be answered from the cache.
            may_write: whether what the client asks for may be stored.

        Raises:
            RequestError: the upstream gave no reply, or 504 for an unmet `only-if-cached`.
        """
        planned = plan(Request(reading.request.model), reading.reason, control)
        planned = restricted(planned, may_read=may_read, may_write=may_write)
        batch = _Batch(self._asking(call, reading, upstream, namespace, planned), planned)
        if planned.reads or planned.writes:
            began = time.perf_counter()
            keys = await self._keys(batch)
            if keys is None:
                batch.planned = Bypass(Reason.DEGRADED)
            else:
                batch.keys = keys
                if planned.reads:
                    batch.entries = await self._look_up(batch, control, began)
        if control.only_if_cached:
            return await self._stored(batch)
        if not batch.keys:
            return relayed(await self._ask(batch, (), (), call.raw), batch.planned, is_own=True)
        try:
            return await self._from_parts(batch)
        except MergeError:
            return await self._whole(batch)

    def _asking(
        self,
        call: Call,
        reading: Reading,
        upstream: Upstream,
        namespace: Namespace,
        planned: Cacheable | Bypass,
    ) -> Asking:
        return Asking(
            call=call,
            reading=reading,
            upstream=upstream,
            namespace=namespace,
            cache=self.cache if planned.writes else None,
            metrics=self.metrics,
            ttl_s=self.ttl_s,
            wall=self.wall,
            outdated_at=self.outdated_at,
            inflight=self.inflight,
        )

    async def _keys(self, batch: _Batch) -> list[CacheKey] | None:
        """One key for each input; None where the model's epoch is not known."""
        asking = batch.asking
        reading, upstream = asking.reading, asking.upstream
        model_identity = await upstream.model_identity()
        make = await self.keys.maker(
            asking.call, upstream, asking.namespace, reading.request.model, model_identity
        )
        batch.make_key = make
        if make is None:
            return None
        if len(reading.hashes) > NUM_KEYS_INLINE:
            return await asyncio.to_thread(lambda: [make(one) for one in reading.hashes])
        return [make(one) for one in reading.hashes]

    async def _look_up(self, batch: _Batch, control: Control, began: float) -> dict[CacheKey, Entry]:
        """The stored vectors that may answer, all of one model."""
        now, keys = self.wall(), list(dict.fromkeys(batch.keys))
        stored, unread = await look_up(
            self.cache,
            batch.asking.namespace,
            keys,
            now,
            timeout_s=self.store_timeout_s - (time.perf_counter() - began),
            on_failure=lambda: self.on_degraded("store_unavailable"),
        )
        found = {
            key: entry
            for key, entry in stored.items()
            if control.accepts(now - entry.created_at, entry.expires_at - now)
        }
        if found:
            # A name may have moved on to another model: vectors of two have nothing to do with each other.
            model = max(found.values(), key=lambda entry: entry.created_at).model
            found = {key: entry for key, entry in found.items() if entry.model == model}
        took_s = time.perf_counter() - began
        self.metrics.result_lookup_seconds.observe(took_s)
        self.metrics.hit_window.add_many(time.monotonic(), num_hits=len(found), num_lookups=len(keys))
        if batch.make_key is not None:
            self.missed.looked_up(
                batch.asking.call,
                batch.make_key,
                batch.asking.reading.hashes,
                batch.keys,
                found,
                stored,
                unread,
                now=now,
                took_s=took_s,
            )
        return found

    async def _stored(self, batch: _Batch) -> EmbeddingsReply:
        """The reply from what is stored alone. Raises RequestError (504) where that is not all of it."""
        if batch.is_here:
            try:
                return await self._merged(batch, None, [])
            except MergeError:
                pass
        raise RequestError(
            504,
            "only-if-cached: no stored vectors can answer all of this request",
            kind="api_error",
            code="not_cached",
        )

    async def _from_parts(self, batch: _Batch) -> EmbeddingsReply:
        """The reply from what is stored, what others fetch at this moment, and what is fetched for it.

        Raises:
            MergeError: the parts do not make one reply.
            RequestError: a call failed without a reply.
        """
        own, joined = self._fetches(batch)
        fetches = joined if own is None else [own, *joined]
        try:
            if fetches:
                await asyncio.wait({fetch.task for fetch in fetches})
        finally:
            for fetch in fetches:
                fetch.leave()
        told: list[Fetched] = []
        for fetch in fetches:
            one = _outcome(fetch, batch)
            if fetch.keys == tuple(batch.keys) or not one.is_ok:
                return relayed(one, batch.planned, is_own=fetch is own)
            told.append(one)
        return await self._merged(batch, None if own is None else told[0], told)

    def _fetches(self, batch: _Batch) -> tuple[Fetch | None, list[Fetch]]:
        """The calls that bring what is not stored, joined: a new one (or None), and those that are in the air."""
        inputs = batch.asking.reading.request.inputs
        left = {key: one for key, one in zip(batch.keys, inputs, strict=True) if key not in batch.entries}
        is_joinable = isinstance(batch.planned, Cacheable) and batch.planned.joinable
        joined: dict[Fetch, None] = {}
        if is_joinable:
            for key in list(left):
                fetch = self.fetches.find(key)
                if fetch is not None:
                    joined[fetch] = None
                    del left[key]
        own = None
        if left:
            own = Fetch(
                tuple(left),
                functools.partial(self._ask, batch, tuple(left), tuple(left.values()), _body(batch, left)),
            )
            if is_joinable:
                self.fetches.add(own)
        for fetch in [*joined] if own is None else [own, *joined]:
            fetch.join()
        return own, list(joined)

    async def _ask(
        self, batch: _Batch, keys: Sequence[CacheKey], inputs: Sequence[Input], raw: bytes
    ) -> Fetched:
        """Ask the upstream (`Asking.ask`); a step of the request, and remembered for look-ups to come."""
        asking, began, said, stored = batch.asking, time.perf_counter(), "left", False
        outcome = asking.call.outcome
        try:
            told = await asking.ask(keys, inputs, raw)
            said, stored = str(told.status), told.stored
            return told
        except RequestError as e:
            said = e.code or e.kind
            raise
        finally:
            if outcome is not None:
                outcome.steps.append(Step("upstream", said, time.perf_counter() - began))
            if keys and batch.make_key is not None and batch.planned.writes:
                wanted = set(keys)
                hashes = (
                    one for key, one in zip(batch.keys, asking.reading.hashes, strict=True) if key in wanted
                )
                until = self.wall() + self.ttl_s if stored else None
                self.missed.settled(batch.make_key, hashes, until)

    async def _merged(self, batch: _Batch, own: Fetched | None, told: Sequence[Fetched]) -> EmbeddingsReply:
        """One reply of all parts. Raises MergeError where they do not make one."""
        num_bytes = sum(len(entry.reply) for entry in batch.entries.values()) + sum(
            len(one.body) for one in told
        )
        body, vectors = await aside(num_bytes, lambda: merged(batch.keys, batch.entries, told))
        reply = EmbeddingsReply(200, without_body([] if own is None else own.headers), body)
        if told:
            reply.forwarded(batch.planned, own)
        reply.count(vectors, own)
        if batch.entries:
            oldest_at = min(entry.created_at for entry in batch.entries.values())
            reply.age_s = max(0, int(self.wall() - oldest_at))
        return reply

    async def _whole(self, batch: _Batch) -> EmbeddingsReply:
        """What the upstream says to the request as it came."""
        asking = batch.asking
        told = await self._ask(batch, batch.keys, asking.reading.request.inputs, asking.call.raw)
        return relayed(told, batch.planned, is_own=True)


def _outcome(fetch: Fetch, batch: _Batch) -> Fetched:
    """What a call brought.

    Raises:
        MergeError: it cannot be used here. That also goes for a failure that another request's input may have caused.
        RequestError: it failed, and would have for this request.
    """
    is_foreign = not set(fetch.keys) <= set(batch.keys)
    try:
        told = fetch.task.result()
    except RequestError as error:
        if is_foreign:
            raise MergeError("a call for others too has failed") from error
        raise
    if is_foreign and not told.is_ok:
        raise MergeError("a call for others too was refused")
    return told


def _body(batch: _Batch, left: Mapping[CacheKey, Input]) -> bytes:
    """The request that asks for what is left: the client's own bytes where that is all of it."""
    asking = batch.asking
    if len(left) == len(batch.keys):
        return asking.call.raw
    return orjson.dumps({**asking.reading.body, "input": list(left.values())})
