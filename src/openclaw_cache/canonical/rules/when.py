"""The shape of a date or a time, in English and Chinese."""

from __future__ import annotations

from typing import Final

_NAME: Final = (
    r"(?:[A-Z][A-Za-z]{1,20}/[A-Z][A-Za-z_]{1,30}(?:/[A-Z][A-Za-z_]{1,30})?"  # America/Los_Angeles
    r"|(?:Mon|Tues?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?"
    r"|Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?"
    r"|[AaPp]\.?[Mm]|at|T|Z|[A-Z]{2,5})(?![A-Za-z])"
)
_CHINESE: Final = r"[年月日号时点分秒]|(?:星期|周|礼拜)[一二三四五六日天]|上午|下午|凌晨|晚上|中午|北京时间"

# Each piece is taken whole and given back never, so the time is linear in the line.
WHEN: Final = (
    # somewhere in it is a day (2026-11-29, 29/11/26, 29 Nov, Nov 29, 11月29日) or a clock (17:32, 17点)
    r"(?=[^\n]{0,60}?(?:\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,2}(?:st|nd|rd|th)? [A-Z][a-z]{2}|[a-z]{3} \d{1,2}(?!\d)"
    r"|\d{1,2}月\d{1,2}|\d{1,2}[:点]\d{0,2}))"
    rf"(?:(?>\d{{1,9}}(?:st|nd|rd|th)?T?|{_NAME}|{_CHINESE}|[ \t,.:/+()\-–—])){{1,60}}+"
)
"""Only weekdays, months, zones, numbers and what stands between them: no sentence goes along with a date."""
