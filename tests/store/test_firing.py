"""What becomes of fires while earlier ones live: the decision that all backends share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rota.model.job import NewJob, Spec
from rota.model.trigger.policies import Overlap
from rota.model.trigger.records import Fate, FireKind, NewFire
from rota.model.trigger.skipped import Skipped, SkipReason
from rota.store.firing import Decision, decide

RULE, MANUAL, BACKFILL = FireKind.RULE, FireKind.MANUAL, FireKind.BACKFILL
MADE, QUEUED, SKIPPED = Fate.MADE, Fate.QUEUED, Fate.SKIPPED
ALIVE = [("old", "rule")]


def fires(count: int) -> list[NewFire]:
    return [NewFire(n, NewJob(f"job{n}", "t", Spec.function("t"))) for n in range(count)]


def fates(
    overlap: Overlap, kind: FireKind, count: int, alive: Sequence[tuple[str, str]] = ()
) -> tuple[list[Fate], list[str]]:
    return decide(overlap, kind, fires(count), alive)


@pytest.mark.parametrize("kind", FireKind)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("alive", [[], ALIVE])
def test_of_no_fires_nothing_becomes(overlap: Overlap, kind: FireKind, alive: list[tuple[str, str]]) -> None:
    assert fates(overlap, kind, 0, alive) == ([], [])


@pytest.mark.parametrize("kind", FireKind)
@pytest.mark.parametrize("overlap", Overlap)
def test_one_alone_is_made(overlap: Overlap, kind: FireKind) -> None:
    assert fates(overlap, kind, 1) == ([MADE], [])


@pytest.mark.parametrize("kind", FireKind)
def test_allow_makes_all(kind: FireKind) -> None:
    assert fates(Overlap.ALLOW, kind, 3, ALIVE) == ([MADE] * 3, [])


@pytest.mark.parametrize("kind", [RULE, MANUAL])
def test_skip_makes_the_first_if_nothing_lives(kind: FireKind) -> None:
    assert fates(Overlap.SKIP, kind, 3) == ([MADE, SKIPPED, SKIPPED], [])
    assert fates(Overlap.SKIP, kind, 2, ALIVE) == ([SKIPPED, SKIPPED], [])


@pytest.mark.parametrize("kind", FireKind)
def test_queue_makes_all_and_lets_one_run(kind: FireKind) -> None:
    assert fates(Overlap.QUEUE, kind, 3) == ([MADE, QUEUED, QUEUED], [])
    assert fates(Overlap.QUEUE, kind, 2, ALIVE) == ([QUEUED, QUEUED], [])


@pytest.mark.parametrize("kind", [RULE, MANUAL])
def test_replace_makes_the_last_and_cancels_what_lives(kind: FireKind) -> None:
    assert fates(Overlap.REPLACE, kind, 3) == ([SKIPPED, SKIPPED, MADE], [])
    assert fates(Overlap.REPLACE, kind, 3, ALIVE) == ([SKIPPED, SKIPPED, QUEUED], ["old"])
    several = [("a", "rule"), ("b", "manual"), ("c", "rule")]
    assert fates(Overlap.REPLACE, kind, 1, several) == ([QUEUED], ["a", "b", "c"])


def test_a_backfill_is_never_replaced_nor_does_it_replace() -> None:
    mixed = [("a", "backfill"), ("b", "rule"), ("c", "backfill")]
    assert fates(Overlap.REPLACE, RULE, 1, mixed) == ([QUEUED], ["b"])
    assert fates(Overlap.REPLACE, BACKFILL, 2, mixed) == ([QUEUED, QUEUED], [])


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.QUEUE, Overlap.REPLACE])
def test_a_backfill_of_what_must_not_overlap_runs_one_after_the_other(overlap: Overlap) -> None:
    assert fates(overlap, BACKFILL, 3) == ([MADE, QUEUED, QUEUED], [])
    assert fates(overlap, BACKFILL, 2, ALIVE) == ([QUEUED, QUEUED], [])


@pytest.mark.parametrize("kind", FireKind)
@pytest.mark.parametrize("overlap", Overlap)
@pytest.mark.parametrize("alive", [[], ALIVE])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_each_fire_is_made_or_skipped_and_never_two_may_run(
    overlap: Overlap, kind: FireKind, alive: list[tuple[str, str]], count: int
) -> None:
    some = fires(count)
    decision = decide(overlap, kind, some, alive)
    made, waiting, skipped = decision.made(some), decision.waiting(some), decision.skipped(some)
    assert len(made) + len(skipped) == count
    assert {fire.fire for fire in waiting} <= {fire.fire for fire in made}
    assert {one.reason for one in skipped} <= {SkipReason.OVERLAP}
    if overlap is not Overlap.ALLOW:
        assert len(made) - len(waiting) + len(alive) <= 1


def test_the_parts_of_a_decision() -> None:
    some = fires(3)
    decision = Decision([MADE, SKIPPED, QUEUED], [])
    assert decision.made(some) == [some[0], some[2]]
    assert decision.waiting(some) == [some[2]]
    assert decision.skipped(some) == [Skipped(1, 1, 1, SkipReason.OVERLAP)]
