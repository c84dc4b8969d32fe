"""Times in queries: `2027-01-01`, `2027-01-01T09:00`, `-2h`, `now`, `today`.

A time that is written without an offset is in the zone of the caller. All come out as instants, so the pages of one
search mean the same times.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from datetime import time as clock_time

import msgspec

from rota.errors import InvalidInput
from rota.model.times import MINUTE, SECOND, Duration, Instant, aware, duration, instant
from rota.model.trigger.zones import zone

NAMED_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_CLOCK = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d)?(\.\d{1,6})?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII | re.IGNORECASE
)
EXPECTED = "a time such as 2027-01-01, 2027-01-01T09:00, -2h, now, today or yesterday"


class WrittenTime(msgspec.Struct, frozen=True):
    """From `start` up to, not including, `end`: the day, minute or second that was written. None: exactly `start`."""

    start: Instant
    end: Instant | None = None
    day: bool = False
    relative: bool = False


class TimeReader(msgspec.Struct, frozen=True):
    """The moment of a query and the zone of its times."""

    now: Instant
    zone: str = "UTC"

    def read(self, text: str) -> WrittenTime:
        """Raises InvalidInput."""
        given = text.strip()
        if given.lower() == "now":
            return WrittenTime(self.now, relative=True)
        if (days := NAMED_DAYS.get(given.lower())) is not None:
            return self._day(aware(self.now).astimezone(zone(self.zone).info).date() + timedelta(days))
        if given[:1] in ("+", "-"):
            return WrittenTime(self._shifted(given), relative=True)
        try:
            if _DATE.fullmatch(given):
                return self._day(date.fromisoformat(given))
            if (found := _CLOCK.fullmatch(given)) is not None:
                return self._clock(*found.groups())
        except (ValueError, OverflowError):  # no such day, hour or offset
            pass
        raise InvalidInput("time", text, EXPECTED)

    def _shifted(self, given: str) -> Instant:
        """Times before 1970 count as 1970."""
        span = duration(given[1:], "time")
        return max(0, self.now - span) if given[0] == "-" else self.now + span

    def _day(self, day: date) -> WrittenTime:
        return WrittenTime(self._midnight(day), self._midnight(day + timedelta(1)), day=True)

    def _midnight(self, day: date) -> Instant:
        return instant(datetime.combine(day, clock_time(), zone(self.zone).info), "time")

    def _clock(
        self, day: str, minute: str, second: str | None, fraction: str | None, offset: str | None
    ) -> WrittenTime:
        if fraction and not second:
            raise ValueError("a fraction of a minute")
        written = datetime.fromisoformat(f"{day}T{minute}{second or ''}{fraction or ''}{(offset or '').upper()}")
        start = instant(written if offset else written.replace(tzinfo=zone(self.zone).info), "time")
        length: Duration = SECOND if second else MINUTE
        return WrittenTime(start, None if fraction else start + length)
