"""Children against their parents."""

from __future__ import annotations

import pytest

from rota.model.graph import Need
from rota.model.lifecycle import TERMINAL
from tests.checks.breach import NOT_SKIPPED, TOO_SOON, WRONGLY_SKIPPED, Breach
from tests.checks.graphs import FAILURE, FINISH, SUCCESS, Parents, fits


def kind(breach: Breach | None) -> str | None:
    assert breach is None or breach.invariant == "I8"
    return breach and breach.kind


def test_the_table_knows_every_need_and_every_end() -> None:
    assert {str(need) for need in Need} == {SUCCESS, FINISH, FAILURE}
    fitting = {(need, str(state)) for need in map(str, Need) for state in TERMINAL if fits(need, str(state))}
    assert fitting == {(SUCCESS, "succeeded"), (FAILURE, "failed"), *((FINISH, str(state)) for state in TERMINAL)}


@pytest.mark.parametrize(
    ("ended", "goes_on", "is_skipped"),
    [
        ({"a": {"succeeded"}, "b": {"failed"}}, None, WRONGLY_SKIPPED),
        ({"a": {"succeeded"}}, TOO_SOON, WRONGLY_SKIPPED),
        ({}, TOO_SOON, WRONGLY_SKIPPED),
        ({"a": {"failed"}}, TOO_SOON, None),
        ({"a": {"failed"}, "b": {"failed"}}, TOO_SOON, None),
        ({"a": {"failed", "succeeded"}, "b": {"failed"}}, None, None),  # replayed meanwhile: either may count
    ],
)
def test_a_child_goes_on_when_all_fit_and_is_skipped_when_one_does_not(
    ended: dict[str, set[str]], goes_on: str | None, is_skipped: str | None
) -> None:
    parents = Parents([("a", SUCCESS), ("b", FINISH)], ended)
    assert kind(parents.goes_on()) == goes_on
    assert kind(parents.is_skipped()) == is_skipped


@pytest.mark.parametrize(
    ("parent", "state", "ran", "found"),
    [
        ("succeeded", "succeeded", True, None),
        ("succeeded", "skipped", False, WRONGLY_SKIPPED),
        ("failed", "skipped", False, None),
        ("failed", "succeeded", True, NOT_SKIPPED),
        ("failed", "skipped", True, NOT_SKIPPED),
        ("failed", "cancelled", False, NOT_SKIPPED),
    ],
)
def test_when_all_is_over_the_skipped_are_those_with_a_parent_in_their_way(
    parent: str, state: str, ran: bool, found: str | None
) -> None:
    assert kind(Parents([(1, SUCCESS)], {1: {parent}}).ends(state, ran)) == found


def test_one_parent_may_be_needed_in_two_ways() -> None:
    parents = Parents([("a", FINISH), ("a", SUCCESS)], {"a": {"failed"}})
    assert parents.unmet() == parents.broken() == [("a", SUCCESS)]


def test_a_child_without_parents_is_free() -> None:
    assert Parents[str]([], {}).goes_on() is None
