"""Rules and schedules as values: read from text, carried as JSON, refused when they make no sense."""

from __future__ import annotations

import re
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.times import DAY, HOUR, LATEST, LONGEST, MINUTE, SECOND, instant
from rota.model.trigger.calendars import Calendar, allowed
from rota.model.trigger.effort import Effort
from rota.model.trigger.fires import counted, fires, newest, next_fire, run_time
from rota.model.trigger.policies import CatchUp, Fold, Gap, Missed, Overlap
from rota.model.trigger.rules import Cron, Every, Recurrence, Times, read_rule
from rota.model.trigger.schedule import Timing, from_json, to_json
from rota.model.trigger.zones import Stretch, Zone

NOON = instant("2027-01-01T12:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("0 9 * * MON-FRI", Cron("0 9 * * MON-FRI")),
        (" @daily ", Cron("@daily")),
        ("every 90s", Every(90 * SECOND)),
        ("@every 1h30m", Every(90 * MINUTE)),
        ("@Every  5m", Every(5 * MINUTE)),
        ("Every 1h30m from 2027-01-01T12:00:00+00:00", Every(90 * MINUTE, NOON)),
        ("at 2027-01-01T13:00:00+00:00, 2027-01-01T12:00:00Z", Times((NOON, NOON + HOUR))),
        ("DTSTART:20270101T090000\nRRULE:FREQ=DAILY", Recurrence("FREQ=DAILY", "2027-01-01T09:00:00")),
        ("DTSTART:20270101T090000 RRULE:COUNT=9;FREQ=DAILY", Recurrence("COUNT=9;FREQ=DAILY", "2027-01-01T09:00:00")),
    ],
)
def test_rules_are_read_from_text(text: str, rule: object) -> None:
    assert read_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("every", "rule: 'every'"),
        ("@every", "cron: '@every' is not valid; expected 'every 90s'"),
        ("@every 10ms", "every: '10ms'"),
        ("every 0s", "every: '0s' is not valid; expected a period of at least 1s"),
        ("every now and then", "rule: 'every now and then'"),
        ("every 5m from noon", "anchor: 'noon'"),
        ("at noon", "times: ' noon'"),
        ("at 2027-01-01T12:00:00", "the offset is missing"),
        ("", "rule: ''"),
        (None, "rule: None"),
        (5, "rule: 5"),
    ],
)
def test_texts_that_are_no_rules(text: object, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        read_rule(text)


rules = st.one_of(
    st.sampled_from([Cron("*/5 * * * *"), Cron("0 0 3 L * 5#2"), Cron("H H * * *")]),
    st.builds(Every, st.integers(SECOND, LONGEST), st.integers(0, LATEST)),
    st.just(Recurrence("FREQ=WEEKLY;BYDAY=MO;COUNT=5", "2027-01-01T09:00:00")),
    st.builds(Times, st.lists(st.integers(0, LATEST), min_size=1, max_size=5).map(tuple)),
)
schedules = st.builds(
    Timing,
    name=st.text(min_size=1, max_size=20),
    owner=st.text(max_size=5),
    rule=rules,
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Pacific/Apia"]),
    gap=st.sampled_from(Gap),
    fold=st.sampled_from(Fold),
    start=st.none() | st.integers(0, NOON),
    end=st.none() | st.integers(NOON, LATEST),
    jitter=st.integers(0, SECOND),
    limit=st.none() | st.integers(1, 10**6),
    exclude=st.lists(st.text(), max_size=2).map(tuple),
    overlap=st.sampled_from(Overlap),
    catch_up=st.builds(CatchUp, st.sampled_from(Missed), st.none() | st.integers(1, DAY), st.integers(1, 9)),
)


@given(schedules)
def test_schedules_survive_as_json(schedule: Timing) -> None:
    again = from_json(to_json(schedule))
    assert again == schedule
    assert hash(again) == hash(schedule)


def test_json_is_small_and_plain() -> None:
    assert to_json(Timing(name="a", rule=Cron("@daily"))) == '{"name":"a","rule":{"kind":"cron","text":"@daily"}}'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "schedule: '{'"),
        ('{"name":"a"}', "schedule: "),
        ('{"name":"a","rule":{"kind":"moon"}}', "schedule: "),
        ('{"name":"a","rule":{"kind":"cron","text":"0 25 * * *"}}', "cron field 2 (hour): '25'"),
        ('{"name":"a","rule":{"kind":"cron","text":"@daily"},"zone":"Mars/Base"}', "time zone: 'Mars/Base'"),
        ('{"name":"a","rule":{"kind":"every","period":1}}', "every: 1 "),
        ('{"name":"a","rule":{"kind":"times","instants":[]}}', "times: '0 of them'"),
    ],
)
def test_what_became_invalid_in_a_store_is_one_kind_of_error(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        from_json(text)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"zone": "Mars/Base"}, "time zone: 'Mars/Base'"),
        ({"zone": ""}, "schedule zone: ''"),
        ({"name": ""}, "schedule name: ''"),
        ({"start": NOON, "end": NOON - 1}, "end: '2027-01-01T11:59:59.999999+00:00'"),
        ({"start": -1}, "start: -1"),
        ({"end": LATEST + 1}, "end: "),
        ({"jitter": -1}, "jitter: -1"),
        ({"rule": Every(MINUTE), "jitter": MINUTE + 1}, "expected no more than the period, 1m"),
        ({"limit": 0}, "limit: 0"),
    ],
)
def test_schedules_that_make_no_sense(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(complaint)):
        msgspec.structs.replace(Timing(name="a", rule=Cron("@daily")), **fields)


@pytest.mark.parametrize("wrong", [{"window": 0}, {"most": 0}, {"most": 10_001}, {"grace": -1}])
def test_catch_up_policies_that_make_no_sense(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput, match="catch-up"):
        msgspec.structs.replace(CatchUp(), **wrong)


@given(st.integers(SECOND, 400 * DAY), st.integers(0, NOON * 2), st.integers(0, NOON * 2))
def test_intervals_keep_their_phase(period: int, anchor: int, after: int) -> None:
    schedule = Timing(name="a", rule=Every(period, anchor), zone="Europe/Berlin")
    found = list(fires(schedule, after, limit=5))
    assert found[0] == anchor if after < anchor else after < found[0] <= after + period
    assert all((fire - anchor) % period == 0 for fire in found)
    assert [b - a for a, b in pairwise(found)] == [period] * 4


def test_a_period_with_a_beginning_fires_at_it_first() -> None:
    schedule = Timing(name="a", rule=read_rule("every 1h from 2027-01-01T12:00:00Z"))
    assert list(fires(schedule, NOON - DAY, limit=2)) == [NOON, NOON + HOUR]
    assert newest(schedule, 0, NOON - 1, 3) == []


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(-1, 60))
def test_single_times(moments: list[int], after: int) -> None:
    schedule = Timing(name="a", rule=Times(tuple(moments)))
    assert list(fires(schedule, after)) == sorted({moment for moment in moments if moment > after})


@given(schedules, st.integers(0, 2 * NOON), st.integers(0, 30 * DAY))
def test_fires_rise_and_keep_to_their_bounds(schedule: Timing, after: int, span: int) -> None:
    schedule = msgspec.structs.replace(schedule, exclude=())
    found = list(fires(schedule, after, after + span, limit=50))
    assert found == sorted(set(found))
    assert all(after < fire <= after + span for fire in found)
    assert all((schedule.start or 0) <= fire <= (schedule.end or LATEST) for fire in found)
    assert next_fire(schedule, after) == next(fires(schedule, after), None)
    for fire in found[:3]:
        assert next_fire(schedule, fire - 1) == fire


@given(schedules, st.integers(0, 2 * NOON), st.integers(0, 2 * DAY), st.integers(1, 40))
def test_the_newest_are_the_last_of_all(schedule: Timing, after: int, span: int, limit: int) -> None:
    schedule = msgspec.structs.replace(schedule, exclude=())
    assert newest(schedule, after, after + span, limit) == list(fires(schedule, after, after + span))[-limit:]


def test_the_newest_of_years_of_seconds_is_found_at_once() -> None:
    busy = Timing(name="a", rule=Cron("* * 0-4 1 1 *"))
    assert newest(busy, 0, NOON - 1, 2) == [NOON - 7 * HOUR - 2 * SECOND, NOON - 7 * HOUR - SECOND]
    assert newest(busy, NOON, NOON + 300 * DAY, 1) == []


def test_bounds_are_inside() -> None:
    schedule = Timing(name="a", rule=Cron("0 * * * *"), start=NOON, end=NOON + 2 * HOUR)
    assert list(fires(schedule, 0)) == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert next_fire(schedule, NOON + 2 * HOUR) is None


def test_time_ends_some_day() -> None:
    for rule in (Cron("* * * * *"), Cron("@yearly"), Every(DAY), Recurrence("FREQ=DAILY", "2027-01-01T00:00:00")):
        schedule = Timing(name="a", rule=rule, zone="Europe/Berlin")
        assert all(fire <= LATEST for fire in fires(schedule, LATEST - 400 * DAY, limit=2000))
        assert next_fire(schedule, LATEST) is None


@given(st.text(min_size=1), st.integers(0, LATEST), st.integers(0, DAY))
def test_jitter_is_the_same_every_time(name: str, fire: int, jitter: int) -> None:
    schedule = Timing(name=name, rule=Cron("@daily"), jitter=jitter)
    delay = run_time(schedule, fire) - fire
    assert 0 <= delay <= jitter
    assert run_time(from_json(to_json(schedule)), fire) == fire + delay


def test_jitter_differs_between_fires_and_between_schedules() -> None:
    one, other = (Timing(name=name, rule=Cron("@daily"), jitter=HOUR) for name in "ab")
    assert len({run_time(one, NOON + n * DAY) - n * DAY for n in range(50)}) > 40
    assert run_time(one, NOON) != run_time(other, NOON)


HOLIDAYS = {
    "holidays": Calendar("holidays", (date(2027, 1, 1), date(2027, 1, 6), date(2027, 1, 4))),
    "mondays": Calendar("mondays", tuple(date(2027, 1, day) for day in (4, 11, 18, 25))),
    "empty": Calendar("empty"),
}


def days(exclude: tuple[str, ...] = (), only: tuple[str, ...] = (), rule: str = "0 9 * * MON-FRI") -> list[int]:
    schedule = Timing(name="a", rule=read_rule(rule), zone="Asia/Kathmandu", exclude=exclude, only=only)
    found = fires(schedule, instant("2027-01-01T00:00:00+05:45"), limit=4, calendars=HOLIDAYS)
    return [int(str(date.fromtimestamp((fire + 5.75 * HOUR) // SECOND))[8:]) for fire in found]


def test_calendars_exclude_and_restrict() -> None:
    assert days() == [1, 4, 5, 6]
    assert days(exclude=("holidays",)) == [5, 7, 8, 11]
    assert days(only=("mondays",)) == [4, 11, 18, 25]
    assert days(only=("mondays",), exclude=("holidays",)) == [11, 18, 25]
    assert days(only=("mondays", "holidays")) == [4]
    assert days(only=("empty",)) == []
    assert days(exclude=("empty",)) == [1, 4, 5, 6]
    assert days(only=("mondays",), rule="every 12h") == [4, 4, 11, 11]
    assert days(only=("mondays",), rule="0 9 * * TUE") == []


def test_calendars_of_many_dates_are_passed_quickly() -> None:
    century = Calendar("c", tuple(date.fromordinal(date(2027, 1, 1).toordinal() + n) for n in range(36_000)))
    schedule = Timing(name="a", rule=Cron("* * * * * *"), exclude=("c",))
    found = next_fire(schedule, NOON, {"c": century})
    assert found == instant("2125-07-26T00:00:00Z")


def test_runs_of_excluded_days_are_passed_in_one_step() -> None:
    century = Calendar("c", tuple(date.fromordinal(date(2027, 1, 1).toordinal() + n) for n in range(36_000)))
    effort = Effort(20)
    days = allowed(("c",), (), {"c": century})
    assert days is not None
    assert days.next(date(2027, 1, 1), effort) == days.next(date(2100, 1, 1), effort) == date(2125, 7, 26)


@pytest.mark.parametrize(
    "changes",
    [
        {"rule": Cron("0 9 * * MON"), "only": ("tuesdays",)},
        {"rule": Cron("0 9 * * TUE"), "exclude": ("tuesdays",)},
        {"rule": Every(7 * DAY, instant("2027-01-05T09:00:00Z")), "exclude": ("tuesdays",)},
        {"rule": Recurrence("FREQ=WEEKLY;BYDAY=TU", "2027-01-01T09:00:00"), "exclude": ("tuesdays",)},
        {"rule": Every(DAY), "only": ("tuesdays",), "exclude": ("tuesdays",)},
        {"rule": Cron("30 2 * 3 SUNL"), "zone": "Europe/Berlin", "gap": Gap.SKIP},  # when clocks go forward
    ],
)
def test_a_search_in_vain_is_given_up(changes: dict[str, Any]) -> None:
    tuesdays = {"tuesdays": Calendar("tuesdays", tuple(date(2027, 1, 5) + timedelta(days=7 * n) for n in range(5_000)))}
    schedule = Timing(**{"name": "a", **changes})
    with pytest.raises(
        InvalidInput, match=r"rule: .* expected a rule that fires more often; the search .* was given up"
    ):
        next_fire(schedule, NOON, tuesdays)
    assert list(fires(schedule, NOON, NOON + 300 * DAY, calendars=tuesdays)) == [], "near by it can be told"


def test_a_search_in_vain_asks_a_zone_about_few_years(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    stretch = Zone.stretch

    def counting(zone: Zone, second: int) -> Stretch:
        asked.append(second)
        return stretch(zone, second)

    monkeypatch.setattr(Zone, "stretch", counting)
    schedule = Timing(name="a", rule=Cron("30 2 * 3 SUNL"), zone="Europe/Berlin", gap=Gap.SKIP)
    with pytest.raises(InvalidInput, match="was given up"):
        next_fire(schedule, NOON)
    assert len(asked) <= 250


def test_fires_that_take_too_long_are_not_counted() -> None:
    rule = Recurrence("FREQ=SECONDLY;INTERVAL=61;BYSECOND=0", "2001-01-01T00:00:00")
    schedule = Timing(name="a", rule=rule)
    assert counted(schedule, NOON, NOON + 5 * DAY, 10_000) == list(fires(schedule, NOON, NOON + 5 * DAY))
    assert counted(schedule, NOON, NOON + 100 * DAY, 10_000) is None
    assert counted(schedule, NOON, NOON + 5 * DAY, 50) is None


def test_calendars_that_make_no_sense() -> None:
    with pytest.raises(InvalidInput, match="calendar: 'nope'"):
        days(exclude=("nope",))
    with pytest.raises(InvalidInput, match="dates from 1970"):
        Calendar("a", (date.max,))
    with pytest.raises(InvalidInput, match="calendar: ''"):
        Calendar("")
    assert msgspec.json.decode(msgspec.json.encode(HOLIDAYS["mondays"]), type=Calendar) == HOLIDAYS["mondays"]


def test_clocks_that_go_back_over_midnight_lead_to_no_loop() -> None:
    """In Newfoundland 2010-11-07T00:01 became 2010-11-06T23:01: the seventh began twice."""
    only = {"c": Calendar("c", (date(2010, 11, 7),))}
    schedule = Timing(name="a", rule=Every(30 * MINUTE), zone="America/St_Johns", only=("c",))
    found = list(fires(schedule, instant("2010-11-06T12:00:00Z"), limit=100, calendars=only))
    assert found[:2] == [instant("2010-11-07T02:30:00Z"), instant("2010-11-07T03:30:00Z")]
    assert found[-1] == instant("2010-11-08T03:00:00Z")
    assert len(found) == 49
