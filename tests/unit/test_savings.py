"""What a request cost and what answering it saved. All sums are done by hand."""

from __future__ import annotations

import random

import pytest

from openclaw_cache.dialects.usage import Usage
from openclaw_cache.observe.prices import Price, Rates
from openclaw_cache.observe.savings import Savings, SavingsBook, of_answered, of_forwarded

# Claude Opus 4.5: $5 input, $25 output, $0.50 cached, $6.25 written, for a million tokens; in picodollars for one.
_OPUS = Price(Rates(5_000_000, 25_000_000, 500_000, 6_250_000))


def test_a_forwarded_request_costs_each_kind_of_token_at_its_price() -> None:
    record = of_forwarded(Usage(10_000, 200, 8_000, 1_500), _OPUS)
    # 500 × $5 + 1500 × $6.25 + 8000 × $0.50 + 200 × $25, each by the million:
    # 0.0025 + 0.009375 + 0.004 + 0.005 = $0.020875
    assert record == Savings(2_000, 8_000, spent=20_875_000_000, saved=0)
    assert record.spent_usd == 0.020875
    assert record.saved_usd == 0


def test_what_the_upstreams_own_cache_saved_is_not_ours() -> None:
    record = of_forwarded(Usage(10_000, 0, 10_000), _OPUS)
    assert (record.computed_tokens, record.upstream_cached_tokens) == (0, 10_000)
    assert record.saved == 0
    assert record.would_be_cached_tokens == record.answered_prompt_tokens == 0


def test_an_answered_request_saves_what_computing_it_would_have_cost() -> None:
    record = of_answered(Usage(10_000, 200), _OPUS)
    # 10000 × $5 + 200 × $25 by the million: 0.05 + 0.005 = $0.055
    assert record == Savings(
        answered_prompt_tokens=10_000, answered_completion_tokens=200, spent=0, saved=55_000_000_000
    )
    assert record.saved_usd == 0.055


def test_what_the_provider_would_have_cached_anyway_is_saved_at_the_cached_price_only() -> None:
    record = of_answered(Usage(10_000, 200, 6_000, 3_000), _OPUS)
    # 1000 × $5 + 9000 × $0.50 + 200 × $25 by the million: 0.005 + 0.0045 + 0.005 = $0.0145
    assert record.saved_usd == 0.0145
    assert record.would_be_cached_tokens == 9_000
    assert record.answered_prompt_tokens == 10_000


def test_a_reply_whose_whole_prompt_was_cached_saves_reading_it_and_its_completion() -> None:
    record = of_answered(Usage(10_000, 0, 10_000), _OPUS)
    assert record.saved_usd == 0.005
    assert record.would_be_cached_tokens == record.answered_prompt_tokens


def test_a_long_prompt_counts_at_its_own_price() -> None:
    price = Price(Rates(2, 10, 1, 2), long=Rates(4, 15, 2, 4), above_tokens=100)
    assert of_forwarded(Usage(100, 10), price).spent == 300
    assert of_forwarded(Usage(101, 10), price).spent == 554
    assert of_answered(Usage(101, 10, 1), price).saved == 552


@pytest.mark.parametrize("of", [of_forwarded, of_answered])
@pytest.mark.parametrize("usage", [None, Usage(), Usage(None, 5)])
def test_without_a_usage_nothing_is_claimed(of: object, usage: Usage | None) -> None:
    assert callable(of)
    record = of(usage, _OPUS)
    assert record == Savings()
    assert record.spent_usd is record.saved_usd is None
    assert record.fields() == {}


def test_without_a_price_tokens_are_counted_and_money_is_not() -> None:
    forwarded, answered = of_forwarded(Usage(100, 5, 40), None), of_answered(Usage(100, 5, 40), None)
    assert (forwarded.computed_tokens, forwarded.spent, forwarded.saved) == (60, None, None)
    assert (answered.answered_prompt_tokens, answered.spent, answered.saved) == (100, None, None)


def test_a_reply_without_a_count_of_its_completion_is_its_prompt_alone() -> None:
    assert of_forwarded(Usage(1_000), _OPUS).spent_usd == 0.005


def test_more_cached_than_the_prompt_has_never_makes_a_negative_count() -> None:
    record = of_forwarded(Usage(10, 0, 25, 25), _OPUS)
    assert (record.computed_tokens, record.upstream_cached_tokens, record.spent) == (0, 10, 5_000_000)
    assert of_answered(Usage(10, 0, 6, 25), _OPUS).would_be_cached_tokens == 10


def test_a_log_line_has_what_is_known_and_not_zero() -> None:
    assert of_forwarded(Usage(10_000, 200, 8_000, 1_500), _OPUS).fields() == {
        "computed_tokens": 2_000, "upstream_cached_tokens": 8_000, "spent_usd": 0.020875,
    }  # fmt: skip
    assert of_answered(Usage(10_000, 200), _OPUS).fields() == {
        "answered_prompt_tokens": 10_000, "answered_completion_tokens": 200, "saved_usd": 0.055,
    }  # fmt: skip


def test_the_book_sums_per_model_and_per_agent() -> None:
    book = SavingsBook()
    book.add("opus", "cleo", of_forwarded(Usage(1_000, 10), _OPUS))  # 0.005 + 0.00025
    book.add("opus", "bert", of_answered(Usage(1_000, 10), _OPUS))
    book.add("local", None, of_forwarded(Usage(7, 1), None))
    assert book.summary() == {
        "total": {
            "num_requests": 3, "num_priced": 2, "computed_tokens": 1_007, "answered_prompt_tokens": 1_000,
            "answered_completion_tokens": 10, "spent_usd": 0.00525, "saved_usd": 0.00525,
        },
        "models": {
            "opus": {
                "num_requests": 2, "num_priced": 2, "computed_tokens": 1_000, "answered_prompt_tokens": 1_000,
                "answered_completion_tokens": 10, "spent_usd": 0.00525, "saved_usd": 0.00525,
            },
            "local": {
                "num_requests": 1, "num_priced": 0, "computed_tokens": 7, "spent_usd": 0.0, "saved_usd": 0.0,
            },
        },
        "agents": {
            "cleo": {
                "num_requests": 1, "num_priced": 1, "computed_tokens": 1_000, "spent_usd": 0.00525,
                "saved_usd": 0.0,
            },
            "bert": {
                "num_requests": 1, "num_priced": 1, "answered_prompt_tokens": 1_000,
                "answered_completion_tokens": 10, "spent_usd": 0.0, "saved_usd": 0.00525,
            },
            "unknown": {
                "num_requests": 1, "num_priced": 0, "computed_tokens": 7, "spent_usd": 0.0, "saved_usd": 0.0,
            },
        },
    }  # fmt: skip


def test_an_answered_request_without_a_prompt_still_counts_its_completion() -> None:
    book = SavingsBook()
    book.add("m", "a", of_answered(Usage(0, 7), _OPUS))
    assert book.summary()["total"] == {
        "num_requests": 1, "num_priced": 1, "answered_completion_tokens": 7, "spent_usd": 0.0, "saved_usd": 0.000175,
    }  # fmt: skip


def test_the_number_of_labels_is_bounded_and_nothing_is_lost() -> None:
    book = SavingsBook(num_labels=2)
    for i in range(10):
        book.add(f"model-{i}", f"agent-{i}", of_forwarded(Usage(1), None))
    summary = book.summary()
    for lines in (summary["models"], summary["agents"]):
        assert isinstance(lines, dict)
        assert len(lines) == 3
        assert lines["other"]["num_requests"] == 8
        assert sum(line["computed_tokens"] for line in lines.values()) == 10


def test_a_very_long_name_is_no_label() -> None:
    book = SavingsBook()
    book.add("m" * 129, "a" * 129, Savings())
    summary = book.summary()
    assert [*summary["models"], *summary["agents"]] == ["other", "other"]  # type: ignore[misc]


def test_many_small_sums_are_exact_in_any_order() -> None:
    # 0.1 + 0.2 is no 0.3 in floats: 30,000 requests at $0.000001 and as many at $0.000002 are $0.09.
    cents = [Savings(spent=1_000_000, saved=0), Savings(spent=2_000_000, saved=0)] * 30_000
    random.Random(7).shuffle(cents)
    book = SavingsBook()
    for record in cents:
        book.add("m", "a", record)
    total = book.summary()["total"]
    assert isinstance(total, dict)
    assert total["spent_usd"] == 0.09
