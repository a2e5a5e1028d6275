"""What a log line says of a reply whose usage nobody told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from openclaw_cache.api.account import Account
from openclaw_cache.api.exchange import Exchange
from openclaw_cache.dialects.usage import Usage
from openclaw_cache.gateway.call import Outcome
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.observe.prices import Prices
from openclaw_cache.observe.savings import SavingsBook
from openclaw_cache.types import Identity, Namespace


def logged(usage: Usage) -> Mapping[str, Any]:
    account = Account(Metrics(), Prices.load(None), SavingsBook())
    outcome = Outcome("miss", "", "m", "pods", Namespace("default"), True, Identity(None, None, "unknown"))
    outcome.usage = usage
    with capture_logs() as lines:
        account.close(Exchange("chat", "id", time.perf_counter(), outcome=outcome, status=200))
    (line,) = lines
    return line


@pytest.mark.parametrize("is_estimate", [True, False])
def test_a_log_line_tells_an_estimate_from_a_count(is_estimate: bool) -> None:
    line = logged(Usage(prompt_tokens=7, completion_tokens=2, is_estimate=is_estimate))
    assert line["prompt_tokens"] == 7
    assert line.get("is_estimate", False) is is_estimate
