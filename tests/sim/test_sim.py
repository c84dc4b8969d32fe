"""The whole system in simulated time: clean seeds stay clean, every mutant is caught, every run can be repeated."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest

from tests.sim import mutants, plan
from tests.sim.__main__ import FAULTS
from tests.sim.checker import explain
from tests.sim.hot_ways import WAYS
from tests.sim.world import Report, run

pytestmark = pytest.mark.slow
CHUNK = 5
SEEDS = 30
BUSY = 14
HUNT = 100
HOT_SEEDS = 2


@cache
def clean(seed: int) -> Report:
    """For whoever only looks at what has happened: each of these takes a second or two."""
    return run(plan.make(seed))


def failure(report: Report, mutant: str | None = None) -> str:
    return explain(report.plan, report.violations[0], report.notes, mutant)


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_all_invariants_hold(first: int) -> None:
    for seed in range(first, first + CHUNK):
        report = clean(seed) if seed < BUSY else run(plan.make(seed))
        assert not report.violations, failure(report)


def test_a_run_has_work_and_faults() -> None:
    """A simulation in which nothing happens proves nothing."""
    reports = [clean(seed) for seed in range(BUSY)]
    for report in reports:
        assert not report.violations, failure(report)
    notes = [note for report in reports for note in report.notes]
    done = {note.data["after"]["state"] for note in notes if note.what == "row" and note.data["after"]}
    assert {"succeeded", "failed", "cancelled", "scheduled", "running"} <= done
    assert {"claim", "start", "hand_back", "finish", "take_over", "leave", "promote", "replay", "cancel"} <= {
        note.data["verb"] for note in notes if note.what == "row"
    }
    assert set(FAULTS) <= {kind for report in reports for kind in report.faults}
    assert {"lost", "refused", "stuck", "paused", "died", "mended", "unlocked", "unleased", "declared", "finale"} <= {
        note.what for note in notes
    }
    assert {"rule", "manual", "backfill"} <= {note.data["kind"] for note in notes if note.what == "fire"}
    assert {"missed", "newer", "paused", "overlap"} <= {note.data["reason"] for note in notes if note.what == "skip"}
    assert {"ok", "not found", "unknown"} <= {note.data["answer"] for note in notes if note.what == "granted"}
    assert {"settle", "admit"} <= {note.data["verb"] for note in notes if note.what == "row"}
    assert {"close_gate", "open_gate", "set_limit", "remove_limit", "pause_queue", "resume_queue", "set_feedback"} <= {
        note.data["verb"] for note in notes if note.what == "decree"
    }
    assert {"blocked", "held", "skipped", "dropped"} <= done
    assert {"hang", "reset"} <= {note.data["how"] for note in notes if note.what == "lost" and "how" in note.data}


@pytest.mark.parametrize("nodes", [1, 3])
def test_clusters_of_other_sizes(nodes: int) -> None:
    for seed in range(CHUNK // 2):
        report = run(plan.make(seed, nodes))
        assert not report.violations, failure(report)


def test_services_that_hang_stop_nothing_for_ever() -> None:
    hung = 0
    for seed in range(CHUNK):
        report = run(replace(plan.make(seed, 1 + seed % 2), stuck=True))
        assert not report.violations, failure(report)
        hung += sum(note.what == "hangs" for note in report.notes)
    assert hung


@pytest.mark.parametrize("way", sorted(set(WAYS)))
def test_a_hot_tier_may_go_wrong_in_every_way(way: str) -> None:
    for seed in range(HOT_SEEDS):
        report = run(replace(plan.make(seed, 1 + seed % 3, hot=1 + seed % 2 * 2), lying=way))
        assert not report.violations, failure(report)


# These need many seeds: `make sim` hunts them, the others are caught within seconds.
SLOW = (
    "finish-unfenced", "note-unfenced", "remove-unfenced", "keeper-off", "slot-kept-at-crash", "living-forgotten",
    "revision-ignored", "until-ignored", "server-identity-ignored", "session-loss-ignored", "start-cancelled",
    "edit-forgets", "reopen-forgets", "hang-ignored", "followers-read-nothing", "disobedience-unseen",
)  # fmt: skip
HUNTED = [pytest.param(name, marks=pytest.mark.chaos if name in SLOW else ()) for name in mutants.NAMES]


@pytest.mark.parametrize("mutant", HUNTED)
def test_the_checker_catches_every_mutant(mutant: str) -> None:
    for seed in range(HUNT):
        report = run(plan.make(seed), mutant)
        if report.violations:
            first = report.violations[0]
            print(f"{mutant}: caught by seed {seed}: {first.invariant}: {first.text}")
            return
    pytest.fail(f"no seed below {HUNT} catches the mutant {mutant}: the checker would not miss that safeguard either")


def test_a_seed_repeats_exactly() -> None:
    assert run(plan.make(7)).digest == clean(7).digest != clean(8).digest


def test_a_seed_repeats_in_another_process() -> None:
    """Where hashes of texts, and so the order of sets, are others."""
    program = "from tests.sim import plan, world; print(world.run(plan.make(3)).digest)"
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert answer.strip() == clean(3).digest
