"""When a write of an attempt may be given up: never because of the infrastructure."""

from __future__ import annotations

import pytest

from rota.errors import InvalidInput, StoreError, StoreUnavailable
from rota.refusals import CERTAIN, FIRST_PAUSE, LONGEST_PAUSE, Refusals, anyones

BLAME = InvalidInput("result", "x", "something else")


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreError("full"), OSError(5, "disk"), KeyError("bug")])
def test_trouble_of_the_infrastructure_is_never_hopeless(error: Exception) -> None:
    refusals = Refusals()
    assert not any(refusals.hopeless(error) for _ in range(100))


def test_values_are_to_blame_when_it_was_said_several_times_in_a_row() -> None:
    refusals = Refusals()
    assert [refusals.hopeless(BLAME) for _ in range(CERTAIN)] == [False] * (CERTAIN - 1) + [True]
    assert [refusals.hopeless(BLAME) for _ in range(CERTAIN)] == [False] * (CERTAIN - 1) + [True], "anew from there"


def test_any_other_answer_in_between_begins_anew() -> None:
    refusals = Refusals()
    for _ in range(10):
        assert not any(refusals.hopeless(BLAME) for _ in range(CERTAIN - 1))
        assert not refusals.hopeless(StoreUnavailable("away"))


def test_pauses_grow_to_a_bound() -> None:
    refusals, pauses = Refusals(), []
    for _ in range(6):
        refusals.hopeless(StoreUnavailable("away"))
        pauses.append(refusals.pause)
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_a_batch_is_split_unless_the_trouble_is_that_of_the_store_as_a_whole() -> None:
    assert anyones(StoreUnavailable("away")) is StoreUnavailable("away").whole
    assert not anyones(BLAME)
    assert not anyones(KeyError("bug"))
