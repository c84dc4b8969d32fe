"""How crashes are counted, and what follows them."""

from __future__ import annotations

import pytest

from rota.model.outcome import CrashRule
from rota.model.times import SECOND
from tests.checks.breach import FAILED, HASTY, MISCOUNTED, SPARED, Breach
from tests.checks.crashes import LIMIT, PAUSE, bounded, counted, paused, quarantined


def kind(breach: Breach | None) -> str | None:
    assert breach is None or breach.invariant == "I11"
    return breach and breach.kind


def test_the_figures_are_those_that_the_documents_promise() -> None:
    assert (CrashRule().limit, CrashRule().delay) == (LIMIT, PAUSE * SECOND)


@pytest.mark.parametrize(
    ("crashes", "failures", "found"),
    [(2, 2, None), (3, 2, MISCOUNTED), (2, 1, MISCOUNTED), (4, 0, MISCOUNTED)],
)
def test_crashes_are_counted_apart_from_failures(crashes: int, failures: int, found: str | None) -> None:
    outcomes = ["crashed", "failed", None, "crashed", "timed_out", "interrupted", "succeeded"]
    assert kind(counted(crashes, failures, outcomes)) == found


def test_no_job_crashes_more_often_than_the_limit() -> None:
    assert bounded(LIMIT) is None
    assert kind(bounded(LIMIT + 1)) == MISCOUNTED


@pytest.mark.parametrize(
    ("crashes", "dead", "found"), [(1, False, None), (2, True, FAILED), (3, True, None), (3, False, SPARED)]
)
def test_the_last_crash_and_no_other_ends_in_quarantine(crashes: int, dead: bool, found: str | None) -> None:
    assert kind(quarantined(crashes, dead)) == found


@pytest.mark.parametrize(
    ("crashes", "wait", "found"), [(1, 0.0, None), (2, PAUSE, None), (2, PAUSE - 0.01, HASTY), (3, 0.0, HASTY)]
)
def test_every_crash_but_the_first_is_followed_by_a_pause(crashes: int, wait: float, found: str | None) -> None:
    assert kind(paused(crashes, wait)) == found
    assert paused(crashes, wait, slack=PAUSE) is None
