"""The checker of runs with far-away workers finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from tests.chaos import far_checker, report
from tests.chaos.asides import ASIDES, CANCEL, CLASH, DONE, REFUSED, UNKNOWN, Aside, read_asides
from tests.chaos.evidence import Evidence, Fault, Row, Try
from tests.chaos.scenarios import far
from tests.chaos.told import OK, Order
from tests.chaos.witness import ALIVE, END, START, Line
from tests.checks import breach

SAID = "1 1 1\n1 1 2\n1 1 of 2\n"


def line(at: float, word: str, fence: int = 1, node: str = "ann", number: int = 1) -> Line:
    return Line(at, 1000.0 + at, word, f"job-{number}", fence, number, node, 77)


def good() -> Evidence:
    """One order that ran once and printed two lines, and one that was cancelled before it was due."""
    return Evidence(
        told={number: Order(number, "linger", False, None, 0.5, [OK], {f"job-{number}"}) for number in (1, 10)},
        lines=[line(1.0, START), line(1.1, ALIVE), line(1.2, END)],
        rows=[
            Row("job-1", 1, "succeeded", 1, 0, "succeeded", ended=True),
            Row("job-10", 10, "cancelled", 0, 0, None, ended=True),
        ],
        asides=[Aside(CANCEL, 10, DONE, 0.7), Aside(CLASH, 1, REFUSED, 0.8)],
        said={("job-1", 1): SAID},
    )


def kinds(evidence: Evidence) -> list[str]:
    found = far_checker.check(evidence, lambda old, new: False)
    return sorted(finding.kind for finding in found if finding.kind in report.BAD)


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert kinds(good()) == []


def test_a_key_that_was_accepted_for_other_work() -> None:
    evidence = good()
    evidence.asides.append(Aside(CLASH, 1, DONE, 0.9))
    assert kinds(evidence) == [far_checker.CLASHED]


def test_the_other_work_itself_was_never_asked_for() -> None:
    evidence = good()
    evidence.rows.append(Row("job-9", -1, "succeeded", 1, 0, "succeeded", ended=True))
    assert breach.MADE_UP in kinds(evidence)


def test_a_cancel_that_was_ignored() -> None:
    evidence = good()
    evidence.rows[1] = Row("job-10", 10, "succeeded", 1, 0, "succeeded", ended=True)
    evidence.lines += [line(3.0, START, number=10), line(3.1, END, number=10)]
    evidence.said["job-10", 1] = "10 1 of 0\n"
    assert kinds(evidence) == [far_checker.DEAF, far_checker.DEAF], "it started, and it ended otherwise"


def test_a_cancel_without_an_answer_may_have_been_carried_out_or_not() -> None:
    evidence = good()
    evidence.asides[0] = Aside(CANCEL, 10, UNKNOWN, 0.7)
    assert kinds(evidence) == []
    evidence.rows[1] = Row("job-10", 10, "succeeded", 1, 0, "succeeded", ended=True)
    evidence.lines += [line(3.0, START, number=10), line(3.1, END, number=10)]
    evidence.said["job-10", 1] = "10 1 of 0\n"
    assert kinds(evidence) == []


def test_a_job_that_nobody_cancelled_must_not_be_cancelled() -> None:
    evidence = good()
    evidence.asides.clear()
    assert kinds(evidence) == [breach.FAILED]


def test_output_that_is_missing_double_or_in_another_order() -> None:
    for places in ("", "1, of 2", "1, 1, 2, of 2", "2, 1, of 2", "1, 2"):
        said = "".join(f"1 1 {place}\n" for place in places.split(", ") if place)
        evidence = good()
        evidence.said = {("job-1", 1): said}
        assert kinds(evidence) == [far_checker.MUTILATED], said


def test_output_of_an_attempt_that_was_killed_may_be_cut() -> None:
    evidence = good()
    evidence.lines = [line(0.5, START), line(1.0, START, 2), line(1.2, END, 2)]
    evidence.rows[0] = replace(evidence.rows[0], fence=2, crashes=1)
    evidence.tries = [Try("job-1", 1, "crashed")]
    evidence.said = {("job-1", 1): "1 1 1\n", ("job-1", 2): "1 2 of 0\n"}
    assert kinds(evidence) == []


def test_a_fault_that_became_a_failure_of_a_job() -> None:
    evidence = good()
    evidence.lines += [line(1.3, START, 2), line(1.4, END, 2)]
    evidence.rows[0] = replace(evidence.rows[0], fence=2, failures=1)
    evidence.tries = [Try("job-1", 1, "failed")]
    evidence.said["job-1", 2] = "1 2 of 0\n"
    assert kinds(evidence) == [far_checker.UNFINISHED] * 2, "of the attempt, and in the counts of the job"


def test_a_crash_that_is_not_counted_and_a_restart_without_its_pause() -> None:
    evidence = good()
    evidence.lines = [line(1.0, START), line(2.0, START, 2), line(3.0, START, 3), line(3.1, END, 3)]
    evidence.rows[0] = replace(evidence.rows[0], fence=3, crashes=1)
    evidence.tries = [Try("job-1", 1, "crashed"), Try("job-1", 2, "crashed")]
    evidence.said["job-1", 3] = "1 3 of 0\n"
    assert kinds(evidence) == [breach.MISCOUNTED, breach.HASTY]


def test_two_holders_of_a_key_of_which_there_is_one() -> None:
    evidence = good()
    evidence.told[2] = Order(2, "block", False, None, 0.5, [OK], {"job-2"})
    evidence.rows.append(Row("job-2", 2, "succeeded", 1, 0, "succeeded", ended=True))
    evidence.lines += [line(1.1, START, number=2), line(1.3, END, number=2)]
    evidence.keys.needed = {"job-1": ("mutex-a",), "job-2": ("mutex-a",)}
    assert kinds(evidence) == [breach.CROWDED]


def test_only_kills_with_nothing_else_broken_are_measured() -> None:
    evidence = good()
    evidence.lines = [line(1.0, START), line(3.5, START, 2, "bob"), line(3.6, END, 2, "bob")]
    evidence.faults = [Fault(1.1, "kill", "ann")]
    assert far.measure(evidence) == [2.4]
    evidence.faults = [Fault(1.1, "struck", "ann")]
    assert far.measure(evidence) == []


def test_asides_are_read_as_they_are_written(tmp_path: Path) -> None:
    asides = [Aside(CANCEL, 10, DONE, 0.7), Aside(CLASH, 1, UNKNOWN, 0.8, "away")]
    (tmp_path / ASIDES).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in asides))
    assert read_asides(tmp_path) == asides
