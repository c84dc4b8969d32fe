"""Fires against the instants that a schedule names."""

from __future__ import annotations

import pytest

from tests.checks.breach import DOUBLED, EARLY, MISCOUNTED_SKIPS, MISSED, STRAY, WHILE_PAUSED
from tests.checks.fires import Made, Skipped, both, counted, fired, missed

DUE = [10, 20, 30, 40]


def test_each_instant_of_a_schedule_is_made_once() -> None:
    made = Made()
    assert made.make("a", 10) is made.make("a", 20) is made.make("b", 10) is None
    breach = made.make("a", 10)
    assert breach is not None
    assert (breach.invariant, breach.kind) == ("I6", DOUBLED)


@pytest.mark.parametrize(
    ("at", "named", "paused", "found"),
    [
        (10, True, False, []),
        (12, True, False, []),
        (9, True, False, [("I7", EARLY)]),
        (10, False, False, [("I6", STRAY)]),
        (10, True, True, [("I6", WHILE_PAUSED)]),
        (9, False, True, [("I6", WHILE_PAUSED), ("I6", STRAY), ("I7", EARLY)]),
    ],
)
def test_a_fire_is_named_not_early_and_not_of_a_paused_schedule(
    at: int, named: bool, paused: bool, found: list[tuple[str, str]]
) -> None:
    assert [(breach.invariant, breach.kind) for breach in fired("a", 10, at, named, paused)] == found


@pytest.mark.parametrize(
    ("skips", "all_made", "found"),
    [
        ([Skipped(20, 30, 2)], False, []),
        ([Skipped(20, 20, 1)], False, [30]),
        ([], False, [20, 30]),
        ([Skipped(20, 30, 2)], True, [20, 30]),  # where no skip is right
    ],
)
def test_an_instant_that_was_neither_made_nor_skipped_is_missed(
    skips: list[Skipped], all_made: bool, found: list[int]
) -> None:
    breaches = list(missed("a", DUE, {10, 40}, skips, all_made))
    assert {breach.kind for breach in breaches} <= {MISSED}
    assert [fire for fire in DUE for breach in breaches if str(fire) in breach.text] == found


@pytest.mark.parametrize(
    ("made", "skips", "found"),
    [
        ({10, 40}, [Skipped(20, 30, 2)], 0),
        ({10, 20, 40}, [Skipped(20, 30, 2)], 1),
        ({10, 40}, [Skipped(20, 30, 2), Skipped(30, 30, 1)], 1),
    ],
)
def test_an_instant_that_was_made_and_skipped_is_doubled(made: set[int], skips: list[Skipped], found: int) -> None:
    assert [breach.kind for breach in both("a", DUE, made, skips)] == [DOUBLED] * found


@pytest.mark.parametrize(("count", "right"), [(2, True), (3, True), (1, False), (4, False), (None, False)])
def test_a_run_of_skips_says_how_many_there_are(count: int | None, right: bool) -> None:
    """Two for certain, and one in doubt."""
    breach = counted("a", Skipped(20, 30, count), must=[10, 20, 30], may=[10, 20, 25, 30])
    assert (breach is None) == right
    assert breach is None or (breach.invariant, breach.kind) == ("I6", MISCOUNTED_SKIPS)
