"""The checker of fires finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos import fire_checker, report
from tests.chaos.evidence import Evidence, Fault
from tests.chaos.fire_checker import BLINK, Standing, check, expected, fires_due, standings
from tests.chaos.fires import (
    PAUSE,
    RESUME,
    SAVE,
    Deed,
    Fire,
    FireJob,
    Fires,
    Skip,
    Tick,
    instant,
    read_deeds,
    tick,
    write,
)
from tests.chaos.rules import EPOCH, SECOND, Rule, every, saying
from tests.chaos.scenarios import schedules
from tests.chaos.witness import START, Line
from tests.checks import breach

BEGIN = EPOCH + 100 * SECOND
RULE = Rule(SECOND, 0, BEGIN, BEGIN + 9 * SECOND)


def at(seconds: float) -> int:
    return BEGIN + round(seconds * SECOND)


def saved(name: str, sure: bool, rule: Rule = RULE) -> Deed:
    return Deed(name, SAVE, at(-0.5), at(-0.4), True, rule, sure)


def made(name: str, seconds: float) -> tuple[Fire, FireJob, Tick]:
    fire, job = at(seconds), f"{name}-{seconds:g}"
    return (
        Fire(name, fire, job, "rule", fire + 500),
        FireJob(job, name, fire, "succeeded", True, fire + 2_000),
        Tick(job, 1, name, fire, "ann"),
    )


def good() -> Fires:
    """One that fires ten times, and one that fires too but is paused from 2.5 to 5.5 s."""
    deeds = {
        "sure": [saved("sure", True)],
        "racer": [
            saved("racer", False),
            Deed("racer", PAUSE, at(2.4), at(2.5), True, None, False),
            Deed("racer", RESUME, at(5.5), at(5.6), True, None, False),
        ],
    }
    parts = [made("sure", n) for n in range(10)] + [made("racer", n) for n in (0, 1, 2, 6, 7, 8, 9)]
    rows, jobs, ticks = (list(some) for some in zip(*parts, strict=True))
    return Fires(deeds, rows, [Skip("racer", at(3), at(5), 3, "paused")], jobs, ticks)


def kinds(fires: Fires) -> set[str]:
    found = check(Evidence(fires=fires), lambda old, new: False)
    return {finding.kind for finding in found if finding.kind in report.BAD}


def without(fires: Fires, job: str) -> Fires:
    return Fires(
        fires.deeds,
        [row for row in fires.rows if row.job != job],
        fires.skips,
        [one for one in fires.jobs if one.job != job],
        [one for one in fires.ticks if one.job != job],
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert kinds(good()) == set()
    assert fires_due(good()) == 10


def test_a_missing_fire() -> None:
    assert kinds(without(good(), "sure-4")) == {breach.MISSED}
    assert kinds(without(good(), "racer-7")) == {breach.MISSED}


def test_a_fire_of_which_only_the_job_is_missing() -> None:
    fires = good()
    fires.jobs, fires.ticks = fires.jobs[1:], fires.ticks[1:]
    assert kinds(fires) == {breach.LOST}


def test_a_doubled_fire() -> None:
    fires = good()
    fires.jobs.append(replace(fires.jobs[0], job="another"))
    fires.ticks.append(replace(fires.ticks[0], job="another"))
    assert breach.DOUBLED in kinds(fires)
    fires = good()
    fires.rows.append(fires.rows[0])
    assert kinds(fires) == {breach.DOUBLED}


def test_a_fire_that_ran_twice_although_no_attempt_was_lost() -> None:
    fires = good()
    fires.ticks.append(replace(fires.ticks[0], fence=2, node="bob"))
    assert kinds(fires) == {breach.DOUBLE}
    fires.jobs[0] = replace(fires.jobs[0], losses=1, crashes=1)
    assert kinds(fires) == set()


def test_a_fire_that_was_made_and_skipped() -> None:
    fires = good()
    fires.skips = [Skip("racer", at(2), at(5), 4, "paused")]
    assert kinds(fires) == {breach.DOUBLED}


def test_an_early_fire() -> None:
    fires = good()
    fires.rows[3] = replace(fires.rows[3], at=fires.rows[3].fire - 1)
    assert kinds(fires) == {breach.EARLY}
    fires = good()
    fires.jobs[3] = replace(fires.jobs[3], started=fires.jobs[3].fire - 1)
    assert kinds(fires) == {breach.EARLY}


def test_a_fire_while_paused() -> None:
    fires = good()
    fires.skips = [Skip("racer", at(3), at(3), 1, "paused"), Skip("racer", at(5), at(5), 1, "paused")]
    row, job, note = made("racer", 4)
    fires.rows, fires.jobs, fires.ticks = [*fires.rows, row], [*fires.jobs, job], [*fires.ticks, note]
    assert kinds(fires) == {breach.WHILE_PAUSED}


def test_a_fire_of_before_the_pause_that_was_made_in_it() -> None:
    fires = good()
    place = next(place for place, row in enumerate(fires.rows) if row.job == "racer-2")
    fires.rows[place] = replace(fires.rows[place], at=at(2.5) + BLINK + 1)
    assert kinds(fires) == {breach.WHILE_PAUSED}
    fires.rows[place] = replace(fires.rows[place], at=at(2.45))  # before the answer: nobody can tell
    assert kinds(fires) == set()


@pytest.mark.parametrize("seconds", [3.5, -1.0, 10.0])
def test_a_fire_that_no_rule_says(seconds: float) -> None:
    fires = good()
    row, job, note = made("sure", seconds)
    fires.rows, fires.jobs, fires.ticks = [*fires.rows, row], [*fires.jobs, job], [*fires.ticks, note]
    assert kinds(fires) == {breach.STRAY}


def test_a_job_that_no_row_knows_and_a_schedule_that_nobody_saved() -> None:
    fires = good()
    fires.jobs[0] = replace(fires.jobs[0], job="another")
    assert breach.STRAY in kinds(fires)
    fires = good()
    fires.skips.append(Skip("stranger", at(1), at(1), 1, "paused"))
    assert kinds(fires) == {breach.STRAY}


def test_a_job_that_ran_as_another_fire_than_its_row_says() -> None:
    fires = good()
    fires.ticks[0] = replace(fires.ticks[0], fire=at(1))
    assert kinds(fires) == {breach.STRAY}


def test_skips_where_all_must_be_made_for_another_reason_or_wrongly_counted() -> None:
    fires = without(good(), "sure-4")
    fires.skips.append(Skip("sure", at(4), at(4), 1, "missed"))
    assert kinds(fires) == {breach.MISSED, fire_checker.SKIPPED}
    fires = good()
    fires.skips[0] = replace(fires.skips[0], reason="newer")
    assert kinds(fires) == {fire_checker.SKIPPED}
    fires.skips[0] = replace(good().skips[0], count=2)
    assert kinds(fires) == {breach.MISCOUNTED_SKIPS}


def test_jobs_that_did_not_end_well() -> None:
    fires = good()
    fires.jobs[0] = replace(fires.jobs[0], state="failed", crashes=1)
    assert kinds(fires) == {breach.FAILED}
    fires.jobs[0] = replace(fires.jobs[0], state="failed", crashes=3)
    assert kinds(fires) == set()
    fires.jobs[0] = replace(fires.jobs[0], state="running", ended=False)
    assert kinds(fires) == {breach.LOST}


def test_one_that_succeeded_and_never_ran() -> None:
    fires = good()
    fires.ticks = fires.ticks[1:]
    assert kinds(fires) == {breach.UNPROVEN}


def test_every_kind_is_forged_here() -> None:
    assert len(set(fire_checker.BAD)) == 6


def test_while_an_answer_is_outstanding_both_is_possible() -> None:
    deeds = good().deeds["racer"]
    assert standings(deeds, at(1)) == {Standing(RULE)}
    assert standings(deeds, at(2.45)) == {Standing(RULE), Standing(RULE, paused=True)}
    assert standings(deeds, at(4)) == {Standing(RULE, paused=True)}
    unsure = [replace(deed, ok=deed.verb != PAUSE) for deed in deeds]
    assert standings(unsure, at(4)) == {Standing(RULE), Standing(RULE, paused=True)}
    assert standings(unsure, at(6)) == {Standing(RULE)}  # resumed for certain


def test_around_a_change_of_the_rule_only_what_both_have_is_certain() -> None:
    rarely = Rule(2 * SECOND, 0, at(4.5), RULE.end)
    deeds = [saved("racer", False), Deed("racer", SAVE, at(4.5), at(5.5), True, rarely, False)]
    wanted = expected(deeds)
    assert wanted.must == {at(n) for n in (0, 1, 2, 3, 4, 6, 8)}
    assert wanted.may - wanted.must == {at(5)}


@pytest.mark.parametrize("number", range(1, 13))
def test_the_arithmetic_of_rules(number: int) -> None:
    said = saying(number)
    rule = Rule(said.period, said.phase, BEGIN, BEGIN + 4 * SECOND)
    found = list(rule.fires())
    assert 2 <= len(found) <= 5
    assert all(rule.has(one) and not rule.has(one + 1) for one in found)
    assert not rule.has(found[-1] + rule.period * 5)


def test_what_is_written_is_read_again() -> None:
    deeds = good().deeds
    assert read_deeds(write(deed) for some in deeds.values() for deed in some) == deeds
    assert every(2, 1_250).words == {"every": "2s from 2026-01-01T00:00:01.250000+00:00"}
    assert instant("2026-01-01T01:00:01.250000+01:00") == EPOCH + 1_250_000
    assert tick("job-1 2 sure 2026-01-01T00:00:00+00:00 ann") == Tick("job-1", 2, "sure", EPOCH, "ann")


def test_lateness_is_apart_for_steady_times_and_for_those_without_a_leader() -> None:
    fires = Fires(jobs=[])
    for second in range(60):
        fire, job, _ = made("sure-1", second)
        slow = 0.4 if second in (30, 31, 32) else 0.004
        fires.rows.append(fire)
        fires.jobs.append(replace(job, name="sure-1", started=fire.fire + round(slow * SECOND)))
    wall = BEGIN / SECOND
    evidence = Evidence(fires=fires, lines=[Line(1_000.0, wall, START, "job", 1, 1, "ann", 7)])
    evidence.faults = [Fault(1_029.5, "leader", "ann"), Fault(1_033.0, "launch", "ann", until=1_034.0)]
    assert [round(late, 3) for late in schedules.measure(evidence)] == [0.4, 0.4, 0.4]
    assert {round(late, 3) for late in schedules.steady(evidence)} == {0.004}
    assert schedules.missed(evidence) == []
    evidence.faults = []
    assert schedules.missed(evidence) == ["steady p99 above 15 ms"]


def test_those_that_come_one_by_one_are_shown_apart() -> None:
    fires = Fires(jobs=[])
    for second in range(60):
        fire, job, _ = made("sure-1", second)
        fires.jobs.append(replace(job, fire=fire.fire + 250_000, started=fire.fire + 250_000 + 20_000))
    evidence = Evidence(fires=fires, lines=[Line(1_000.0, BEGIN / SECOND, START, "job", 1, 1, "ann", 7)])
    alone, crowd = schedules.steady(evidence, crowd=False), schedules.steady(evidence, crowd=True)
    assert ({round(late, 3) for late in alone}, crowd) == ({0.02}, [])
    assert schedules.missed(evidence) == ["steady p99 above 15 ms"]
