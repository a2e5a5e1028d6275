"""Numbers with what they count, in one form for all ways of writing them: "two weeks" is "14 days" and "两周"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from openclaw_cache.semantic.words.listed import listed
from openclaw_cache.semantic.words.numerals import ENGLISH, ORDINALS, SCALES, english_number, han_number
from openclaw_cache.semantic.words.tokens import Token


class Quantity(NamedTuple):
    """A number and its unit; the unit is "" where it merely counts or names."""

    unit: str
    value: float
    is_loose: bool = False
    """Whether it may be left out ("a day", "one euro"): it differs from another number, but not from none."""


_DAY: Final = 86_400.0
_UNITS: Final[dict[str, tuple[str, float]]] = {}
for _names, _unit, _factor in (
    ("second seconds sec secs 秒 秒钟", "s", 1.0),
    ("minute minutes min mins 分钟", "s", 60.0),
    ("hour hours hr hrs h 小时 个小时 钟头 个钟头", "s", 3600.0),
    ("day days 天 日内 个工作日 工作日", "s", _DAY),
    ("week weeks wk wks weekly 周 星期 个星期 礼拜 个礼拜", "s", 7 * _DAY),
    ("fortnight fortnights", "s", 14 * _DAY),
    ("month months mo 个月", "month", 1.0),
    ("year years yr yrs yo 年 岁 周岁", "month", 12.0),
    ("decade decades", "month", 120.0),
    ("percent pct % per-cent", "%", 1.0),
    ("‰", "%", 0.1),
    ("$ dollar dollars usd buck bucks 美元 美金", "usd", 1.0),
    ("£ pound pounds gbp quid 英镑", "gbp", 1.0),
    ("€ euro euros eur 欧元", "eur", 1.0),
    ("¥ yuan rmb cny 元 块 块钱 人民币 圆", "cny", 1.0),
    ("yen jpy 日元", "jpy", 1.0),
    ("rupee rupees inr ₹", "inr", 1.0),
    ("cent cents pence 分钱 毛 角", "cent", 1.0),
    ("kb kilobyte kilobytes", "byte", 1e3),
    ("mb megabyte megabytes 兆", "byte", 1e6),
    ("gb gig gigs gigabyte gigabytes g", "byte", 1e9),
    ("tb terabyte terabytes", "byte", 1e12),
    ("mbps", "bps", 1e6),
    ("gbps", "bps", 1e9),
    ("mm millimetre millimetres millimeter millimeters 毫米", "mm", 1.0),
    ("cm centimetre centimetres centimeter centimeters 厘米 公分", "mm", 10.0),
    ("metre metres meter meters 米", "mm", 1e3),
    ("km kilometre kilometres kilometer kilometers 公里 千米", "mm", 1e6),
    ("inch inches 英寸 寸", "inch", 1.0),
    ("foot feet ft 英尺", "inch", 12.0),
    ("yard yards", "inch", 36.0),
    ("mile miles 英里", "inch", 63_360.0),
    ("mg milligram milligrams 毫克", "mg", 1.0),
    ("gram grams 克", "mg", 1e3),
    ("kg kilo kilos kilogram kilograms 公斤 千克", "mg", 1e6),
    ("斤", "mg", 5e5),
    ("oz ounce ounces", "lb", 1 / 16),
    ("lb lbs", "lb", 1.0),
    ("ml millilitre millilitres milliliter milliliters 毫升", "ml", 1.0),
    ("litre litres liter liters 升", "ml", 1e3),
    ("°c celsius ° degree degrees 度 摄氏度", "degree", 1.0),
    ("°f fahrenheit", "fahrenheit", 1.0),
):
    for _name in _names.split():
        _UNITS[_name] = (_unit, _factor)
MAX_HAN_UNIT: Final = max(len(name) for name in _UNITS if name[0] > "\u3000")
_SIGNS: Final = frozenset("$£€¥")
_ORDINAL_ENDINGS: Final = frozenset(("st", "nd", "rd", "th"))
_MONTHS: Final = {
    name: float(number)
    for number, names in enumerate(
        (
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sep sept",
            "october oct",
            "november nov",
            "december dec",
        ),
        1,
    )
    for name in listed(names)
}
_HAN_COUNTERS: Final = frozenset("个位名件条张口只本台辆次场层楼间双对批组人点页章杯碗瓶倍种号项门节")
_NUMBER_WORDS: Final = frozenset((*ENGLISH, *SCALES)) - {"k", "grand", "mn", "bn", "half"}
_ONE: Final = frozenset(("a", "an", "per", "each", "every"))
_LOOSE: Final = frozenset(("one", "first", "second", "half", "zero", "once"))
"""Words that count only where a unit follows: "one of them", "first, …"."""


def month_number(word: str) -> float | None:
    """Return 1 to 12 for the name of a month."""
    return _MONTHS.get(word)


def read_number(tokens: Sequence[Token], at: int) -> tuple[Quantity, int] | None:
    """Return the quantity that starts at a token and the place after it; None where none starts there."""
    token = tokens[at]
    after = at + 1
    loose = False
    sign = tokens[at - 1].text if at and tokens[at - 1].kind == "sign" else ""
    if token.kind == "number":
        if ":" in token.text or token.text.endswith(("am", "pm")):
            return _clock(token.text), after
        text = token.text.replace(",", "")
        value = float(text[:300])
        if after < len(tokens) and tokens[after].text in SCALES and tokens[after].kind == "word":
            value *= SCALES[tokens[after].text]
            after += 1
    elif token.text in _NUMBER_WORDS:
        words = [token.text]
        while after < len(tokens) and len(words) < 12:
            word = tokens[after].text
            if word in _NUMBER_WORDS or (word in ORDINALS and word not in _LOOSE and len(words) > 0):
                words.append(word)
            elif not (
                word == "and"
                and after + 1 < len(tokens)
                and tokens[after + 1].text in ENGLISH
                and words[-1] in SCALES
            ):
                break
            after += 1
        value = english_number(words)
        loose = len(words) == 1 and token.text in _LOOSE
    elif token.text in ORDINALS and (
        token.text not in _LOOSE or (token.text != "second" and at and tokens[at - 1].text == "the")
    ):
        return Quantity("", ORDINALS[token.text]), after
    elif token.text in _ONE and after < len(tokens) and tokens[after].text in _UNITS:
        unit, factor = _UNITS[tokens[after].text]
        return Quantity(unit, factor, True), after + 1
    else:
        return None
    return _with_unit(tokens, after, value, sign, loose)


def _with_unit(
    tokens: Sequence[Token], after: int, value: float, sign: str, loose: bool
) -> tuple[Quantity, int] | None:
    """Join a value with the unit that stands around it."""
    following = tokens[after] if after < len(tokens) else None
    if following is not None and following.kind != "han":
        found = _unit_after(tokens, after, value, loose)
        if found is not None:
            return found
    if sign in _SIGNS and sign:
        return Quantity(_UNITS[sign][0], value), after
    return None if loose else (Quantity("", value), after)


def _unit_after(
    tokens: Sequence[Token], after: int, value: float, loose: bool
) -> tuple[Quantity, int] | None:
    word = tokens[after].text
    following = tokens[after + 1].text if after + 1 < len(tokens) else ""
    if word in _ORDINAL_ENDINGS:
        return Quantity("", value), after + 1
    if word in {"am", "pm"} and value <= 12:
        return Quantity("clock", value % 12 * 60 + 720 * (word == "pm")), after + 1
    if (word, following) == ("o", "clock"):
        return Quantity("clock", value * 60), after + 2
    if (word, following) == ("per", "cent"):
        return Quantity("%", value), after + 2
    if found := _UNITS.get(word):
        return Quantity(found[0], round(value * found[1], 6), loose), after + 1
    return None


def _clock(text: str) -> Quantity:
    hours, _, rest = text.removesuffix("am").removesuffix("pm").replace(".", ":").partition(":")
    minutes = float(hours) * 60 + float(rest[:2])
    if text.endswith("pm") and float(hours) < 12:
        minutes += 720
    elif text.endswith("am") and float(hours) == 12:
        minutes -= 720
    return Quantity("clock", minutes)


def read_han_number(
    text: str, at: int, end: int, *, before: str, digits: float | None
) -> tuple[Quantity, int] | None:
    """Return the quantity written in `text[at:end]` in Chinese characters, and the place after its unit.

    Args:
        text: A run of Chinese characters.
        at: Where its numerals start.
        end: Where they end; equal to `at` where digits stood before the run.
        before: What stands before: 第 makes any numeral count, 百分之 a percentage.
        digits: The number in digits that stood before the run.

    Returns:
        None where it is no number: a single numeral with nothing to count ("一般").
    """
    value = han_number(text[at:end], digits) if end > at else (digits or 0.0)
    if before.endswith("百分之"):
        return Quantity("%", value), end
    rest = text[end : end + MAX_HAN_UNIT]
    found = _han_unit(rest, value, before)
    if found is not None:
        quantity, taken = found
        is_loose = digits is None and text[at:end] == "一" and quantity.unit not in _POINTS
        return quantity._replace(is_loose=is_loose), end + taken
    counts = rest[:1] in _HAN_COUNTERS
    if end - at >= 2 or digits is not None or before.endswith("第") or (counts and text[at] not in "一半"):
        return Quantity("", value), end + counts
    return None


_POINTS: Final = frozenset(("clock", "month#", ""))
"""Units of what names a point, not an amount."""


def _han_unit(rest: str, value: float, before: str) -> tuple[Quantity, int] | None:
    """Return a value with the unit that `rest` starts with, and the length of that."""
    if rest[:1] == "月" and not before.endswith("第"):
        return Quantity("month#", value), 1
    if rest[:1] in {"点", "时"} and value < 25:
        half = rest[1:2] == "半"
        is_late = any(word in before[-3:] for word in ("下午", "晚上", "傍晚"))
        return Quantity("clock", (value + 12 * (is_late and value < 12)) * 60 + 30 * half), 1 + half
    if rest[:1] in {"日", "号"} and rest[:2] != "日元":
        return Quantity("", value), 1
    for length in range(len(rest), 0, -1):
        if unit := _UNITS.get(rest[:length]):
            half = rest[length : length + 1] == "半"
            return Quantity(unit[0], round((value + 0.5 * half) * unit[1], 6)), length + half
    return None
