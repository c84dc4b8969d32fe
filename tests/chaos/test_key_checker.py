"""The checker of limits and rates finds what it is there to find: each kind of violation, forged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos import key_checker, report
from tests.chaos.evidence import Evidence, Fault, Row
from tests.chaos.key_checker import SURE, check, holds, idle_tokens, reuse, steady
from tests.chaos.keys import AT_ONCE, LANE, POOL, STARTS, Change, Keys, read, write
from tests.chaos.told import OK, Order
from tests.chaos.witness import ALIVE, END, START, STOPPED, Line
from tests.checks import breach

MUTEX = "mutex-a"


def line(at: float, word: str, number: int = 1, fence: int = 1, node: str = "ann") -> Line:
    return Line(at, 1000.0 + at, word, f"job-{number}", fence, number, node, 77)


def lived(number: int, start: float, last: float, fence: int = 1, node: str = "ann", word: str = END) -> list[Line]:
    return [line(start, START, number, fence, node), line(last, word, number, fence, node)]


def run(*attempts: list[Line], key: str = MUTEX) -> Evidence:
    """Jobs that all need one key and have all succeeded, by their last attempts."""
    lines = [each for attempt in attempts for each in attempt]
    fences: dict[int, int] = {}
    for each in lines:
        fences[each.number] = max(fences.get(each.number, 0), each.fence)
    return Evidence(
        told={number: Order(number, key, False, None, 0.0, [OK], {f"job-{number}"}) for number in fences},
        lines=lines,
        rows=[Row(f"job-{n}", n, "succeeded", fence, 0, "succeeded", ended=True) for n, fence in fences.items()],
        keys=Keys({f"job-{number}": (key,) for number in fences}),
    )


def kinds(evidence: Evidence) -> set[str]:
    found = check(evidence, lambda old, new: True)
    return {finding.kind for finding in found if finding.kind in report.BAD}


def test_nothing_is_found_where_one_comes_after_the_other() -> None:
    assert kinds(run(lived(1, 1.0, 1.5), lived(2, 1.5, 1.9), lived(3, 2.0, 2.1))) == set()


def test_two_at_once_are_one_too_many_for_a_mutex() -> None:
    assert kinds(run(lived(1, 1.0, 1.5), lived(2, 1.4, 1.9))) == {breach.CROWDED}


def test_one_within_another_is_found_too() -> None:
    assert kinds(run(lived(1, 1.0, 2.0), lived(2, 1.4, 1.5))) == {breach.CROWDED}
    assert kinds(run(lived(1, 1.0, 2.0), lived(2, 1.0, 2.0))) == {breach.CROWDED}


def test_three_at_once_are_right_for_three_and_a_fourth_is_not() -> None:
    three = [lived(number, 1.0 + number / 10, 2.0) for number in range(3)]
    assert kinds(run(*three, key=POOL)) == set()
    assert kinds(run(*three, lived(9, 1.9, 2.1), key=POOL)) == {breach.CROWDED}


def test_keys_don_t_stand_in_each_others_way() -> None:
    evidence = run(lived(1, 1.0, 1.5), lived(2, 1.4, 1.9))
    evidence.keys.needed["job-2"] = ("mutex-b",)
    assert kinds(evidence) == set()
    evidence.keys.needed["job-2"] = ("mutex-b", MUTEX)
    assert kinds(evidence) == {breach.CROWDED}


def test_an_attempt_that_noted_no_keys_is_a_finding() -> None:
    evidence = run(lived(1, 1.0, 1.5))
    evidence.keys.needed.clear()
    assert kinds(evidence) == {key_checker.STRANGER}


# -- limits that are changed ------------------------------------------------------------------------------------------
def changed(at_once: int, asked: float, answered: float, ok: bool = True) -> Change:
    return Change(LANE, at_once, asked, answered, ok)


def in_lane(*changes: Change) -> Evidence:
    """Two at once, from 5.0 to 6.0, and one more from 5.5 on."""
    evidence = run(lived(1, 5.0, 6.0), lived(2, 5.0, 6.0), lived(3, 5.5, 6.5), key=LANE)
    evidence.keys.changes = list(changes)
    return evidence


def test_what_jobs_bring_along_counts_until_it_is_changed() -> None:
    assert AT_ONCE[LANE] == 3
    assert kinds(in_lane()) == set()
    assert kinds(in_lane(changed(1, 7.0, 7.1))) == set()


def test_a_narrower_limit_counts_once_it_was_answered_for_long_enough() -> None:
    assert kinds(in_lane(changed(2, 1.0, 1.1))) == {breach.CROWDED}
    assert kinds(in_lane(changed(2, 5.2, 5.3))) == set()  # perhaps claimed before
    assert kinds(in_lane(changed(2, 1.0, 5.3))) == set()  # perhaps not yet set
    assert kinds(in_lane(changed(2, 1.0, 1.1, ok=False))) == set()  # perhaps never


def test_a_wider_limit_counts_as_soon_as_it_is_asked_for() -> None:
    assert kinds(in_lane(changed(1, 1.0, 1.1), changed(3, 5.4, 9.0))) == {breach.CROWDED}  # the two before
    narrow = in_lane(changed(2, 1.0, 1.1), changed(3, 5.4, 9.0))
    assert kinds(narrow) == set()


def test_those_that_hold_it_when_it_becomes_narrower_may_go_on() -> None:
    evidence = in_lane(changed(1, 5.6, 5.7))
    assert kinds(evidence) == set()
    evidence.lines += lived(4, 6.9, 7.0)
    evidence.keys.needed["job-4"] = (LANE,)
    assert breach.CROWDED not in kinds(evidence)
    evidence.lines += lived(5, 6.95, 7.0)
    evidence.keys.needed["job-5"] = (LANE,)
    assert breach.CROWDED in kinds(evidence)


# -- faults -----------------------------------------------------------------------------------------------------------
def test_what_was_killed_holds_no_longer_than_its_last_word() -> None:
    evidence = run(lived(1, 1.0, 1.3, word=ALIVE), lived(2, 1.4, 1.9, node="bob"), lived(1, 2.5, 2.6, fence=2))
    evidence.faults = [Fault(1.35, "kill", "ann")]
    assert kinds(evidence) == set()


def stopped(kind: str, taken: float, last: float, word: str = END) -> Evidence:
    """The holder's node is stopped at 2.0 for 14 s; another one has the key from `taken` on, and the job runs again."""
    evidence = run(
        lived(1, 1.0, 1.95, word=ALIVE), [line(last, word)] if last > 2 else [],
        lived(2, taken, taken + 0.5, node="bob"), lived(1, taken + 1.0, taken + 1.5, fence=2, node="bob"),
    )  # fmt: skip
    evidence.faults = [Fault(2.0, kind, "ann", until=16.0)]
    return evidence


@pytest.mark.parametrize(("kind", "last"), [("pause", 1.95), ("sleep", 1.95), ("sleep", 16.2)])
def test_what_was_stopped_holds_its_keys_until_its_lease_may_have_ended(kind: str, last: float) -> None:
    assert kinds(stopped(kind, 2.0 + SURE + 3.0, last)) == set()
    assert kinds(stopped(kind, 2.0 + SURE - 1.0, last)) == {breach.CROWDED}


def test_only_a_whole_machine_that_slept_may_go_on_beside_its_successor() -> None:
    assert kinds(stopped("sleep", 15.9, 16.2)) == set()
    assert kinds(stopped("pause", 15.9, 16.2)) == {breach.CROWDED}  # its keeper was awake


def test_what_ended_before_it_was_stopped_holds_nothing() -> None:
    for word in (END, STOPPED):
        evidence = run(lived(1, 1.0, 1.9, word=word), lived(2, 2.1, 2.5, node="bob"))
        evidence.faults = [Fault(2.0, "sleep", "ann", until=16.0)]
        assert breach.CROWDED not in kinds(evidence)


def test_what_begins_when_its_node_wakes_up_and_was_taken_over_is_excused() -> None:
    late = [lived(1, 16.1, 16.3), lived(1, 12.5, 16.5, fence=2, node="bob")]
    evidence = run(*late, lived(2, 16.6, 16.7))
    evidence.faults = [Fault(2.0, "sleep", "ann", until=16.0)]
    assert kinds(evidence) == set()
    evidence.faults = []
    assert kinds(evidence) == {breach.CROWDED}


# -- rates ------------------------------------------------------------------------------------------------------------
def started(times: list[float], key: str = "mail") -> Evidence:
    return run(*(lived(number, at, at + 0.001) for number, at in enumerate(times, 1)), key=key)


def test_a_windowful_at_once_is_right_and_one_more_is_not() -> None:
    allowed, window = STARTS["mail"]
    full = [1.0 + n / 100 for n in range(allowed)]
    assert kinds(started([*full, *(at + window for at in full)])) == set()
    assert kinds(started([*full, full[0] + window - 0.001])) == {breach.TOO_FAST}


def test_windows_slide() -> None:
    """No second of the clock has too many, and the one from 1.5 on has."""
    allowed, _ = STARTS["mail"]
    late, early = [1.9 + n / 1000 for n in range(allowed)], [2.1 + n / 1000 for n in range(allowed)]
    assert kinds(started([*late, *early])) == {breach.TOO_FAST}


def test_a_start_that_was_lost_counts_as_well() -> None:
    allowed, _ = STARTS["mail"]
    evidence = started([1.0 + n / 100 for n in range(allowed)])
    evidence.lines += [line(1.5, START, 1, 2), line(1.6, END, 1, 2)]
    assert breach.TOO_FAST in kinds(evidence)


# -- what else is a finding -------------------------------------------------------------------------------------------
def test_everything_that_holds_for_all_jobs_is_checked_too() -> None:
    evidence = run(lived(1, 1.0, 1.5))
    evidence.rows = [replace(evidence.rows[0], state="held", ended=False, outcome=None)]
    assert kinds(evidence) == {breach.LOST}


def test_every_kind_that_fails_a_run_is_forged_here() -> None:
    assert set(key_checker.BAD) == {breach.CROWDED, breach.TOO_FAST, key_checker.STRANGER}
    assert set(key_checker.BAD) <= set(report.BAD)


# -- figures ----------------------------------------------------------------------------------------------------------
def test_a_slot_is_used_again_by_the_next_start() -> None:
    evidence = run(lived(1, 2.0, 2.5), lived(2, 2.7, 2.9), lived(3, 3.0, 3.1))
    assert reuse(evidence, [MUTEX], lambda at: True) == [pytest.approx(0.2), pytest.approx(0.1)]
    assert reuse(evidence, [MUTEX], lambda at: at > 2.6) == [pytest.approx(0.1)]


def test_a_slot_for_which_nobody_waits_is_not_measured() -> None:
    evidence = run(lived(1, 2.0, 2.5), lived(2, 9.0, 9.1))
    evidence.told[2].asked_at = 8.0
    assert reuse(evidence, [MUTEX], lambda at: True) == []


def test_slots_of_a_pool_are_matched_in_turn() -> None:
    evidence = run(
        lived(1, 2.0, 3.0), lived(2, 2.0, 3.1), lived(3, 2.0, 9.0), lived(4, 3.2, 3.3), lived(5, 3.4, 9.0), key=POOL
    )
    assert reuse(evidence, [POOL], lambda at: True)[:2] == [pytest.approx(0.2), pytest.approx(0.3)]


def test_tokens_lie_idle_from_the_end_of_their_window() -> None:
    allowed, window = STARTS["mail"]
    full = [1.0] * allowed
    assert idle_tokens(started([*full, 1.3 + window]), lambda at: True) == [pytest.approx(0.3)]
    assert idle_tokens(started([*full, 1.3 + window]), lambda at: False) == []


def test_steady_is_what_is_far_from_every_fault() -> None:
    evidence = Evidence(faults=[Fault(5.0, "kill"), Fault(10.0, "away", until=12.0)])
    assert [at for at in range(16) if steady(evidence, at, 1.0, 2.0)] == [0, 1, 2, 3, 8, 15]


def test_holds_are_in_the_order_of_their_starts() -> None:
    assert [one.number for one in holds(run(lived(2, 3.0, 3.1), lived(1, 2.0, 2.1)), MUTEX)] == [1, 2]


def test_what_is_noted_is_read_as_it_was_written() -> None:
    change = changed(2, 1.0, 1.5)
    assert read(["job-1 left,right"], [write(change)]) == Keys({"job-1": ("left", "right")}, [change])
