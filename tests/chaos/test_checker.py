"""The checker of the chaos runs finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.chaos import checker, report, told
from tests.chaos.checker import Finding, check
from tests.chaos.evidence import Evidence, Exit, Fault, Row, Try
from tests.chaos.figures import back_to_normal, lateness, percentile, restarts
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import pause
from tests.chaos.told import HUNG, OK, REFUSED, UNKNOWN, Order
from tests.chaos.witness import ALIVE, END, START, Line, parse, slices
from tests.checks import breach


def line(at: float, word: str, fence: int = 1, node: str = "ann", number: int = 1) -> Line:
    return Line(at, 1000.0 + at, word, f"job-{number}", fence, number, node, 77)


def good() -> Evidence:
    """One order, told ok, that ran once; and one that was told nothing and is not there."""
    ordered = Order(1, "linger", False, None, 0.5, [OK], {"job-1"})
    return Evidence(
        told={1: ordered, 2: Order(2, "linger", False, None, 0.6, [UNKNOWN], set(), "StoreUnavailable")},
        lines=[line(1.0, START), line(1.1, ALIVE), line(1.2, END)],
        rows=[Row("job-1", 1, "succeeded", 1, 0, "succeeded", ended=True)],
    )


def kinds(evidence: Evidence) -> list[str]:
    return sorted(finding.kind for finding in check(evidence) if finding.kind in checker.BAD)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert [finding.kind for finding in check(good())] == [checker.RESOLVED_NOT]


def test_a_job_that_was_run_again_after_its_node_died_is_in_order() -> None:
    evidence = good()
    evidence.lines = [line(1.0, START), line(1.1, ALIVE), line(2.5, START, 2, "bob"), line(2.7, END, 2, "bob")]
    evidence.rows = [replace(evidence.rows[0], fence=2, crashes=1)]
    evidence.tries = [Try("job-1", 1, "crashed")]
    assert kinds(evidence) == []


def test_lost_if_it_is_not_there() -> None:
    evidence = good()
    evidence.rows, evidence.lines = [], []
    assert kinds(evidence) == [breach.LOST]


def test_lost_if_it_never_ended() -> None:
    evidence = good()
    evidence.rows = [Row("job-1", 1, "running", 1, 0)]
    assert kinds(evidence) == [breach.LOST]


def test_lost_if_it_is_there_under_another_id_than_the_client_was_told() -> None:
    evidence = good()
    evidence.told[1].ids = {"job-9"}
    assert kinds(evidence) == [breach.LOST]


def test_double_if_one_order_became_two_jobs() -> None:
    evidence = good()
    evidence.rows.append(Row("job-7", 1, "succeeded", 1, 0, "succeeded", ended=True))
    evidence.lines += [replace(each, job="job-7") for each in evidence.lines]
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_one_key_had_two_answers() -> None:
    evidence = good()
    evidence.told[1].ids = {"job-1", "job-2"}
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_an_earlier_attempt_succeeded_too() -> None:
    evidence = good()
    evidence.rows = [replace(evidence.rows[0], fence=2)]
    evidence.lines += [line(2.0, START, 2), line(2.1, END, 2)]
    evidence.tries = [Try("job-1", 1, "succeeded")]
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_it_is_in_the_history_twice_or_lives_on() -> None:
    evidence = good()
    evidence.rows *= 2
    assert set(kinds(evidence)) == {breach.DOUBLE}
    evidence = good()
    evidence.rows.append(Row("job-1", 1, "ready", 1, 0))
    assert kinds(evidence) == [breach.DOUBLE, breach.LOST]


def test_double_if_one_attempt_ended_twice() -> None:
    evidence = good()
    evidence.tries = [Try("job-1", 1, "crashed")]
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_an_old_fence_ended_it() -> None:
    evidence = good()
    evidence.tries = [Try("job-1", 2, "crashed")]
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_it_ran_again_after_its_end() -> None:
    evidence = good()
    evidence.lines += [line(2.0, START, 2), line(2.1, END, 2)]
    assert kinds(evidence) == [breach.DOUBLE]


def test_double_if_one_attempt_started_twice() -> None:
    evidence = good()
    evidence.lines += [line(1.05, START, node="bob")]
    assert kinds(evidence) == [breach.DOUBLE]


def overlapping() -> Evidence:
    evidence = good()
    evidence.lines = [line(1.0, START), line(1.6, ALIVE), line(1.5, START, 2, "bob"), line(1.9, END, 2, "bob")]
    evidence.rows = [replace(evidence.rows[0], fence=2)]
    return evidence


def test_overlap_even_of_an_attempt_that_never_ended() -> None:
    assert kinds(overlapping()) == [breach.OVERLAP]


def test_overlaps_are_excused_only_by_the_scenario() -> None:
    found = check(overlapping(), lambda old, new: old.node == "ann" and new.node == "bob")
    assert {finding.kind for finding in found} == {checker.EXCUSED, checker.RESOLVED_NOT}


@pytest.mark.parametrize(
    ("fault", "is_excused"),
    [
        (Fault(1.1, "sleep", "ann", until=1.6), True),
        (Fault(1.1, "pause", "ann", until=1.6), False),  # its keeper was awake
        (Fault(1.1, "sleep", "bob", until=1.6), False),
        (Fault(1.55, "sleep", "ann", until=1.6), False),  # they overlapped before it slept
        (Fault(1.1, "sleep", "ann", until=1.7), False),  # it can't have run while it slept
    ],
)
def test_only_a_whole_machine_that_slept_excuses_an_overlap(fault: Fault, is_excused: bool) -> None:
    evidence = overlapping()
    evidence.faults = [fault]
    made = report.make(replace(pause.SCENARIO, measure=lambda evidence: [0.0]), evidence, took=1.0)
    assert made.faults == ([] if is_excused else ["1 overlap"])


def test_unproven_if_the_attempt_never_reached_its_end() -> None:
    evidence = good()
    evidence.lines.pop()
    assert kinds(evidence) == [breach.UNPROVEN]


def test_made_up_if_nobody_asked_or_it_was_refused() -> None:
    evidence = good()
    del evidence.told[1]
    assert kinds(evidence) == [breach.MADE_UP]
    evidence = good()
    evidence.told[1].answers, evidence.told[1].ids = [REFUSED], set()
    assert kinds(evidence) == [breach.MADE_UP]


def test_an_unknown_one_may_be_there_but_must_end_then() -> None:
    evidence = good()
    evidence.told[1].answers, evidence.told[1].ids = [UNKNOWN], set()
    assert kinds(evidence) == []
    evidence.rows = [Row("job-1", 1, "scheduled", 0, 0)]
    assert kinds(evidence) == [breach.LOST]


def test_failed_unless_its_nodes_died_too_often() -> None:
    evidence = good()
    evidence.rows = [Row("job-1", 1, "failed", 1, 2, "crashed", ended=True)]
    assert kinds(evidence) == [breach.FAILED]
    evidence.rows = [Row("job-1", 1, "failed", 1, 3, "crashed", ended=True)]
    assert kinds(evidence) == []


def test_early_if_it_started_before_it_was_due() -> None:
    evidence = good()
    evidence.told[1].due = 1001.5
    assert kinds(evidence) == [breach.EARLY]


def test_calls_that_hang_processes_that_end_and_processes_that_stay() -> None:
    evidence = good()
    evidence.told[2].answers = [HUNG]
    evidence.exits, evidence.leftovers = [Exit("ann", -9, 3.0)], ["123: sleep"]
    assert kinds(evidence) == [checker.EXIT, checker.STUCK, checker.LEFTOVER]


def test_every_kind_that_fails_a_run_is_forged_here() -> None:
    assert len(set(checker.BAD)) == 10


async def nothing(*_: object) -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("figures", "bad"), [([1.0, 1.9], []), ([1.0, 2.1], ["goal missed"]), ([], ["nothing was measured"])]
)
def test_the_verdict_depends_on_the_goal(figures: list[float], bad: list[str]) -> None:
    scenario = Scenario("forged", nothing, lambda evidence: figures, "as soon as that, max", 2.0, part=1.0)
    made = report.make(scenario, good(), took=1.0)
    assert made.faults == bad
    assert made.cells()[-1] == ("FAILED" if bad else "ok")


def test_the_verdict_depends_on_the_findings() -> None:
    scenario = Scenario("forged", nothing, lambda evidence: [0.0], "as soon as that, max", 2.0)
    made = report.make(scenario, overlapping(), took=1.0)
    assert made.faults == ["1 overlap"]
    assert any("ran 0.100 s into" in text for text in report.details(made))


def test_a_figure_that_never_came_misses_every_goal() -> None:
    scenario = Scenario("forged", nothing, lambda evidence: [0.1, math.inf], "as soon as that, max", 2.0, part=1.0)
    assert report.make(scenario, good(), took=1.0).faults == ["goal missed"]


def test_restarts_are_measured_from_the_kill() -> None:
    evidence = good()
    evidence.lines = [line(1.0, START), line(1.1, ALIVE), line(2.5, START, 2, "bob"), line(2.7, END, 2, "bob")]
    assert restarts(evidence, [Fault(1.15, "kill", "ann")]) == [pytest.approx(1.35)]
    assert restarts(evidence, [Fault(1.15, "kill", "bob")]) == []
    evidence.lines = evidence.lines[:2]
    assert restarts(evidence, [Fault(1.15, "kill", "ann")]) == [math.inf]


def test_restarts_of_what_slept_and_woke_up_count_too() -> None:
    evidence = good()
    evidence.lines = [line(1.0, START), line(9.0, END), line(6.0, START, 2, "bob"), line(6.5, END, 2, "bob")]
    assert restarts(evidence, [Fault(1.15, "sleep", "ann", until=8.9)]) == [pytest.approx(4.85)]
    evidence.lines = evidence.lines[:2]  # nobody took it over in all that time
    assert restarts(evidence, [Fault(1.15, "sleep", "ann", until=8.9)]) == [math.inf]


def test_throughput_must_come_back_and_stay() -> None:
    before = [i / 50 for i in range(500)]  # 50 a second until 10.0
    burst = [12.0 + i / 1000 for i in range(60)]
    steady = [14.0 + i / 50 for i in range(500)]
    assert back_to_normal(before + steady, 10.0, 11.0, 20.0) == pytest.approx(3.0, abs=0.2)
    assert back_to_normal(before + burst, 10.0, 11.0, 20.0) == math.inf


def test_lateness_is_that_of_the_first_start() -> None:
    evidence = good()
    evidence.told[1].due = 1000.4
    evidence.lines.append(line(5.0, START, 2))
    assert lateness(evidence, 0.0, 1.0) == [pytest.approx(0.6)]
    assert lateness(evidence, 1.0, 2.0) == []


def test_percentiles_are_values_that_were_measured() -> None:
    assert [percentile([3.0, 1.0, 2.0], part) for part in (0.5, 0.99, 1.0)] == [2.0, 3.0, 3.0]


def test_ok_once_is_ok_for_ever() -> None:
    assert Order(1, "linger", True, None, 0.0, [UNKNOWN, OK, UNKNOWN]).verdict == OK
    assert Order(1, "linger", True, None, 0.0, [UNKNOWN, REFUSED]).verdict == UNKNOWN
    assert Order(1, "linger", True, None, 0.0).verdict == UNKNOWN  # the client died while it asked
    assert told.ASKED not in (OK, REFUSED, UNKNOWN)


def test_a_line_of_the_witness_is_read_as_it_was_written() -> None:
    assert parse("1.5 1001.5 start job-1 2 3 ann 77") == Line(1.5, 1001.5, START, "job-1", 2, 3, "ann", 77)
    assert sum(slices(0.35)) == pytest.approx(0.35)


def test_findings_name_their_order() -> None:
    assert Finding(breach.OVERLAP, 1, "x").number == check(overlapping())[1].number


def test_unproven_if_it_succeeded_and_no_attempt_was_ever_seen() -> None:
    evidence = good()
    evidence.lines = []
    assert kinds(evidence) == [breach.UNPROVEN]
