"""States that were found, against those that were saved."""

from __future__ import annotations

import pytest

from tests.checks.breach import BACK
from tests.checks.checkpoints import State, found

ASKED: set[State] = {(1, 0), (1, 1), (2, 0)}
KEPT: set[State] = {(1, 0)}


@pytest.mark.parametrize(
    ("state", "invariant"),
    [
        ((1, 0), None),
        ((1, 1), None),  # asked for, and the answer was lost
        ((2, 0), None),
        (None, "I12"),
        ((1, 7), "I3"),  # nobody ever asked for it
        ((3, 0), "I3"),
    ],
)
def test_the_third_attempt_finds_what_was_kept_or_something_newer(state: State | None, invariant: str | None) -> None:
    breach = found(state, 3, ASKED, KEPT)
    assert (breach and breach.invariant) == invariant
    assert breach is None or breach.kind == BACK


def test_less_than_was_kept_is_a_state_that_went_back() -> None:
    breach = found((1, 0), 3, ASKED, {(1, 0), (1, 1)})
    assert breach is not None
    assert breach.invariant == "I12"


def test_an_attempt_finds_nothing_of_its_own_or_of_a_later_one() -> None:
    assert found(None, 1, ASKED, ASKED) is None
    assert found((2, 0), 2, ASKED, set()) is not None


def test_a_success_begins_anew() -> None:
    assert found(None, 2, ASKED, KEPT, since=1) is None
    assert found((1, 0), 2, ASKED, KEPT, since=1) is not None
