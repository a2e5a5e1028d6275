"""The table of failures against a plain record of what happened."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.gateway.negative import Failures

NAMES = [b"a", b"b", b"c"]
BOUND_S = 5.0


@dataclass
class Record:
    """What a request has been told last."""

    failed_at: float
    num_failures: int
    lasts_s: float


def of_model(num_failures: int, retry_after: int | None) -> float:
    if retry_after is not None:
        return min(retry_after, 60)
    return 0.0 if num_failures == 1 else min(0.5 * 2 ** (num_failures - 2), BOUND_S)


steps = st.tuples(
    st.sampled_from(NAMES),
    st.integers(0, 8 * 90).map(lambda eighths: eighths / 8),  # so that the model's arithmetic is exact
    st.none() | st.integers(0, 200),
    st.booleans(),
)


@given(st.lists(steps, max_size=60))
def test_a_failure_answers_only_its_own_request_and_never_longer_than_was_asked_or_the_bound(
    events: list[tuple[bytes, float, int | None, bool]],
) -> None:
    failures, now = Failures(BOUND_S), 1000.0
    records: dict[bytes, Record] = {}
    for name, step, retry_after, succeeds in events:
        now += step
        record = records.get(name)
        if record and now >= record.failed_at + max(60.0, record.lasts_s):
            record = None
        known = failures.known(name, now)
        assert (known is None) == (record is None)
        if known is not None and record is not None:
            assert known.body == name
            assert known.expires_at == record.failed_at + record.lasts_s
            if now < known.expires_at:
                continue  # answered with it: the upstream is not asked, and nothing changes
        if succeeds:
            failures.forget(name)
            records.pop(name, None)
            continue
        headers = [] if retry_after is None else [(b"retry-after", b"%d" % retry_after)]
        failures.replied(name, 503, headers, name, now, now)
        num_failures = 1 + (record.num_failures if record else 0)
        records[name] = Record(now, num_failures, of_model(num_failures, retry_after))


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3000)), max_size=80))
def test_it_never_holds_more_than_it_may_and_counts_what_it_holds(events: list[tuple[int, int]]) -> None:
    failures = Failures(BOUND_S, most=16, most_bytes=20_000)
    for number, num_bytes in events:
        if num_bytes % 7 == 0:
            failures.forget(b"%d" % number)
        else:
            failures.replied(b"%d" % number, 500, [], bytes(num_bytes), 1.0, 1.0)
        assert len(failures) <= 16
        assert failures.num_bytes <= 20_000
    for number in range(41):
        failures.forget(b"%d" % number)
    assert failures.num_bytes == 0
