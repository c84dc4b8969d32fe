"""What people say of a schedule's times, and what they hear when it makes no sense."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rota.errors import InvalidInput
from rota.model.times import DAY, HOUR, LATEST, MINUTE, SECOND, instant
from rota.model.trigger.policies import CatchUp, Fold, Gap, Missed, Overlap
from rota.model.trigger.reading import LONGEST_NAME, NAMES, read_schedule, schedule_name
from rota.model.trigger.rules import Cron, Every, Recurrence, Rule, Times
from rota.model.trigger.schedule import Timing

NOON = instant("2027-01-01T12:00:00+00:00")
LATER = "2027-02-01T00:00:00Z"


def read(**given: Any) -> Timing:
    return read_schedule("me", "s", given, NOON)


def test_a_rule_alone_is_enough() -> None:
    assert read(cron="0 3 * * *") == Timing(name="s", owner="me", rule=Cron("0 3 * * *"))


def test_all_words_together() -> None:
    found = read(
        cron="0 3 * * *", tz="Europe/Berlin", gap="skip", fold="both", start=LATER, end="2027-03-01T00:00:00Z",
        jitter="90s", limit=7, exclude="holidays, illness", only=["work"], overlap="queue", catch_up="all",
        catch_up_window="2h", catch_up_max=5,
    )  # fmt: skip
    assert found == Timing(
        name="s", owner="me", rule=Cron("0 3 * * *"), zone="Europe/Berlin", gap=Gap.SKIP, fold=Fold.BOTH,
        start=instant(LATER), end=instant("2027-03-01T00:00:00Z"), jitter=90 * SECOND, limit=7,
        exclude=("holidays", "illness"), only=("work",), overlap=Overlap.QUEUE,
        catch_up=CatchUp(Missed.ALL, 2 * HOUR, 5),
    )  # fmt: skip


RULES: list[tuple[dict[str, Any], Rule]] = [
    ({"cron": "  0   3 * * * "}, Cron("0 3 * * *")),
    ({"cron": "@daily"}, Cron("@daily")),
    ({"every": "90s"}, Every(90 * SECOND)),
    ({"every": 90}, Every(90 * SECOND)),
    ({"every": timedelta(minutes=2)}, Every(2 * MINUTE)),
    ({"every": "90s from 2027-01-01T12:00:00Z"}, Every(90 * SECOND, NOON)),
    ({"rrule": "FREQ=DAILY"}, Recurrence("FREQ=DAILY", "2027-01-01T12:00:00", implied=True)),
    ({"rrule": "FREQ=DAILY", "tz": "Asia/Kathmandu"}, Recurrence("FREQ=DAILY", "2027-01-01T17:45:00", implied=True)),
    ({"rrule": "FREQ=DAILY", "start": LATER}, Recurrence("FREQ=DAILY", "2027-02-01T00:00:00")),
    ({"at": LATER}, Times((instant(LATER),))),
    ({"at": datetime(2027, 2, 1, tzinfo=UTC)}, Times((instant(LATER),))),
    ({"at": [LATER, "2027-01-02T00:00:00Z", LATER]}, Times((NOON + DAY // 2, instant(LATER)))),
    ({"rule": "every 90s"}, Every(90 * SECOND)),
    ({"rule": f"at {LATER}"}, Times((instant(LATER),))),
    ({"rule": "0 3 * * *"}, Cron("0 3 * * *")),
    ({"rule": "INTERVAL=2;FREQ=DAILY"}, Recurrence("INTERVAL=2;FREQ=DAILY", "2027-01-01T12:00:00", implied=True)),
    ({"rule": "byday=MO;freq=WEEKLY"}, Recurrence("byday=MO;freq=WEEKLY", "2027-01-01T12:00:00", implied=True)),
    ({"rule": "FREQ=DAILY"}, Recurrence("FREQ=DAILY", "2027-01-01T12:00:00", implied=True)),
]


@pytest.mark.parametrize(("given", "rule"), RULES, ids=lambda one: str(one)[:40])
def test_a_rule_may_be_said_in_many_ways(given: dict[str, Any], rule: Rule) -> None:
    assert read(**given).rule == rule


def test_what_is_none_was_not_said() -> None:
    assert read(**dict.fromkeys(NAMES) | {"every": "1m"}) == read(every="1m")


def test_a_catch_up_policy_may_come_as_a_whole() -> None:
    policy = CatchUp(Missed.ALL, HOUR, 3, SECOND)
    assert read(every="1m", catch_up=policy).catch_up == policy


# One wrong thing, and which field the answer must begin with.
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("rule", {}),
    ("rule", {"cron": "0 3 * * *", "every": "1m"}),
    ("rule", {"rule": ""}),
    ("rule", {"rule": 7}),
    ("cron", {"cron": ""}),
    ("cron", {"cron": 5}),
    ("cron", {"cron": "* * *"}),
    ("cron", {"cron": "61 * * * *"}),
    ("cron", {"cron": "0 0 30 2 *"}),
    ("cron", {"cron": "0 0 30 feb *"}),
    ("cron", {"cron": "@sometimes"}),
    ("every", {"every": ""}),
    ("every", {"every": "soon"}),
    ("every", {"every": "90s from"}),
    ("every", {"every": 0}),
    ("every", {"every": 0.5}),
    ("every", {"every": -1}),
    ("every", {"every": float("nan")}),
    ("every", {"every": True}),
    ("every", {"every": []}),
    ("every", {"every": "100ms"}),
    ("anchor", {"every": "90s from tomorrow"}),
    ("rrule", {"rrule": ""}),
    ("rrule", {"rrule": 7}),
    ("rrule", {"rrule": "FREQ=SOMETIMES"}),
    ("rrule", {"rrule": "BYDAY=MO"}),
    ("at", {"at": "tomorrow"}),
    ("at", {"at": "2027-02-30T00:00:00Z"}),
    ("at", {"at": "2027-02-01T00:00:00"}),
    ("at", {"at": []}),
    ("at", {"at": [LATER, 7]}),
    ("tz", {"every": "1m", "tz": "Europe/Atlantis"}),
    ("tz", {"every": "1m", "tz": ""}),
    ("tz", {"every": "1m", "tz": 7}),
    ("tz", {"every": "1m", "tz": "../../etc/passwd"}),
    ("tz", {"every": "1m", "tz": "Europe"}),
    ("tz", {"every": "1m", "tz": "a\0b"}),
    ("tz", {"every": "1m", "tz": "x" * 10_000}),
    ("tz", {"every": "1m", "tz": "localtime"}),
    ("gap", {"every": "1m", "gap": "jump"}),
    ("gap", {"every": "1m", "gap": []}),
    ("fold", {"every": "1m", "fold": "third"}),
    ("start", {"every": "1m", "start": "now"}),
    ("start", {"every": "1m", "start": 7}),
    ("end", {"every": "1m", "end": "never"}),
    ("end", {"every": "1m", "start": LATER, "end": "2027-01-01T00:00:00Z"}),
    ("jitter", {"every": "1m", "jitter": "much"}),
    ("jitter", {"every": "1m", "jitter": -1}),
    ("jitter", {"every": "1m", "jitter": "2m"}),
    ("limit", {"every": "1m", "limit": 0}),
    ("limit", {"every": "1m", "limit": -3}),
    ("limit", {"every": "1m", "limit": "3"}),
    ("limit", {"every": "1m", "limit": 1.5}),
    ("limit", {"every": "1m", "limit": True}),
    ("limit", {"every": "1m", "limit": 10**30}),
    ("exclude", {"every": "1m", "exclude": ""}),
    ("exclude", {"every": "1m", "exclude": "a,,b"}),
    ("exclude", {"every": "1m", "exclude": 7}),
    ("exclude", {"every": "1m", "exclude": ["a", 7]}),
    ("only", {"every": "1m", "only": [""]}),
    ("overlap", {"every": "1m", "overlap": "maybe"}),
    ("overlap", {"every": "1m", "overlap": True}),
    ("catch up", {"every": "1m", "catch_up": "some"}),
    ("catch up window", {"every": "1m", "catch_up_window": "long"}),
    ("catch up window", {"every": "1m", "catch_up_window": 0}),
    ("catch up max", {"every": "1m", "catch_up_max": 0}),
    ("catch up max", {"every": "1m", "catch_up_max": 100_000}),
    ("catch up max", {"every": "1m", "catch_up_max": "5"}),
    ("option", {"every": "1m", "colour": "red"}),
]
# The same things by the names they have elsewhere.
ALSO = {"tz": "time zone", "rrule": "rule", "at": "times", "catch up max": "catch-up maximum"}


@pytest.mark.parametrize(("field", "given"), WRONG, ids=lambda one: str(one)[:60])
def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(field: str, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(**given)
    said = str(refused.value).replace("catch-up", "catch up")
    names = (field, ALSO.get(field, field).replace("catch-up", "catch up"))
    assert said.startswith(names), said


def test_a_rule_without_its_frequency_is_no_cron() -> None:
    with pytest.raises(InvalidInput, match=r"rrule: 'BYDAY=MO' is not valid; .*; FREQ is missing"):
        read(rule="BYDAY=MO")


def test_a_period_is_refused_in_the_words_it_was_given_in() -> None:
    with pytest.raises(InvalidInput, match=r"^every: '@every 5m' is not valid; expected '90s' or '90s from <time>'$"):
        read(every="@every 5m")


@pytest.mark.parametrize("name", ["s", "a b", "naïve ☃", "x" * LONGEST_NAME, "0 3 * * *"])
def test_a_name_may_be_any_printable_text(name: str) -> None:
    assert schedule_name(name) == name
    assert read_schedule("me", name, {"every": "1m"}, NOON).name == name


@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "a\0b", "x" * (LONGEST_NAME + 1), 7, None, "\ud800"])
def test_a_name_that_is_none_is_refused(name: Any) -> None:
    with pytest.raises(InvalidInput, match="schedule name"):
        read_schedule("me", name, {"every": "1m"}, NOON)


def test_times_at_the_end_of_the_calendar_are_no_problem() -> None:
    last = "9891-12-31T00:00:00Z"
    assert instant(last) <= LATEST
    assert read(every="1m", start=last, tz="Pacific/Apia").start == instant(last)
    assert read(rrule="FREQ=YEARLY", start="1970-01-01T00:00:00Z", tz="America/New_York").start == 0
