"""`rota calendar ...`: sets of dates by hand and out of .ics files."""

from __future__ import annotations

import sys
from datetime import date

import pytest

from rota.model.trigger.ics import years_after
from tests.cli.program import Rota, refused

ICS = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:test
BEGIN:VEVENT
UID:1
DTSTART;VALUE=DATE:20201225
DTEND;VALUE=DATE:20201227
RRULE:FREQ=YEARLY
END:VEVENT
BEGIN:VEVENT
UID:2
DTSTART:20270630T220000Z
DTEND:20270630T223000Z
END:VEVENT
END:VCALENDAR
"""
SPAN = ("--from", "2027-01-01", "--to", "2028-12-31")


def test_dates_by_hand(rota: Rota) -> None:
    said = rota.ok("calendar", "add", "holidays", "--dates", "2027-12-31, 2027-12-24,2027-12-24")
    assert said == "holidays has 2 dates, from 2027-12-24 to 2027-12-31"
    assert rota.json("calendar", "show", "holidays") == {"name": "holidays", "dates": ["2027-12-24", "2027-12-31"]}
    assert rota.ok("calendar", "show", "holidays").splitlines() == [
        "holidays has 2 dates", "2027-12-24 Fri", "2027-12-31 Fri",
    ]  # fmt: skip
    assert rota.json("calendar", "add", "holidays", "--dates", "2027-12-24")["dates"] == ["2027-12-24"]
    assert len(rota.json("calendar", "list")) == 1
    lines = [line.split() for line in rota.ok("calendar", "list").splitlines()]
    assert lines == [["NAME", "DATES", "FIRST", "UNTIL"], ["holidays", "1", "2027-12-24", "2027-12-24"]]
    assert rota.ok("calendar", "remove", "holidays") == "holidays removed"
    assert rota.json("calendar", "list") == []


@pytest.mark.slow
def test_dates_out_of_a_file(rota: Rota) -> None:
    (rota.folder / "days.ics").write_text(ICS)
    found = rota.json("calendar", "add", "days", "--ics", "days.ics", *SPAN)
    assert found["dates"] == ["2027-06-30", "2027-12-25", "2027-12-26", "2028-12-25", "2028-12-26"]
    found = rota.json("calendar", "add", "days", "--ics", "days.ics", *SPAN, "--tz", "Europe/Berlin")
    assert found["dates"][0] == "2027-07-01"
    done = rota("calendar", "add", "piped", "--ics", "-", *SPAN, stdin=ICS)
    assert done.stdout == "piped has 5 dates, from 2027-06-30 to 2028-12-26\n"


def test_a_file_is_read_for_ten_years_from_today(rota: Rota) -> None:
    (rota.folder / "days.ics").write_text(ICS)
    found = rota.json("calendar", "add", "days", "--ics", "days.ics")["dates"]
    assert len([day for day in found if day.endswith("-12-25")]) == 10
    assert [years_after(day) for day in (date(2028, 2, 29), date(2027, 1, 1), date(8999, 1, 1))] == [
        date(2038, 2, 28), date(2037, 1, 1), date(9000, 1, 1),
    ]  # fmt: skip


def test_a_calendar_without_dates_is_worth_a_word(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    (rota.folder / "days.ics").write_text(ICS)
    assert rota.ok("calendar", "add", "e", "--ics", "days.ics", "--from", "2027-01-01", "--to", "2027-01-02") == (
        "e has 0 dates"
    )
    assert "calendar 'e' has no dates" in capsys.readouterr().err
    assert rota.ok("calendar", "list").splitlines()[1].split() == ["e", "0"]


def test_schedules_go_by_it_and_keep_it(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    rota.ok("calendar", "add", "days", "--dates", "2090-01-01")
    rota.ok("schedule", "add", "n", "@daily", "--only", "days", "--", "ls")
    rota.ok("calendar", "add", "days", "--dates", "2091-01-01")
    assert [one["local"][:10] for one in rota.json("schedule", "next", "n")] == ["2091-01-01"]
    said = refused(rota, capsys, "calendar", "remove", "days", code=1)
    assert "needed by n" in said
    rota.ok("schedule", "remove", "n")
    assert rota.json("calendar", "remove", "days") == {"name": "days", "removed": True}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["c", "--dates", ""], "--dates: '' is not valid; expected a date such as 2027-12-24"),
        (["c", "--dates", "2027-02-30"], "--dates: '2027-02-30' is not valid"),
        (["c", "--dates", "2027-01-01,tomorrow"], "--dates: 'tomorrow' is not valid"),
        (["c", "--dates", "20270101"], "--dates: '20270101' is not valid"),
        (["c", "--dates", "1969-01-01"], "dates from 1970 to 9000"),
        (["", "--dates", "2027-01-01"], "calendar: '' is not valid; expected a name"),
        (["\udcff", "--dates", "2027-01-01"], "NAME: '\\udcff' is not valid; expected a text in UTF-8"),
        (["c", "--ics", "none.ics"], "--ics: 'none.ics' is not valid; expected a file that can be read (No such file"),
        (["c", "--ics", "."], "(Is a directory)"),
        (["c", "--ics", "shop.py"], "expected the text of an .ics file"),
        (["c", "--ics", sys.executable], "(it is not UTF-8)"),
        (["c", "--ics", "shop.py", "--from", "soon"], "--from: 'soon' is not valid"),
        (["c", "--ics", "shop.py", "--from", "2027-01-02", "--to", "2027-01-01"], "a day not before 2027-01-02"),
        (["c", "--ics", "shop.py", "--tz", "Mars/Base"], "time zone: 'Mars/Base' is not valid"),
    ],
)
def test_a_bad_calendar_writes_nothing(
    rota: Rota, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(rota, capsys, "calendar", "add", *words)
    assert not list(rota.folder.glob("rota.db*"))


def test_names_that_are_refused_or_unknown(rota: Rota, capsys: pytest.CaptureFixture[str]) -> None:
    rota.ok("calendar", "add", "days", "--dates", "2090-01-01")
    for name in ("a,b", "a\nb", " a"):
        assert "without commas" in refused(rota, capsys, "calendar", "add", name, "--dates", "2090-01-01")
    for verb in ("show", "remove"):
        assert "no calendar 'none'" in refused(rota, capsys, "calendar", verb, "none", code=1)
        assert "NAME: '\\udcff' is not valid" in refused(rota, capsys, "calendar", verb, "\udcff")


@pytest.mark.parametrize("verb", ["list", "show c", "remove c"])
def test_looking_makes_no_store(rota: Rota, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no store at rota.db" in refused(rota, capsys, "calendar", *verb.split(), code=1)
