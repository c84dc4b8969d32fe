"""One fire: its id, its arguments, and what its predecessor means for it."""

from __future__ import annotations

import re
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.clock import Chance
from rota.model.times import LATEST, MILLISECOND, instant
from rota.model.trigger.arguments import fill, local_iso
from rota.model.trigger.identity import fire_id
from rota.model.trigger.overlap import STEPS, Step, step
from rota.model.trigger.policies import Overlap

NOON = instant("2027-07-01T12:00:00+00:00")
instants = st.integers(0, LATEST)


@given(st.text(), st.text(), instants)
def test_ids_are_uuids_of_version_8(owner: str, name: str, fire: int) -> None:
    found = fire_id(owner, name, fire)
    assert found == fire_id(owner, name, fire)
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", found)
    assert (UUID(found).version, UUID(found).int >> 80) == (8, fire // MILLISECOND)


@given(st.text(), instants, instants)
def test_ids_sort_by_time_among_those_of_other_jobs(name: str, fire: int, other: int) -> None:
    if fire // MILLISECOND < other // MILLISECOND:
        assert fire_id("", name, fire) < Chance(1).job_id(other)
    if fire // MILLISECOND > other // MILLISECOND:
        assert fire_id("", name, fire) > Chance(1).job_id(other)


def test_ids_differ_by_owner_name_and_time() -> None:
    parts = [*product(("", "a", "ab"), ("", "b", "ab"), (NOON, NOON + 1, NOON + 10**6))]
    assert len({fire_id(*each) for each in parts}) == len(parts)
    crowd = {fire_id("me", f"job-{n}", NOON) for n in range(20_000)}
    assert len(crowd) == 20_000


def test_ids_are_kept_across_versions_of_rota() -> None:
    assert fire_id("me", "nightly", NOON) == "01a6753e-0e00-8289-9cbe-6111670f7701"


def test_times_are_filled_in() -> None:
    value = {"day": "{fire_time}", "list": [1, None, "at {scheduled_for}!", {"{fire_time}": "{other} {}"}], "n": 1.5}
    assert fill(value, "Europe/Berlin", NOON, NOON + 90_500_000) == {
        "day": "2027-07-01T14:00:00+02:00",
        "list": [1, None, "at 2027-07-01T14:01:30.500000+02:00!", {"{fire_time}": "{other} {}"}],
        "n": 1.5,
    }
    assert value["day"] == "{fire_time}", "a copy"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", "2027-07-01T12:00:00+00:00"), ("Asia/Kathmandu", "2027-07-01T17:45:00+05:45")],
)
def test_times_have_the_offset_of_their_zone(zone: str, expected: str) -> None:
    assert local_iso(NOON, zone) == expected
    assert instant(expected) == NOON


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="{}abc"),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_values_without_times_stay_as_they_are(value: Any) -> None:
    assert fill(value, "UTC", NOON, NOON) == value


def test_the_table_of_overlaps_is_complete() -> None:
    assert set(STEPS) == set(product(Overlap, (False, True)))
    assert {step(policy, False) for policy in Overlap} == {Step.MAKE}
    assert [step(policy, True) for policy in Overlap] == [Step.MAKE, Step.SKIP, Step.QUEUE, Step.REPLACE]
