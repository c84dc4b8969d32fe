"""Times in queries."""

from __future__ import annotations

import pytest

from rota.errors import InvalidInput
from rota.model.query.moments import TimeReader, WrittenTime
from rota.model.times import DAY, HOUR, MINUTE, SECOND, instant, iso

NOW = instant("2027-03-28T12:00:00Z")  # the day on which clocks in Berlin go forward
UTC, BERLIN = TimeReader(NOW), TimeReader(NOW, "Europe/Berlin")


def span(moment: WrittenTime) -> tuple[str, int | None]:
    return iso(moment.start)[:19], None if moment.end is None else moment.end - moment.start


@pytest.mark.parametrize(
    ("clock", "text", "start", "length"),
    [
        (UTC, "2027-01-01", "2027-01-01T00:00:00", DAY),
        (BERLIN, "2027-01-01", "2026-12-31T23:00:00", DAY),
        (UTC, "today", "2027-03-28T00:00:00", DAY),
        (BERLIN, "Today", "2027-03-27T23:00:00", 23 * HOUR),
        (UTC, "yesterday", "2027-03-27T00:00:00", DAY),
        (UTC, "tomorrow", "2027-03-29T00:00:00", DAY),
        (UTC, "2027-01-01T09:00", "2027-01-01T09:00:00", MINUTE),
        (BERLIN, "2027-01-01T09:00", "2027-01-01T08:00:00", MINUTE),
        (BERLIN, "2027-01-01T09:00Z", "2027-01-01T09:00:00", MINUTE),
        (BERLIN, "2027-01-01t09:00z", "2027-01-01T09:00:00", MINUTE),
        (UTC, "2027-01-01 09:00:30", "2027-01-01T09:00:30", SECOND),
        (UTC, "2027-01-01T09:00+01:00", "2027-01-01T08:00:00", MINUTE),
        (UTC, "2027-01-01T09:00-0330", "2027-01-01T12:30:00", MINUTE),
        (UTC, "2027-01-01T09:00:30.5", "2027-01-01T09:00:30", None),
        (UTC, "now", "2027-03-28T12:00:00", None),
        (UTC, "-1h30m", "2027-03-28T10:30:00", None),
        (UTC, "+1d", "2027-03-29T12:00:00", None),
        (UTC, "-36000d", "1970-01-01T00:00:00", None),
        (BERLIN, "2027-03-28T02:30", "2027-03-28T01:30:00", MINUTE),  # never happened: read by the offset before it
    ],
)
def test_times(clock: TimeReader, text: str, start: str, length: int | None) -> None:
    assert span(clock.read(text)) == (start, length)


@pytest.mark.parametrize(
    "text", ["", "soon", "2027", "2027-13-01", "2027-01-01T25:00", "2027-01-01T09", "2027-01-01T09:00.5", "9999-12-31",
             "9999-12-31T00:00", "-", "-5", "+9e9d", "-1000000d", "2027-01-01T09:00+25:00", "٢٠٢٧-01-01"]
)  # fmt: skip
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidInput):
        UTC.read(text)
