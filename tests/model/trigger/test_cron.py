"""Cron: what is read, what is refused and where the error points, and what `H` becomes."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.times import SECOND, instant
from rota.model.trigger.cron import CronPlan, cron_plan
from rota.model.trigger.cron_text import ALIASES
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.rules import Cron
from rota.model.trigger.schedule import Timing
from rota.model.trigger.spread import spread

START = instant("2027-01-01T00:00:00+00:00")


def first(text: str, count: int = 3, after: int = START) -> list[str]:
    found = fires(Timing(name="nightly", rule=Cron(text)), after - 1, limit=count)
    return [f"{datetime.fromtimestamp(fire // SECOND, UTC):%Y-%m-%d %H:%M:%S}" for fire in found]


def days(text: str, count: int = 3) -> list[str]:
    return [day[:10] for day in first(f"0 0 {text}", count)]


def sets(plan: CronPlan) -> tuple[tuple[int, ...], ...]:
    return plan.seconds, plan.minutes, plan.hours


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("L * *", ["2027-01-31", "2027-02-28", "2027-03-31"]),
        ("LW * *", ["2027-01-29", "2027-02-26", "2027-03-31"]),
        ("* * 5L", ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ("* * 7L", ["2027-01-31", "2027-02-28", "2027-03-28"]),
        ("* * MON#2", ["2027-01-11", "2027-02-08", "2027-03-08"]),
        ("* * 5#5", ["2027-01-29", "2027-04-30", "2027-07-30"]),
        ("29 2 *", ["2028-02-29", "2032-02-29", "2036-02-29"]),
        ("29 FEB */7", ["2032-02-29", "2060-02-29", "2088-02-29"]),
        ("13 * FRI", ["2027-01-01", "2027-01-08", "2027-01-13"]),  # either
        ("13 * *", ["2027-01-13", "2027-02-13", "2027-03-13"]),
        ("*/10 * FRI", ["2027-01-01", "2027-05-21", "2027-06-11"]),  # a star restricts nothing: both
        ("1,L jan-mar *", ["2027-01-01", "2027-01-31", "2027-02-01"]),
        ("* * sun", ["2027-01-03", "2027-01-10", "2027-01-17"]),
        ("30 2 MON", ["2027-02-01", "2027-02-08", "2027-02-15"]),  # the Mondays exist
        ("? * *", ["2027-01-01", "2027-01-02", "2027-01-03"]),
        ("? * MON-FRI", ["2027-01-01", "2027-01-04", "2027-01-05"]),
        ("? * FRI#2", ["2027-01-08", "2027-02-12", "2027-03-12"]),
        ("? * TUE-FRI/2", ["2027-01-05", "2027-01-07", "2027-01-12"]),
        ("? * */2", ["2027-01-02", "2027-01-03", "2027-01-05"]),
        ("1 * ?", ["2027-01-01", "2027-02-01", "2027-03-01"]),
        ("? * ?", ["2027-01-01", "2027-01-02", "2027-01-03"]),
        ("2W * *", ["2027-01-01", "2027-02-02", "2027-03-02"]),  # a Saturday
        ("3W * *", ["2027-01-04", "2027-02-03", "2027-03-03"]),  # a Sunday
        ("1W 5 *", ["2027-05-03", "2028-05-01", "2029-05-01"]),  # a Saturday, never in April
        ("31W 1 *", ["2027-01-29", "2028-01-31", "2029-01-31"]),  # a Sunday, never in February
        ("31W * *", ["2027-01-29", "2027-03-31", "2027-05-31"]),
        ("L-3 * *", ["2027-01-28", "2027-02-25", "2027-03-28"]),
        ("L-3W * *", ["2027-01-28", "2027-02-25", "2027-03-29"]),
        ("L-29 * *", ["2027-01-02", "2027-03-02", "2027-04-01"]),
        ("15W,L * *", ["2027-01-15", "2027-01-31", "2027-02-15"]),
        ("* * FRIL", ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ("* * fridayL", ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ("1 January,July *", ["2027-01-01", "2027-07-01", "2028-01-01"]),
        ("1 February-March *", ["2027-02-01", "2027-03-01", "2028-02-01"]),
        ("* * Thursday,WEDNESDAY", ["2027-01-06", "2027-01-07", "2027-01-13"]),
        ("* * MON-SUN", ["2027-01-01", "2027-01-02", "2027-01-03"]),
        ("* * SAT-SUN", ["2027-01-02", "2027-01-03", "2027-01-09"]),
        ("* * 6-7", ["2027-01-02", "2027-01-03", "2027-01-09"]),
        ("* * SAT-MON", ["2027-01-02", "2027-01-03", "2027-01-04"]),
        ("* * 6-1", ["2027-01-02", "2027-01-03", "2027-01-04"]),
        ("* * 6-0", ["2027-01-02", "2027-01-03", "2027-01-09"]),
        ("* * 7-1", ["2027-01-03", "2027-01-04", "2027-01-10"]),
        ("* * SUN-SUN", ["2027-01-03", "2027-01-10", "2027-01-17"]),
        ("* * FRI-SUN/2", ["2027-01-01", "2027-01-03", "2027-01-08"]),
    ],
)
def test_days(text: str, expected: list[str]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["2027-01-01 00:00:00", "2027-01-01 00:20:00", "2027-01-01 00:40:00"]),
        ("*/20 5 6 * * *", ["2027-01-01 06:05:00", "2027-01-01 06:05:20", "2027-01-01 06:05:40"]),
        ("5 22-23/1,1 * * *", ["2027-01-01 01:05:00", "2027-01-01 22:05:00", "2027-01-01 23:05:00"]),
        ("50/5 3 * * *", ["2027-01-01 03:50:00", "2027-01-01 03:55:00", "2027-01-02 03:50:00"]),
        ("0 */24 * * *", ["2027-01-01 00:00:00", "2027-01-02 00:00:00", "2027-01-03 00:00:00"]),
        ("*/60 5 * * *", ["2027-01-01 05:00:00", "2027-01-02 05:00:00", "2027-01-03 05:00:00"]),
        ("0 0/15 3 * * ?", ["2027-01-01 03:00:00", "2027-01-01 03:15:00", "2027-01-01 03:30:00"]),
        ("3 2-2/1 * * *", ["2027-01-01 02:03:00", "2027-01-02 02:03:00", "2027-01-03 02:03:00"]),
        ("  0   4 * *   * ", ["2027-01-01 04:00:00", "2027-01-02 04:00:00", "2027-01-03 04:00:00"]),
    ],
)
def test_times(text: str, expected: list[str]) -> None:
    assert first(text) == expected


def test_aliases_are_what_they_stand_for() -> None:
    for alias, text in ALIASES.items():
        assert first(alias.upper(), 5) == first(text, 5)
    assert first("@hourly", 2) == ["2027-01-01 00:00:00", "2027-01-01 01:00:00"]
    assert first("@weekly", 1) == ["2027-01-03 00:00:00"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0 25 * * *", "cron field 2 (hour): '25' is not valid; expected 0-23"),
        ("0 0 25 * * *", "cron field 3 (hour): '25' is not valid"),
        ("60 * * * *", "cron field 1 (minute): '60'"),
        ("60 * * * * *", "cron field 1 (second): '60'"),
        ("1,2,77 * * * *", "cron field 1 (minute): '77'"),
        ("0 0 32 * *", "cron field 3 (day of month): '32'"),
        ("0 0 * 13 *", "cron field 4 (month): '13'"),
        ("0 0 * FOO *", "cron field 4 (month): 'FOO'"),
        ("0 0 * * 8", "cron field 5 (day of week): '8'"),
        ("0 0 * * MON#6", "cron field 5 (day of week): 'MON#6'"),
        ("0 0 * * L", "cron field 5 (day of week): 'L'"),
        ("*/0 * * * *", "cron field 1 (minute): '*/0'"),
        ("98-99/2 * * * *", "cron field 1 (minute): '98-99/2'"),
        ("1--3 * * * *", "cron field 1 (minute): '1--3'"),
        (", * * * *", "cron field 1 (minute): ''"),
        ("0 0 * * FRI-MON/2", "a range that runs upwards; MON comes before FRI, so write the days one by one"),
        ("0 22-4 * * *", "cron field 2 (hour): '22-4' is not valid; expected a range that runs upwards"),
        ("0 22-4 * * *", "4 comes before 22, so write 22-23,0-4"),
        ("0 0 * NOV-FEB *", "FEB comes before NOV, so write NOV-12,1-FEB"),
        (
            "0 0 L/2 * *",
            "cron field 3 (day of month): 'L/2' is not valid; expected a step after *, a number or a range",
        ),
        ("0 0 LW/2 * *", "cron field 3 (day of month): 'LW/2' is not valid; expected a step after"),
        ("0 0 15W/2 * *", "cron field 3 (day of month): '15W/2' is not valid; expected a step after"),
        ("0 0 L-3/2 * *", "cron field 3 (day of month): 'L-3/2' is not valid; expected a step after"),
        ("0 0 * * 5L/2", "cron field 5 (day of week): '5L/2' is not valid; expected a step after"),
        ("0 0 * * MON#2/2", "cron field 5 (day of week): 'MON#2/2' is not valid; expected a step after"),
        ("0 0 ?/2 * *", "cron field 3 (day of month): '?/2' is not valid; expected a step after"),
        ("0 0 1-5W * *", "cron field 3 (day of month): '1-5W'"),
        ("0 0 32W * *", "cron field 3 (day of month): '32W'"),
        ("0 0 L-31 * *", "cron field 3 (day of month): 'L-31'"),
        ("0 0 30W 2 *", "cron field 3 (day of month): '30W' is not valid; expected a day that exists"),
        ("*/90 * * * *", "'*/90' is not valid; expected a step from 1 to 60; write 'every 90m' for longer periods"),
        ("0 */25 * * *", "cron field 2 (hour): '*/25' is not valid; expected a step from 1 to 24; write 'every 25h'"),
        ("0 0 0/32 * *", "cron field 3 (day of month): '0/32'"),
        ("0 0 1/32 * *", "cron field 3 (day of month): '1/32' is not valid; expected a step from 1 to 31"),
        ("0-29/40 * * * *", "(minute): '0-29/40' is not valid; expected a step from 1 to 30, the size of its range"),
        ("0 0 * * MON-FRI/6", "'MON-FRI/6' is not valid; expected a step from 1 to 5, the size of its range"),
        ("0 0 * */13 *", "cron field 4 (month): '*/13' is not valid; expected a step from 1 to 12"),
        ("0 0 * * */8", "cron field 5 (day of week): '*/8' is not valid; expected a step from 1 to 7"),
        (
            "0 0 12 ? * 2-6",
            "cron field 6 (day of week): '2-6' is not valid; expected weekdays by name, such as MON-FRI",
        ),
        ("0 0 12 ? * 6L", "expected weekdays by name"),
        ("0 0 12 ? * 6#3", "expected weekdays by name"),
        ("0 0 12 ? * MON/2", "expected weekdays by name"),
        (
            "? * * * *",
            "cron field 1 (minute): '?' is not valid; expected ? alone, and only as day of month or day of week",
        ),
        (
            "0 12 * * ? *",
            "cron field 5 (month): '?' is not valid; expected ? alone, and only as day of month or day of",
        ),
        ("0 0 ?,5 * *", "cron field 3 (day of month): '?' is not valid; expected ? alone"),
        ("0 0 12 * * ? 2027", "six with seconds first; for years use start and end"),
        ("0 0 12 * * ? *", "six with seconds first; for years use start and end"),
        ("TZ=Europe/Berlin 0 3 * * *", "expected the fields alone; the time zone is given apart, as tz or --tz"),
        ("CRON_TZ=Europe/Berlin 0 3 * * *", "expected the fields alone; the time zone is given apart"),
        ("0 3 * * * %", "expected fields without %"),
        ("0~30 3 * * *", "expected H or H(0-29) instead of ~"),
        ("0 0 30 2 *", "cron field 3 (day of month): '30' is not valid; expected a day that exists; month 2"),
        ("0 0 31 4,JUN,9,11 *", "cron field 3 (day of month): '31'"),
        ("0 0 0 30,31 FEB *", "cron field 4 (day of month): '30,31'"),
        ("0 0 30 2 */1", "cron field 3 (day of month): '30'"),
        ("H(50-70) * * * *", "cron field 1 (minute): 'H(50-70)' is not valid; expected a range for H within 0-59"),
        ("H(9-3) * * * *", "cron field 1 (minute): 'H(9-3)'"),
        ("H/90 * * * *", "cron field 1 (minute): 'H/90' is not valid; expected a step for H from 1 to 60"),
        ("HH * * * *", "cron field 1 (minute): 'HH'"),
        ("0 0 H(29-31) 2 *", "cron field 3 (day of month): 'H(29-31)'"),
        ("@reboot", "cron: '@reboot' is not valid; expected one of @yearly"),
        ("* * * *", "cron: '* * * *' is not valid; expected five fields"),
        ("* * * * * * * *", "expected five fields"),
        ("", "expected five fields"),
        ("٣ * * * *", "expected five fields"),
        ("0 0 * * * \0", "expected five fields"),
        ("1," * 600 + "1 * * * *", "expected five fields"),
    ],
)
def test_errors_point_at_the_field(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        Cron(text)


@given(st.text(alphabet="0123456789*/,-#LHWJANMON()? @\n²%~", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        rule = Cron(text)
    except InvalidInput:
        return
    assert next_fire(Timing(name="x", rule=rule), START) is not None


@given(st.text(max_size=20), st.sampled_from(["H", "H(0-29)", "H/15", "H(10-40)/7", "5,H", "H(7-7)"]))
def test_the_spread_stays_in_its_range_and_never_moves(name: str, field: str) -> None:
    plan = cron_plan(f"{field} H * * *", name)
    again = cron_plan.__wrapped__(f"{field} H * * *", name)
    assert sets(plan) == sets(again)
    assert len(plan.hours) == 1
    low, high = {"H(0-29)": (0, 29), "H(10-40)/7": (10, 40), "H(7-7)": (7, 7)}.get(field, (0, 59))
    assert all(low <= minute <= high for minute in plan.minutes)
    if "/" in field:
        step = int(field.split("/")[1])
        assert {b - a for a, b in zip(plan.minutes, plan.minutes[1:], strict=False)} <= {step}
        assert plan.minutes[0] < low + step
        assert plan.minutes[-1] > high - step


def test_the_spread_is_kept_across_versions_of_rota() -> None:
    assert spread("nightly", "minute") == 5994294085060840555
    assert first("H H * * *", 1) == ["2027-01-01 23:55:00"]


def test_names_are_spread_evenly() -> None:
    counts = [0] * 60
    for n in range(3000):
        counts[cron_plan.__wrapped__("H * * * *", f"job-{n}").minutes[0]] += 1
    assert min(counts) > 20
    assert max(counts) < 100


def test_editing_one_field_moves_no_other() -> None:
    assert cron_plan("H 3 * * *", "a").minutes == cron_plan("H 4 1 * *", "a").minutes
    assert cron_plan("0 H 4 1 * *", "a").minutes == cron_plan("H 4 1 * *", "a").minutes


def test_days_by_spread_exist_in_every_month() -> None:
    for n in range(200):
        found = fires(Timing(name=f"job-{n}", rule=Cron("H H H * *")), START, START + 365 * 86_400 * SECOND)
        assert len(list(found)) == 12
