"""The measures of the hot tier run, and have the goals of the issue."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bench import __main__ as program
from bench.figure import QUICK, Figure, Size
from bench.hot import heap, statements, throughput, timing
from bench.hot.pair import beside

Measure = Callable[[Path, Size], Iterator[Figure]]
SMALL = msgspec.structs.replace(
    QUICK, settling=0.5, watched=1.0, timers=50, spread=1.0, drained=500, claims=3, waiting=2_000, paced=0.05,
    reported=1.0, beside_refill=3.0,
)  # fmt: skip
GOALS = {
    "hot-timers": {timing.P99_LATE: 1, timing.LAST_LATE: 1, 0: 3},
    "hot-latency": {timing.P50_LATENCY: 2 * len(timing.RATES)},
    "hot-drain": {throughput.DRAIN: 2},
    "hot-statements": {statements.IDLE: 1, statements.OF_REPORTS: 1},
    "hot-heap": {heap.SLOWER: 4},
    "hot-refill": {heap.REFILL: 1},
    "hot-fault": {throughput.AFTER_FAULT: 1},
}


def test_every_measure_is_one_of_the_group() -> None:
    assert set(GOALS) <= set(program.GROUPS["hot"])
    assert "hot" in program.EVERYTHING


def test_runs_are_compared_with_those_next_to_them() -> None:
    figure = beside("drain", [50.0, 100.0, 90.0], [100.0, 100.0, 60.0], "/s", least=1.0)
    assert (figure.value, figure.runs, figure.met) == (1.0, [0.5, 1.0, 1.5], True)
    assert (figure.ours, figure.other) == ("90.0 /s", "100.0 /s")


def test_a_heap_of_many_is_measured_against_one_of_few(tmp_path: Path) -> None:
    figures = list(heap.heap(tmp_path, SMALL))
    assert [figure.name.split(", ")[1] for figure in figures] == ["adding 1", "taking 1", "adding 500", "taking 500"]
    assert all(figure.most == heap.SLOWER and figure.value > 0 for figure in figures)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GOALS))
def test_the_measure_has_its_goals(tmp_path: Path, name: str) -> None:
    found: dict[float, int] = {}
    for figure in program.MEASURES[name](tmp_path, SMALL):
        assert math.isfinite(figure.value)
        goal = figure.least if figure.least is not None else figure.most
        if goal is not None:
            found[goal] = found.get(goal, 0) + 1
    assert found == GOALS[name]
