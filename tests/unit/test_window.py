from __future__ import annotations

from openclaw_cache.observe.window import Window


def test_ratio_is_hits_over_lookups() -> None:
    w = Window(60.0)
    for i in range(10):
        w.add(100.0 + i, hit=i % 5 == 0)
    assert w.counts(110.0) == (2, 10)
    assert w.ratio(110.0) == 0.2


def test_what_is_older_than_the_window_no_longer_counts() -> None:
    w = Window(60.0)
    w.add(100.0, hit=True)
    w.add(150.0, hit=False)
    assert w.counts(159.0) == (1, 2)
    assert w.counts(161.5) == (0, 1)
    assert w.counts(300.0) == (0, 0)
    assert w.ratio(300.0) == 0.0


def test_a_slot_reused_after_a_full_turn_starts_from_zero() -> None:
    w = Window(60.0)
    w.add(0.5, hit=True)
    w.add(60.5, hit=False)
    assert w.counts(60.5) == (0, 1)


def test_many_lookups_may_be_counted_at_once() -> None:
    w = Window(60.0)
    w.add_many(1.0, num_hits=64, num_lookups=85)
    w.add(2.0, hit=True)
    assert w.counts(2.0) == (65, 86)
