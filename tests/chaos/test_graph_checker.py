"""The checker of workflows finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.chaos import checker, graph_checker, report
from tests.chaos.evidence import Evidence, Row, Try
from tests.chaos.graph_checker import check, delays
from tests.chaos.graphs import Step, plan, read, write
from tests.chaos.told import OK, UNKNOWN, Order
from tests.chaos.witness import ALIVE, END, START, Line
from tests.checks import breach
from tests.checks.graphs import FAILURE, FINE, FINISH, SUCCESS, TROUBLE, fits


def line(number: int, at: float, word: str, fence: int = 1, node: str = "ann") -> Line:
    return Line(at, 1000.0 + at, word, f"job-{number}", fence, number, node, 77)


def row(number: int, state: str, fence: int = 1) -> Row:
    outcome = {"succeeded": "succeeded", "failed": "failed"}.get(state)
    return Row(f"job-{number}", number, state, fence if outcome else 0, 0, outcome, ended=True)


def good() -> Evidence:
    """Job 1 succeeds and 2 fails, side by side. 3 needs both to end, 4 the success of 2, and 5 its failure; 6 goes on
    when 4 is over, which is skipped, and 7 needs the success of that."""
    steps = [
        Step(1), Step(2, fails=True), Step(3, ((1, FINISH), (2, FINISH))), Step(4, ((2, SUCCESS),)),
        Step(5, ((2, FAILURE),)), Step(6, ((4, FINISH),)), Step(7, ((4, SUCCESS),)),
    ]  # fmt: skip
    spans = {1: (1.0, 1.5), 2: (1.0, 1.6), 3: (1.7, 1.8), 5: (1.7, 1.8), 6: (1.7, 1.8)}
    states = {1: "succeeded", 2: "failed", 4: "skipped", 7: "skipped"}
    return Evidence(
        told={
            step.number: Order(step.number, "step", False, None, 0.5, [OK], {f"job-{step.number}"}) for step in steps
        },
        lines=[line(n, at, word) for n, span in spans.items() for at, word in zip(span, (START, END), strict=True)],
        rows=[row(step.number, states.get(step.number, "succeeded")) for step in steps],
        graph={step.number: step for step in steps},
    )


def kinds(evidence: Evidence) -> set[str]:
    found = check(evidence, lambda old, new: False)
    return {finding.kind for finding in found if finding.kind in report.BAD}


def becomes(evidence: Evidence, number: int, state: str) -> Evidence:
    evidence.rows = [row(number, state) if one.number == number else one for one in evidence.rows]
    return evidence


def ran(evidence: Evidence, number: int, start: float, end: float) -> Evidence:
    evidence.lines = [one for one in evidence.lines if one.number != number]
    evidence.lines += [line(number, start, START), line(number, end, END)]
    return evidence


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert check(good(), lambda old, new: False) == []


@pytest.mark.parametrize(("child", "start"), [(3, 1.55), (3, 1.2), (5, 1.59), (6, 1.3)])
def test_too_soon_if_a_parent_had_not_ended(child: int, start: float) -> None:
    """Also if that was the parent of a parent that was skipped."""
    assert kinds(ran(good(), child, start, 1.8)) == {breach.TOO_SOON}


def test_too_soon_if_a_parent_never_ended() -> None:
    evidence = good()
    evidence.rows = [replace(one, state="running", ended=False) if one.number == 1 else one for one in evidence.rows]
    assert kinds(evidence) == {breach.TOO_SOON, breach.LOST}


def test_what_counts_is_the_last_attempt_of_a_parent() -> None:
    evidence = good()
    evidence.rows = [row(1, "succeeded", fence=2) if one.number == 1 else one for one in evidence.rows]
    evidence.tries = [Try("job-1", 1, "crashed")]
    evidence.lines += [line(1, 1.62, START, 2, "bob"), line(1, 1.65, END, 2, "bob")]
    assert kinds(evidence) == set()
    evidence.lines += [line(1, 1.9, ALIVE, 2, "bob")]
    assert kinds(evidence) == {breach.TOO_SOON}


def test_what_was_late_and_counted_for_nothing_does_not_hold_children_up() -> None:
    evidence = good()
    evidence.rows = [row(1, "succeeded", fence=2) if one.number == 1 else one for one in evidence.rows]
    evidence.tries = [Try("job-1", 1, "crashed")]
    evidence.lines += [line(1, 1.61, START, 2, "bob"), line(1, 1.65, END, 2, "bob"), line(1, 1.9, ALIVE)]
    found = {finding.kind for finding in check(evidence, lambda old, new: True)}
    assert found == {checker.EXCUSED}


def test_released_twice_if_nobody_knows_of_an_attempt() -> None:
    evidence = good()
    evidence.lines += [line(3, 1.9, START, 2), line(3, 2.0, END, 2)]
    evidence.rows = [row(3, "succeeded", fence=3) if one.number == 3 else one for one in evidence.rows]
    evidence.lines += [line(3, 2.1, START, 3), line(3, 2.2, END, 3)]
    evidence.tries = [Try("job-3", 1, "crashed")]
    assert kinds(evidence) == {graph_checker.RELEASED_TWICE}


def test_run_twice_if_it_ran_after_its_end_or_succeeded_twice() -> None:
    evidence = good()
    evidence.lines += [line(3, 1.9, START, 2), line(3, 2.0, END, 2)]
    assert kinds(evidence) == {breach.DOUBLE, graph_checker.RELEASED_TWICE}
    evidence = good()
    evidence.rows = [row(3, "succeeded", fence=2) if one.number == 3 else one for one in evidence.rows]
    evidence.lines += [line(3, 1.9, START, 2), line(3, 2.0, END, 2)]
    evidence.tries = [Try("job-3", 1, "succeeded")]
    assert kinds(evidence) == {breach.DOUBLE}


def test_wrongly_skipped_if_no_parent_stands_in_the_way() -> None:
    for number in (3, 5, 6):
        evidence = becomes(good(), number, "skipped")
        evidence.lines = [one for one in evidence.lines if one.number != number]
        assert kinds(evidence) == {breach.WRONGLY_SKIPPED}


def test_not_skipped_if_it_ran_although_a_parent_stood_in_the_way() -> None:
    for number in (4, 7):
        evidence = ran(becomes(good(), number, "succeeded"), number, 3.0, 3.1)
        assert breach.NOT_SKIPPED in kinds(evidence)
        evidence = ran(good(), number, 3.0, 3.1)  # it ran, and is skipped all the same
        assert breach.NOT_SKIPPED in kinds(evidence)


def test_a_failure_that_was_needed_and_did_not_come_skips_too() -> None:
    evidence = becomes(good(), 2, "succeeded")
    evidence.graph[2] = replace(evidence.graph[2], fails=False)
    assert kinds(evidence) == {breach.NOT_SKIPPED, breach.WRONGLY_SKIPPED}


def test_failed_if_it_was_to_succeed_and_the_other_way_round() -> None:
    assert kinds(becomes(good(), 3, "failed")) == {breach.FAILED}
    evidence = good()
    evidence.rows = [replace(row(3, "failed"), state="cancelled") if one.number == 3 else one for one in evidence.rows]
    assert kinds(evidence) == {breach.FAILED}
    evidence = good()
    evidence.graph[3] = replace(evidence.graph[3], fails=True)
    assert kinds(evidence) == {breach.FAILED}


def test_a_job_under_which_too_many_nodes_died_failed_as_it_should() -> None:
    evidence = good()
    evidence.rows = [replace(row(3, "failed"), crashes=3) if one.number == 3 else one for one in evidence.rows]
    assert [finding.kind for finding in check(evidence, lambda old, new: False)] == [checker.POISON]


def test_lost_if_it_never_ended_or_is_not_there() -> None:
    evidence = good()
    evidence.rows = [replace(one, state="blocked", ended=False) if one.number == 7 else one for one in evidence.rows]
    assert kinds(evidence) == {breach.LOST}
    evidence = good()
    evidence.rows = [one for one in evidence.rows if one.number != 7]
    assert kinds(evidence) == {breach.LOST}
    evidence.told[7].answers, evidence.told[7].ids = [UNKNOWN], set()
    assert kinds(evidence) == set()


def test_double_if_a_job_is_there_twice_and_made_up_if_nobody_planned_it() -> None:
    evidence = good()
    evidence.rows.append(replace(row(7, "skipped"), job="job-77"))
    assert kinds(evidence) == {breach.DOUBLE}
    evidence = good()
    evidence.rows.append(row(8, "skipped"))
    assert kinds(evidence) == {breach.MADE_UP}


def test_every_kind_that_fails_a_run_is_forged_here() -> None:
    assert len(set(graph_checker.BAD)) == 4
    assert set(graph_checker.BAD) <= set(report.BAD)


def test_children_are_measured_from_the_end_of_their_last_parent() -> None:
    assert sorted(delays(good(), lambda at: True)) == [pytest.approx(0.1)] * 3
    assert delays(good(), lambda at: at > 1.7) == []
    evidence = good()
    evidence.told[3].asked_at = 1.65  # its parents were over by then
    assert len(delays(evidence, lambda at: True)) == 2


def test_plans_are_whole_and_read_as_they_were_written() -> None:
    random.seed(7)
    number, steps = 1, list[Step]()
    for _ in range(200):
        steps += plan(number, [step.number for step in steps])
        number = steps[-1].number + 1
    assert [step.number for step in steps] == list(range(1, number))
    assert all(parent < step.number for step in steps for parent, _ in step.parents)
    assert {need for step in steps for _, need in step.parents} == {SUCCESS, FINISH, FAILURE, FINE, TROUBLE}
    assert any(step.fails for step in steps)
    assert read(write(steps).splitlines()) == {step.number: step for step in steps}
    assert fits(FINISH, "skipped")
