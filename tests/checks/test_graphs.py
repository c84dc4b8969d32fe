"""Children against their parents."""

from __future__ import annotations

import pytest

from rota.model.graph import Need
from rota.model.lifecycle import TERMINAL
from tests.checks.breach import NOT_SKIPPED, TOO_SOON, WRONGLY_SKIPPED, Breach
from tests.checks.graphs import FAILURE, FINE, FINISH, SUCCESS, TROUBLE, TROUBLED, UNNEEDED, Parents, fits


def kind(breach: Breach | None) -> str | None:
    assert breach is None or breach.invariant == "I8"
    return breach and breach.kind


def test_the_table_knows_every_need_and_every_end() -> None:
    assert {str(need) for need in Need} == {SUCCESS, FINISH, FAILURE, FINE, TROUBLE}
    ends = [*map(str, TERMINAL), TROUBLED, UNNEEDED]
    fitting = {(need, end) for need in map(str, Need) for end in ends if fits(need, end)}
    assert fitting == {
        (SUCCESS, "succeeded"), (FAILURE, "failed"), (FINE, "succeeded"), (FINE, UNNEEDED), (TROUBLE, "failed"),
        (TROUBLE, TROUBLED), *((FINISH, end) for end in ends),
    }  # fmt: skip


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


@pytest.mark.parametrize(
    ("ended", "goes_on", "is_skipped"),
    [
        ({"a": {"failed"}}, TOO_SOON, WRONGLY_SKIPPED),  # it waits for all, also if one has failed
        ({"a": {"failed"}, "b": {"succeeded"}}, None, WRONGLY_SKIPPED),
        ({"a": {TROUBLED}, "b": {"cancelled"}}, None, WRONGLY_SKIPPED),
        ({"a": {"succeeded"}, "b": {"cancelled"}}, TOO_SOON, None),
        ({"a": {UNNEEDED}, "b": {"skipped"}}, TOO_SOON, None),
        ({"a": {TROUBLED, "skipped"}, "b": {"succeeded"}}, None, None),  # two stood in its way: either may count
    ],
)
def test_a_child_that_waits_for_trouble_goes_on_if_there_is_some(
    ended: dict[str, set[str]], goes_on: str | None, is_skipped: str | None
) -> None:
    parents = Parents([("a", TROUBLE), ("b", TROUBLE)], ended)
    assert kind(parents.goes_on()) == goes_on
    assert kind(parents.is_skipped()) == is_skipped


@pytest.mark.parametrize(
    ("needs", "ended", "causes"),
    [
        ({"a": SUCCESS}, {"a": {"failed"}}, {TROUBLED}),
        ({"a": SUCCESS}, {"a": {"cancelled"}}, {"skipped"}),
        ({"a": SUCCESS}, {"a": {TROUBLED}}, {TROUBLED}),
        ({"a": SUCCESS}, {"a": {UNNEEDED}}, {UNNEEDED}),
        ({"a": FAILURE}, {"a": {"succeeded"}}, {UNNEEDED}),
        ({"a": TROUBLE}, {"a": {"succeeded"}}, {UNNEEDED}),
        ({"a": SUCCESS, "b": FINE}, {"a": {"failed"}, "b": {"cancelled"}}, {TROUBLED, "skipped"}),
    ],
)
def test_a_skip_has_a_cause(needs: dict[str, str], ended: dict[str, set[str]], causes: set[str]) -> None:
    assert Parents(needs.items(), ended).causes() == causes


def test_an_alarm_that_ran_for_nothing_is_found() -> None:
    assert kind(Parents([(1, TROUBLE)], {1: {"succeeded"}}).ends("succeeded", True)) == NOT_SKIPPED
    assert kind(Parents([(1, TROUBLE)], {1: {TROUBLED}}).ends("succeeded", True)) is None
    assert kind(Parents([(1, TROUBLE)], {1: {TROUBLED}}).ends("skipped", False)) == WRONGLY_SKIPPED
    assert kind(Parents([(1, FINE)], {1: {UNNEEDED, "skipped"}}).ends("succeeded", True)) is None


def test_one_parent_may_be_needed_in_two_ways() -> None:
    parents = Parents([("a", FINISH), ("a", SUCCESS)], {"a": {"failed"}})
    assert parents.unmet() == parents.broken() == [("a", SUCCESS)]


def test_a_child_without_parents_is_free() -> None:
    assert Parents[str]([], {}).goes_on() is None
