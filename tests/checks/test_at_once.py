"""Holders at the same time: who is beside whom, and when there is no room."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.checks.at_once import AtOnce, meetings


class Span(NamedTuple):
    start: float
    last: float


def met(*spans: tuple[float, float], most: int = 1) -> list[tuple[Span, list[Span]]]:
    return [(one, beside) for one, beside in meetings([Span(*span) for span in spans], lambda _: most)]


def test_others_are_told_in_the_order_in_which_they_began() -> None:
    now: AtOnce[str] = AtOnce()
    for name in "cab":
        now.begin(name, name.upper())
    assert now.beside("a") == ["C", "B"]
    assert now.beside("d", lambda who: who != "C") == ["A", "B"]
    now.end("c")
    now.end("never began")
    assert now.beside("d") == ["A", "B"]
    now.end_all(lambda who: who == "A")
    assert now.beside("d") == ["B"]


@pytest.mark.parametrize(
    ("most", "crowd"), [(None, None), (3, None), (2, ["A", "B"]), (1, ["A", "B"]), (0, ["A", "B"])]
)
def test_there_is_room_for_as_many_as_the_limit_says(most: int | None, crowd: list[str] | None) -> None:
    now: AtOnce[str] = AtOnce()
    now.begin("a", "A")
    now.begin("b", "B")
    assert now.crowd("c", most) == crowd


def test_a_limit_of_nothing_leaves_no_room_even_for_the_first() -> None:
    assert AtOnce[str]().crowd("a", 0) == []


def test_one_that_counts_for_nothing_takes_no_room() -> None:
    now: AtOnce[str] = AtOnce()
    now.begin("a", "excused")
    assert now.crowd("b", 1, lambda who: who != "excused") is None


def test_spans_that_follow_each_other_don_t_meet() -> None:
    assert met((1.0, 2.0), (2.0, 3.0), (3.5, 4.0)) == []


def test_spans_meet_if_one_begins_before_the_other_is_over() -> None:
    assert met((1.0, 2.0), (1.9, 3.0)) == [(Span(1.9, 3.0), [Span(1.0, 2.0)])]
    assert met((1.9, 3.0), (1.0, 2.0)) == [(Span(1.9, 3.0), [Span(1.0, 2.0)])]
    assert met((1.0, 3.0), (1.5, 1.6)) == [(Span(1.5, 1.6), [Span(1.0, 3.0)])]


def test_spans_that_begin_together_meet_once() -> None:
    assert len(met((1.0, 2.0), (1.0, 2.0))) == 1


def test_a_span_without_length_meets_those_that_begin_with_it_and_those_around_it() -> None:
    assert len(met((1.0, 1.0), (1.0, 2.0))) == 1
    assert len(met((0.0, 2.0), (1.0, 1.0))) == 1
    assert met((0.0, 1.0), (1.0, 1.0)) == []


def test_only_the_one_that_is_too_many_is_found() -> None:
    three = [(1.0, 2.0), (1.1, 2.0), (1.2, 2.0)]
    assert met(*three, most=3) == []
    assert [one.start for one, _ in met(*three, most=2)] == [1.2]
