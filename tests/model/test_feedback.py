"""Feedback levels: the more slot-time a flow has used since the boost, the further it falls behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InvalidInput
from rota.model.feedback import LEVELS, Feedback, flow, flow_name, level, read_feedback
from rota.model.times import DAY, HOUR, LONGEST, MILLISECOND, SECOND

spans = st.integers(0, LONGEST)
rules = st.builds(Feedback, st.integers(10 * MILLISECOND, HOUR), st.integers(1, LEVELS), st.just(60 * SECOND))


def test_the_documented_example() -> None:
    seconds = [0, 10, 11, 30, 31, 70, 71, 150, 151, 310, 311, 10**6]
    assert [level(used * SECOND, Feedback()) for used in seconds] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4]


@given(rules)
def test_each_level_lasts_twice_as_long_as_the_one_before_to_the_microsecond(rule: Feedback) -> None:
    end = 0
    for number in range(rule.levels - 1):
        end += rule.quantum * 2**number
        assert level(end, rule) == number
        assert level(end + 1, rule) == number + 1


@given(rules, spans, spans)
def test_who_uses_more_is_never_ahead_and_nobody_falls_out(rule: Feedback, one: int, other: int) -> None:
    less, more = sorted((one, other))
    assert 0 <= level(less, rule) <= level(more, rule) <= rule.levels - 1 < LEVELS


@given(spans)
def test_one_level_means_no_feedback(used: int) -> None:
    assert level(used, Feedback(levels=1)) == 0


def test_a_flow_belongs_to_an_owner_and_a_task() -> None:
    assert flow_name("eve", "mail.welcome") == "eve/mail.welcome"


@pytest.mark.parametrize("name", ["a", "nightly reports", "größe/7", "x" * 200])
def test_a_user_may_name_a_flow(name: str) -> None:
    assert flow(name) == name


@pytest.mark.parametrize(
    "name", ["", " ", " a", "a ", "a\0", "\ud800", "a\n", "x" * 201, "x" * 10**6, None, True, 7, 10**30, b"a", ["a"]],
    ids=lambda name: repr(name)[:20],
)  # fmt: skip
def test_what_is_no_name_of_a_flow_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match=r"^flow: .* 1 to 200 printable characters") as caught:
        flow(name)
    assert len(str(caught.value)) < 200


def test_the_defaults_are_the_documented_ones() -> None:
    assert read_feedback() == Feedback() == Feedback(10 * SECOND, 5, 60 * SECOND)


def test_what_is_given_is_read() -> None:
    assert read_feedback("10ms", 1, "1d") == Feedback(10 * MILLISECOND, 1, DAY)
    assert read_feedback("1h", 5, "1s") == Feedback(HOUR, 5, SECOND), "a boost may come before a quantum is used"
    assert read_feedback(2, 3, timedelta(minutes=2)) == Feedback(2 * SECOND, 3, 120 * SECOND)


NO_SPANS = [
    "",
    "soon",
    "0s",
    "-1s",
    "1s\0",
    "\ud800",
    "9" * 400 + "s",
    None,
    True,
    -1,
    0,
    10**30,
    float("nan"),
    [5],
    b"1s",
]


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        *(("quantum", value) for value in (*NO_SPANS, "9ms", "3601s")),
        *(("boost", value) for value in (*NO_SPANS, "999ms", "25h")),
        *(("levels", value) for value in (0, 6, -1, 10**30, True, 3.0, float("nan"), "3", None, [3], b"3")),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_wrong_rules_are_refused_by_name(what: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_feedback(**{what: wrong})
    assert caught.value.what == what
    assert len(str(caught.value)) < 300
