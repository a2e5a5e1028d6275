"""What a request is counted as: metrics, budgets, savings, its record, and its one log line. Never text of prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from openclaw_cache.api.exchange import Exchange
from openclaw_cache.api.visit import Visit
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import Outcome
from openclaw_cache.observe.aside import Aside
from openclaw_cache.observe.metrics import SOURCES, Metrics, ttft_source
from openclaw_cache.observe.prices import Prices
from openclaw_cache.observe.record import RequestRecord, Step
from openclaw_cache.observe.savings import Savings, SavingsBook, of_answered, of_forwarded

RELAY: Final = "relay"
"""What a request is logged as that is passed through unread."""

_NOTHING: Final = Savings()
_log = structlog.get_logger()

Sink = Callable[[RequestRecord], None]
"""Takes each request's record: at once, without waiting for anything, and without raising."""


class Durations(Protocol):
    """Knows how long upstreams take for requests (`history.durations`)."""

    def saved_s(
        self, upstream: str, model: str, *, prompt_tokens: int, completion_tokens: int, took_s: float
    ) -> float:
        """What a client did not wait for a reply of these tokens that took `took_s`; 0 where it is not known."""
        ...


class Account:
    """Closes the account of each request.

    Args:
        metrics: Count it.
        prices: Of tokens.
        book: Sums up what was saved.
        sinks: Get its record, in this order.
        durations: Estimates what time was saved; None = nothing does.
        aside: Keeps the failures of whatever only looks on from the request.
    """

    def __init__(
        self,
        metrics: Metrics,
        prices: Prices,
        book: SavingsBook,
        sinks: Sequence[Sink] = (),
        durations: Durations | None = None,
        aside: Aside | None = None,
    ) -> None:
        self._metrics = metrics
        self._prices = prices
        self._book = book
        self._sinks = sinks
        self._durations = durations
        self._aside = aside or Aside("record")

    def close(self, seen: Exchange) -> None:
        """Count a request that is over, log it, and pass its record on."""
        ended_at, outcome = time.perf_counter(), seen.outcome
        if outcome is None:
            record = _unread(seen, ended_at)
        else:
            savings = _NOTHING if outcome.usage is None else self._save(outcome, seen.visit)
            record = self._record(seen, outcome, savings, ended_at)
        self._metrics.requests_by[record.api][record.outcome].inc()
        if record.ttft_s is not None and record.outcome != "error":
            self._metrics.ttft[ttft_source(record.outcome, record.tokens_from)].observe(record.ttft_s)
        _log.info("request", **_line(record, seen))
        if outcome is None or outcome.watched is None:
            self._pass_on(record)
        else:
            with self._aside:
                outcome.watched.then(record, _counted(outcome), self._pass_on)

    def relayed(self, seen: Exchange, upstream: str) -> None:
        """The same for a request that was passed through unread."""
        ended_at = time.perf_counter()
        label = "bypass" if seen.error is None and seen.status < 400 else "error"
        self._metrics.requests_by[RELAY][label].inc()
        fields = {} if seen.error is None else {"error": _said(seen.error)}
        _log.info(
            "request",
            request_id=seen.request_id,
            api=RELAY,
            status=seen.status,
            outcome=label,
            upstream=upstream,
            **fields,
        )
        steps = [_door(seen, ended_at)]
        if seen.entered_at:
            steps.append(Step("upstream", str(seen.status), ended_at - seen.entered_at))
        self._pass_on(
            RequestRecord(
                request_id=seen.request_id,
                at=time.time() - (ended_at - seen.arrived_at),
                api=RELAY,
                outcome=label,
                detail=RELAY,
                status=seen.status,
                error="" if seen.error is None else _said(seen.error),
                upstream=upstream,
                namespace=seen.namespace,
                duration_s=ended_at - seen.arrived_at,
                steps=steps,
            )
        )

    def _record(self, seen: Exchange, outcome: Outcome, savings: Savings, ended_at: float) -> RequestRecord:
        """All that is known of a request that was read. About 3 µs."""
        usage, pace, identity = outcome.usage, outcome.pace, outcome.identity
        label, duration_s = seen.label, ended_at - seen.arrived_at
        return RequestRecord(
            request_id=seen.request_id,
            at=time.time() - duration_s,
            api=seen.api,
            outcome=label,
            status=seen.status,
            detail=str(outcome.detail),  # a reason is an enum's member, which not every writer of JSON takes
            miss=outcome.miss,
            error=_failure(seen),
            model=_shown(outcome.model[:128]),
            upstream=outcome.upstream,
            namespace=outcome.namespace,
            agent=identity.agent,
            session=identity.session,
            stream=outcome.stream,
            prompt_id=outcome.prompt_id,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            completion_tokens=None if usage is None else usage.completion_tokens,
            tokens_from=_tokens_from(outcome),
            savings=savings,
            ttft_s=_ttft_s(seen),
            itl_sum_s=0.0 if pace is None else pace.sum_s,
            num_itl=0 if pace is None else pace.num,
            duration_s=duration_s,
            saved_s=self._saved_s(outcome, label, savings, duration_s),
            steps=[_door(seen, ended_at), *outcome.steps],
            canonical=outcome.canonical,
            semantic_id=outcome.semantic_id,
        )

    def _saved_s(self, outcome: Outcome, label: str, savings: Savings, took_s: float) -> float:
        """Estimated seconds that the client did not wait."""
        if self._durations is None or label == "error" or not savings.answered_prompt_tokens:
            return 0.0
        with self._aside:
            return self._durations.saved_s(
                outcome.upstream,
                outcome.model,
                prompt_tokens=savings.answered_prompt_tokens - savings.would_be_cached_tokens,
                completion_tokens=savings.answered_completion_tokens,
                took_s=took_s,
            )
        return 0.0

    def _pass_on(self, record: RequestRecord) -> None:
        if record.prefix_break is not None:
            price = self._prices.of(record.model, record.upstream)
            if price is not None:
                rates = price.for_prompt(record.prompt_tokens or 0)
                lost = record.prefix_break.lost_tokens * max(0, rates.input - rates.cached_input)
                record = msgspec.structs.replace(record, lost=lost)
        for sink in self._sinks:
            with self._aside:
                sink(record)

    def _save(self, outcome: Outcome, visit: Visit | None) -> Savings:
        """What the request cost and saved, written into the book, the metrics and the key's budget."""
        usage, price = outcome.usage, self._prices.of(outcome.model, outcome.upstream)
        savings = of_answered(usage, price) if outcome.is_answered else of_forwarded(usage, price)
        self._book.add(_shown(outcome.model), outcome.identity.agent, savings)
        self._metrics.count_savings(savings, outcome.outcome)
        if visit is not None and usage is not None and not outcome.is_answered:
            visit.spend(time.time(), (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        return savings


def _unread(seen: Exchange, ended_at: float) -> RequestRecord:
    """The record of a request that was not let in, or could not be read, or that nobody here answers."""
    duration_s, door = ended_at - seen.arrived_at, _door(seen, ended_at)
    steps = [door]
    if seen.entered_at:
        steps.append(Step("read", _said(seen.error), duration_s - door.took_s))
    return RequestRecord(
        request_id=seen.request_id,
        at=time.time() - duration_s,
        api=seen.api,
        outcome=seen.label,
        status=seen.status,
        error=_failure(seen),
        namespace=seen.namespace,
        ttft_s=_ttft_s(seen),
        duration_s=duration_s,
        steps=steps,
    )


def _door(seen: Exchange, ended_at: float) -> Step:
    result = "in" if seen.entered_at else _said(seen.error)
    return Step("door", result, (seen.entered_at or ended_at) - seen.arrived_at)


def _ttft_s(seen: Exchange) -> float | None:
    return None if seen.first_byte_at is None else seen.first_byte_at - seen.arrived_at


def _tokens_from(outcome: Outcome) -> Mapping[str, int]:
    """The prompt's tokens by where their KV came from; empty where no upstream was asked, or it did not tell."""
    if outcome.prompt_tokens is None or outcome.is_answered:
        return {}
    return {source: getattr(outcome.prompt_tokens, source) for source in SOURCES}


def _counted(outcome: Outcome) -> int | None:
    """What the provider counted for the prompt; None where nobody told."""
    usage = outcome.usage
    return None if usage is None or usage.is_estimate else usage.prompt_tokens


def _broken(outcome: Outcome) -> str | None:
    """What broke its prefix, one word, where that is known by now."""
    broken = None if outcome.watched is None else outcome.watched.broken(_counted(outcome))
    return None if broken is None else broken.cause


def _said(error: RequestError | None) -> str:
    return "failed" if error is None else error.code or error.kind


def _failure(seen: Exchange) -> str:
    """Why it failed, in a word; empty where it did not, or its client left."""
    return "" if seen.error is None or seen.error.code == "client_gone" else _said(seen.error)


def _shown(model: str) -> str:
    """A model's name for operators' eyes: clients choose it, and some characters move cursors or break lines."""
    return model if model.isprintable() else ascii(model)[1:-1]


def _line(record: RequestRecord, seen: Exchange) -> dict[str, object]:
    """The fields of a request's log line."""
    line: dict[str, object] = {
        "request_id": record.request_id,
        "api": record.api,
        "status": record.status,
        "outcome": record.outcome,
        "duration_ms": round(record.duration_s * 1e3, 3),
    }
    if seen.visit is not None and seen.visit.principal.keyed:
        line["key"] = seen.visit.principal.key_id
    if (outcome := seen.outcome) is not None:
        line["detail"] = record.detail
        line["model"] = record.model
        line["upstream"] = record.upstream
        line["namespace"] = record.namespace
        line["stream"] = record.stream
        line["agent"] = record.agent
        line["session"] = record.session
        line["prompt_tokens"] = record.prompt_tokens
        line["completion_tokens"] = record.completion_tokens
        if outcome.usage is not None and outcome.usage.is_estimate:
            line["is_estimate"] = True
        if record.miss:
            line["miss"] = record.miss
        if (broken := _broken(outcome)) is not None:
            line["prefix_break"] = broken
        if record.ttft_s is not None:
            line["ttft_ms"] = round(record.ttft_s * 1e3, 3)
        line |= record.savings.fields()
    if record.error:
        line["error"] = record.error
    return line
