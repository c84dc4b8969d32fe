"""RRULE is what RFC 5545 says: its own examples, where others differ from it, and what a search costs."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

import pytest

from rota.errors import InvalidInput
from rota.model.times import instant
from rota.model.trigger.arguments import local_iso
from rota.model.trigger.effort import MOST_STEPS, Effort
from rota.model.trigger.fires import fires, next_fire
from rota.model.trigger.policies import Fold, Gap
from rota.model.trigger.recurrence import recurrence_plan
from rota.model.trigger.rules import read_rule
from rota.model.trigger.schedule import Timing

EPOCH = datetime(1970, 1, 1)


def reading(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(seconds=1)


# -- the examples of section 3.8.5.3, all in New York ----------------------------------------------------------------
def days(text: str) -> list[str]:
    """Reads `1997: 9/2 3 5, 10/1; 1998: 1/7` as dates."""
    found = []
    for of_year in text.split(";"):
        year, _, months = of_year.partition(":")
        for of_month in months.split(","):
            month, _, numbers = of_month.strip().partition("/")
            found += [f"{year.strip()}-{int(month):02}-{int(number):02}" for number in numbers.split()]
    return found


EVERY_DAY = " ".join(map(str, range(1, 32)))
EVERY_20_MINUTES = [f"{hour:02}:{minute:02}" for hour in range(9, 17) for minute in (0, 20, 40)]
WORK_HOURS = "BYHOUR=9,10,11,12,13,14,15,16"
# DTSTART, the rule, its first dates, and whether these are all.
EXAMPLES = [
    ("19970902", "FREQ=DAILY;COUNT=10", "1997: 9/2 3 4 5 6 7 8 9 10 11", True),
    ("19971220", "FREQ=DAILY;UNTIL=19971224T000000Z", "1997: 12/20 21 22 23", True),
    ("19970902", "FREQ=DAILY;INTERVAL=2", "1997: 9/2 4 6 8", False),
    ("19970902", "FREQ=DAILY;INTERVAL=10;COUNT=5", "1997: 9/2 12 22, 10/2 12", True),
    (
        "19980101", "FREQ=YEARLY;UNTIL=20000131T140000Z;BYMONTH=1;BYDAY=SU,MO,TU,WE,TH,FR,SA",
        f"1998: 1/{EVERY_DAY}; 1999: 1/{EVERY_DAY}; 2000: 1/{EVERY_DAY}", True,
    ),
    (
        "19980101", "FREQ=DAILY;UNTIL=20000131T140000Z;BYMONTH=1",
        f"1998: 1/{EVERY_DAY}; 1999: 1/{EVERY_DAY}; 2000: 1/{EVERY_DAY}", True,
    ),
    ("19970902", "FREQ=WEEKLY;COUNT=10", "1997: 9/2 9 16 23 30, 10/7 14 21 28, 11/4", True),
    ("19971118", "FREQ=WEEKLY;UNTIL=19971224T000000Z", "1997: 11/18 25, 12/2 9 16 23", True),
    ("19970902", "FREQ=WEEKLY;INTERVAL=2;WKST=SU", "1997: 9/2 16 30, 10/14 28, 11/11 25, 12/9 23; 1998: 1/6 20", False),
    (
        "19970902", "FREQ=WEEKLY;UNTIL=19971007T000000Z;WKST=SU;BYDAY=TU,TH",
        "1997: 9/2 4 9 11 16 18 23 25 30, 10/2", True,
    ),
    ("19970902", "FREQ=WEEKLY;COUNT=10;WKST=SU;BYDAY=TU,TH", "1997: 9/2 4 9 11 16 18 23 25 30, 10/2", True),
    (
        "19970901", "FREQ=WEEKLY;INTERVAL=2;UNTIL=19971224T000000Z;WKST=SU;BYDAY=MO,WE,FR",
        "1997: 9/1 3 5 15 17 19 29, 10/1 3 13 15 17 27 29 31, 11/10 12 14 24 26 28, 12/8 10 12 22", True,
    ),
    ("19970902", "FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", "1997: 9/2 4 16 18 30, 10/2 14 16", True),
    (
        "19970905", "FREQ=MONTHLY;COUNT=10;BYDAY=1FR",
        "1997: 9/5, 10/3, 11/7, 12/5; 1998: 1/2, 2/6, 3/6, 4/3, 5/1, 6/5", True,
    ),
    ("19970905", "FREQ=MONTHLY;UNTIL=19971224T000000Z;BYDAY=1FR", "1997: 9/5, 10/3, 11/7, 12/5", True),
    (
        "19970907", "FREQ=MONTHLY;INTERVAL=2;COUNT=10;BYDAY=1SU,-1SU",
        "1997: 9/7 28, 11/2 30; 1998: 1/4 25, 3/1 29, 5/3 31", True,
    ),
    ("19970922", "FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "1997: 9/22, 10/20, 11/17, 12/22; 1998: 1/19, 2/16", True),
    ("19970928", "FREQ=MONTHLY;BYMONTHDAY=-3", "1997: 9/28, 10/29, 11/28, 12/29; 1998: 1/29, 2/26", False),
    (
        "19970902", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=2,15",
        "1997: 9/2 15, 10/2 15, 11/2 15, 12/2 15; 1998: 1/2 15", True,
    ),
    (
        "19970930", "FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1",
        "1997: 9/30, 10/1 31, 11/1 30, 12/1 31; 1998: 1/1 31, 2/1", True,
    ),
    (
        "19970910", "FREQ=MONTHLY;INTERVAL=18;COUNT=10;BYMONTHDAY=10,11,12,13,14,15",
        "1997: 9/10 11 12 13 14 15; 1999: 3/10 11 12 13", True,
    ),
    (
        "19970902", "FREQ=MONTHLY;INTERVAL=2;BYDAY=TU",
        "1997: 9/2 9 16 23 30, 11/4 11 18 25; 1998: 1/6 13 20 27, 3/3 10 17 24 31", False,
    ),
    (
        "19970610", "FREQ=YEARLY;COUNT=10;BYMONTH=6,7",
        "1997: 6/10, 7/10; 1998: 6/10, 7/10; 1999: 6/10, 7/10; 2000: 6/10, 7/10; 2001: 6/10, 7/10", True,
    ),
    (
        "19970310", "FREQ=YEARLY;INTERVAL=2;COUNT=10;BYMONTH=1,2,3",
        "1997: 3/10; 1999: 1/10, 2/10, 3/10; 2001: 1/10, 2/10, 3/10; 2003: 1/10, 2/10, 3/10", True,
    ),
    (
        "19970101", "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200",
        "1997: 1/1, 4/10, 7/19; 2000: 1/1, 4/9, 7/18; 2003: 1/1, 4/10, 7/19; 2006: 1/1", True,
    ),
    ("19970519", "FREQ=YEARLY;BYDAY=20MO", "1997: 5/19; 1998: 5/18; 1999: 5/17", False),
    ("19970512", "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997: 5/12; 1998: 5/11; 1999: 5/17", False),
    (
        "19970313", "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
        "1997: 3/13 20 27; 1998: 3/5 12 19 26; 1999: 3/4 11 18 25", False,
    ),
    (
        "19970605", "FREQ=YEARLY;BYDAY=TH;BYMONTH=6,7,8",
        "1997: 6/5 12 19 26, 7/3 10 17 24 31, 8/7 14 21 28; 1998: 6/4 11 18 25", False,
    ),
    (
        "19970902", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
        "1998: 2/13, 3/13, 11/13; 1999: 8/13; 2000: 10/13", False,
    ),
    (
        "19970913", "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13",
        "1997: 9/13, 10/11, 11/8, 12/13; 1998: 1/10, 2/7, 3/7, 4/11, 5/9, 6/13", False,
    ),
    (
        "19961105", "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
        "1996: 11/5; 2000: 11/7; 2004: 11/2", False,
    ),
    ("19970904", "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997: 9/4, 10/7, 11/6", True),
    (
        "19970929", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
        "1997: 9/29, 10/30, 11/27, 12/30; 1998: 1/29, 2/26, 3/30", False,
    ),
    ("19970805", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997: 8/5 10 19 24", True),
    ("19970805", "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997: 8/5 17 19 31", True),
    ("20070115", "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007: 1/15 30, 2/15, 3/15 30", True),
]  # fmt: skip


def told(begin: str, rule: str, zone: str, count: int) -> list[str]:
    schedule = Timing(name="x", rule=read_rule(f"DTSTART:{begin}\nRRULE:{rule}"), zone=zone)
    return [local_iso(fire, zone) for fire in fires(schedule, 0, limit=count)]


@pytest.mark.parametrize(("begin", "rule", "expected", "ends"), EXAMPLES, ids=lambda one: str(one)[:60])
def test_examples_of_the_rfc(begin: str, rule: str, expected: str, ends: bool) -> None:
    wanted = days(expected)
    found = told(f"{begin}T090000", rule, "America/New_York", len(wanted) + ends)
    assert [one[:10] for one in found] == wanted
    assert {one[10:19] for one in found} == {"T09:00:00"}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        # Its UNTIL is 17:00 UTC in the RFC, which an erratum corrects.
        ("FREQ=HOURLY;INTERVAL=3;UNTIL=19970902T210000Z", ["09:00", "12:00", "15:00"]),
        ("FREQ=MINUTELY;INTERVAL=15;COUNT=6", ["09:00", "09:15", "09:30", "09:45", "10:00", "10:15"]),
        ("FREQ=MINUTELY;INTERVAL=90;COUNT=4", ["09:00", "10:30", "12:00", "13:30"]),
        (f"FREQ=DAILY;{WORK_HOURS};BYMINUTE=0,20,40;COUNT=4", ["09:00", "09:20", "09:40", "10:00"]),
        (f"FREQ=MINUTELY;INTERVAL=20;{WORK_HOURS};COUNT=25", [*EVERY_20_MINUTES, "09:00"]),
    ],
)  # fmt: skip
def test_examples_of_the_rfc_within_a_day(rule: str, expected: list[str]) -> None:
    assert [one[11:16] for one in told("19970902T090000", rule, "America/New_York", 100)] == expected


# -- where other evaluators go wrong ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("begin", "rule", "expected"),
    [
        ("20150102", "FREQ=MONTHLY;BYDAY=MO,WE,3MO,-1FR", "2015: 1/5 7 12 14 19 21 26 28 30, 2/2"),
        ("20150101", "FREQ=MONTHLY;BYDAY=3MO,WE", "2015: 1/7 14 19 21 28, 2/4"),
        ("20150101", "FREQ=YEARLY;BYDAY=1MO,TH;BYMONTH=2", "2015: 2/2 5 12 19 26; 2016: 2/1 4"),
        ("20150101", "FREQ=YEARLY;BYDAY=1MO,-1SU", "2015: 1/5, 12/27; 2016: 1/4, 12/25"),
        ("20261118", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR;BYSETPOS=-1,2", "2026: 11/18 20, 12/2 4 16 18"),
        ("20150107", "FREQ=YEARLY;BYWEEKNO=2", "2015: 1/7; 2016: 1/13; 2017: 1/11"),  # Wednesdays, as DTSTART is one
        ("20150101", "FREQ=YEARLY;BYWEEKNO=53", "2015: 12/31; 2020: 12/31; 2026: 12/31"),
        ("20150101", "FREQ=YEARLY;BYWEEKNO=53;BYDAY=FR", "2016: 1/1; 2021: 1/1; 2027: 1/1; 2032: 12/31"),
        ("20150101", "FREQ=YEARLY;BYWEEKNO=52;BYDAY=SU", "2015: 12/27; 2017: 1/1 ; 2017: 12/31; 2018: 12/30"),
        ("20150101", "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=MO", "2015: 12/28; 2016: 12/26; 2017: 12/25"),
        ("20150101", "FREQ=YEARLY;BYWEEKNO=1;BYDAY=MO,TU", "2016: 1/4 5; 2017: 1/2 3; 2018: 1/1 2; 2018: 12/31"),
        ("20241230", "FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1;BYDAY=MO", "2024: 12/30; 2027: 1/4; 2029: 1/1"),
        ("20150101", "FREQ=YEARLY;BYWEEKNO=1;BYDAY=SU;WKST=SU", "2015: 1/4; 2016: 1/3; 2017: 1/1; 2017: 12/31"),
        ("20150101", "FREQ=YEARLY;BYYEARDAY=366,-1", "2015: 12/31; 2016: 12/31; 2017: 12/31"),
        ("20150131", "FREQ=MONTHLY", "2015: 1/31, 3/31, 5/31"),
        ("20160229", "FREQ=YEARLY", "2016: 2/29; 2020: 2/29"),
    ],
)
def test_what_the_rfc_says_otherwise(begin: str, rule: str, expected: str) -> None:
    wanted = days(expected)
    assert [one[:10] for one in told(f"{begin}T080000", rule, "UTC", len(wanted))] == wanted


def test_until_in_utc_is_an_instant() -> None:
    """02:30 comes twice, and it is the first one that counts."""
    found = told("20211031T014000", "FREQ=MINUTELY;INTERVAL=10;UNTIL=20211031T003000Z", "Europe/Berlin", 20)
    assert [one[11:] for one in found] == [
        f"{clock}:00+02:00" for clock in ("01:40", "01:50", "02:00", "02:10", "02:20", "02:30")
    ]
    later = told("20211031T014000", "FREQ=MINUTELY;INTERVAL=10;UNTIL=20211031T013000Z", "Europe/Berlin", 20)
    assert [one[11:] for one in later[-2:]] == ["02:20:00+01:00", "02:30:00+01:00"]


def test_until_in_local_time_is_what_the_wall_shows() -> None:
    found = told("20211031T014000", "FREQ=MINUTELY;INTERVAL=10;UNTIL=20211031T023000", "Europe/Berlin", 20)
    assert [one[11:] for one in found[-2:]] == ["02:20:00+01:00", "02:30:00+01:00"]
    assert len(found) == 2 + 4 + 4


@pytest.mark.parametrize(("gap", "last"), [(Gap.SKIP, "03-31"), (Gap.SHIFT, "03-30")])
def test_count_counts_fires(gap: Gap, last: str) -> None:
    """The night in which 02:30 does not exist."""
    rule = read_rule("FREQ=DAILY;COUNT=3", "2026-03-28T02:30:00")
    schedule = Timing(name="x", rule=rule, zone="Europe/Berlin", gap=gap, fold=Fold.FIRST)
    found = [local_iso(fire, "Europe/Berlin") for fire in fires(schedule, 0)]
    assert len(found) == 3
    assert found[-1].startswith(f"2026-{last}")


# -- what it costs ---------------------------------------------------------------------------------------------------
class Counted(Effort):
    def __init__(self) -> None:
        super().__init__()
        self.used = 0

    def spend(self, steps: int = 1) -> None:
        self.used += steps
        super().spend(steps)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY",
        "FREQ=SECONDLY;BYHOUR=9;BYMONTH=10",
        "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=MINUTELY;INTERVAL=7;BYYEARDAY=-366;BYHOUR=3",
        "FREQ=HOURLY;BYMONTH=12;BYMONTHDAY=31;BYHOUR=23;BYDAY=SU",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=0,1,2,3;BYMINUTE=0,1;BYSECOND=0,1;BYSETPOS=-1",
    ],
)
def test_a_search_takes_few_steps(rule: str) -> None:
    plan = recurrence_plan(rule, "1971-01-01T00:00:00")
    for year in (1971, 2027, 2095, 2400):
        effort = Counted()
        assert next(plan.since(reading(datetime(year, 3, 1)), effort))
        assert effort.used < MOST_STEPS // 20


def test_each_fire_is_searched_anew() -> None:
    schedule = Timing(name="x", rule=read_rule("FREQ=SECONDLY", "2001-01-01T00:00:00"))
    assert len(list(fires(schedule, 0, limit=MOST_STEPS + 100))) == MOST_STEPS + 100


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY;INTERVAL=9973;BYHOUR=9;BYMINUTE=0;BYSECOND=0",  # once in 27 years
        "FREQ=SECONDLY;INTERVAL=7200;BYHOUR=1",
        "FREQ=DAILY;INTERVAL=7;BYDAY=WE",
        "FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29",
    ],
)
def test_a_rule_whose_next_fire_is_not_found_is_refused(rule: str) -> None:
    with pytest.raises(InvalidInput, match="never fires, or so rarely that the search"):
        Timing(name="x", rule=read_rule(rule, "2001-01-01T00:00:00"))


def test_a_count_that_takes_too_long_is_refused() -> None:
    rule = read_rule("FREQ=SECONDLY;INTERVAL=61;BYSECOND=0;BYMINUTE=0;COUNT=10000", "2001-01-01T00:00:00")
    with pytest.raises(InvalidInput, match="rrule COUNT: '10000' is not valid; expected fewer"):
        Timing(name="x", rule=rule)


def test_what_has_ended_is_not_searched() -> None:
    text = "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;"
    for end in ("UNTIL=20440301", "UNTIL=20440301T000000Z", "COUNT=2"):
        schedule = Timing(name="x", rule=read_rule(text + end, "2001-01-01T00:00:00"))
        assert next_fire(schedule, instant("2001-01-01T00:00:00Z")) == instant("2016-02-29T00:00:00Z")
        assert next_fire(schedule, instant("2050-01-01T00:00:00Z")) is None


def test_the_calendar_begins() -> None:
    for rule in (
        "FREQ=WEEKLY;WKST=SU",
        "FREQ=YEARLY;BYWEEKNO=1;WKST=SU",
        "FREQ=DAILY;COUNT=10000",
        "FREQ=HOURLY;COUNT=9",
    ):
        schedule = Timing(name="x", rule=read_rule(rule, "0003-01-01T00:00:00"), zone="Pacific/Apia")
        assert (next_fire(schedule, 0) is None) == ("COUNT" in rule)


def test_the_calendar_ends() -> None:
    for rule in ("FREQ=YEARLY;INTERVAL=9999", "FREQ=MONTHLY;INTERVAL=9999", "FREQ=HOURLY;INTERVAL=9999", "FREQ=WEEKLY"):
        plan = recurrence_plan(rule, "2001-01-01T00:00:00")
        assert list(islice(plan.since(reading(datetime(9890, 12, 31, 23, 59)), Effort()), 5)) == []
