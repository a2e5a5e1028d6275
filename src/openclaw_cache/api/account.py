"""What a request is counted as: metrics, budgets, savings, its record, and its one log line. Never text of prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import structlog

from openclaw_cache.api.relay import CLIENT_GONE
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

    def close(
        self,
        api: str,
        outcome: Outcome | None,
        visit: Visit | None,
        status: int,
        error: RequestError | None,
        arrived: float,
        first_byte_at: float | None,
        request_id: str,
        entered_at: float | None = None,
    ) -> None:
        """Count a request that is over, log it, and pass its record on.

        Args:
            api: The dialect's name.
            outcome: What happened to it; None where it did not get so far.
            visit: Its place, None where it was not let in.
            status: The reply's status, `CLIENT_GONE` where the client left first.
            error: Why it failed, if it did.
            arrived: When it came, by `time.perf_counter`.
            first_byte_at: When its reply began, if it did.
            request_id: What it is known by.
            entered_at: When all of it was here, if it was let in.
        """
        ended = time.perf_counter()
        failed = (status >= 400 or error is not None) and status != CLIENT_GONE
        label = "error" if failed or outcome is None else outcome.outcome
        self._metrics.requests_by[api][label].inc()
        ttft_s = None if first_byte_at is None else first_byte_at - arrived
        savings, tokens_from = _NOTHING, _tokens_from(outcome)
        fields: dict[str, object] = {
            "request_id": request_id,
            "api": api,
            "status": status,
            "outcome": label,
            "duration_ms": round((ended - arrived) * 1e3, 3),
        }
        if visit is not None and visit.principal.keyed:
            fields["key"] = visit.principal.key_id
        if outcome is not None:
            fields |= _told(outcome)
            if ttft_s is not None:
                fields["ttft_ms"] = round(ttft_s * 1e3, 3)
                if not failed:
                    self._metrics.ttft[ttft_source(outcome.outcome, tokens_from)].observe(ttft_s)
            if outcome.usage is not None:
                savings = self._save(outcome, visit)
                fields |= savings.fields()
        if error is not None and error.code != "client_gone":
            fields["error"] = error.code or error.kind
        _log.info("request", **fields)
        if not self._sinks:
            return
        with self._aside:
            door = Step("door", "in" if entered_at else _said(error), (entered_at or ended) - arrived)
            record = self._record(
                api, label, outcome, visit, status, error, savings, request_id,
                tokens_from=tokens_from, ttft_s=ttft_s, duration_s=ended - arrived, door=door,
            )  # fmt: skip
            if outcome is None or (watched := outcome.watched) is None:
                self._pass_on(record)
            else:
                watched.then(record, _counted(outcome), self._pass_on)

    def relayed(
        self,
        upstream: str,
        visit: Visit | None,
        status: int,
        error: RequestError | None,
        arrived: float,
        request_id: str,
        entered_at: float | None,
    ) -> None:
        """The same for a request that was passed through unread. Args: see `close`."""
        label = "bypass" if error is None and status < 400 else "error"
        self._metrics.requests_by[RELAY][label].inc()
        fields = {} if error is None else {"error": _said(error)}
        _log.info(
            "request",
            request_id=request_id,
            api=RELAY,
            status=status,
            outcome=label,
            upstream=upstream,
            **fields,
        )
        ended = time.perf_counter()
        steps = [Step("door", "in" if entered_at else _said(error), (entered_at or ended) - arrived)]
        if entered_at:
            steps.append(Step("upstream", str(status), ended - entered_at))
        self._pass_on(
            RequestRecord(
                request_id=request_id,
                at=time.time() - (ended - arrived),
                api=RELAY,
                outcome=label,
                detail=RELAY,
                status=status,
                error="" if error is None else _said(error),
                upstream=upstream,
                namespace="" if visit is None else visit.principal.namespace,
                duration_s=ended - arrived,
                steps=steps,
            )
        )

    def _record(
        self,
        api: str,
        label: str,
        outcome: Outcome | None,
        visit: Visit | None,
        status: int,
        error: RequestError | None,
        savings: Savings,
        request_id: str,
        *,
        tokens_from: Mapping[str, int],
        ttft_s: float | None,
        duration_s: float,
        door: Step,
    ) -> RequestRecord:
        """All that is known of a request. About 3 µs."""
        said = "" if error is None or error.code == "client_gone" else _said(error)
        at = time.time() - duration_s
        if outcome is None:
            steps = [door]
            if door.result == "in":  # what it says could not be read, or nobody here answers it
                steps.append(Step("read", _said(error), duration_s - door.took_s))
            return RequestRecord(
                request_id=request_id, at=at, api=api, outcome=label, status=status, error=said,
                namespace="" if visit is None else visit.principal.namespace,
                ttft_s=ttft_s, duration_s=duration_s, steps=steps,
            )  # fmt: skip
        usage, pace, identity = outcome.usage, outcome.pace, outcome.identity
        return RequestRecord(
            request_id=request_id,
            at=at,
            api=api,
            outcome=label,
            status=status,
            detail=str(outcome.detail),  # a reason is an enum's member, which not every writer of JSON takes
            miss=outcome.miss,
            error=said,
            model=_shown(outcome.model[:128]),
            upstream=outcome.upstream,
            namespace=outcome.namespace,
            agent=identity.agent,
            session=identity.session,
            stream=outcome.stream,
            prompt_id=outcome.prompt_id,
            prompt_tokens=None if usage is None else usage.prompt_tokens,
            completion_tokens=None if usage is None else usage.completion_tokens,
            tokens_from=tokens_from,
            savings=savings,
            ttft_s=ttft_s,
            itl_sum_s=0.0 if pace is None else pace.sum_s,
            num_itl=0 if pace is None else pace.num,
            duration_s=duration_s,
            saved_s=self._saved_s(outcome, label, savings, duration_s),
            steps=[door, *outcome.steps],
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


def _tokens_from(outcome: Outcome | None) -> Mapping[str, int]:
    """The prompt's tokens by where their KV came from; empty where no upstream was asked, or it did not tell."""
    if outcome is None or outcome.prompt_tokens is None or outcome.is_answered:
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


def _shown(model: str) -> str:
    """A model's name for operators' eyes: clients choose it, and some characters move cursors or break lines."""
    return model if model.isprintable() else ascii(model)[1:-1]


def _told(outcome: Outcome) -> dict[str, object]:
    usage = outcome.usage
    told: dict[str, object] = {
        "detail": outcome.detail,
        "model": _shown(outcome.model[:128]),
        "upstream": outcome.upstream,
        "namespace": outcome.namespace,
        "stream": outcome.stream,
        "agent": outcome.identity.agent,
        "session": outcome.identity.session,
        "prompt_tokens": usage.prompt_tokens if usage else None,
        "completion_tokens": usage.completion_tokens if usage else None,
    }
    if usage is not None and usage.is_estimate:
        told["is_estimate"] = True
    if outcome.miss:
        told["miss"] = outcome.miss
    if (broken := _broken(outcome)) is not None:
        told["prefix_break"] = broken
    return told
