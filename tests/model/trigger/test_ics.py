"""Dates out of .ics texts."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.trigger.ics import dates_from_ics

FIRST, LAST = date(2027, 1, 1), date(2029, 12, 31)


def event(*lines: str) -> str:
    return "\r\n".join(("BEGIN:VEVENT", "DTSTAMP:20260101T000000Z", *lines, "END:VEVENT"))


def ics(*events: str) -> str:
    return "\r\n".join(("BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//x//y//", *events, "END:VCALENDAR", ""))


def read(*events: str, zone: str = "UTC", first: date = FIRST, last: date = LAST) -> list[str]:
    return [str(day) for day in dates_from_ics(ics(*events), first, last, zone)]


ALL_DAY = "DTSTART;VALUE=DATE:"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([ALL_DAY + "20270101"], ["2027-01-01"]),
        ([ALL_DAY + "20270101", "DTEND;VALUE=DATE:20270102"], ["2027-01-01"]),
        ([ALL_DAY + "20271224", "DTEND;VALUE=DATE:20271227"], ["2027-12-24", "2027-12-25", "2027-12-26"]),
        ([ALL_DAY + "20271231", "DURATION:P2D"], ["2027-12-31", "2028-01-01"]),
        ([ALL_DAY + "20261230", "DTEND;VALUE=DATE:20270103"], ["2027-01-01", "2027-01-02"]),  # only what is asked for
        ([ALL_DAY + "20291231", "DTEND;VALUE=DATE:20400101"], ["2029-12-31"]),
        (["DTSTART:20270310T220000Z", "DTEND:20270311T020000Z"], ["2027-03-10", "2027-03-11"]),
        (["DTSTART:20270310T220000Z", "DTEND:20270311T000000Z"], ["2027-03-10"]),
        (["DTSTART:20270310T090000"], ["2027-03-10"]),
        ([ALL_DAY + "20270101", "STATUS:CANCELLED"], []),
        ([ALL_DAY + "20270101", "SUMMARY:a very long line that is\r\n  folded\\, with a comma"], ["2027-01-01"]),
    ],
)
def test_events(lines: list[str], expected: list[str]) -> None:
    assert read(event(*lines)) == expected


def test_times_are_seen_from_the_zone_that_is_asked_for() -> None:
    late = event("DTSTART:20270310T233000Z", "DTEND:20270310T234500Z")
    assert read(late) == ["2027-03-10"]
    assert read(late, zone="Europe/Berlin") == ["2027-03-11"]
    named = event("DTSTART;TZID=America/New_York:20270310T200000", "DURATION:PT1H")
    assert read(named, zone="Europe/Berlin") == ["2027-03-11"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([ALL_DAY + "19491003", "RRULE:FREQ=YEARLY"], ["2027-10-03", "2028-10-03", "2029-10-03"]),
        ([ALL_DAY + "20200229", "RRULE:FREQ=YEARLY"], ["2028-02-29"]),
        ([ALL_DAY + "20280101", "RRULE:FREQ=YEARLY;COUNT=2"], ["2028-01-01", "2029-01-01"]),
        ([ALL_DAY + "20200501", "RRULE:FREQ=YEARLY;UNTIL=20280501"], ["2027-05-01", "2028-05-01"]),
        ([ALL_DAY + "20201126", "RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"], ["2027-11-25", "2028-11-23", "2029-11-22"]),
        ([ALL_DAY + "20200501", "RRULE:FREQ=YEARLY", "EXDATE;VALUE=DATE:20280501"], ["2027-05-01", "2029-05-01"]),
        (
            [ALL_DAY + "20201231", "DTEND;VALUE=DATE:20210102", "RRULE:FREQ=YEARLY;UNTIL=20271231"],
            ["2027-01-01", "2027-12-31", "2028-01-01"],
        ),
        ([ALL_DAY + "20270101", "RDATE;VALUE=DATE:20270301,20270401"], ["2027-01-01", "2027-03-01", "2027-04-01"]),
        ([ALL_DAY + "20270101", "RRULE:FREQ=MONTHLY;BYDAY=1MO,FR;COUNT=3"], ["2027-01-01", "2027-01-04", "2027-01-08"]),
        (["DTSTART:20270101T090000", "RRULE:FREQ=DAILY;UNTIL=20270103T085959Z"], ["2027-01-01", "2027-01-02"]),
        ([ALL_DAY + "20270101", "RRULE:FREQ=MONTHLY;COUNT=3"], ["2027-01-01", "2027-02-01", "2027-03-01"]),
    ],
)
def test_recurring_events(lines: list[str], expected: list[str]) -> None:
    assert read(event("UID:1", *lines)) == expected


def test_an_occurrence_that_was_moved() -> None:
    series = event("UID:1", ALL_DAY + "20270501", "RRULE:FREQ=YEARLY;COUNT=2")
    moved = event("UID:1", "RECURRENCE-ID;VALUE=DATE:20280501", ALL_DAY + "20280503")
    assert read(series, moved) == ["2027-05-01", "2028-05-03"]


def test_many_events_and_calendars() -> None:
    both = ics(event(ALL_DAY + "20270105"), event(ALL_DAY + "20270104")) + ics(event(ALL_DAY + "20270106"))
    assert dates_from_ics(both, FIRST, LAST) == (date(2027, 1, 4), date(2027, 1, 5), date(2027, 1, 6))
    assert read() == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "calendar: ''"),
        ("hello", "calendar: 'hello'"),
        ("BEGIN:VCALENDAR\nVERSION:2.0\n", "calendar: "),
        (event(ALL_DAY + "20270101"), "begins with BEGIN:VCALENDAR"),
        (ics(event("DTSTART:tomorrow")), "calendar DTSTART: 'tomorrow'"),
        (ics(event(ALL_DAY + "20270101", "RRULE:FREQ=SECONDLY")), "calendar RRULE: 'FREQ=SECONDLY'"),
        (ics(event(ALL_DAY + "20270101", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30")), "there is no such date"),
    ],
)
def test_texts_that_are_no_calendars(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        dates_from_ics(text, FIRST, LAST)


def test_spans_and_sizes_are_bounded() -> None:
    with pytest.raises(InvalidInput, match="calendar span"):
        dates_from_ics(ics(), LAST, FIRST)
    with pytest.raises(InvalidInput, match="calendar span"):
        dates_from_ics(ics(), date.min, date.max)
    with pytest.raises(InvalidInput, match="5,000,001 characters"):
        dates_from_ics("x" * 5_000_001, FIRST, LAST)
    assert len(read(event(ALL_DAY + "00030101", "RRULE:FREQ=DAILY"))) == 1096


PIECES = ["\r\n", "9999", "0001", ":", ";", "RRULE:FREQ=DAILY\r\n", "DTSTART:20270101T000000Z\r\n", "-P99D", "T", "Z"]
WHOLE = ics(
    event("UID:1", ALL_DAY + "20201231", "DTEND;VALUE=DATE:20210102", "RRULE:FREQ=YEARLY;UNTIL=20271231"),
    event("UID:2", "DTSTART;TZID=America/New_York:20270310T200000", "DURATION:PT1H", "EXDATE:20280501T000000Z"),
    event("UID:1", "RECURRENCE-ID;VALUE=DATE:20261231", ALL_DAY + "20280503", "RDATE;VALUE=DATE:20270301"),
)


@settings(max_examples=60)
@given(st.data())
@pytest.mark.slow
def test_damaged_texts_are_read_or_refused(data: st.DataObject) -> None:
    text = WHOLE
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + data.draw(st.text(max_size=4) | st.sampled_from(PIECES)) + text[place + 2 :]
    with suppress(InvalidInput):
        dates_from_ics(text, FIRST, LAST)
