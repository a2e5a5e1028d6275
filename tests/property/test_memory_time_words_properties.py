"""Times of any text, at any moment."""

from __future__ import annotations

from datetime import UTC
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.retrieval.time_words import find_range

WORDS = """
    last this next week month year ago three 3 31 Feb February March May Monday on in since before between and to from
    2025 2026-02-30 9999 yesterday 上 下 周 星期 月 日 号 年 天 前 三 十二 二〇二五 去年 上个 最近 半
    到 之前 以来 几 0 99
"""
PIECES = st.lists(st.sampled_from(WORDS.split()), max_size=12)
TEXTS = st.text(max_size=200) | PIECES.map(" ".join) | PIECES.map("".join)
MOMENTS = st.floats(0, 4e9)
ZONES = st.sampled_from(
    [UTC, ZoneInfo("Asia/Shanghai"), ZoneInfo("America/St_Johns"), ZoneInfo("Pacific/Apia")]
)


@given(TEXTS, MOMENTS, ZONES)
@settings(deadline=None)
def test_a_time_begins_before_it_ends_and_its_words_are_of_the_text(
    text: str, now: float, zone: ZoneInfo
) -> None:
    found = find_range(text, now, zone)

    if found is not None:
        assert found.since is not None or found.until is not None
        if found.since is not None and found.until is not None:
            assert found.since < found.until
        assert found.phrase
        assert found.phrase in text
        assert len(found.rest) < len(text)
