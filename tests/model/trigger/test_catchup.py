"""What is made and what is skipped after downtime."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from rota.model.times import DAY, HOUR, MINUTE, SECOND, instant
from rota.model.trigger.catchup import AT_ONCE, COUNTED, Due, due, passed_over
from rota.model.trigger.fires import fires
from rota.model.trigger.policies import CatchUp, Missed
from rota.model.trigger.rules import Cron, Every, read_rule
from rota.model.trigger.schedule import Timing
from rota.model.trigger.skipped import Skipped, SkipReason

NOON = instant("2027-01-01T12:00:00+00:00")
HOURLY = [NOON + n * HOUR for n in range(1, 6)]


def hourly(missed: str, limit: int | None = None, **policy: int) -> Timing:
    return Timing(name="a", rule=Cron("0 * * * *"), limit=limit, catch_up=CatchUp(Missed(missed), **policy))


def after_five_hours(schedule: Timing, fired: int = 0, late: int = 30 * MINUTE) -> Due:
    return due(schedule, NOON, NOON + 5 * HOUR + late, fired)


def run(first: int, last: int, reason: SkipReason) -> Skipped:
    return Skipped(HOURLY[first], HOURLY[last], last - first + 1, reason)


def test_in_time_everything_is_made_whatever_the_policy() -> None:
    for missed in Missed:
        found = due(hourly(missed), NOON, HOURLY[0] + SECOND)
        assert (found.make, found.skip) == ([HOURLY[0]], [])
        assert found.handled == HOURLY[0] + SECOND


def test_nothing_is_due_before_its_time() -> None:
    assert due(hourly("all"), NOON, NOON + HOUR - 1) == Due([], [], NOON + HOUR - 1, False, False)
    assert due(hourly("all"), NOON, NOON - HOUR).handled == NOON, "a clock that went back undoes nothing"


def test_none() -> None:
    found = after_five_hours(hourly("none"))
    assert (found.make, found.skip) == ([], [run(0, 4, SkipReason.MISSED)])
    found = after_five_hours(hourly("none"), late=SECOND)
    assert (found.make, found.skip) == (HOURLY[4:], [run(0, 3, SkipReason.MISSED)])


def test_latest() -> None:
    found = after_five_hours(hourly("latest"))
    assert (found.make, found.skip) == (HOURLY[4:], [run(0, 3, SkipReason.NEWER)])
    assert after_five_hours(hourly("latest"), late=SECOND) == Due(
        HOURLY[4:], [run(0, 3, SkipReason.NEWER)], NOON + 5 * HOUR + SECOND, False, False
    )


def test_latest_outside_its_window() -> None:
    found = after_five_hours(hourly("latest", window=10 * MINUTE))
    assert (found.make, found.skip) == ([], [run(0, 4, SkipReason.WINDOW)])


def test_all() -> None:
    found = after_five_hours(hourly("all"))
    assert (found.make, found.skip) == (HOURLY, [])
    found = after_five_hours(hourly("all", window=3 * HOUR))
    assert (found.make, found.skip) == (HOURLY[2:], [run(0, 1, SkipReason.WINDOW)])
    found = after_five_hours(hourly("all", most=2))
    assert (found.make, found.skip) == (HOURLY[3:], [run(0, 2, SkipReason.MAXIMUM)])
    found = after_five_hours(hourly("all", most=2, window=4 * HOUR))
    assert (found.make, found.skip) == (HOURLY[3:], [run(0, 0, SkipReason.WINDOW), run(1, 2, SkipReason.MAXIMUM)])


def test_the_maximum_does_not_count_what_is_in_time() -> None:
    found = after_five_hours(hourly("all", most=2), late=SECOND)
    assert (found.make, found.skip) == (HOURLY[2:], [run(0, 1, SkipReason.MAXIMUM)])


def test_of_many_that_are_late_only_the_newest_is_in_time() -> None:
    now = NOON + 10 * SECOND
    for missed, reason in (("none", SkipReason.MISSED), ("latest", SkipReason.NEWER)):
        each_second = Timing(name="a", rule=Cron("* * * * * *"), catch_up=CatchUp(Missed(missed)))
        found = due(each_second, NOON, now)
        assert (found.make, found.skip) == ([now], [Skipped(NOON + SECOND, now - SECOND, 9, reason)])


def test_the_edge_of_the_window_is_inside() -> None:
    found = after_five_hours(hourly("all", window=4 * HOUR + 30 * MINUTE))
    assert (found.make, found.skip) == (HOURLY, [])


def test_the_limit_ends_a_schedule() -> None:
    found = after_five_hours(hourly("all", limit=10), fired=8)
    assert (found.make, found.ended, found.handled) == (HOURLY[:2], True, HOURLY[1])
    assert after_five_hours(hourly("all", limit=10), fired=10).make == []
    assert after_five_hours(hourly("all", limit=10), fired=10).ended
    assert not after_five_hours(hourly("all", limit=10), fired=4).ended
    assert after_five_hours(hourly("all", limit=10), fired=5).ended, "the last one was just made"


def test_pauses_are_told_as_runs() -> None:
    found = passed_over(hourly("all"), NOON, NOON + 5 * HOUR, SkipReason.PAUSED)
    assert (found.make, found.skip) == ([], [run(0, 4, SkipReason.PAUSED)])


def steps(schedule: Timing, handled: int, now: int) -> Iterator[Due]:
    while True:
        found = due(schedule, handled, now)
        yield found
        if not found.more:
            return
        assert found.handled > handled, "each step comes nearer"
        handled = found.handled


def test_many_are_made_in_steps() -> None:
    schedule = Timing(name="a", rule=Cron("* * * * * *"), catch_up=CatchUp(Missed.ALL, most=1_200, grace=SECOND))
    now = NOON + 25_000 * SECOND
    found = list(steps(schedule, NOON, now))
    assert [(len(step.make), step.more) for step in found] == [(AT_ONCE, True), (AT_ONCE, True), (201, False)]
    assert [fire for step in found for fire in step.make] == [now - n * SECOND for n in range(1_200, -1, -1)]
    (run,) = [run for step in found for run in step.skip]
    assert (run.first, run.last, run.count) == (NOON + SECOND, now - 1_201 * SECOND, None)


def test_the_limit_counts_through_the_steps() -> None:
    policy = CatchUp(Missed.ALL, most=10_000)
    schedule = Timing(name="a", rule=Cron("* * * * * *"), limit=AT_ONCE + 1, catch_up=policy)
    now = NOON + 2_000 * SECOND
    first = due(schedule, NOON, now)
    assert (len(first.make), first.more, first.ended) == (AT_ONCE, True, False)
    second = due(schedule, first.handled, now, fired=AT_ONCE)
    assert (second.make, second.more, second.ended) == ([NOON + (AT_ONCE + 1) * SECOND], False, True)


def test_years_of_seconds_are_skipped_at_once() -> None:
    schedule = Timing(name="a", rule=Cron("* * * * * *"))
    found = due(schedule, 0, NOON)
    assert (found.make, found.more, found.handled) == ([NOON], False, NOON)
    assert found.skip == [Skipped(SECOND, NOON - SECOND, None, SkipReason.NEWER)]


def test_more_than_can_be_counted_are_passed_over_at_once() -> None:
    schedule = Timing(name="a", rule=Cron("* * * * * *"))
    now = NOON + (COUNTED + 1) * SECOND
    paused = passed_over(schedule, NOON, now, SkipReason.PAUSED)
    assert paused == Due([], [Skipped(NOON + SECOND, now, None, SkipReason.PAUSED)], now, False, False)
    counted = passed_over(schedule, NOON, now - SECOND, SkipReason.PAUSED)
    assert counted.skip == [Skipped(NOON + SECOND, now - SECOND, COUNTED, SkipReason.PAUSED)]


policies = st.builds(
    CatchUp, st.sampled_from(Missed), st.none() | st.integers(1, 3 * DAY), st.integers(1, 30), st.integers(0, DAY)
)
some_rules = st.sampled_from(["*/7 * * * *", "0 3 * * *", "every 11m", "30 2 * * MON", "0 0 29 2 *"]).map(read_rule)


@given(some_rules, policies, st.integers(0, 3 * DAY))
def test_each_fire_is_made_or_skipped_exactly_once(rule: Cron | Every, policy: CatchUp, down: int) -> None:
    schedule = Timing(name="a", rule=rule, zone="Europe/Berlin", catch_up=policy)
    now = NOON + down
    found = due(schedule, NOON, now)
    everything = list(fires(schedule, NOON, now))
    skipped = [fire for fire in everything if any(run.first <= fire <= run.last for run in found.skip)]
    assert sorted(chain(found.make, skipped)) == everything
    assert sum(run.count or 0 for run in found.skip) == len(skipped)
    in_time = [fire for fire in everything[-1:] if fire >= now - policy.grace]
    made_up_for = [fire for fire in found.make if fire not in in_time]
    assert len(made_up_for) <= {Missed.NONE: 0, Missed.LATEST: 1, Missed.ALL: policy.most}[policy.missed]
    assert all(fire >= now - (policy.window or now) for fire in made_up_for)
    assert set(found.make) >= set(in_time)


def test_asking_twice_gives_the_same_answer() -> None:
    assert after_five_hours(hourly("all")) == after_five_hours(hourly("all"))
    assert due(hourly("all"), after_five_hours(hourly("all")).handled, NOON + 5 * HOUR + 30 * MINUTE).make == []
