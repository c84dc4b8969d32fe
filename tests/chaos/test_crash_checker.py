"""The checker of crashes finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from rota import Retry
from tests.chaos import crash_checker, report, saves
from tests.chaos.crash_checker import LEASE, POISON, check, had_to_wait, recoveries
from tests.chaos.evidence import Evidence, Fault, Row, Told, Try
from tests.chaos.figures import NEVER
from tests.chaos.records import SqliteRecords
from tests.chaos.saves import NOTHING, REFUSED, SAVED, SAVING, SAW, Save
from tests.chaos.told import OK, Order
from tests.chaos.witness import ALIVE, CRASH, END, SHADOW, START, Line, Reader
from tests.checks import breach
from tests.checks.crashes import LIMIT, PAUSE
from tests.node.running import LONG, make_app, running

WALL = 1000.0
HOST = 500  # a process that several share


def line(at: float, word: str, fence: int = 1, pid: int = 77, number: int = 1, node: str = "ann") -> Line:
    return Line(at, WALL + at, word, f"job-{number}", fence, number, node, pid)


def lived(fence: int, start: float, last: float, pid: int = 77, number: int = 1, word: str = ALIVE) -> list[Line]:
    return [line(start, START, fence, pid, number), line(last, word, fence, pid, number)]


def crash(fence: int, at: float, number: int = 1) -> Try:
    return Try(f"job-{number}", fence, "crashed", WALL + at)


def once() -> Evidence:
    """A good job in a process that was killed, and ran to its end in the next one."""
    return Evidence(
        told={1: Order(1, "labour", False, None, 0.5, [OK], {"job-1"})},
        lines=[*lived(1, 1.0, 1.4), *lived(2, 1.6, 2.0, pid=78, word=END)],
        rows=[Row("job-1", 1, "succeeded", 2, 1, "succeeded", True, 0, WALL + 2.0)],
        tries=[crash(1, 1.5)],
        faults=[Fault(1.45, "process", "ann", pids=(77,))],
    )


def poison() -> Evidence:
    """It kills its process three times, and is put to the dead letters."""
    lines: list[Line] = []
    for fence, start in ((1, 1.0), (2, 1.3), (3, 6.5)):
        lines += [*lived(fence, start, start + 0.1, pid=70 + fence), line(start + 0.1, CRASH, fence, 70 + fence)]
    return Evidence(
        told={1: Order(1, POISON, False, None, 0.5, [OK], {"job-1"})},
        lines=lines,
        rows=[Row("job-1", 1, "failed", 3, LIMIT, "crashed", True, 0, WALL + 6.6)],
        tries=[crash(1, 1.1), crash(2, 1.4)],
    )


def kinds(evidence: Evidence) -> set[str]:
    found = check(evidence, lambda old, new: True)
    return {finding.kind for finding in found if finding.kind in report.BAD}


def test_nothing_is_found_where_crashes_are_as_they_should_be() -> None:
    assert kinds(once()) == set()
    assert kinds(poison()) == set()


# -- how it is counted ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("change", [{"failures": 1}, {"crashes": 0}, {"crashes": 2}, {"crashes": 0, "failures": 1}])
def test_a_crash_that_is_counted_as_something_else_is_found(change: dict[str, int]) -> None:
    evidence = once()
    evidence.rows = [replace(evidence.rows[0], **change)]  # type: ignore[arg-type]
    assert kinds(evidence) == {breach.MISCOUNTED}


def test_a_fourth_crash_is_one_too_many() -> None:
    evidence = poison()
    evidence.lines += [*lived(4, 12.0, 12.1, pid=74), line(12.1, CRASH, 4, 74)]
    evidence.tries.append(crash(3, 6.6))
    evidence.rows = [replace(evidence.rows[0], fence=4, crashes=4, at=WALL + 12.1)]
    assert kinds(evidence) == {breach.MISCOUNTED, breach.SPARED}


@pytest.mark.parametrize("change", [{"state": "cancelled"}, {"outcome": "failed", "crashes": 2, "failures": 1}])
def test_poison_belongs_to_the_dead_letters_as_such(change: dict[str, object]) -> None:
    evidence = poison()
    evidence.rows = [replace(evidence.rows[0], **change)]  # type: ignore[arg-type]
    assert breach.SPARED in kinds(evidence)


def test_a_good_job_in_the_dead_letters_is_a_finding_unless_it_was_struck_so_often() -> None:
    evidence = poison()
    evidence.told[1].kind = "labour"
    evidence.lines = [each for each in evidence.lines if each.word != CRASH]
    assert kinds(evidence) == {crash_checker.CAUSELESS}
    evidence.faults = [Fault(at, "process", "ann", pids=(pid,)) for at, pid in ((1.1, 71), (1.4, 72), (6.6, 73))]
    assert kinds(evidence) == set()
    evidence.rows = [replace(evidence.rows[0], crashes=2)]
    assert breach.FAILED in kinds(evidence)


def test_after_the_second_crash_it_must_wait() -> None:
    evidence = poison()
    evidence.lines = [replace(each, at=each.at - 1.0) if each.fence == 3 else each for each in evidence.lines]
    assert kinds(evidence) == {breach.HASTY}
    assert PAUSE == 5.0


# -- why it crashed ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (Fault(1.45, "process", "ann", pids=(99,)), True),  # somebody else's process
        (Fault(1.45, "host", "ann", pids=(99, 77)), False),
        (Fault(1.45, "host stopped", "ann", until=33.0, pids=(77,)), False),
        (Fault(1.45, "nap", "ann", until=4.0, pids=(77,)), True),  # too short for anybody to give it up
        (Fault(1.45, "keeper stopped", "ann"), True),  # it is set going again
        (Fault(1.45, "forkserver stopped", "ann"), True),
        (Fault(1.45, "forkserver", "ann"), False),
        (Fault(1.45, "keeper", "ann"), False),
        (Fault(1.45, "kill", "ann"), False),
        (Fault(1.45, "forkserver", "bob"), True),
        (Fault(1.9, "forkserver", "ann"), True),  # that was later
    ],
)
def test_a_crash_needs_a_cause(fault: Fault, found: bool) -> None:
    evidence = once()
    evidence.faults = [fault]
    assert (crash_checker.CAUSELESS in kinds(evidence)) == found


def test_one_that_never_said_a_word_needs_a_cause_too() -> None:
    evidence = once()
    evidence.lines = [line(1.3, SHADOW, 1, 79), *evidence.lines[2:]]  # what it left behind is not what was struck
    assert kinds(evidence) == set()
    evidence.lines = evidence.lines[1:]
    assert kinds(evidence) == set()
    evidence.faults = []
    assert kinds(evidence) == {crash_checker.CAUSELESS}


def beside(number: int, culprit: int, fence: int, start: float, pid: int) -> list[Line]:
    """Two in one process, of which one kills it."""
    return [
        *lived(fence, start, start + 0.2, pid, number),
        *lived(fence, start, start + 0.2, pid, culprit),
        line(start + 0.2, CRASH, fence, pid, culprit),
    ]


def test_a_neighbour_is_a_cause_and_only_once() -> None:
    evidence = once()
    evidence.faults = []
    evidence.lines = [*beside(1, 2, 1, 1.0, HOST), *lived(2, 1.6, 2.0, pid=78, word=END)]
    evidence.lines += [line(1.5, START, 2, 90, 2), line(1.6, END, 2, 90, 2)]
    evidence.told[2] = Order(2, "moody", False, None, 0.5, [OK], {"job-2"})
    evidence.rows.append(Row("job-2", 2, "succeeded", 2, 1, "succeeded", True, 0, WALL + 1.6))
    evidence.tries = [crash(1, 1.3), crash(1, 1.3, 2)]
    assert kinds(evidence) == set()
    again = once()
    again.faults = []
    again.told[2] = Order(2, POISON, False, None, 0.5, [OK], {"job-2"})
    again.lines = [*beside(1, 2, 1, 1.0, HOST), *beside(1, 2, 2, 1.5, HOST + 1), *beside(1, 2, 3, 7.0, HOST + 2)]
    again.tries = [crash(fence, at, number) for number in (1, 2) for fence, at in ((1, 1.3), (2, 1.8))]
    again.rows = [Row(f"job-{n}", n, "failed", 3, 3, "crashed", True, 0, WALL + 7.3) for n in (1, 2)]
    assert kinds(again) == {crash_checker.VICTIM}


# -- what was saved ---------------------------------------------------------------------------------------------------
def save(at: float, word: str, fence: int, state: tuple[int, int]) -> Save:
    return Save(at, word, "job-1", fence, state)


def saved(found: tuple[int, int]) -> Evidence:
    """The first attempt has saved two steps, and has asked for a third; the second one finds something."""
    evidence = once()
    evidence.saves = [
        save(1.01, SAW, 1, NOTHING), save(1.1, SAVING, 1, (1, 0)), save(1.11, SAVED, 1, (1, 0)),
        save(1.2, SAVING, 1, (1, 1)), save(1.21, SAVED, 1, (1, 1)), save(1.3, SAVING, 1, (1, 2)),
        save(1.61, SAW, 2, found),
    ]  # fmt: skip
    return evidence


@pytest.mark.parametrize(
    ("found", "bad"),
    [((1, 1), False), ((1, 2), False), ((1, 0), True), (NOTHING, True), ((1, 3), True), ((2, 0), True)],
)
def test_what_was_kept_is_found_by_the_next_attempt(found: tuple[int, int], bad: bool) -> None:
    assert kinds(saved(found)) == ({breach.BACK} if bad else set())


def test_the_state_of_the_newest_attempt_counts() -> None:
    evidence = saved((1, 1))
    evidence.saves += [save(1.7, SAVING, 2, (2, 2)), save(1.75, SAVED, 2, (2, 2)), save(3.0, SAW, 3, (1, 2))]
    assert kinds(evidence) == {breach.BACK}


def test_a_stale_attempt_that_is_heard_is_found() -> None:
    evidence = saved((1, 1))
    evidence.saves += [save(1.7, SAVING, 1, (1, 5)), save(1.71, REFUSED, 1, (1, 5))]
    assert kinds(evidence) == set()
    evidence.saves += [save(1.72, SAVED, 1, (1, 5))]
    assert kinds(evidence) == {crash_checker.STALE}


def test_what_was_asked_for_before_the_next_one_began_may_be_answered_later() -> None:
    evidence = saved((1, 2))
    evidence.saves += [save(1.7, SAVED, 1, (1, 2))]
    assert kinds(evidence) == set()


@pytest.mark.parametrize(("told", "bad"), [(Told("job-1", 2, "2"), False), (Told("job-1", 1, "1"), False),
                                           (Told("job-1", 2, "1"), True), (Told("job-1", 3, "3"), True)])  # fmt: skip
def test_progress_is_that_of_its_attempt(told: Told, bad: bool) -> None:
    evidence = once()
    evidence.progress = [told]
    assert kinds(evidence) == ({crash_checker.STALE} if bad else set())


# -- what outlived whom -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "most"), [("kill", 1.0), ("pause", LEASE + 1.0)])
def test_what_goes_on_after_its_controller_is_found(kind: str, most: float) -> None:
    evidence = once()
    evidence.faults = [Fault(1.45, kind, "ann", until=20.0)]
    evidence.lines = [*lived(1, 1.0, 1.44), line(1.44 + most, SHADOW, pid=79), *lived(2, 19.0, 19.1, 80, word=END)]
    evidence.tries = [crash(1, 13.0)]
    evidence.rows = [replace(evidence.rows[0], at=WALL + 19.1)]
    assert kinds(evidence) == set()
    evidence.lines.append(line(1.5 + most, SHADOW, pid=79))
    assert kinds(evidence) == {crash_checker.OUTLIVED}


def test_what_was_left_behind_belongs_to_its_attempt() -> None:
    """So that it overlaps with the next one, if it is still there."""
    evidence = once()
    evidence.lines.append(line(1.7, SHADOW, 1, 79))
    found = check(evidence, lambda old, new: False)
    assert breach.OVERLAP in {finding.kind for finding in found}


# -- the rest ---------------------------------------------------------------------------------------------------------
def test_everything_that_holds_for_all_jobs_is_checked_too() -> None:
    evidence = once()
    evidence.rows = [replace(evidence.rows[0], state="running", ended=False, outcome=None)]
    assert breach.LOST in kinds(evidence)


def test_every_kind_that_fails_a_run_is_forged_here() -> None:
    assert len(set(crash_checker.BAD)) == 8
    assert set(crash_checker.BAD) <= set(report.BAD)


def test_recoveries_are_those_of_first_crashes() -> None:
    assert recoveries(once()) == [pytest.approx(0.2)]
    assert recoveries(once(), lambda run: run.lines[0].node == "bob") == []
    assert recoveries(poison()) == [pytest.approx(0.2)]
    evidence = once()
    for fault, waits in ((Fault(1.4, "forkserver", "ann"), True), (Fault(1.4, "keeper stopped", "ann"), True),
                         (Fault(1.4, "forkserver", "bob"), False), (Fault(1.4, "process", "ann"), False)):  # fmt: skip
        evidence.faults = [fault]
        assert had_to_wait(evidence, crash_checker.runs_of(evidence)["job-1"][1]) == waits
    evidence = once()
    evidence.lines = evidence.lines[:2]
    assert recoveries(evidence) == [NEVER]
    evidence.faults = [Fault(1.1, "host stopped", "ann", until=40.0, pids=(77,))]
    assert recoveries(evidence) == []


def test_what_is_noted_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert saves.read(["1.5 saved job-1 2 2,7"]) == [Save(1.5, SAVED, "job-1", 2, (2, 7))]
    assert saves.read_file(tmp_path) == []


def test_a_shadow_does_not_count_as_work(tmp_path: Path) -> None:
    path = tmp_path / "witness"
    texts = [(START, 1, 1), (END, 1, 1), (SHADOW, 1, 1), (START, 2, 2), (SHADOW, 2, 2)]
    path.write_text("".join(f"1.0 1001.0 {word} job-{n} {fence} {n} ann 77\n" for word, fence, n in texts))
    assert Reader(path).in_flight("ann", 0.0) == {"job-2"}


async def test_the_records_of_a_file_are_read_by_statements_of_our_own(tmp_path: Path) -> None:
    app = make_app(tmp_path)
    async with running(app):
        job = await app.submit_command(["false"], name="command.7", retry=Retry(1, backoff="10ms"))
        await job.wait(LONG)
    records, evidence = SqliteRecords(tmp_path / "rota.db"), Evidence()
    records.read(evidence)
    (row,), (one,) = evidence.rows, evidence.tries
    assert (row.job, row.number, row.state, row.fence, row.outcome) == (job.id, 7, "failed", 2, "failed")
    assert (row.crashes, row.failures, row.ended) == (0, 2, True)
    assert (one.job, one.fence, one.outcome) == (job.id, 1, "failed")
    assert row.at > one.at > time.time() - LONG
    assert records.left() == 0
    assert not records.blocked()
    assert records.living() == []
