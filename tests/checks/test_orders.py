"""Answers against jobs, and times against orders."""

from __future__ import annotations

import pytest

from tests.checks.breach import DOUBLE, EARLY, LOST, MADE_UP
from tests.checks.orders import OK, REFUSED, UNKNOWN, answered, early, over, single


@pytest.mark.parametrize(
    ("verdict", "told", "there", "found"),
    [
        (OK, {"a"}, {"a"}, []),
        (OK, {"a"}, set(), [("I1", LOST)]),
        (OK, {"a"}, {"b"}, [("I13", LOST)]),
        (OK, {"a", "b"}, {"a"}, [("I13", DOUBLE)]),
        (OK, {"a", "b"}, set(), [("I1", LOST), ("I13", DOUBLE)]),
        (REFUSED, set(), set(), []),
        (REFUSED, set(), {"a"}, [("I1", MADE_UP)]),
        (UNKNOWN, set(), set(), []),
        (UNKNOWN, set(), {"a"}, []),
    ],
)
def test_each_answer_is_held_against_what_is_there(
    verdict: str, told: set[str], there: set[str], found: list[tuple[str, str]]
) -> None:
    assert [(breach.invariant, breach.kind) for breach in answered(verdict, told, there)] == found


def test_one_order_makes_one_job() -> None:
    assert single([]) is single(["a"]) is None
    breach = single(["a", "b"])
    assert breach is not None
    assert (breach.invariant, breach.kind) == ("I13", DOUBLE)


def test_every_job_ends() -> None:
    assert over("a", "failed", ended=True) is None
    breach = over("a", "running", ended=False)
    assert breach is not None
    assert (breach.invariant, breach.kind) == ("I1", LOST)


@pytest.mark.parametrize(("at", "due", "slack", "is_early"), [
    (10, 10, 0, False), (11, 10, 0, False), (9, 10, 0, True), (9, 10, 1, False), (8, 10, 1, True),
])  # fmt: skip
def test_nothing_starts_before_it_is_due(at: int, due: int, slack: int, is_early: bool) -> None:
    breach = early(at, due, slack)
    assert (breach is not None) == is_early
    assert breach is None or (breach.invariant, breach.kind) == ("I7", EARLY)


def test_how_early_is_told_in_seconds() -> None:
    assert "1.500000 s" in str(early(0, 1_500_000, unit=1_000_000))
