"""What a request is counted as: metrics, budgets, savings, and its one log line. Never text of prompts or replies."""

from __future__ import annotations

import time

import structlog

from openclaw_cache.api.relay import CLIENT_GONE
from openclaw_cache.api.visit import Visit
from openclaw_cache.errors import RequestError
from openclaw_cache.gateway.call import Outcome
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.prices import Prices
from openclaw_cache.observe.savings import Savings, SavingsBook, of_answered, of_forwarded

_log = structlog.get_logger()
_SOURCES = {"exact": "result", "semantic": "semantic"}


class Account:
    """Closes the account of each request."""

    def __init__(self, metrics: Metrics, prices: Prices, book: SavingsBook) -> None:
        self._metrics = metrics
        self._prices = prices
        self._book = book

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
    ) -> None:
        """Count a request that is over, and log it.

        Args:
            api: The dialect's name.
            outcome: What happened to it; None where it did not get so far.
            visit: Its place, None where it was not let in.
            status: The reply's status, `CLIENT_GONE` where the client left first.
            error: Why it failed, if it did.
            arrived: When it came, by `time.perf_counter`.
            first_byte_at: When its reply began, if it did.
            request_id: What it is known by.
        """
        ended = time.perf_counter()
        failed = (status >= 400 or error is not None) and status != CLIENT_GONE
        label = "error" if failed or outcome is None else outcome.outcome
        self._metrics.requests_by[api][label].inc()
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
            if first_byte_at is not None:
                fields["ttft_ms"] = round((first_byte_at - arrived) * 1e3, 3)
                if not failed:
                    source = _SOURCES.get(outcome.outcome, "upstream")
                    self._metrics.ttft[source].observe(first_byte_at - arrived)
            if outcome.usage is not None:
                fields |= self._save(outcome, visit).fields()
                if outcome.usage.is_estimate:
                    fields["is_estimate"] = True
        if error is not None and error.code != "client_gone":
            fields["error"] = error.code or error.kind
        _log.info("request", **fields)

    def _save(self, outcome: Outcome, visit: Visit | None) -> Savings:
        """What the request cost and saved, written into the book, the metrics and the key's budget."""
        usage, price = outcome.usage, self._prices.of(outcome.model, outcome.upstream)
        savings = of_answered(usage, price) if outcome.is_answered else of_forwarded(usage, price)
        self._book.add(_shown(outcome.model), outcome.identity.agent, savings)
        self._metrics.count_savings(savings, outcome.outcome)
        if visit is not None and usage is not None and not outcome.is_answered:
            visit.spend(time.time(), (usage.prompt_tokens or 0) + (usage.completion_tokens or 0))
        return savings


def _shown(model: str) -> str:
    """A model's name for operators' eyes: clients choose it, and some characters move cursors or break lines."""
    return model if model.isprintable() else ascii(model)[1:-1]


def _told(outcome: Outcome) -> dict[str, object]:
    usage = outcome.usage
    return {
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
