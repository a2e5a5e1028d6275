"""Days, weeks, months and years around a moment, in one time zone. Weeks begin on Monday (ISO 8601)."""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final, Literal

Unit = Literal["minute", "hour", "day", "week", "month", "quarter", "year"]
_SECONDS: Final = {"minute": 60, "hour": 3600}
_FEW: Final = (2, 7)
_COUPLE: Final = (1, 3)
FEW: Final = -1
"""In place of a number: two to seven."""
COUPLE: Final = -2
"""In place of a number: one to three."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `since` until just before `until`, in Unix s; None = without that end."""

    since: float | None
    until: float | None


@dataclass(frozen=True, slots=True)
class Now:
    """The moment from which words like "yesterday" count."""

    at: float
    tz: tzinfo

    @property
    def today(self) -> date:
        """The day, where the user is."""
        return datetime.fromtimestamp(self.at, self.tz).date()

    def days(self, first: date, last: date) -> Span:
        """From the first day to the end of the last."""
        return Span(self._start_of(first), self._start_of(last + timedelta(days=1)))

    def day(self, offset: int) -> Span:
        """The day that is so many days after today."""
        day = self.today + timedelta(days=offset)
        return self.days(day, day)

    def period(self, unit: Unit, offset: int) -> Span:
        """The whole day, week, month, quarter or year that is so many after the current one.

        Of minutes and hours, those around the moment: one before and after it, or a quarter where they are many.
        """
        if unit in ("minute", "hour"):
            size = _SECONDS[unit]
            around = max(1, abs(offset) // 4)
            return Span(self.at + (offset - around) * size, self.at + (offset + around) * size)
        if unit == "day":
            return self.day(offset)
        if unit == "week":
            monday = self.monday(offset)
            return self.days(monday, monday + timedelta(days=6))
        if unit == "month":
            first = months_after(self.today.replace(day=1), offset)
            return self.month(first.year, first.month)
        if unit == "quarter":
            first = months_after(date(self.today.year, (self.today.month - 1) // 3 * 3 + 1, 1), 3 * offset)
            return self.months(first.year, first.month, 3)
        return self.months(self.today.year + offset, 1, 12)

    def ago(self, number: int, unit: Unit) -> Span:
        """The period so many units back, for `FEW` and `COUPLE` several of them."""
        nearest, farthest = _bounds(number)
        return Span(self.period(unit, -farthest).since, self.period(unit, -nearest).until)

    def last(self, number: int, unit: Unit) -> Span:
        """So many units until now; from days on, from the beginning of that day to the end of today."""
        _, number = _bounds(number)
        if unit in ("minute", "hour"):
            return Span(self.at - number * _SECONDS[unit], self.at)
        if unit in ("day", "week"):
            first = self.today - timedelta(days=number * (7 if unit == "week" else 1))
        else:
            first = months_after(self.today, -number * {"month": 1, "quarter": 3, "year": 12}[unit])
        return self.days(first, self.today)

    def half_year_ago(self) -> Span:
        """Half a year ago, as people say it: the month, and one on either side."""
        first = months_after(self.today.replace(day=1), -7)
        return self.months(first.year, first.month, 3)

    def month(self, year: int, month: int) -> Span:
        """A whole month."""
        return self.months(year, month, 1)

    def months(self, year: int, month: int, number: int) -> Span:
        """So many whole months from one on."""
        first = date(year, month, 1)
        return self.days(first, months_after(first, number) - timedelta(days=1))

    def part_of_month(self, year: int, month: int, part: int) -> Span:
        """The first ten days of a month (0), the next ten (1), or the rest (2)."""
        last = calendar.monthrange(year, month)[1] if part == 2 else 10 * part + 10
        return self.days(date(year, month, 10 * part + 1), date(year, month, last))

    def last_year_with(self, month: int, day: int = 1) -> int:
        """The year in which this day of a year was last, today counted."""
        return self.today.year - ((month, day) > (self.today.month, self.today.day))

    def year_of_month(self, month: int) -> int:
        """The year in which this month was last, the current one counted."""
        return self.today.year - (month > self.today.month)

    def monday(self, offset: int) -> date:
        """The Monday of the week so many weeks after the current one."""
        return self.today + timedelta(days=7 * offset - self.today.weekday())

    def weekday(self, week: int, number: int) -> Span:
        """A day (0 = Monday) of the week so many weeks after the current one; 7 for its weekend."""
        monday = self.monday(week)
        if number == 7:
            return self.days(monday + timedelta(days=5), monday + timedelta(days=6))
        day = monday + timedelta(days=number)
        return self.days(day, day)

    def latest_weekday(self, number: int, *, with_today: bool) -> Span:
        """When it was last this day of a week (0 = Monday); 7 for the weekend."""
        back = (self.today.weekday() - (5 if number == 7 else number)) % 7
        if back == 0 and not with_today:
            back = 7
        first = self.today - timedelta(days=back)
        return self.days(first, first + timedelta(days=int(number == 7)))

    def next_weekday(self, number: int) -> Span:
        """When it will be this day of a week (0 = Monday) next, today not counted; 7 for the weekend."""
        ahead = ((5 if number == 7 else number) - self.today.weekday()) % 7 or 7
        first = self.today + timedelta(days=ahead)
        return self.days(first, first + timedelta(days=int(number == 7)))

    def _start_of(self, day: date) -> float:
        return datetime.combine(day, time.min, self.tz).timestamp()


def months_after(day: date, number: int) -> date:
    """The same day so many months later, or the month's last where it has no such day."""
    month = day.year * 12 + day.month - 1 + number
    year, month = divmod(month, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _bounds(number: int) -> tuple[int, int]:
    return {FEW: _FEW, COUPLE: _COUPLE}.get(number, (number, number))
