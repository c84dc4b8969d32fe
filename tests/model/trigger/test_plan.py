"""The next step of a schedule as one value."""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec
import pytest

from rota.errors import InvalidInput
from rota.model.job import Spec
from rota.model.times import HOUR, MINUTE, SECOND, instant
from rota.model.trigger import schedule as timing
from rota.model.trigger import template as work
from rota.model.trigger.calendars import Calendar
from rota.model.trigger.fires import run_time
from rota.model.trigger.identity import fire_id
from rota.model.trigger.plan import Parsed, advance, left_behind, named_calendars, new_fires, parse
from rota.model.trigger.policies import CatchUp, Missed, Overlap
from rota.model.trigger.records import StoredSchedule
from rota.model.trigger.rules import Every, Times
from rota.model.trigger.schedule import Timing
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.model.trigger.template import Template

NOON = instant("2027-01-01T12:00:00+00:00")
ORDER = Template(task="t", spec=Spec.function("t"), args='{"at": "{fire_time}", "run": "{scheduled_for}"}')


def schedule(**changes: Any) -> Timing:
    return Timing(**{"name": "s", "owner": "me", "rule": Every(MINUTE), **changes})


def standing(of: Timing, **changes: Any) -> StoredSchedule:
    given: dict[str, Any] = {
        "owner": of.owner, "name": of.name, "revision": 7, "timing": timing.to_json(of), "work": work.to_json(ORDER),
        "app": None, "created_at": NOON, "changed_at": NOON, "handled": NOON, "next_at": NOON + MINUTE, "fired": 0,
    }  # fmt: skip
    return StoredSchedule(**given | changes)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_what_was_written_is_read_back() -> None:
    of = schedule(zone="Europe/Berlin", overlap=Overlap.QUEUE, catch_up=CatchUp(Missed.ALL, most=7), jitter=5)
    assert parse(standing(of)) == Parsed(of, ORDER)


@pytest.mark.parametrize("change", [{"name": "other"}, {"owner": "you"}])
def test_texts_about_another_schedule_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="the name it stands under"):
        parse(standing(schedule(), **change))


def test_garbage_is_refused_in_rotas_own_words() -> None:
    for change in ({"timing": "{"}, {"timing": "null"}, {"work": ""}, {"work": "7"}):
        with pytest.raises(InvalidInput):
            parse(standing(schedule(), **change))


def test_all_calendars_that_it_names_each_once() -> None:
    assert named_calendars(schedule()) == ()
    assert named_calendars(schedule(exclude=("b", "a"), only=("c", "a"))) == ("a", "b", "c")


# -- a step -----------------------------------------------------------------------------------------------------------


def test_a_step_takes_for_granted_what_it_was_worked_out_from() -> None:
    of = schedule(limit=9, overlap=Overlap.SKIP)
    step = advance(standing(of), Parsed(of, ORDER), NOON + MINUTE)
    assert (step.owner, step.name, step.revision, step.before) == ("me", "s", 7, NOON)
    assert (step.limit, step.overlap) == (9, Overlap.SKIP)
    assert [fire.fire for fire in step.fires] == [NOON + MINUTE]
    assert (step.handled, step.next_at, list(step.skips)) == (NOON + MINUTE, NOON + 2 * MINUTE, [])


def test_the_same_twice_is_the_same() -> None:
    of = schedule(jitter=30 * SECOND, catch_up=CatchUp(Missed.ALL))
    parsed = Parsed(of, ORDER)
    assert advance(standing(of), parsed, NOON + HOUR) == advance(standing(of), parsed, NOON + HOUR)


def test_while_it_is_paused_everything_is_skipped() -> None:
    of = schedule(catch_up=CatchUp(Missed.ALL))
    step = advance(standing(of, paused_at=NOON + 90 * SECOND), Parsed(of, ORDER), NOON + 3 * MINUTE)
    assert list(step.fires) == []
    assert list(step.skips) == [Skipped(NOON + MINUTE, NOON + 3 * MINUTE, 3, SkipReason.PAUSED)]
    assert (step.handled, step.next_at) == (NOON + 3 * MINUTE, NOON + 4 * MINUTE)


def test_the_last_time_of_a_list_is_its_end() -> None:
    of = schedule(rule=Times((NOON + MINUTE,)))
    step = advance(standing(of), Parsed(of, ORDER), NOON + MINUTE)
    assert ([fire.fire for fire in step.fires], step.next_at) == ([NOON + MINUTE], None)


@pytest.mark.parametrize("fired", [3, 4])
def test_one_that_has_fired_as_often_as_it_may_has_ended(fired: int) -> None:
    of = schedule(limit=3)
    step = advance(standing(of, fired=fired), Parsed(of, ORDER), NOON + MINUTE)
    assert (list(step.fires), list(step.skips), step.next_at) == ([], [], None)


def test_no_more_than_are_left_are_made() -> None:
    of = schedule(limit=3, catch_up=CatchUp(Missed.ALL))
    step = advance(standing(of, fired=1), Parsed(of, ORDER), NOON + HOUR)
    assert [fire.fire for fire in step.fires] == [NOON + MINUTE, NOON + 2 * MINUTE]


def test_a_clock_that_went_back_undoes_nothing() -> None:
    of = schedule()
    step = advance(standing(of), Parsed(of, ORDER), NOON - HOUR)
    assert (list(step.fires), step.handled, step.next_at) == ([], NOON, NOON + MINUTE)


def test_its_calendars_count() -> None:
    of = schedule(rule=Every(6 * HOUR), exclude=("off",))
    parsed = Parsed(of, ORDER, {"off": Calendar("off", (date(2027, 1, 2),))})
    step = advance(standing(of), parsed, NOON + 6 * HOUR)
    assert step.next_at == NOON + 36 * HOUR
    with pytest.raises(InvalidInput, match="'off'"):
        advance(standing(of), Parsed(of, ORDER), NOON + 6 * HOUR)


# -- the jobs of fires ------------------------------------------------------------------------------------------------


def test_a_fire_runs_at_its_time_by_an_id_of_its_own() -> None:
    of = schedule(zone="Europe/Berlin")
    (fire,) = new_fires(Parsed(of, ORDER), [NOON])
    assert (fire.fire, fire.job.id, fire.job.at) == (NOON, fire_id("me", "s", NOON), None)
    assert msgspec.json.decode(fire.job.args) == dict.fromkeys(("at", "run"), "2027-01-01T13:00:00+01:00")


def test_with_jitter_it_runs_later_always_by_the_same_amount() -> None:
    of = schedule(jitter=30 * SECOND)
    fires = new_fires(Parsed(of, ORDER), [NOON + n * MINUTE for n in range(50)])
    for fire in fires:
        late = (fire.job.at or fire.fire) - fire.fire
        assert 0 <= late <= 30 * SECOND
        assert fire.fire + late == run_time(of, fire.fire)
        assert msgspec.json.decode(fire.job.args)["at"] <= msgspec.json.decode(fire.job.args)["run"]
    assert len({fire.job.at for fire in fires}) > 40


def test_a_backfill_runs_at_once_and_says_so() -> None:
    (fire,) = new_fires(Parsed(schedule(jitter=MINUTE), ORDER), [NOON], NOON + HOUR)
    assert (fire.fire, fire.job.at, fire.job.id) == (NOON, None, fire_id("me", "s", NOON))
    assert msgspec.json.decode(fire.job.args) == {
        "at": "2027-01-01T12:00:00+00:00",
        "run": "2027-01-01T13:00:00+00:00",
    }


# -- taken away -------------------------------------------------------------------------------------------------------


def test_what_is_left_behind_when_it_is_taken_away() -> None:
    of = schedule()
    parsed = Parsed(of, ORDER)
    assert left_behind(standing(of), parsed, NOON + SECOND) == []
    run = left_behind(standing(of), parsed, NOON + 2 * MINUTE)
    assert run == [Skipped(NOON + MINUTE, NOON + 2 * MINUTE, 2, SkipReason.REMOVED)]
    (paused,) = left_behind(standing(of, paused_at=NOON), parsed, NOON + 2 * MINUTE)
    assert paused.reason is SkipReason.PAUSED
