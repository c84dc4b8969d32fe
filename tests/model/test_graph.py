"""Edges, needs and circles, without a store."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model import graph
from rota.model.graph import (
    Edge,
    EdgeState,
    Need,
    ParentEnd,
    SkipCause,
    below,
    check,
    edge_state,
    edges,
    is_unneeded,
    need,
    skip_cause,
    why_skipped,
    workflow_state,
)
from rota.model.lifecycle import TERMINAL, State

FITS = {
    (Need.SUCCESS, State.SUCCEEDED),
    (Need.FAILURE, State.FAILED),
    (Need.FINE, State.SUCCEEDED),
    (Need.TROUBLE, State.FAILED),
    *((Need.FINISH, state) for state in TERMINAL),
}
OTHERWISE = dict.fromkeys(Need, EdgeState.BROKEN) | {Need.TROUBLE: EdgeState.CLEAR}


@pytest.mark.parametrize("wanted", Need)
@pytest.mark.parametrize("state", State)
def test_an_edge_is_open_until_its_parent_ends_and_then_decided_for_good(wanted: Need, state: State) -> None:
    if state not in TERMINAL:
        assert edge_state(wanted, ParentEnd(state)) is EdgeState.OPEN
    else:
        assert edge_state(wanted, ParentEnd(state)) is (EdgeState.MET if (wanted, state) in FITS else OTHERWISE[wanted])


@pytest.mark.parametrize("cause", SkipCause)
def test_a_skipped_parent_is_trouble_or_fine_by_its_cause(cause: SkipCause) -> None:
    parent = ParentEnd(State.SKIPPED, cause)
    found = {need: edge_state(need, parent) for need in Need}
    assert found == {
        Need.SUCCESS: EdgeState.BROKEN,
        Need.FAILURE: EdgeState.BROKEN,
        Need.FINISH: EdgeState.MET,
        Need.FINE: EdgeState.MET if cause is SkipCause.UNNEEDED else EdgeState.BROKEN,
        Need.TROUBLE: EdgeState.MET if cause is SkipCause.TROUBLE else EdgeState.CLEAR,
    }


def test_a_purged_parent_is_neither_trouble_nor_fine() -> None:
    assert edge_state(Need.TROUBLE, ParentEnd(None)) is EdgeState.CLEAR
    assert edge_state(Need.FINE, ParentEnd(None)) is EdgeState.BROKEN


SKIPPED_FOR = {cause: ParentEnd(State.SKIPPED, cause) for cause in SkipCause}


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ([], SkipCause.UNNEEDED),  # all edges are clear
        ([(Need.SUCCESS, ParentEnd(State.FAILED))], SkipCause.TROUBLE),
        ([(Need.FINE, ParentEnd(State.FAILED))], SkipCause.TROUBLE),
        ([(Need.SUCCESS, ParentEnd(State.CANCELLED))], SkipCause.STOPPED),
        ([(Need.SUCCESS, ParentEnd(State.DROPPED))], SkipCause.STOPPED),
        ([(Need.SUCCESS, ParentEnd(None))], SkipCause.STOPPED),
        ([(Need.SUCCESS, ParentEnd(State.SKIPPED))], SkipCause.STOPPED),  # skipped for a key, not for its parents
        *[([(Need.SUCCESS, parent)], cause) for cause, parent in SKIPPED_FOR.items()],
        # An alarm that was not needed, whatever is behind it; and those that come after the alarm.
        *[([(Need.FAILURE, parent)], SkipCause.UNNEEDED) for parent in SKIPPED_FOR.values()],
        ([(Need.FAILURE, ParentEnd(State.SUCCEEDED))], SkipCause.UNNEEDED),
        # The worst of several.
        ([(Need.SUCCESS, ParentEnd(State.CANCELLED)), (Need.SUCCESS, ParentEnd(State.FAILED))], SkipCause.TROUBLE),
        ([(Need.FAILURE, ParentEnd(State.SUCCEEDED)), (Need.SUCCESS, ParentEnd(None))], SkipCause.STOPPED),
    ],
)
def test_the_cause_of_a_skip(broken: list[tuple[Need, ParentEnd]], cause: SkipCause) -> None:
    assert skip_cause(broken) is cause


@pytest.mark.parametrize(
    ("edges_", "unneeded"),
    [
        ([], False),
        ([(Need.SUCCESS, EdgeState.MET)], False),
        ([(Need.TROUBLE, EdgeState.CLEAR)], True),
        ([(Need.TROUBLE, EdgeState.CLEAR), (Need.SUCCESS, EdgeState.MET)], True),
        ([(Need.TROUBLE, EdgeState.CLEAR), (Need.TROUBLE, EdgeState.MET)], False),
    ],
)
def test_a_child_that_waits_for_trouble_needs_one_parent_with_it(
    edges_: list[tuple[Need, EdgeState]], unneeded: bool
) -> None:
    assert is_unneeded(edges_) is unneeded


@pytest.mark.parametrize(
    ("counts", "unneeded", "state"),
    [
        ({State.SUCCEEDED: 3}, 0, "succeeded"),
        ({State.SUCCEEDED: 3, State.SKIPPED: 1}, 1, "succeeded"),
        ({State.SUCCEEDED: 3, State.SKIPPED: 2}, 1, "ended"),
        ({State.SUCCEEDED: 3, State.FAILED: 1, State.SKIPPED: 1}, 0, "failed"),
        ({State.SUCCEEDED: 3, State.CANCELLED: 1, State.SKIPPED: 1}, 1, "cancelled"),
        ({State.RUNNING: 1, State.FAILED: 1}, 0, "running"),
        ({State.BLOCKED: 1, State.FAILED: 1}, 0, "waiting"),
        ({State.DROPPED: 1}, 0, "ended"),
        ({}, 0, "ended"),
    ],
)
def test_a_workflow_has_succeeded_if_all_that_was_needed_has(
    counts: dict[State, int], unneeded: int, state: str
) -> None:
    assert workflow_state(counts, unneeded) == state


@pytest.mark.parametrize(
    ("wanted", "task", "state", "text"),
    [
        (Need.SUCCESS, "load", "failed", "its parent p (load) failed"),
        (Need.SUCCESS, "load", "cancelled", "its parent p (load) was cancelled"),
        (Need.SUCCESS, "load", "skipped", "its parent p (load) was skipped"),
        (Need.SUCCESS, "load", "dropped", "its parent p (load) was dropped"),
        (Need.FAILURE, "load", "succeeded", "its parent p (load) did not fail: it succeeded"),
        (Need.SUCCESS, None, None, "its parent p is gone"),
        (Need.FAILURE, None, None, "its parent p is gone"),
    ],
)
def test_a_skip_is_told_in_plain_words(wanted: Need, task: str | None, state: str | None, text: str) -> None:
    assert why_skipped("p", wanted, task, state) == text


@pytest.mark.parametrize("wanted", Need)
def test_needs_by_their_names(wanted: Need) -> None:
    assert need(wanted) is need(str(wanted)) is wanted


@pytest.mark.parametrize("wrong", ["", "Success", "succeeded", None, 1, [], {}])
def test_other_needs_are_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="one of success, finish, failure, fine, trouble"):
        need(wrong)


def test_each_parent_counts_once_in_the_order_of_ids() -> None:
    found = edges([Edge("c"), Edge("a", Need.FINISH), Edge("c"), Edge("b")])
    assert found == (Edge("a", Need.FINISH), Edge("b"), Edge("c"))
    assert edges([]) == ()


def test_a_parent_that_is_named_twice_fills_all_places() -> None:
    found = edges([Edge("a", fills=(("x",),)), Edge("a"), Edge("a", fills=(("y", 0), ("x",)))])
    assert found == (Edge("a", fills=(("x",), ("y", 0))),)


def test_a_parent_with_two_needs_is_a_contradiction() -> None:
    with pytest.raises(InvalidInput, match="one need"):
        edges([Edge("a"), Edge("b"), Edge("a", Need.FINISH)])


def test_there_is_an_end_to_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MOST_PARENTS", 3)
    assert len(edges(map(Edge, "abc"))) == 3
    with pytest.raises(InvalidInput, match="at most 3"):
        edges(map(Edge, "abcd"))


def order(**parents: str) -> dict[str, tuple[Edge, ...]]:
    return {child: tuple(map(Edge, found)) for child, found in parents.items()}


def names(jobs: dict[str, tuple[Edge, ...]]) -> dict[str, str]:
    return {job: job.upper() for job in jobs}


def test_what_has_no_circle_passes() -> None:
    fine = order(a="", b="a", c="ab", d="bcxyz")
    check(fine, names(fine))
    check({}, {})


def test_whoever_waits_for_itself_is_named() -> None:
    wrong = order(a="", b="ab")
    with pytest.raises(InvalidInput, match=r"'B'.*waits for itself"):
        check(wrong, names(wrong))


def test_a_circle_is_shown_each_with_the_one_it_waits_for() -> None:
    wrong = order(a="c", b="a", c="b", d="a")
    with pytest.raises(InvalidInput) as caught:
        check(wrong, names(wrong))
    path = str(caught.value).rpartition(": ")[2].split(" -> ")
    assert path[0] == path[-1]
    assert sorted(path[1:]) == ["A", "B", "C"]
    for child, parent in itertools.pairwise(path):
        assert Edge(parent.lower()) in wrong[child.lower()]


def test_a_long_circle_is_shown_in_part() -> None:
    jobs = [f"j{n:03}" for n in range(100)]
    wrong = {job: (Edge(jobs[n - 1]),) for n, job in enumerate(jobs)}
    with pytest.raises(InvalidInput) as caught:
        check(wrong, {job: job for job in jobs})
    assert "... 93 more ..." in str(caught.value)
    assert len(str(caught.value)) < 250


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_a_graph_passes_exactly_if_it_can_be_carried_out(pairs: list[tuple[int, int]]) -> None:
    wanted: dict[str, list[Edge]] = {str(n): [] for n in range(10)}
    for child, parent in pairs:
        wanted[str(child)].append(Edge(str(parent)))
    done: set[str] = set()
    while more := {job for job, found in wanted.items() if {one.parent for one in found} <= done} - done:
        done |= more
    try:
        check(wanted, {job: job for job in wanted})
        assert len(done) == len(wanted)
    except InvalidInput:
        assert len(done) < len(wanted)


@pytest.mark.slow
def test_a_deep_graph_is_no_deep_recursion() -> None:
    deep = {str(n): (Edge(str(n - 1)),) for n in range(1, 50_000)} | {"0": ()}
    check(deep, {job: job for job in deep})
    children = {str(n): [str(n + 1)] for n in range(50_000)}
    assert len(below(children, ["0"])) == 50_001


def test_all_that_wait_however_indirectly_are_below() -> None:
    children = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "x": ["y"]}
    assert sorted(below(children, ["a"])) == ["a", "b", "c", "d"]
    assert sorted(below(children, ["b", "x"])) == ["b", "d", "x", "y"]
    assert below(children, []) == []
    assert below({"a": ["b"], "b": ["a"]}, ["a"]) == ["a", "b"], "also in a circle"
